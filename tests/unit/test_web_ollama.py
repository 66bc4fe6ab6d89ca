"""Ollama's dialect over HTTP, with a scripted engine: each field, each refusal, and the shapes of answers and lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.dialects.ollama import routes
from srb.wire.commands import Embed, Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed, Rejected
from tests import scripted
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    made = Settings(**{"chat_template": "chatml", **settings})
    engine = ScriptedClient(made, script)
    return create_app(made, engine).test_client(), engine


def generate(http: FlaskClient, **body: Any) -> Any:
    return http.post("/api/generate", data=orjson.dumps({"model": "storyteller", "prompt": "Hi", **body}))


def chat(http: FlaskClient, **body: Any) -> Any:
    return http.post("/api/chat", data=orjson.dumps({"model": "storyteller", "messages": [USER], **body}))


def lines(response: Any) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [read("ollama.OllamaLine", line) for line in response.data.splitlines()]


def whole(response: Any) -> Any:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/json"
    return read("ollama.OllamaLine", response.data)


def refused(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    return str(read("ollama.OllamaError", response.data)["error"])


def asked(engine: ScriptedClient) -> Generate:
    [command] = [command for command in engine.sent if isinstance(command, Generate)]
    return command


def writes(*texts: str, reason: str = "eos", probs: bool = False) -> Script:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5)]
        for place, text in enumerate(texts):
            entries = (
                [{"id": place, "token": text, "bytes": [], "logprob": -0.5, "top_logprobs": []}] if probs else None
            )
            yield [Delta(command.request_id, index, text, [place], entries) for index in range(len(command.branches))]
        ended = [BranchEnded(command.request_id, index, reason, len(texts)) for index in range(len(command.branches))]
        yield [*ended, Done(command.request_id, 5, 2, len(texts) * len(ended), 10.0, 30.0)]

    return script


# Streams and answers --------------------------------------------------------------------------------------------------


def test_a_stream_has_a_line_for_new_text_and_ends_with_counts_and_nanoseconds() -> None:
    http, _ = serve()
    *some, last = lines(generate(http))
    assert "".join(line["response"] for line in some) == " 0.0 0.1 0.2"
    assert {line["done"] for line in some} == {False}
    assert (last["response"], last["done"], last["done_reason"]) == ("", True, "stop")
    assert (last["prompt_eval_count"], last["eval_count"]) == (5, 3)
    assert (last["prompt_eval_duration"], last["eval_duration"]) == (10_000_000, 30_000_000)
    assert last["total_duration"] > 0


def test_an_answer_in_one_object_has_the_text_of_the_stream() -> None:
    http, _ = serve()
    answer = whole(generate(http, stream=False))
    assert (answer["response"], answer["done"], answer["done_reason"]) == (" 0.0 0.1 0.2", True, "stop")
    assert "branches" not in answer
    assert "index" not in answer


def test_a_chat_has_messages_of_the_assistant() -> None:
    http, _ = serve()
    *some, last = lines(chat(http))
    assert {line["message"]["role"] for line in (*some, last)} == {"assistant"}
    assert "".join(line["message"]["content"] for line in some) == " 0.0 0.1 0.2"
    assert "context" not in last
    assert whole(chat(http, stream=False))["message"] == {"role": "assistant", "content": " 0.0 0.1 0.2"}


def test_branches_are_told_apart_by_their_index_and_end_each_with_a_line() -> None:
    http, _ = serve()
    *some, last = lines(generate(http, n=3, options={"seed": 7}))
    texts = ["", "", ""]
    ended = {}
    for line in some:
        if line["done"]:
            ended[line["index"]] = (line["done_reason"], line["eval_count"], line["seed"])
        else:
            assert line["index"] not in ended
            texts[line["index"]] += line["response"]
    assert texts == [" 0.0 0.1 0.2", " 1.0 1.1 1.2", " 2.0 2.1 2.2"]
    assert ended == {index: ("stop", 3, 7 + index) for index in range(3)}
    assert "index" not in last
    assert last["eval_count"] == 9


def test_an_answer_has_several_branches_beside_the_first() -> None:
    http, _ = serve()
    answer = whole(chat(http, n=2, stream=False))
    assert answer["message"]["content"] == " 0.0 0.1 0.2"
    assert [branch["message"]["content"] for branch in answer["branches"]] == [" 0.0 0.1 0.2", " 1.0 1.1 1.2"]


@pytest.mark.parametrize(
    ("reason", "said"), [("eos", "stop"), ("word", "stop"), ("limit", "length"), ("cancelled", "length")]
)
def test_done_reason_says_why_a_text_ended(reason: str, said: str) -> None:
    http, _ = serve(writes(" a", reason=reason))
    assert lines(generate(http))[-1]["done_reason"] == said
    assert whole(generate(http, stream=False))["done_reason"] == said


def test_a_stream_that_fails_ends_with_the_error() -> None:
    def broken(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, " it", [1])]
        yield [Failed(command.request_id, "engine_restarted", "the engine was restarted")]

    http, _ = serve(broken)
    *_, last = generate(http).data.splitlines()
    assert read("ollama.OllamaError", last) == {"error": "the engine was restarted"}


def half_broken(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, " it", [1])]
    yield [
        BranchEnded(command.request_id, 1, "error", 0, code="grammar_dead_end", message="no token is left"),
        BranchEnded(command.request_id, 0, "eos", 1),
        Done(command.request_id, 5, 0, 1, 1.0, 1.0),
    ]


def test_a_branch_that_fails_does_not_end_the_others() -> None:
    http, _ = serve(half_broken)
    found = {line["index"]: line for line in lines(generate(http, n=2)) if line["done"] and "index" in line}
    assert found[1]["done_reason"] == "error"
    assert found[1]["failure"] == "no token is left"
    assert found[0]["done_reason"] == "stop"
    branches = whole(generate(http, n=2, stream=False))["branches"]
    assert [branch.get("failure") for branch in branches] == [None, "no token is left"]


def test_thoughts_are_apart_from_the_text() -> None:
    http, _ = serve(writes("<think>hm", "m</think>\n\n", "yes"))
    thoughts = [line.get("thinking", "") for line in lines(generate(http))]
    assert "".join(thoughts) == "hmm"
    answer = whole(chat(http, stream=False))
    assert answer["message"] == {"role": "assistant", "content": "yes", "thinking": "hmm"}


def test_calls_of_tools_have_objects_as_arguments() -> None:
    http, _ = serve(writes(CALL))
    message = whole(chat(http, tools=[TOOL], stream=False))["message"]
    [call] = message["tool_calls"]
    assert call["function"] == {"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}
    assert call["id"]
    streamed = [call for line in lines(chat(http, tools=[TOOL])) for call in line["message"].get("tool_calls", ())]
    assert [call["function"] for call in streamed] == [{"index": 0, "name": "weather", "arguments": {"city": "Oslo"}}]


def test_log_probabilities_come_with_the_text() -> None:
    http, engine = serve(writes(" a", " b", probs=True))
    found = [
        entry["token"]
        for line in lines(generate(http, logprobs=True, top_logprobs=2))
        for entry in line.get("logprobs", ())
    ]
    assert found == [" a", " b"]
    assert asked(engine).branches[0].sampling.n_probs == 2
    answer = whole(generate(http, logprobs=True, stream=False))
    assert [entry["token"] for entry in answer["logprobs"]] == [" a", " b"]


# Fields ---------------------------------------------------------------------------------------------------------------


def test_options_are_the_fields_of_a_branch() -> None:
    http, engine = serve()
    options = {
        "num_predict": 2, "temperature": 0.5, "top_k": 7, "top_p": 0.6, "min_p": 0.1, "typical_p": 0.9,
        "repeat_penalty": 1.2, "repeat_last_n": 33, "seed": 42, "stop": ["X"], "mirostat": 1, "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "num_ctx": 1024, "num_gpu": 99, "use_mmap": True, "penalize_newline": True, "nonsense": [1], "top_a": None,
    }  # fmt: skip
    assert whole(generate(http, options=options, stream=False))["done_reason"] == "length"
    [branch] = asked(engine).branches
    sampling = branch.sampling
    assert (branch.max_tokens, branch.seed, branch.stop[:1]) == (2, 42, ("X",))
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.6, 0.1)
    assert (sampling.typical_p, sampling.repeat_penalty, sampling.repeat_last_n) == (0.9, 1.2, 33)
    assert (sampling.mirostat, sampling.presence_penalty, sampling.frequency_penalty) == (1, 0.2, 0.3)


def test_options_do_not_reach_fields_that_are_not_a_branchs() -> None:
    http, engine = serve()
    assert (
        generate(
            http, options={"prompt": "other", "stream": False, "n": 5, "branches": [{}], "explore": {}}
        ).status_code
        == 200
    )
    assert len(asked(engine).branches) == 1


@pytest.mark.parametrize(("given", "limit"), [(-1, -1), (-2, -1), (9, 9), (9.0, 9)])
def test_num_predict_is_the_limit(given: float, limit: int) -> None:
    http, engine = serve()
    generate(http, options={"num_predict": given})
    assert asked(engine).branches[0].max_tokens == limit


def test_num_keep_is_kept_by_a_context_shift() -> None:
    http, engine = serve(context_shift=True)
    generate(http, options={"num_keep": 4})
    shift = asked(engine).shift
    assert shift is not None
    assert shift.n_keep == 4


def test_a_format_constrains_the_text() -> None:
    http, engine = serve()
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    for given, expected in (("json", {"type": "object"}), (schema, schema)):
        engine.sent.clear()
        assert generate(http, format=given).status_code == 200
        assert orjson.loads(asked(engine).branches[0].sampling.json_schema) == expected
    engine.sent.clear()
    assert chat(http, format=schema, stream=False).status_code == 200
    assert orjson.loads(asked(engine).branches[0].sampling.json_schema) == schema


def prompt_text(engine: ScriptedClient) -> str:
    return bytes(part for part in asked(engine).prompt[1:] if isinstance(part, int)).decode()


def test_a_prompt_is_a_turn_of_a_conversation_with_its_system_message() -> None:
    http, engine = serve()
    generate(http, system="Be brief.")
    assert asked(engine).prompt[0] == scripted.MODEL.bos_id
    text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt_text(engine) == text


def test_a_raw_prompt_is_sent_as_it_is_and_has_no_context() -> None:
    http, engine = serve(writes("<think>a"))
    [*some, last] = lines(generate(http, raw=True))
    assert asked(engine).prompt == ("Hi",)
    assert "context" not in last
    assert some[0]["response"] == "<think>a"


@pytest.mark.parametrize(
    ("body", "text"),
    [({}, "Hi"), ({"system": "Be brief."}, "Be brief.\n\nHi"), ({"format": "json", "think": True}, "Hi")],
)
def test_a_prompt_for_a_model_without_a_template_is_sent_as_it_is(body: dict[str, Any], text: str) -> None:
    http, engine = serve(writes("<think>a"), chat_template="")
    some, last = lines(generate(http, **body))
    assert (asked(engine).prompt[0], prompt_text(engine)) == (scripted.MODEL.bos_id, text)
    [branch] = asked(engine).branches
    assert branch.sampling.json_schema == ('{"type":"object"}' if "format" in body else "")
    assert some["response"] == "<think>a"
    assert last["context"][: len(asked(engine).prompt)] == list(asked(engine).prompt)
    assert http.post("/api/show", json={"model": "storyteller"}).json["template"] == "{{ .Prompt }}"


def test_a_context_of_a_model_without_a_template_goes_on_without_one() -> None:
    http, engine = serve(chat_template="")
    context = whole(generate(http, stream=False))["context"]
    engine.sent.clear()
    generate(http, prompt="More", context=context)
    assert asked(engine).prompt == (*context, *b"More")


def test_messages_for_a_model_without_a_template_become_chatml() -> None:
    http, engine = serve(chat_template="")
    chat(http)
    assert asked(engine).prompt == ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",)


def test_a_context_goes_on_where_the_last_answer_ended() -> None:
    http, engine = serve()
    context = whole(generate(http, stream=False))["context"]
    assert context == [*asked(engine).prompt, 0, 1, 2]
    assert lines(generate(http))[-1]["context"] == context
    engine.sent.clear()
    generate(http, prompt="More", context=context)
    prompt = asked(engine).prompt
    assert list(prompt[: len(context)]) == context
    rest = bytes(part for part in prompt[len(context) :] if isinstance(part, int)).decode()
    assert rest == "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"  # without another BOS


@pytest.mark.parametrize(
    ("think", "template", "expected"),
    [
        (True, "{% if enable_thinking %}yes{% else %}no{% endif %}", "yes"),
        (False, "{% if enable_thinking %}yes{% else %}no{% endif %}", "no"),
        ("low", "{{ reasoning_effort }}", "low"),
        (None, "{% if enable_thinking %}yes{% else %}no{% endif %}", "no"),
    ],
)
def test_think_reaches_the_template(think: Any, template: str, expected: str) -> None:
    http, engine = serve(chat_template=template, reasoning="off")
    chat(http, **({} if think is None else {"think": think}))
    assert asked(engine).prompt == (expected,)


def test_messages_become_the_templates_with_calls_results_and_thoughts() -> None:
    template = (
        "{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ m.reasoning_content }}|{{ m.name }}|{{ m.tool_call_id }}|"
        "{% for c in m.tool_calls or [] %}{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}]"
        "{% endfor %}{{ tools }}"
    )
    http, engine = serve(chat_template=template)
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    messages = [
        USER,
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "sun", "tool_name": "weather"},
    ]
    assert chat(http, messages=messages, tools=[TOOL]).status_code == 200
    [text] = asked(engine).prompt
    assert isinstance(text, str)
    assert '[assistant||hm|||call00001 weather {"city": "Oslo"}]' in text
    assert "[tool|sun||weather|call00001|]" in text


def test_a_suffix_asks_for_the_text_between(monkeypatch: pytest.MonkeyPatch) -> None:
    http, _ = serve()
    assert (
        refused(generate(http, suffix="end"), 400) == "\"storyteller\" does not support insert, which 'suffix' asks for"
    )
    able = replace(scripted.MODEL, fim={"pre": 500, "suf": 501, "mid": 502})
    monkeypatch.setattr(scripted, "MODEL", able)
    http, engine = serve()
    [*_, last] = lines(generate(http, suffix="end", options={"num_predict": 4}))
    assert asked(engine).prompt == (1, 500, *b"Hi", 501, *b"end", 502)
    assert asked(engine).branches[0].max_tokens == 4
    assert "context" not in last


def test_without_words_the_answer_says_that_the_model_is_loaded() -> None:
    http, engine = serve()
    assert whole(generate(http, prompt=""))["done_reason"] == "load"
    assert whole(chat(http, messages=[]))["done_reason"] == "load"
    assert whole(generate(http, prompt="", keep_alive=0))["done_reason"] == "unload"
    assert not [command for command in engine.sent if isinstance(command, Generate)]


@pytest.mark.parametrize(
    "never", [0, 0.0, -0.0, "0", "0s", "0m", "-0s", "+0h", "0h0m0s", ".0s", "0.ms", "0.1ns", 1e-12]
)
def test_every_form_of_no_time_unloads_as_in_ollama(never: Any) -> None:
    http, _ = serve()
    assert whole(generate(http, prompt="", keep_alive=never))["done_reason"] == "unload"


@pytest.mark.parametrize("kept", [-1, "-1s", "-1m", "1ns", "10s", 1e-9, "1h0m", "0h1m", 1e300, "1\u00b5s", "00100ms"])
def test_every_form_of_a_time_keeps_the_model(kept: Any) -> None:
    http, _ = serve()
    assert whole(generate(http, prompt="", keep_alive=kept))["done_reason"] == "load"


@pytest.mark.parametrize(
    "bad", [False, True, "", "5", "0x", "-", "s", ".s", "1h 2m", "--0s", "forever", [], {}, "1" * 4_000_000]
)
def test_a_keep_alive_that_ollama_refuses_is_400(bad: Any) -> None:
    http, _ = serve()
    response = generate(http, prompt="", keep_alive=bad)
    assert response.status_code == 400
    assert "Field 'keep_alive'" in response.json["error"]


@pytest.mark.parametrize(
    "body",
    [
        {"keep_alive": "5m"}, {"keep_alive": -1}, {"keep_alive": 2.5}, {"truncate": False}, {"shift": False},
        {"think": None}, {"format": ""}, {"format": None}, {"template": ""}, {"images": []}, {"options": None}, {"width": 3},
    ],
)  # fmt: skip
def test_fields_without_effect_are_accepted(body: dict[str, Any]) -> None:
    http, _ = serve()
    assert generate(http, **body).status_code == 200


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": ""}, 400, "model is required"),
        ({"model": "llama3"}, 404, "model 'llama3' not found; this server has 'storyteller:latest'"),
        ({"model": "storyteller:8b"}, 404, "not found"),
        ({"model": 3}, 400, "Field 'model'"),
        ({"prompt": ["a"]}, 400, "Field 'prompt'"),
        ({"stream": "yes"}, 400, "Field 'stream'"),
        ({"options": []}, 400, "Field 'options'"),
        ({"options": {"temperature": "hot"}}, 400, "Field 'temperature'"),
        ({"options": {"num_predict": -3}}, 400, "Field 'num_predict'"),
        ({"options": {"stop": 3}}, 400, "Field 'stop'"),
        ({"format": "xml"}, 400, "Field 'format': must be \"json\" or a JSON schema"),
        ({"think": "max"}, 400, "Field 'think': must be true, false or one of low, medium, high"),
        ({"context": ["a"]}, 400, "Field 'context'"),
        ({"n": 0}, 400, "Field 'n'"),
        ({"n": 1000}, 400, "Field 'n'"),
        ({"top_logprobs": 21}, 400, "Field 'top_logprobs'"),
        ({"images": ["aGk="]}, 400, "Field 'images': image 0 is a picture or sound, and this server reads text only"),
        ({"images": ["aGk="], "raw": True}, 400, "--mmproj"),
        ({"images": [3]}, 400, "Field 'images"),
        ({"template": "{{ .Prompt }}"}, 501, "Field 'template'"),
        ({"raw": True, "system": "x"}, 400, "raw mode does not support template, system, or context"),
        ({"raw": True, "context": [1]}, 400, "raw mode does not support template, system, or context"),
    ],
)
def test_a_bad_completion_is_refused_in_words(body: dict[str, Any], status: int, words: str) -> None:
    http, engine = serve()
    assert words in refused(generate(http, **body), status)
    assert not [command for command in engine.sent if isinstance(command, Generate)]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"messages": "Hi"}, 400, "Field 'messages'"),
        ({"messages": ["Hi"]}, 400, "message 0 must be an object"),
        ({"messages": [{"content": "x"}]}, 400, "'role' must be a string"),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, 400, "'tool_calls' must be a list"),
        ({"messages": [{"role": "assistant", "tool_calls": [3]}]}, 400, "a tool call must have a 'function'"),
        (
            {"messages": [{**USER, "images": ["aGk="]}]},
            400,
            "Field 'messages': message 0, image 0 is a picture or sound, and this server reads text only",
        ),
        (
            {"messages": [{**USER, "images": [3]}]},
            400,
            "message 0: 'images' must be a list of at most 64 base64 strings",
        ),
        ({"messages": [{**USER, "images": "x"}]}, 400, "message 0: 'images' must be a list"),
        ({"tools": [{"type": "function"}]}, 400, "tool 0 must have a 'function'"),
    ],
)
def test_a_bad_chat_is_refused_in_words(body: dict[str, Any], status: int, words: str) -> None:
    http, _ = serve()
    assert words in refused(chat(http, **body), status)


def test_the_engines_refusal_has_ollamas_form() -> None:
    def too_long(command: Generate) -> Iterable[list[Event]]:
        yield [Rejected(command.request_id, "context_exceeded", "the prompt is too long", {})]

    http, _ = serve(too_long)
    assert refused(generate(http), 400) == "the prompt is too long"
    assert refused(http.post("/api/chat", data=b"{"), 400).startswith("The body is not valid JSON")
    assert refused(http.get("/api/chat"), 405) == "Method Not Allowed"
    assert refused(http.get("/api/nowhere"), 404) == "File Not Found"


def test_a_key_is_needed_and_its_lack_is_said_in_ollamas_form() -> None:
    http, _ = serve(api_key="secret")
    assert refused(http.get("/api/tags"), 401) == "Invalid API Key"
    assert http.get("/api/tags", headers={"Authorization": "Bearer secret"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/push"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
    ],
)
def test_models_are_neither_fetched_nor_changed(method: str, path: str) -> None:
    http, _ = serve()
    action = path.rpartition("/")[2]
    assert f"cannot {action} models" in refused(http.open(path, method=method, json={"model": "llama3"}), 501)


# The model ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["storyteller", "storyteller:latest", "StoryTeller", "tale", "tale:latest"])
def test_the_model_has_its_names_with_and_without_latest(name: str) -> None:
    http, _ = serve(alias="storyteller,tale")
    assert whole(generate(http, model=name, stream=False))["model"] == name


def test_lists_and_facts_of_the_model() -> None:
    http, _ = serve()
    [tagged] = read("ollama.Tags", http.get("/api/tags").data)["models"]
    [loaded] = read("ollama.Loaded", http.get("/api/ps").data)["models"]
    assert tagged["name"] == tagged["model"] == loaded["name"] == "storyteller:latest"
    assert tagged["digest"] == loaded["digest"]
    assert len(tagged["digest"]) == 64
    assert tagged["details"]["parameter_size"] == "5.00M"
    assert loaded["context_length"] == 8192
    assert read("ollama.Version", http.get("/api/version").data)["version"].count(".") == 2
    shown = read("ollama.Shown", http.post("/api/show", json={"name": "storyteller"}).data)
    assert shown["capabilities"] == ["completion", "tools", "embedding"]
    assert shown["model_info"]["llama.context_length"] == 2048
    assert shown["details"] == tagged["details"]
    assert shown["license"] == ""


def test_the_license_is_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, license="apache-2.0"))
    http, _ = serve()
    assert read("ollama.Shown", http.post("/api/show", json={"model": "storyteller"}).data)["license"] == "apache-2.0"


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat", "/api/embed"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_time_that_a_call_waits_for_its_model_is_told(
    path: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr(routes, "time", SimpleNamespace(monotonic_ns=lambda: now[0]))
    http, engine = serve()
    ready = engine.check_ready

    def loads() -> Any:
        now[0] += 7_000_000
        return ready()

    monkeypatch.setattr(engine, "check_ready", loads)
    body = {"model": "storyteller", "prompt": "a", "messages": [{"role": "user", "content": "a"}], "input": "a"}
    answer = http.post(path, json=body | {"stream": stream})
    last = orjson.loads(answer.text.splitlines()[-1])
    assert last["load_duration"] == 7_000_000 <= last["total_duration"]
    assert refused(http.post("/api/show", json={"model": "x"}), 404)


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        ("[THINK]{% for m in messages %}{{ m.content }}{% endfor %}[TOOL_CALLS][ARGS]", True),
        ("<|channel|><|message|><|start|>{% for m in messages %}{{ m.content }}{% endfor %}", True),
        ("{% for m in messages %}{{ m.content }}{% endfor %}{# no reasoning_effort #}", False),
    ],
)
def test_a_model_thinks_whose_family_does(template: str, thinks: bool) -> None:
    http, _ = serve(chat_template=template)
    shown = read("ollama.Shown", http.post("/api/show", json={"model": "storyteller"}).data)
    assert ("thinking" in shown["capabilities"]) == thinks


def test_abilities_are_those_of_template_and_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, fim={"pre": 1, "suf": 2, "mid": 3}, embedding=False))
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}{% if enable_thinking %}<think>{% endif %}"
    http, _ = serve(chat_template=template)
    shown = read("ollama.Shown", http.post("/api/show", json={"model": "storyteller"}).data)
    assert set(shown["capabilities"]) == {"completion", "tools", "insert", "thinking"}


# Embeddings -----------------------------------------------------------------------------------------------------------


def test_texts_become_vectors_of_length_one() -> None:
    http, _ = serve()
    body = {"model": "storyteller", "input": ["a", "bc"]}
    answer = read("ollama.Embedded", http.post("/api/embed", json=body).data)
    assert answer["embeddings"] == [[0.6, 0.8], [0.6, 0.8]]
    assert answer["prompt_eval_count"] == 3
    assert read("ollama.Embedded", http.post("/api/embed", json=body | {"input": "a"}).data)["embeddings"] == [
        [0.6, 0.8]
    ]
    assert read("ollama.Embedded", http.post("/api/embed", json=body | {"input": []}).data)["embeddings"] == []
    one = http.post("/api/embeddings", json={"model": "storyteller", "prompt": "a"})
    assert read("ollama.EmbeddedPrompt", one.data) == {"embedding": [3.0, 4.0]}
    assert read("ollama.EmbeddedPrompt", http.post("/api/embeddings", json={"model": "storyteller"}).data) == {
        "embedding": []
    }


@pytest.mark.parametrize(
    ("fields", "truncates"), [({}, True), ({"truncate": True}, True), ({"truncate": False}, False)]
)
def test_a_text_to_embed_loses_its_end_unless_this_is_forbidden(fields: dict[str, Any], truncates: bool) -> None:
    http, engine = serve()
    read("ollama.Embedded", http.post("/api/embed", json={"model": "storyteller", "input": ["a", "bc"], **fields}).data)
    assert [command.truncate for command in engine.sent if isinstance(command, Embed)] == [truncates]


def test_embeddings_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    http, _ = serve()
    body = {"model": "storyteller", "input": "a"}
    assert "Field 'input'" in refused(http.post("/api/embed", json=body | {"input": [3]}), 400)
    assert "Field 'dimensions'" in refused(http.post("/api/embed", json=body | {"dimensions": 3}), 400)
    assert refused(http.post("/api/embed", json=body | {"model": "x"}), 404)
    monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, embedding=False))
    http, _ = serve()
    assert "--embeddings" in refused(http.post("/api/embed", json=body), 501)


def test_a_session_reaches_the_engine() -> None:
    http, engine = serve()
    generate(http, session="tale", stream=False)
    generate(http, session="tale", raw=True, stream=False)
    chat(http, session="tale", stream=False)
    assert [command.session for command in engine.sent if isinstance(command, Generate)] == ["tale"] * 3


@pytest.mark.parametrize("name", ["storyteller", "storyteller:latest", "Storyteller", "other"])
def test_a_pull_of_the_served_model_succeeds(name: str) -> None:
    http, _ = serve(alias="storyteller,other")
    for field in ("model", "name"):
        streamed = http.post("/api/pull", json={field: name})
        assert [orjson.loads(line) for line in streamed.data.splitlines()] == [{"status": "success"}]
        assert http.post("/api/pull", json={field: name, "stream": False}).json == {"status": "success"}


@pytest.mark.parametrize(("body", "status"), [({"model": "llama3"}, 501), ({"name": "storytellers"}, 501), ({}, 400)])
def test_a_pull_of_another_model_is_refused(body: dict[str, Any], status: int) -> None:
    http, _ = serve()
    refused(http.post("/api/pull", json=body), status)


@pytest.mark.parametrize(
    "body", [{"model": "", "name": "storyteller"}, {"name": "storyteller"}, {"model": "storyteller", "name": ""}]
)
def test_a_model_is_named_by_either_field(body: dict[str, Any]) -> None:
    http, _ = serve()
    for path in ("/api/show", "/api/pull"):
        assert http.post(path, json=body).status_code == 200
    answer = http.post("/api/chat", json={**body, "messages": [{"role": "user", "content": "Hi"}], "stream": False})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("template", ["chatml", "gemma", "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_every_chat_template_has_the_capability_of_tools(template: str) -> None:
    http, _ = serve(chat_template=template)
    assert "tools" in http.post("/api/show", json={"model": "storyteller"}).json["capabilities"]
