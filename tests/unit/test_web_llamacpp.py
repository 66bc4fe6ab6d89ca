"""The llamacpp dialect of completions and infills over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Detokenize, Generate, Tokenize
from srb.wire.events import Accepted, BranchAdded, BranchEnded, Delta, Done, Event, Progress, PromptDone, Rejected
from tests import scripted
from tests.scripted import Script, ScriptedClient, answer_simply, count_to_three
from tests.shapes import read

INT32 = 2**31 - 1


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    given = Settings(**settings)
    engine = ScriptedClient(given, script)
    return create_app(given, engine).test_client(), engine


def last_generate(engine: ScriptedClient) -> Generate:
    """Return the last request for text, after which the text of the prompt's tokens may have been asked for."""
    return next(command for command in reversed(engine.sent) if isinstance(command, Generate))


def post(http: FlaskClient, path: str = "/completion", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps({"prompt": "x", **body}))


def events(text: str) -> list[dict[str, Any]]:
    return [orjson.loads(line.removeprefix("data: ")) for line in text.removesuffix("\n\n").split("\n\n")]


def everything(command: Generate) -> Iterable[list[Event]]:
    """A prompt of seven tokens, four of them cached; branch 0 ends at a stop string, 1 at the context's end."""
    request_id = command.request_id
    top = {"id": 2, "token": "b", "bytes": [98], "logprob": -2.0}
    probs = [{"id": 1, "token": "a\n", "bytes": [97, 10], "logprob": -0.5, "top_logprobs": [top]}]
    wanted = command.branches[0].sampling.n_probs >= 0
    yield [Accepted(request_id, 7)]
    if command.report_progress:
        yield [Progress(request_id, 7, 4, 6, 1.4)]
    yield [PromptDone(request_id, 4, 2, 12.0, computed_tokens=3)]
    yield [Delta(request_id, 0, "a\n", [1, 5], probs if wanted else None)]
    yield [
        BranchEnded(request_id, 0, "word", 2, stopping_word="END", predicted_ms=6.0),
        *(BranchEnded(request_id, index, "limit", 0, truncated=True) for index in range(1, len(command.branches))),
        Done(request_id, 7, 4, 2, 12.0, 30.0, computed_tokens=3),
    ]


# ---- the answer's shape


@pytest.mark.parametrize("path", ["/completion", "/completions"])
def test_one_branch_is_an_object_with_all_that_llama_server_says(path: str) -> None:
    http, _ = serve(everything)
    answer = post(http, path, seed=5, n_predict=9, stop=["END"]).json
    read("llamacpp.Final", orjson.dumps(answer))
    settings, timings = answer.pop("generation_settings"), answer.pop("timings")
    assert answer == {
        "index": 0, "content": "a\n", "tokens": [], "id_slot": 0, "stop": True, "model": "storyteller",
        "tokens_predicted": 2, "tokens_evaluated": 7, "prompt": "<s>x", "has_new_line": True, "truncated": False,
        "stop_type": "word", "stopping_word": "END", "tokens_cached": 8,
        "stopped_eos": False, "stopped_limit": False, "stopped_word": True,
    }  # fmt: skip
    assert (settings["seed"], settings["n_predict"], settings["max_tokens"], settings["stop"]) == (5, 9, 9, ["END"])
    assert (timings["cache_n"], timings["prompt_n"], timings["prompt_ms"], timings["predicted_n"]) == (4, 3, 12.0, 2)


@pytest.mark.parametrize(
    ("setting", "said", "told"),
    [
        ("auto", {}, "deepseek"),
        ("none", {}, "none"),
        ("auto", {"reasoning_format": "deepseek-legacy"}, "deepseek-legacy"),
    ],
)
def test_generation_settings_have_the_format_of_reasoning(setting: str, said: dict[str, Any], told: str) -> None:
    http, _ = serve(reasoning_format=setting)
    assert post(http, **said).json["generation_settings"]["reasoning_format"] == told
    assert post(http, reasoning_format="nonsense").json["error"]["param"] == "reasoning_format"


def test_generation_settings_are_what_was_sampled_with() -> None:
    http, engine = serve()
    said = {
        "temperature": 0.5, "top_k": 3, "samplers": "kt", "logit_bias": [[5, False], ["the", 2]], "n_probs": 4,
        "min_keep": 2, "grammar": "root ::= [a-z]", "lora": [{"id": 1, "scale": 0.5}], "n_keep": 3, "n_indent": 2,
        "stop_at": "line", "stop_after": 5,
        "timings_per_token": True, "post_sampling_probs": True, "ignore_eos": True, "t_max_predict_ms": 7,
    }  # fmt: skip
    settings = post(http, **said).json["generation_settings"]
    shown = dict(settings, samplers="kt") | {"logit_bias": said["logit_bias"]}
    assert settings["samplers"] == ["top_k", "temperature"]
    assert settings["logit_bias"] == [
        {"bias": None, "token": 5},
        {"bias": 2.0, "token": "the"},
        {"bias": None, "token": 2},  # the ends of a text, which ignore_eos forbids
        {"bias": None, "token": 4},
    ]
    assert {name: shown[name] for name in said} == said
    assert settings["seed"] == engine.sent[0].branches[0].seed
    assert settings["speculative.types"] == "none"


def test_slots_and_settings_tell_whether_tokens_are_drafted() -> None:
    http, engine = serve()
    for drafts in ("none", "ngram-simple,draft-simple"):
        engine.model = replace(scripted.MODEL, speculative=drafts)
        for shown in http.get("/slots").json:
            assert (shown["speculative"], shown["speculative.types"]) == (drafts != "none", drafts)
        assert post(http).json["generation_settings"]["speculative.types"] == drafts
        assert http.get("/props").json["default_generation_settings"]["speculative.types"] == drafts


@pytest.mark.parametrize(
    ("given", "parts", "shown"),
    [("", (), []), ("the fox", ("the fox",), []), ([5, 6], (5, 6), [5, 6]), (["the", 6], ("the", 6), [6])],
)
def test_penalties_can_look_at_something_else_than_the_prompt(given: Any, parts: Any, shown: list[int]) -> None:
    http, engine = serve()
    settings = post(http, penalty_prompt=given).json["generation_settings"]
    assert engine.sent[0].branches[0].sampling.penalty_prompt == parts
    assert (settings["use_penalty_prompt_tokens"], settings["penalty_prompt_tokens"]) == (True, shown)
    assert not post(http).json["generation_settings"]["use_penalty_prompt_tokens"]


def test_several_branches_are_a_list_and_several_prompts_one_list() -> None:
    http, engine = serve()
    answers = post(http, prompt=["x", "y"], n=2).json
    assert [answer["index"] for answer in answers] == [0, 1, 2, 3]
    assert [answer["content"] for answer in answers] == [" 0.0 0.1 0.2", " 1.0 1.1 1.2"] * 2
    assert [answer["prompt"] for answer in answers] == ["<s>x", "<s>x", "<s>y", "<s>y"]
    assert [command.prompt for command in engine.sent] == [("x",), ("y",)]
    seeds = [answer["generation_settings"]["seed"] for answer in answers]
    assert seeds == [branch.seed for command in engine.sent for branch in command.branches]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [([104, 105], "hi"), (["a", 98], "<s>ab"), ([98, "a"], "ba"), ({"prompt_string": "hé"}, "<s>hé")],
)
def test_the_prompt_is_given_back_as_text(prompt: Any, text: str) -> None:
    http, _ = serve()
    assert post(http, prompt=prompt).json["prompt"] == text


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_of_tokens_is_read_back_once_and_not_before_its_branches_end(stream: bool) -> None:
    asked: list[int] = []

    def watched(command: Generate) -> Iterable[list[Event]]:
        for frame in count_to_three(command):
            asked.append(sum(isinstance(sent, Detokenize) for sent in engine.sent))
            yield frame

    http, engine = serve(watched)
    answer = post(http, prompt=[104, 105], n=2, stream=stream)
    ends = [event for event in events(answer.text) if event["stop"]] if stream else answer.json
    assert [end["prompt"] for end in ends] == ["hi", "hi"]
    assert set(asked) == {0}
    assert sum(isinstance(sent, Detokenize) for sent in engine.sent) == 1


def test_tokens_are_given_where_asked_for() -> None:
    http, _ = serve()
    assert post(http, return_tokens=True).json["tokens"] == [0, 1, 2]


def test_response_fields_choose_and_unnest() -> None:
    http, _ = serve()
    wanted = ["content", "generation_settings/n_predict", "nothing", "content/deeper"]
    assert post(http, response_fields=wanted).json == {
        "content": " 0.0 0.1 0.2",
        "generation_settings/n_predict": -1,
    }
    *partials, last = events(post(http, response_fields=wanted, stream=True).text)
    assert set(last) == {"content", "generation_settings/n_predict"}
    assert all("stop" in partial for partial in partials)


def test_in_a_stream_response_fields_choose_of_each_branchs_end_alone() -> None:
    http, _ = serve(everything)
    found = events(post(http, response_fields=["index", "stop"], n=2, n_probs=1, stream=True).text)
    ends = [event for event in found if event["stop"]]
    assert ends == [{"index": 0, "stop": True}, {"index": 1, "stop": True}]
    assert all(event["completion_probabilities"] and "content" in event for event in found if not event["stop"])
    no_probs = events(post(http, response_fields=["completion_probabilities"], n_probs=1, stream=True).text)[-1]
    assert no_probs == {}  # a stream's tokens have theirs already
    assert post(http, response_fields=["completion_probabilities"], n_probs=1).json["completion_probabilities"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, -1), ({"n_probs": 0}, -1), ({"n_probs": 4}, 4), ({"logprobs": 0}, -1), ({"logprobs": 3}, 3),
        ({"logprobs": True}, 1), ({"logprobs": False}, -1), ({"n_probs": 0, "logprobs": 3}, -1),
        ({"n_probs": 2, "logprobs": 3}, 2), ({"logprobs": True, "top_logprobs": 5}, 1),
    ],
)  # fmt: skip
def test_logprobs_is_another_name_of_n_probs(said: dict[str, Any], wanted: int) -> None:
    http, engine = serve()
    post(http, **said)
    assert engine.sent[-1].branches[0].sampling.n_probs == wanted


def test_probabilities_have_their_names_of_2026_and_of_2024() -> None:
    http, _ = serve(everything)
    (entry,) = post(http, n_probs=1).json["completion_probabilities"]
    assert entry["token"] == entry["content"] == "a\n"
    assert entry["top_logprobs"][0]["logprob"] == -2.0
    assert entry["probs"] == [{"tok_str": "b", "prob": pytest.approx(0.1353, abs=1e-4)}]
    streamed = [event for event in events(post(http, n_probs=1, stream=True).text) if not event["stop"]]
    assert streamed[0]["completion_probabilities"] == [entry]


def test_probabilities_after_sampling_are_no_logarithms() -> None:
    def sampled(command: Generate) -> Iterable[list[Event]]:
        top = {"id": 2, "token": "b", "bytes": [98], "prob": 0.25}
        probs = [{"id": 1, "token": "a", "bytes": [97], "prob": 0.75, "top_probs": [top]}]
        yield [Accepted(command.request_id, 1), Delta(command.request_id, 0, "a", [1], probs)]
        yield [BranchEnded(command.request_id, 0, "eos", 1), Done(command.request_id, 1, 0, 1, 1.0, 1.0)]

    http, engine = serve(sampled)
    (entry,) = post(http, n_probs=1, post_sampling_probs=True).json["completion_probabilities"]
    assert entry["probs"] == [{"tok_str": "b", "prob": 0.25}]
    assert "logprob" not in entry
    assert engine.sent[0].branches[0].sampling.post_sampling_probs


@pytest.mark.parametrize(
    ("reason", "stop_type", "flag"),
    [
        *(("eos", "eos", "stopped_eos"), ("word", "word", "stopped_word"), ("limit", "limit", "stopped_limit")),
        ("boundary", "word", "stopped_word"),
    ],
)
def test_the_reason_of_an_end_is_said_in_both_ways(reason: str, stop_type: str, flag: str) -> None:
    def end(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1), BranchEnded(command.request_id, 0, reason, 3)]
        yield [Done(command.request_id, 1, 0, 3, 1.0, 1.0)]

    http, _ = serve(end)
    answer = post(http).json
    assert answer["stop_type"] == stop_type
    assert [name for name in ("stopped_eos", "stopped_word", "stopped_limit") if answer[name]] == [flag]
    assert answer["tokens_cached"] == (4 if reason == "eos" else 3)


def test_timings_are_the_engines_however_late_its_events_are_read() -> None:
    def late(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [
            *(Accepted(request_id, 5), PromptDone(request_id, 2, 0, 10.0)),
            *(Delta(request_id, 0, "a", [1], predicted_ms=0.5), Delta(request_id, 0, "b", [2], predicted_ms=20.5)),
            BranchEnded(request_id, 0, "limit", 2, predicted_ms=20.75),
            Done(request_id, 5, 2, 2, 10.0, 21.0),
        ]

    http, _ = serve(late)
    assert post(http).json["timings"]["predicted_ms"] == 20.75
    told = [event["timings"] for event in events(post(http, stream=True, timings_per_token=True).text)]
    assert [each["predicted_ms"] for each in told] == [20.5, 20.75]  # the text that waited is one event
    assert [round(each["predicted_per_second"], 3) for each in told] == [48.78, 48.193]


def test_the_text_that_a_fork_begins_with_has_the_time_of_the_fork() -> None:
    def forked(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5), PromptDone(request_id, 2, 0, 10.0)]
        yield [BranchAdded(request_id, 1, 9, origin=0, token=1, text="a", tokens=[1], predicted_ms=20.5)]
        ends = [BranchEnded(request_id, index, "limit", 1, predicted_ms=20.75) for index in range(2)]
        yield [*ends, Done(request_id, 5, 2, 2, 10.0, 21.0)]

    http, _ = serve(forked)
    told = [event for event in events(post(http, stream=True, timings_per_token=True).text) if event["index"] == 1]
    assert [each["timings"]["predicted_ms"] for each in told] == [20.5, 20.75]


def test_the_rate_is_that_of_the_tokens_after_the_first_which_costs_no_step() -> None:
    http, _ = serve(everything)
    timings = post(http).json["timings"]
    assert timings["predicted_n"] == 2
    assert timings["predicted_per_second"] * timings["predicted_per_token_ms"] == pytest.approx(1000)
    assert timings["predicted_per_token_ms"] == pytest.approx(timings["predicted_ms"], abs=1e-3)
    http, _ = serve()
    one = post(http, n_predict=1).json["timings"]
    assert (one["predicted_n"], one["predicted_per_token_ms"], one["predicted_per_second"]) == (1, 0.0, 0.0)


def test_timings_tell_of_drafts_where_there_were_some() -> None:
    def end(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 1), BranchEnded(request_id, 0, "limit", 3, drafted=5, accepted=2)]
        yield [Done(request_id, 1, 0, 3, 1.0, 1.0, drafted_tokens=5, accepted_tokens=2)]

    http, _ = serve(end)
    timings = post(http).json["timings"]
    assert (timings["draft_n"], timings["draft_n_accepted"]) == (5, 2)
    http, _ = serve()
    assert not {"draft_n", "draft_n_accepted"} & post(http).json["timings"].keys()


def test_n_predict_0_computes_the_prompt_and_generates_nothing() -> None:
    http, engine = serve()
    answer = post(http, n_predict=0).json
    assert (answer["content"], answer["tokens_predicted"], answer["stop_type"]) == ("", 0, "limit")
    assert answer["tokens_cached"] == answer["tokens_evaluated"] == 5
    assert engine.sent[0].branches[0].max_tokens == 0


def test_without_n_predict_the_servers_limit_holds() -> None:
    http, engine = serve(default_max_tokens=33)
    post(http)
    assert engine.sent[0].branches[0].max_tokens == 33


# ---- streams


def test_each_event_of_a_stream_has_its_shape() -> None:
    http, _ = serve(everything)
    said = {"n": 2, "n_probs": 1, "timings_per_token": True, "return_progress": True, "stream": True}
    lines = post(http, **said).text.removesuffix("\n\n").split("\n\n")
    for shape, line in zip(
        ["llamacpp.Partial", "llamacpp.Partial", "llamacpp.Final", "llamacpp.Final"], lines, strict=True
    ):
        read(shape, line.removeprefix("data: "))


def test_a_stream_has_one_event_per_branch_and_step_and_no_mark_at_its_end() -> None:
    http, _ = serve()
    response = post(http, n=2, stream=True)
    assert response.mimetype == "text/event-stream"
    found = events(response.text)
    assert found[1] == {
        "index": 1, "content": " 1.0", "tokens": [0], "stop": False, "id_slot": 1,
        "tokens_predicted": 1, "tokens_evaluated": 5,
    }  # fmt: skip
    for index in range(2):
        *partials, last = [event for event in found if event["index"] == index]
        assert "".join(event["content"] for event in partials) == f" {index}.0 {index}.1 {index}.2"
        assert [event["tokens_predicted"] for event in partials] == [1, 2, 3]
        assert (last["stop"], last["content"], last["tokens_predicted"]) == (True, "", 3)
        assert "completion_probabilities" not in last
    assert "[DONE]" not in response.text


def test_newlines_in_a_stream_are_remembered() -> None:
    http, _ = serve(everything)
    *_, first, second = events(post(http, n=2, stream=True).text)
    assert (first["has_new_line"], second["has_new_line"], second["truncated"]) == (True, False, True)


def test_progress_is_told_once_for_a_prompt_and_only_where_asked_for() -> None:
    http, _ = serve(everything)
    first, *rest = events(post(http, n=2, stream=True, return_progress=True).text)
    assert first["prompt_progress"] == {"total": 7, "cache": 4, "processed": 6, "time_ms": 1}
    assert (first["content"], first["tokens"], first["stop"]) == ("", [], False)
    first, *_ = events(post(http, stream=True, return_progress=True, timings_per_token=True).text)
    assert (first["timings"]["cache_n"], first["timings"]["prompt_n"], first["timings"]["predicted_n"]) == (4, 2, 0)
    assert not any("prompt_progress" in event for event in rest)
    assert not any("prompt_progress" in event for event in events(post(http, stream=True).text))


def test_timings_come_with_each_token_where_asked_for() -> None:
    http, _ = serve(everything)
    first, _ = events(post(http, stream=True, timings_per_token=True).text)
    assert (first["timings"]["cache_n"], first["timings"]["prompt_ms"], first["timings"]["predicted_n"]) == (4, 12.0, 2)
    assert first["timings"]["predicted_ms"] >= 0
    first, _ = events(post(http, stream=True).text)
    assert "timings" not in first


# ---- failures


def fail_last(command: Generate) -> Iterable[list[Event]]:
    request_id, last = command.request_id, len(command.branches) - 1
    yield [Accepted(request_id, 1), *(Delta(request_id, index, "a", [1]) for index in range(last))]
    yield [BranchEnded(request_id, last, "error", 0, code="grammar_dead_end", message="no token fits")]
    yield [
        *(BranchEnded(request_id, index, "eos", 1) for index in range(last)),
        Done(request_id, 1, 0, last, 1.0, 1.0),
    ]


FAILURE = {"code": 400, "message": "no token fits", "type": "invalid_request_error"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_branch_costs_only_itself_and_is_no_error_to_a_client_that_looks_for_one(stream: bool) -> None:
    http, _ = serve(fail_last)
    response = post(http, n=2, stream=stream)
    found = events(response.text) if stream else response.json
    ends = {event["index"]: event for event in found if event["stop"]}
    assert ends[0]["stop_type"] == "eos"
    assert (ends[1]["stop_type"], ends[1]["failure"]) == ("none", FAILURE)
    assert not any("error" in event for event in found)


def test_a_call_whose_every_branch_failed_is_an_error() -> None:
    http, _ = serve(fail_last)
    response = post(http)
    assert (response.status_code, response.json) == (400, {"error": FAILURE})
    assert events(post(http, stream=True).text)[-1] == {"error": FAILURE}


def test_an_engine_that_is_lost_ends_the_stream_with_an_error() -> None:
    def accept_and_die(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        engine.lose_engine()

    http, engine = serve(accept_and_die)
    (event,) = events(post(http, stream=True).text)
    assert (event["error"]["code"], event["error"]["type"]) == (503, "unavailable_error")


def test_a_prompt_beyond_the_context_is_refused_with_both_lengths() -> None:
    def refuse(command: Generate) -> Iterable[list[Event]]:
        extra = {"n_prompt_tokens": 9000, "n_ctx": 8192}
        yield [Rejected(command.request_id, "context_exceeded", "the prompt is too long", extra)]

    http, _ = serve(refuse)
    for stream in (False, True):
        response = post(http, stream=stream)
        assert response.status_code == 400
        assert response.json["error"] == {
            "code": 400, "message": "the prompt is too long", "type": "exceed_context_size_error",
            "n_prompt_tokens": 9000, "n_ctx": 8192,
        }  # fmt: skip


# ---- what is refused and what is moved into its range


@pytest.mark.parametrize(
    ("field", "value", "least", "most"),
    [
        ("n_predict", -2, -1, INT32), ("max_tokens", -2, -1, INT32), ("max_completion_tokens", 2**31, -1, INT32),
        ("n_cmpl", 0, 1, 64), ("n", 0, 1, 64), ("n", -1, 1, 64), ("n", 10**9, 1, 64),
        ("n_keep", -2, -1, INT32), ("n_discard", -1, 0, INT32), ("n_indent", -1, 0, INT32),
        ("n_cache_reuse", -1, 0, INT32), ("t_max_predict_ms", -2, -1, 2**63 - 1), ("sse_ping_interval", -2, -1, INT32),
        ("repeat_last_n", -2, -1, INT32), ("dry_allowed_length", -1, 0, INT32), ("dry_penalty_last_n", -2, -1, INT32),
        ("min_keep", -1, 0, INT32), ("adaptive_decay", 1.5, 0, 0.99), ("reasoning_budget_tokens", -2, -1, INT32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_a_number_out_of_a_hard_range_is_400_in_llama_servers_words(
    field: str, value: float, least: float, most: float, stream: bool
) -> None:
    http, engine = serve()
    response = post(http, stream=stream, **{field: value})
    assert response.status_code == 400
    name = "n" if field == "n_cmpl" else field
    message = f"Field '{name}': Value must be between {least} <= value <= {most}, but got {value}"
    assert response.json["error"] == {
        "code": 400, "message": message, "type": "invalid_request_error", "param": name,
    }  # fmt: skip
    assert engine.sent == []


@pytest.mark.parametrize(
    ("field", "value", "moved"),
    [
        ("temperature", -1.0, 0.0), ("top_k", -1, 0), ("top_p", 1.5, 1.0), ("top_p", -0.5, 0.0), ("min_p", 2.0, 1.0),
        ("xtc_probability", 1.5, 1.0), ("xtc_threshold", -1.0, 0.0), ("mirostat", 9, 2), ("mirostat", -1, 0),
        ("adaptive_target", 2.0, 1.0), ("dry_base", 0.5, 1.75),
    ],
)  # fmt: skip
def test_a_number_out_of_a_soft_range_is_moved_and_shown_as_it_is_used(field: str, value: float, moved: float) -> None:
    http, engine = serve()
    assert post(http, **{field: value}).json["generation_settings"][field] == moved
    assert getattr(engine.sent[0].branches[0].sampling, field) == moved


@pytest.mark.parametrize(
    "body",
    [
        {"n": 1.5}, {"n": True}, {"n": "3"}, {"temperature": "hot"}, {"top_k": 1e30}, {"response_fields": "content"},
        {"response_fields": [3]}, {"timings_per_token": 1}, {"return_tokens": "yes"}, {"return_progress": 0},
        {"id_slot": 1.5}, {"lora": {}}, {"lora": [{"id": -1, "scale": 1}]}, {"prompt": {"multimodal_data": []}},
        {"json_schema": 3}, {"dry_sequence_breakers": []}, {"logit_bias": "5"}, {"prompt": [-1]},
        {"logit_bias": [[i, 1] for i in range(1025)]}, {"system_prompt": 3}, {"system_prompt": {"prompt": 3}},
        {"image_data": 3}, {"grammar_lazy": True}, {"repeat_penalty": 0}, {"prompt": []}, {"prompt": None},
    ],
)  # fmt: skip
def test_a_known_field_with_a_bad_value_is_400_that_names_it(body: dict[str, Any]) -> None:
    http, engine = serve()
    response = post(http, **body)
    assert response.status_code == 400
    assert response.json["error"]["param"] == next(iter(body))
    assert engine.sent == []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"prompt": NaN}', b'{"prompt": "x", "top_p": 1e999}', b"{}"])
def test_a_body_that_is_no_object_with_a_prompt_is_400(data: bytes) -> None:
    http, engine = serve()
    for path in ("/completion", "/infill", "/tokenize", "/embedding", "/rerank"):
        assert http.post(path, data=data).status_code in ({200} if (path, data) == ("/tokenize", b"{}") else {400, 501})
    assert not any(isinstance(command, Generate) for command in engine.sent)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_a_wrong_method_is_405_and_no_work(method: str) -> None:
    http, engine = serve()
    assert http.open("/completion", method=method).status_code == 405
    assert engine.sent == []


def test_what_this_server_cannot_do_is_501_and_not_ignored() -> None:
    http, engine = serve()
    response = post(http, grammar_lazy=True, grammar_triggers=[{"type": 2, "value": "a+"}])
    assert (response.status_code, response.json["error"]["type"]) == (501, "not_supported_error")
    assert engine.sent == []


def test_fields_of_no_effect_and_unknown_ones_are_accepted() -> None:
    http, engine = serve()
    old = {
        "tfs_z": 0.5,
        "penalize_nl": False,
        "image_data": [],
        "verbose": True,
    }
    assert post(http, **old, **{f"unknown_{i}": [i] for i in range(90)}).status_code == 200
    assert engine.sent[0].branches[0].sampling == SamplingParams()


# ---- slots


def in_slots_of_their_own(command: Generate) -> Iterable[list[Event]]:
    """A prompt whose branch i is in slot 7 + i."""
    request_id, count = command.request_id, len(command.branches)
    yield [Accepted(request_id, 5), Progress(request_id, 5, 0, 5, 1.0, slot=7)]
    yield [PromptDone(request_id, 0, 0, 1.0, [7 + index for index in range(count)])]
    yield [Delta(request_id, index, "a", [1]) for index in range(count)]
    yield [*(BranchEnded(request_id, index, "eos", 1) for index in range(count)), Done(request_id, 5, 0, 2, 1.0, 1.0)]


@pytest.mark.parametrize("said", [{}, {"timings_per_token": True}, {"return_progress": True}])
def test_an_answer_names_the_slot_of_each_branch(said: dict[str, Any]) -> None:
    http, engine = serve(in_slots_of_their_own)
    assert [answer["id_slot"] for answer in post(http, n=2).json] == [7, 8]
    found = events(post(http, n=2, stream=True, id_slot=7, **said).text)
    assert all(event["id_slot"] == 7 + event["index"] for event in found)
    assert {event["index"] for event in found} == {0, 1}
    assert [command.id_slot for command in engine.sent] == [-1, 7]


@pytest.mark.parametrize("slot", [-2, 2**31, "2"])
def test_a_bad_slot_is_400(slot: Any) -> None:
    http, engine = serve()
    response = post(http, id_slot=slot)
    assert (response.status_code, response.json["error"]["param"]) == (400, "id_slot")
    assert engine.sent == []


# ---- the system prompt of 2024


def test_a_system_prompt_stands_before_every_prompt_until_another_does() -> None:
    http, engine = serve()
    system = {"prompt": "A dialogue.\n", "anti_prompt": "User:", "assistant_name": "Fox:"}
    assert post(http, system_prompt=system).json["prompt"] == "<s>A dialogue.\nx"
    post(http, prompt=[104])
    post(http, system_prompt={"prompt": ""})
    assert [command.prompt for command in engine.sent if isinstance(command, Generate)] == [
        ("A dialogue.\n", "x"), ("A dialogue.\n", 104), ("x",),
    ]  # fmt: skip


@pytest.mark.parametrize("said", [{}, {"prompt": None}, {"n_predict": 9}, {"max_tokens": 9}])
def test_a_system_prompt_alone_is_put_in_force_and_answered_with_nothing(said: dict[str, Any]) -> None:
    http, engine = serve()
    system = {"prompt": "A dialogue.\n", "anti_prompt": "User:", "assistant_name": "Fox:"}
    response = http.post("/completion", json={"system_prompt": system, **said})
    assert response.status_code == 200
    generate = last_generate(engine)
    assert (generate.prompt, generate.branches[0].max_tokens) == (("A dialogue.\n",), 0)
    assert http.get("/props").json["system_prompt"] == "A dialogue.\n"
    assert http.post("/completion", json={"system_prompt": {"prompt": ""}}).status_code == 200
    assert last_generate(engine).prompt == (1,)
    assert http.get("/props").json["system_prompt"] == ""


def test_a_bad_system_prompt_alone_is_400_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    http, engine = serve()
    for bad, param in (
        ({"system_prompt": {"prompt": 3}}, "system_prompt"),
        ({"system_prompt": {}, "temperature": "hot"}, "temperature"),
    ):
        response = http.post("/completion", json=bad)
        assert (response.status_code, response.json["error"]["param"].partition(".")[0]) == (400, param)
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, bos_id=-1))
    response = http.post("/completion", json={"system_prompt": {}})
    assert (response.status_code, response.json["error"]["param"]) == (400, "prompt")
    assert engine.sent == []


def test_the_system_prompt_is_in_the_properties(tmp_path: Any) -> None:
    file = tmp_path / "system.json"
    file.write_text('{"prompt": "A dialogue.", "anti_prompt": "User:", "assistant_name": "Fox:"}')
    http, engine = serve(system_prompt_file=str(file))
    found = http.get("/props").json
    assert (found["system_prompt"], found["user_name"], found["assistant_name"]) == ("A dialogue.", "User:", "Fox:")
    post(http)
    assert engine.sent[-1].prompt == ("A dialogue.", "x")
    for text, prompt in (
        ('{"system_prompt": {"prompt": "A dialogue."}}', "A dialogue."),
        ("Just text.", "Just text."),
        ('{"a": "JSON text"}', '{"a": "JSON text"}'),
        ("[1]", "[1]"),
    ):
        file.write_text(text)
        assert serve(system_prompt_file=str(file))[0].get("/props").json["system_prompt"] == prompt


# ---- infill

FIM = {"pre": 1001, "suf": 1002, "mid": 1003}


@pytest.fixture
def with_fim(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_tokens(**tokens: int) -> None:
        monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, fim=FIM | tokens))

    set_tokens()
    return set_tokens


def infill(http: FlaskClient, **body: Any) -> Any:
    said = {"input_prefix": "ab", "input_suffix": "yz", "stream": False, **body}
    return http.post("/infill", data=orjson.dumps(said))


def generated(engine: ScriptedClient) -> tuple[str | int, ...]:
    return last_generate(engine).prompt


def test_infill_is_501_where_the_vocabulary_lacks_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    http, engine = serve()
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, fim={"pre": 1001, "suf": -1}))
    response = infill(http)
    assert response.status_code == 501
    assert response.json["error"] == {
        "code": 501, "type": "not_supported_error",
        "message": "Infill is not supported by this model: suffix token is missing. middle token is missing. ",
    }  # fmt: skip
    assert engine.sent == []


@pytest.mark.usefixtures("with_fim")
def test_infill_puts_the_gap_last_and_begins_it_with_the_prompt() -> None:
    http, engine = serve()
    answer = infill(http, prompt="c").json
    assert generated(engine) == (1, 1001, *b"abc", 1002, *b"yz", 1003)
    assert answer["content"] == " 0.0 0.1 0.2"
    streamed = [event["content"] for event in events(infill(http, stream=True).text)]
    assert ("".join(streamed), streamed[-1]) == (answer["content"], "")


@pytest.mark.usefixtures("with_fim")
@pytest.mark.parametrize("said", [{}, {"stream": None}, {"stream": True}])
def test_infill_streams_unless_it_is_told_not_to(said: dict[str, Any]) -> None:
    http, _ = serve()
    response = http.post("/infill", json={"input_prefix": "ab", "input_suffix": "yz", **said})
    assert response.mimetype == "text/event-stream"
    assert events(response.text)[-1]["stop"] is True


@pytest.mark.usefixtures("with_fim")
def test_infill_has_the_probabilities_that_were_asked_for() -> None:
    http, engine = serve(everything)
    whole = infill(http, n_probs=2).json
    first, *_ = events(infill(http, n_probs=2, stream=True).text)
    [entry] = whole["completion_probabilities"]
    assert [entry] == first["completion_probabilities"]
    assert entry["top_logprobs"][0]["token"] == "b"
    assert [each.branches[0].sampling.n_probs for each in engine.sent if isinstance(each, Generate)] == [2, 2]
    assert "completion_probabilities" not in infill(http).json


@pytest.mark.usefixtures("with_fim")
def test_infill_of_some_models_puts_the_suffix_first() -> None:
    http, engine = serve(spm_infill=True)
    infill(http)
    assert generated(engine) == (1, 1002, *b"yz", 1001, *b"ab", 1003)


def test_infill_shows_other_files_before_the_gap(with_fim: Callable[..., None]) -> None:
    http, engine = serve(n_batch=64)
    extra = [{"filename": "f.py", "text": "F"}, {"text": "G"}]
    infill(http, input_extra=extra)
    around = (1, 1001, *b"ab", 1002, *b"yz", 1003)
    assert generated(engine) == (*b"\n\n--- snippet ---\n\nF\n\n--- snippet ---\n\nG", *around)
    with_fim(rep=1004, sep=1005)
    http, engine = serve(n_batch=64)
    infill(http, input_extra=extra)
    files = (1004, *b"myproject\n", 1005, *b"f.py\nF", 1005, *b"tmp\nG", 1005, *b"filename\n")
    assert generated(engine) == (*files, *around)


@pytest.mark.usefixtures("with_fim")
def test_infill_keeps_the_text_next_to_the_gap_and_what_fits_of_the_rest() -> None:
    http, engine = serve(n_batch=40)
    infill(http, input_prefix="p" * 99 + "a", input_suffix="z" + "s" * 99, prompt="cc")
    assert generated(engine) == (1, 1001, *b"p" * 29, *b"acc", 1002, *b"z" + b"s" * 5, 1003)
    http, engine = serve(n_batch=8192)
    infill(http, input_extra=[{"text": "there is no room for this"}])
    assert generated(engine) == (1, 1001, *b"ab", 1002, *b"yz", 1003)


@pytest.mark.usefixtures("with_fim")
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input_prefix": None}, "input_prefix"), ({"input_suffix": None}, "input_suffix"), ({"prompt": 3}, "prompt"),
        ({"input_prefix": 3}, "input_prefix"), ({"input_extra": {}}, "input_extra"), ({"input_extra": [{}]}, "input_extra"),
        ({"input_extra": [{"text": "x", "filename": 3}]}, "input_extra"), ({"n_predict": -2}, "n_predict"),
    ],
)  # fmt: skip
def test_a_bad_infill_is_refused_naming_its_field(body: dict[str, Any], param: str) -> None:
    http, engine = serve()
    response = infill(http, **body)
    assert (response.status_code, response.json["error"]["param"]) == (400, param)
    assert not any(isinstance(command, Generate) for command in engine.sent)


@pytest.mark.usefixtures("with_fim")
def test_special_tokens_in_the_text_around_a_gap_are_text() -> None:
    http, engine = serve()
    asked: list[tuple[str, bool]] = []

    def remember(command: Any, values: dict[str, float]) -> Any:
        if isinstance(command, Tokenize):
            asked.append((str(command.parts[0]), command.parse_special))
        return answer_simply(command, values)

    engine.answers = remember
    infill(http, prompt="c")
    assert ("ab", False) in asked
    assert ("yz", False) in asked


def test_a_lazy_grammar_has_triggers_and_control_tokens_may_be_preserved() -> None:
    http, engine = serve()
    triggers = [{"type": 1, "value": "<call>"}, {"type": 0, "value": "[TOOL]", "token": 7}]
    given = {"grammar": 'root ::= "x"', "grammar_triggers": triggers, "preserved_tokens": ["<call>"]}
    settings = post(http, grammar_lazy=True, **given).json["generation_settings"]
    post(http, **given)
    lazy, eager = (command.branches[0].sampling.grammar_triggers for command in engine.sent)
    assert (lazy, eager) == ((("word", "<call>"), ("token", 7)), ())
    assert settings["grammar_lazy"]
    assert settings["grammar_triggers"] == [triggers[0], {"type": 0, "value": "", "token": 7}]
    assert engine.sent[0].preserved_tokens == ("<call>",)


def test_a_budget_of_reasoning_needs_an_end_tag() -> None:
    http, engine = serve()
    tags = {"reasoning_budget_start_tag": "<think>", "reasoning_budget_end_tag": "</think>"}
    post(http, reasoning_budget_tokens=3, reasoning_budget_message="So.", **tags)
    post(http, reasoning_budget_tokens=3)
    post(http, reasoning_budget_tokens=0, reasoning_budget_end_tags=["</think>"])
    found = [command.branches[0].sampling for command in engine.sent]
    assert [each.reasoning_budget_tokens for each in found] == [3, -1, 0]
    assert [each.reasoning_tags for each in found] == [("<think>", "</think>"), (), ("", "</think>")]
    assert found[0].reasoning_budget_message == "So."


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"grammar_lazy": True, "grammar_triggers": []}, "grammar_lazy"),
        ({"grammar_triggers": [{}]}, "grammar_triggers"),
        ({"grammar_triggers": [{"type": 1, "value": ""}]}, "grammar_triggers"),
        ({"grammar_triggers": [{"type": 9, "value": "x"}]}, "grammar_triggers"),
        ({"grammar_triggers": [{"type": 1, "value": "x"}] * 65}, "grammar_triggers"),
        ({"grammar_triggers": "x"}, "grammar_triggers"),
        ({"preserved_tokens": [1]}, "preserved_tokens"),
        ({"reasoning_budget_message": "x" * 5000}, "reasoning_budget_message"),
        ({"reasoning_budget_end_tags": ["a", "b"]}, "reasoning_budget_end_tags"),
        ({"reasoning_budget_tokens": 3, "explore": {}}, "reasoning_budget_tokens"),
    ],
)
def test_malformed_triggers_and_budgets_name_their_field(body: dict[str, Any], field: str) -> None:
    http, engine = serve()
    response = post(http, **body)
    assert (response.status_code, response.json["error"]["param"]) == (400, field)
    assert engine.sent == []
