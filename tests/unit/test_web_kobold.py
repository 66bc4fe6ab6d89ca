"""KoboldAI's dialect over HTTP, with a scripted engine: each field, each refusal, keys of requests, and cut prompts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.errors import NotFound
from srb.web.app import create_app
from srb.web.dialects.kobold.routes import fitted
from srb.wire.commands import Generate, GetRequest, ListRequests, StopBranches
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed
from tests import scripted
from tests.scripted import Script, ScriptedClient, answer_simply, count_to_three
from tests.shapes import read


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    made = Settings(**settings)
    engine = ScriptedClient(made, script)
    return create_app(made, engine).test_client(), engine


def generate(http: FlaskClient, path: str = "/api/v1/generate", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps({"prompt": "Once", **body}))


def results(response: Any) -> list[Any]:
    assert response.status_code == 200, response.text
    found: list[Any] = read("kobold.Results", response.data)["results"]
    return found


def tokens(response: Any) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/event-stream")
    parts = response.text.removesuffix("\n\n").split("\n\n")
    assert all(part.startswith("event: message\ndata: ") for part in parts)
    return [read("kobold.Token", part.removeprefix("event: message\ndata: ")) for part in parts]


def refused(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    return str(read("kobold.KoboldError", response.data)["detail"]["msg"])


def asked(engine: ScriptedClient) -> Generate:
    [command] = [command for command in engine.sent if isinstance(command, Generate)]
    return command


def ends(reason: str, stopping_word: str = "") -> Script:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, " it", [1])]
        yield [
            BranchEnded(command.request_id, 0, reason, 1, stopping_word=stopping_word),
            Done(command.request_id, 5, 0, 1, 1.0, 1.0),
        ]

    return script


# Texts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/v1/generate", "/api/latest/generate"])
def test_each_branch_is_a_result(path: str) -> None:
    http, engine = serve()
    found = results(generate(http, path, n=3, sampler_seed=7))
    assert [result["text"] for result in found] == [" 0.0 0.1 0.2", " 1.0 1.1 1.2", " 2.0 2.1 2.2"]
    assert [result["seed"] for result in found] == [7, 8, 9]
    assert {(each["finish_reason"], each["prompt_tokens"], each["completion_tokens"]) for each in found} == {
        ("stop", 5, 3)
    }
    assert len(asked(engine).branches) == 3


def test_a_stream_has_an_event_for_new_text_and_ends_with_a_reason() -> None:
    http, _ = serve()
    *some, last = tokens(generate(http, "/api/extra/generate/stream"))
    assert "".join(event["token"] for event in some) == " 0.0 0.1 0.2"
    assert {event["finish_reason"] for event in some} == {None}
    assert last == {"token": "", "finish_reason": "stop"}


def test_a_stream_tells_several_branches_apart() -> None:
    http, _ = serve()
    texts, reasons = ["", ""], {}
    for event in tokens(generate(http, "/api/extra/generate/stream", n=2)):
        texts[event["index"]] += event["token"]
        if event["finish_reason"]:
            reasons[event["index"]] = event["finish_reason"]
    assert texts == [" 0.0 0.1 0.2", " 1.0 1.1 1.2"]
    assert reasons == {0: "stop", 1: "stop"}


@pytest.mark.parametrize(
    ("reason", "said"), [("eos", "stop"), ("word", "stop"), ("limit", "length"), ("cancelled", "length")]
)
def test_the_reason_of_an_end(reason: str, said: str) -> None:
    http, _ = serve(ends(reason))
    assert results(generate(http))[0]["finish_reason"] == said
    assert tokens(generate(http, "/api/extra/generate/stream"))[-1]["finish_reason"] == said


@pytest.mark.parametrize("trims", [True, False])
def test_a_stop_string_is_trimmed_unless_it_is_wanted(trims: bool) -> None:
    http, engine = serve(ends("word", "END"))
    body = {"trim_stop": trims, "stop_sequence": ["END"]}
    assert results(generate(http, **body))[0]["text"] == " it"  # the engine's text, which has it or not
    assert [branch.include_stop for branch in engine.sent[-1].branches] == [not trims]


def test_a_stream_that_fails_ends_with_the_error() -> None:
    def broken(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, " it", [1])]
        yield [Failed(command.request_id, "engine_restarted", "the engine was restarted")]

    http, _ = serve(broken)
    *_, last = generate(http, "/api/extra/generate/stream").text.removesuffix("\n\n").split("\n\n")
    said = read("kobold.FailedStream", last.removeprefix("event: message\ndata: "))
    assert said["detail"]["msg"] == "the engine was restarted"


# Fields ---------------------------------------------------------------------------------------------------------------


def test_koboldais_names_of_fields() -> None:
    http, engine = serve()
    body = {
        "max_length": 9, "temperature": 0.5, "top_k": 7, "top_p": 0.6, "min_p": 0.1, "typical": 0.9, "rep_pen": 1.2,
        "rep_pen_range": 33, "sampler_seed": 42, "stop_sequence": ["X"], "mirostat": 1, "dynatemp_range": 0.3, "nsigma": 1.5,
        "xtc_threshold": 0.2, "xtc_probability": 0.5, "dry_multiplier": 0.8, "dry_sequence_breakers": [],
        "banned_tokens": ["no"],
        "use_default_badwordsids": True, "custom_token_bans": "5, 7", "logit_bias": {"9": -2},
    }  # fmt: skip
    results(generate(http, **body))
    [branch] = asked(engine).branches
    sampling = branch.sampling
    assert (branch.max_tokens, branch.seed, branch.stop, branch.banned_strings) == (9, 42, ("X",), ("no",))
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.6, 0.1)
    assert (sampling.typical_p, sampling.repeat_penalty, sampling.repeat_last_n) == (0.9, 1.2, 33)
    assert (sampling.mirostat, sampling.dynatemp_range, sampling.top_n_sigma) == (1, 0.3, 1.5)
    assert (sampling.xtc_threshold, sampling.xtc_probability, sampling.dry_multiplier) == (0.2, 0.5, 0.8)
    assert sampling.ignore_eos is True
    assert sampling.logit_bias == ((9, -2.0), (5, None), (7, None))


def test_the_order_of_samplers_is_koboldais() -> None:
    http, engine = serve()
    results(generate(http, sampler_order=[6, 0, 1, 3, 4, 2, 5]))
    expected = ("dry", "top_n_sigma", "penalties", "top_k", "typ_p", "top_p", "min_p", "temperature", "xtc")
    assert asked(engine).branches[0].sampling.samplers == expected
    engine.sent.clear()
    results(generate(http, sampler_order=[5, 2], samplers=["top_k"]))
    assert asked(engine).branches[0].sampling.samplers == ("top_k",)


def test_a_grammar_may_be_a_schema_and_singleline_ends_a_line() -> None:
    http, engine = serve()
    results(generate(http, grammar='{"type": "object"}', singleline=True, stop_sequence=["X"]))
    [branch] = asked(engine).branches
    assert (branch.sampling.grammar, orjson.loads(branch.sampling.json_schema)) == ("", {"type": "object"})
    assert branch.stop == ("X", "\n")
    engine.sent.clear()
    results(generate(http, grammar='root ::= "a"'))
    assert asked(engine).branches[0].sampling.grammar == 'root ::= "a"'


@pytest.mark.parametrize(("given", "number"), [(True, 5), (3, 3), (False, -1)])
def test_logprobs_are_five_likely_tokens(given: Any, number: int) -> None:
    http, engine = serve()
    results(generate(http, logprobs=given))
    assert asked(engine).branches[0].sampling.n_probs == number


def test_samplers_that_llama_cpp_lacks_are_accepted() -> None:
    http, _ = serve()
    body = {"tfs": 0.9, "top_a": 0.1, "rep_pen_slope": 0.9, "guidance_scale": 1, "negative_prompt": "x",
            "grammar_retain_state": True, "render_special": True, "bypass_eos": True, "quiet": True,
            "use_story": False, "images": [], "audio": []}  # fmt: skip
    results(generate(http, **body))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": ["a", "b"]}, 400, "Field 'prompt': must be one text"),
        ({"prompt": [1, 2]}, 400, "Field 'prompt': must be one text"),
        ({"prompt": 3}, 400, "Field 'prompt'"),
        ({"max_context_length": 7}, 400, "Field 'max_context_length'"),
        ({"max_length": "many"}, 400, "Field 'max_length'"),
        ({"sampler_order": [7]}, 400, "must be a list of different numbers from 0 to 6"),
        ({"sampler_order": [0, 0]}, 400, "must be a list of different numbers from 0 to 6"),
        ({"memory": 3}, 400, "Field 'memory'"),
        ({"trim_stop": "yes"}, 400, "Field 'trim_stop'"),
        ({"genkey": "x" * 201}, 400, "Field 'genkey'"),
        ({"custom_token_bans": "a"}, 400, "must be token ids separated by commas"),
        ({"images": ["aGk="]}, 400, "Field 'images': this server reads text only; start it with --mmproj"),
        ({"audio": ["aGk="]}, 400, "Field 'audio': this server reads text only; start it with --mmproj"),
        ({"images": [3]}, 400, "Field 'images"),
        ({"explore": {}}, 400, "Field 'explore'"),
        ({"n": 1000}, 400, "Field 'n'"),
        ({"tfs": "x"}, 400, "Field 'tfs'"),
    ],
)
def test_a_bad_body_is_refused_in_words(body: dict[str, Any], status: int, words: str) -> None:
    http, engine = serve()
    assert words in refused(generate(http, **body), status)
    assert words in refused(generate(http, "/api/extra/generate/stream", **body), status)
    assert not [command for command in engine.sent if isinstance(command, Generate)]


def test_errors_outside_of_a_route_have_the_same_form() -> None:
    http, _ = serve(api_key="secret")
    assert refused(http.get("/api/v1/model"), 401) == "Invalid API Key"
    http, _ = serve()
    assert refused(http.get("/api/v1/nowhere"), 404) == "File Not Found"
    assert refused(http.get("/api/extra/generate/stream"), 405) == "Method Not Allowed"


# Cut prompts: the scripted engine's tokens are bytes ------------------------------------------------------------------


def cut(memory: str, prompt: str, n_ctx: int, max_tokens: int) -> tuple[Any, int]:
    client = ScriptedClient(Settings())
    return fitted(client, client.check_ready(), memory, prompt, n_ctx, max_tokens)


def test_a_prompt_that_fits_stays_text() -> None:
    assert cut("", "abc", 100, 20) == (("abc",), 20)
    assert cut("mem", "abc", 100, 20) == (("mem", "abc"), 20)
    assert cut("", "", 100, 20) == (("",), 20)
    exactly = "x" * 79  # with the BOS 80 tokens
    assert cut("", exactly, 100, 20) == ((exactly,), 20)


def test_a_prompt_that_is_too_long_loses_its_beginning_and_keeps_bos_and_memory() -> None:
    bos = scripted.MODEL.bos_id
    prompt = "".join(chr(97 + place % 26) for place in range(200))
    assert cut("", prompt, 100, 20) == ((bos, *prompt[-79:].encode()), 20)
    assert cut("mem", prompt, 100, 20) == ((bos, *b"mem", *prompt[-76:].encode()), 20)


def test_a_memory_that_is_too_long_leaves_its_end_and_a_little_of_the_prompt() -> None:
    bos = scripted.MODEL.bos_id
    memory, prompt = "m" * 200, "abcdefgh"
    assert cut(memory, prompt, 100, 20) == ((bos, *b"m" * 75, *b"efgh"), 20)
    assert cut(memory, prompt, 8, 4) == ((bos, *b"fgh"), 4)  # no room for any memory


def test_a_fifth_of_the_context_is_the_prompts_however_much_is_asked_for() -> None:
    prompt = "x" * 500
    kept, limit = cut("", prompt, 100, 5000)
    assert (len(kept), limit) == (20, 80)
    kept, limit = cut("", prompt, 100, -1)
    assert (len(kept), limit) == (80, -1)
    kept, limit = cut("", prompt, 8, 100)
    assert (len(kept), limit) == (4, 4)


def test_a_model_without_bos_gets_none() -> None:
    client = ScriptedClient(Settings())
    model = replace(client.check_ready(), add_bos=False)
    assert fitted(client, model, "", "x" * 200, 100, 20) == (tuple(b"x" * 80), 20)


def test_max_context_length_is_at_most_the_models() -> None:
    http, engine = serve()
    results(generate(http, prompt="y" * 9000, max_context_length=50_000, max_length=192))
    assert len(asked(engine).prompt) == 8000
    assert asked(engine).branches[0].max_tokens == 192


def test_a_body_without_a_length_gets_the_default() -> None:
    http, engine = serve(default_max_tokens=33)
    results(generate(http))
    assert asked(engine).branches[0].max_tokens == 33


# Keys of requests -----------------------------------------------------------------------------------------------------


def with_running(engine: ScriptedClient, *ids: str, ended: Collection[str] = (), probs: Any = None) -> None:
    """Let the engine run these requests, but for those that have `ended`; the first is the newest."""
    running = list(ids)

    def answers(command: Any, values: dict[str, float]) -> Any:
        match command:
            case ListRequests():
                return [
                    {
                        "id": each,
                        "age": float(place),
                        "state": "resting" if each in ended else "running",
                        "branches": [],
                    }
                    for place, each in enumerate(running)
                ][::-1]
            case GetRequest(target=target) | StopBranches(target=target) if target not in running:
                raise NotFound("no request with this id is running")
            case GetRequest(target=target):
                return {
                    "branches": [
                        {"text": f"of {target[0]}"} | ({"probs": each} if each else {}) for each in probs or [None]
                    ]
                }
            case StopBranches(target=target):
                running.remove(target)
                return {"id": target, "state": "ended"}
        return answer_simply(command, values)

    engine.answers = answers


def made_with(http: FlaskClient, engine: ScriptedClient, **body: Any) -> str:
    engine.sent.clear()
    results(generate(http, **body))
    return asked(engine).request_id


def pending(response: Any) -> list[str]:
    return [each["text"] for each in read("kobold.Pending", response.data)["results"]]


def test_a_request_is_found_by_its_key_alone() -> None:
    http, engine = serve()
    one, other = made_with(http, engine, genkey="A"), made_with(http, engine, genkey="B")
    none = made_with(http, engine)
    assert len(one) == 32
    assert one != made_with(http, engine, genkey="A")
    with_running(engine, "x" + one[1:], "y" + other[1:], "z" + none[1:], "0" * 32)
    assert pending(http.post("/api/extra/generate/check", json={"genkey": "A"})) == ["of x"]
    assert pending(http.post("/api/extra/generate/check", json={"genkey": "B"})) == ["of y"]
    assert pending(http.post("/api/extra/generate/check", json={"genkey": "C"})) == [""]
    assert pending(http.post("/api/extra/generate/check", json={})) == ["of z"]
    assert pending(http.get("/api/extra/generate/check")) == ["of z"]


def test_the_newest_of_several_requests_with_one_key_is_read_and_all_are_aborted() -> None:
    http, engine = serve()
    first, second = made_with(http, engine, genkey="A"), made_with(http, engine, genkey="A")
    other = made_with(http, engine)
    with_running(engine, "n" + first[1:], "o" + second[1:], other)
    assert pending(http.post("/api/extra/generate/check", json={"genkey": "A"})) == ["of n"]
    assert read("kobold.Aborted", http.post("/api/extra/abort", json={"genkey": "A"}).data) == {
        "success": "true",
        "done": "true",
    }
    stopped = [command.target for command in engine.sent if isinstance(command, StopBranches)]
    assert stopped == ["n" + first[1:], "o" + second[1:]]
    assert read("kobold.Aborted", http.post("/api/extra/abort", json={"genkey": "A"}).data) == {
        "success": "false",
        "done": "false",
    }


def a_prob(token: str, logprob: float) -> Any:
    entry = {"id": 7, "token": token, "bytes": list(token.encode()), "logprob": logprob}
    return {**entry, "top_logprobs": [entry, {**entry, "id": 8, "token": "b", "logprob": -3.0}]}


def last_logprobs(http: FlaskClient, genkey: str) -> Any:
    return read("kobold.LastLogprobs", http.post("/api/extra/last_logprobs", json={"genkey": genkey}).data)


def test_the_probabilities_of_the_newest_text_that_has_ended_come_by_its_key() -> None:
    http, engine = serve()
    first, second, third = (made_with(http, engine, genkey="A", logprobs=True) for _ in range(3))
    assert asked(engine).keep_probs > 0
    ended = ["b" + second[1:], "c" + third[1:]]
    with_running(engine, "a" + first[1:], *ended, ended=ended, probs=[[a_prob("Ab", -0.5), a_prob("c", -1.0)]])
    said = last_logprobs(http, "A")
    assert [command.target[0] for command in engine.sent if isinstance(command, GetRequest)] == ["b"]
    assert said["logprobs"]["tokens"] == ["Ab", "c"]
    assert said["logprobs"]["token_logprobs"] == [-0.5, -1.0]
    assert said["logprobs"]["text_offset"] == [0, 2]
    assert said["logprobs"]["top_logprobs"][0] == {"Ab": -0.5, "b": -3.0}
    assert [each["token"] for each in said["logprobs"]["content"]] == ["Ab", "c"]
    assert "results" not in said
    assert last_logprobs(http, "B") == {"logprobs": None}
    assert pending(http.post("/api/extra/generate/check", json={"genkey": "A"})) == ["of a"]


def test_each_branch_has_its_probabilities_and_no_request_keeps_what_nobody_asked_for() -> None:
    http, engine = serve()
    one = made_with(http, engine, genkey="A")
    assert asked(engine).keep_probs == 0
    with_running(engine, one, ended=[one], probs=[[a_prob("x", -0.5)], None])
    said = last_logprobs(http, "A")
    assert [each["logprobs"] and each["logprobs"]["tokens"] for each in said["results"]] == [["x"], None]
    assert said["logprobs"] == said["results"][0]["logprobs"]


def test_an_abort_needs_no_body() -> None:
    http, engine = serve()
    with_running(engine, made_with(http, engine))
    assert read("kobold.Aborted", http.post("/api/extra/abort").data)["success"] == "true"
    assert refused(http.post("/api/extra/abort", data=b"["), 400).startswith("The body is not valid JSON")
    assert refused(http.post("/api/extra/abort", data=b"[]"), 400) == "The body must be a JSON object"


def test_only_the_callers_requests_are_listed() -> None:
    http, engine = serve(api_key="secret")
    http.post("/api/extra/abort", json={}, headers={"Authorization": "Bearer secret"})
    [listed] = [command for command in engine.sent if isinstance(command, ListRequests)]
    assert listed.owner.startswith("key")


# Tokens and facts -----------------------------------------------------------------------------------------------------


def test_tokens_are_counted_and_turned_into_text() -> None:
    http, _ = serve()
    count = read("kobold.TokenCount", http.post("/api/extra/tokencount", json={"prompt": "abc"}).data)
    assert count == {"value": 4, "ids": [1, 97, 98, 99]}
    plain = http.post("/api/extra/tokencount", json={"prompt": "abc", "special": False})
    assert read("kobold.TokenCount", plain.data)["value"] == 3
    assert read("kobold.TokenCount", http.post("/api/extra/tokencount", json={"special": False}).data)["value"] == 0
    text = read("kobold.Detokenized", http.post("/api/extra/detokenize", json={"ids": [1, 104, 105]}).data)
    assert text == {"result": "hi", "success": True}
    assert "Field 'ids'" in refused(http.post("/api/extra/detokenize", json={"ids": ["a"]}), 400)


def test_facts_that_clients_look_for() -> None:
    http, engine = serve(default_max_tokens=33)
    for path in ("/api/v1/model", "/api/latest/model"):
        assert read("kobold.Result", http.get(path).data) == {"result": "storyteller"}
    assert read("kobold.Result", http.get("/api/v1/info/version").data)["result"].count(".") == 2
    for path in ("/api/extra/true_max_context_length", "/api/v1/config/max_context_length"):
        assert read("kobold.Value", http.get(path).data) == {"value": 8192}
    assert read("kobold.Value", http.get("/api/v1/config/max_length").data) == {"value": 33}
    features = read("kobold.Features", http.get("/api/extra/version").data)
    assert (features["result"], features["embeddings"], features["protected"]) == ("KoboldCpp", True, False)
    assert read("kobold.PreloadedStory", http.get("/api/extra/preloadstory").data) == {}
    engine.values |= {"requests_total": 7, "requests_deferred": 2, "requests_processing": 1}
    figures = read("kobold.Performance", http.get("/api/extra/perf").data)
    assert (figures["total_gens"], figures["queue"], figures["idle"]) == (7, 2, 0)


def test_embeddings_have_openais_form() -> None:
    http, _ = serve()
    answer = http.post("/api/extra/embeddings", json={"input": ["a"]}).json
    assert answer["data"][0]["embedding"] == [0.6, 0.8]
