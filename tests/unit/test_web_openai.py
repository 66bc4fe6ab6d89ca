"""The openai dialect of /v1/completions over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed, Ready
from tests.scripted import MODEL, Script, ScriptedClient, count_to_three


def serve(script: Script = count_to_three) -> tuple[FlaskClient, ScriptedClient]:
    engine = ScriptedClient(Settings(), script)
    return create_app(Settings(), engine).test_client(), engine


def post(http: FlaskClient, **body: Any) -> Any:
    return http.post("/v1/completions", data=orjson.dumps({"model": "any", "prompt": "x", **body}))


def chunks(text: str) -> list[dict[str, Any]]:
    lines = text.removesuffix("\n\n").split("\n\n")
    assert lines.pop() == "data: [DONE]"
    return [orjson.loads(line.removeprefix("data: ")) for line in lines]


def probs(*tokens: str) -> list[dict[str, Any]]:
    return [
        {
            "id": i, "token": token, "bytes": list(token.encode()), "logprob": -0.5,
            "top_logprobs": [
                {"id": i, "token": token, "bytes": [], "logprob": -0.5},
                {"id": 9, "token": "z", "bytes": [], "logprob": -2.0},
                {"id": 8, "token": "z", "bytes": [], "logprob": -3.0},
            ],
        }
        for i, token in enumerate(tokens)
    ]  # fmt: skip


def with_probs(command: Generate) -> Iterable[list[Event]]:
    request_id = command.request_id
    yield [Accepted(request_id, 1)]
    yield [Delta(request_id, 0, " é", [1, 2], probs(" ", "é"))]
    yield [Delta(request_id, 0, "n", [3], probs("n"))]
    yield [BranchEnded(request_id, 0, "limit", 3), Done(request_id, 1, 0, 3, 1.0, 1.0)]


def test_n_defaults_to_one_and_tokens_to_no_limit() -> None:
    http, engine = serve()
    assert len(post(http).json["choices"]) == 1
    assert [branch.max_tokens for branch in engine.sent[0].branches] == [-1]


def test_one_answer_has_the_choices_in_order_and_the_usage_summed() -> None:
    http, _ = serve()
    body = post(http, n=3, max_tokens=2, seed=7).json
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    assert body["model"] == "storyteller"
    assert body["system_fingerprint"] == "b1-scripted"
    assert body["choices"] == [
        {"index": i, "text": f" {i}.0 {i}.1", "logprobs": None, "finish_reason": "length", "seed": 7 + i}
        for i in range(3)
    ]
    assert body["usage"] == {
        "prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 2},
    }  # fmt: skip


def test_a_stream_has_one_choice_per_event_and_a_null_finish_reason_until_the_last() -> None:
    http, _ = serve()
    found = chunks(post(http, n=2, stream=True, seed=7).text)
    assert all(len(chunk["choices"]) == 1 for chunk in found)
    assert len({chunk["id"] for chunk in found}) == 1
    for index in range(2):
        *before, last = [chunk["choices"][0] for chunk in found if chunk["choices"][0]["index"] == index]
        assert [choice["finish_reason"] for choice in before] == [None] * 3
        assert "".join(choice["text"] for choice in before) == f" {index}.0 {index}.1 {index}.2"
        ending = {"finish_reason": "stop", "stop_reason": "", "seed": 7 + index}
        assert last == {"index": index, "text": "", "logprobs": None, **ending}


def test_usage_is_sent_once_and_only_where_asked_for() -> None:
    http, _ = serve()
    assert all("usage" not in chunk for chunk in chunks(post(http, n=2, stream=True).text))
    *rest, last = chunks(post(http, n=2, stream=True, stream_options={"include_usage": True}).text)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 6
    assert [chunk["usage"] for chunk in rest] == [None] * len(rest)


def test_the_last_chunk_has_the_timings() -> None:
    http, _ = serve()
    *rest, last = chunks(post(http, n=2, stream=True).text)
    assert not any("timings" in chunk for chunk in rest)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["timings"]["predicted_n"] == 6
    *rest, last = chunks(post(http, n=2, stream=True, stream_options={"include_usage": True}).text)
    assert not any("timings" in chunk for chunk in rest)
    assert last["timings"]["predicted_n"] == 6


def test_an_end_that_waits_for_the_timings_is_sent_before_an_error() -> None:
    def fail_after_the_end(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        yield [BranchEnded(command.request_id, 0, "eos", 2)]
        yield [Failed(command.request_id, "decode_failed", "the engine ended")]

    http, _ = serve(fail_after_the_end)
    events = post(http, stream=True).text.removesuffix("\n\n").split("\n\n")
    end, error = (orjson.loads(event.removeprefix("data: ")) for event in events)
    assert end["choices"][0]["finish_reason"] == "stop"
    assert error["error"]["message"] == "the engine ended"


def test_the_matched_stop_string_is_reported() -> None:
    def stop_at_a_word(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        yield [BranchEnded(command.request_id, 0, "word", 2, stopping_word="END")]
        yield [Done(command.request_id, 1, 0, 2, 1.0, 1.0)]

    http, _ = serve(stop_at_a_word)
    assert post(http, stop="END").json["choices"][0]["stop_reason"] == "END"


@pytest.mark.parametrize("stream", [False, True])
def test_an_end_at_a_boundary_is_a_stop_that_no_string_caused(stream: bool) -> None:
    def stop_at_a_sentence(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        yield [BranchEnded(command.request_id, 0, "boundary", 2)]
        yield [Done(command.request_id, 1, 0, 2, 1.0, 1.0)]

    http, _ = serve(stop_at_a_sentence)
    response = post(http, stop_at="sentence", stream=stream)
    (choice,) = (chunks(response.text)[-1] if stream else response.json)["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "boundary")


def test_several_prompts_number_their_choices_prompt_by_prompt() -> None:
    http, engine = serve()
    body = post(http, prompt=["x", [1, 2]], n=2).json
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert [choice["text"][:4] for choice in body["choices"]] == [" 0.0", " 1.0", " 0.0", " 1.0"]
    assert [command.prompt for command in engine.sent] == [("x",), (1, 2)]
    assert body["usage"]["total_tokens"] == 22
    found = chunks(post(http, prompt=["x", "y"], n=2, stream=True).text)
    assert {chunk["choices"][0]["index"] for chunk in found} == {0, 1, 2, 3}


def test_logprobs_come_in_the_legacy_shape_with_the_chat_shape_beside() -> None:
    http, _ = serve(with_probs)
    found = post(http, logprobs=2).json["choices"][0]["logprobs"]
    assert found["tokens"] == [" ", "é", "n"]
    assert found["token_logprobs"] == [-0.5] * 3
    assert list(found["top_logprobs"][2].items()) == [("n", -0.5), ("z", -2.0)]
    assert found["text_offset"] == [0, 1, 2]
    assert found["content"] == probs(" ", "é") + probs("n")


def chooses(*likely: tuple[int, str, float], token: tuple[int, str, float]) -> Script:
    """Write one token, with these likeliest ones beside it; a token is its id, its text and its log-probability."""
    names = ("id", "token", "logprob")

    def script(command: Generate) -> Iterable[list[Event]]:
        tops = [{**dict(zip(names, each, strict=True)), "bytes": []} for each in likely]
        prob: Any = {**dict(zip(names, token, strict=True)), "bytes": [], "top_logprobs": tops}
        yield [Accepted(command.request_id, 1), Delta(command.request_id, 0, token[1], [token[0]], [prob])]
        yield [BranchEnded(command.request_id, 0, "eos", 1), Done(command.request_id, 1, 0, 1, 1.0, 1.0)]

    return script


A, B, C = (1, " a", -0.5), (2, " b", -1.5), (3, " c", -2.5)


@pytest.mark.parametrize(
    ("likely", "token", "listed"),
    [
        ((A, B, C), A, [(" a", -0.5), (" b", -1.5), (" c", -2.5)]),
        ((A, B, C), C, [(" a", -0.5), (" b", -1.5), (" c", -2.5)]),
        ((A, B), C, [(" a", -0.5), (" b", -1.5), (" c", -2.5)]),  # one more than the two that were requested
        ((), B, [(" b", -1.5)]),
        ((A, (4, " a", -0.75), B), C, [(" a", -0.5), (" b", -1.5), (" c", -2.5)]),  # spelled alike: the likelier one
        ((A, B), (5, " a", -3.0), [(" b", -1.5), (" a", -3.0)]),  # spelled alike: the chosen one
        ((A, B), (2, " ", -1.5), [(" a", -0.5), (" ", -1.5)]),  # the chosen one's text is cut short by a stop string
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_likely_tokens_come_likeliest_first_and_the_chosen_one_is_among_them(
    likely: tuple[tuple[int, str, float], ...],
    token: tuple[int, str, float],
    listed: list[tuple[str, float]],
    stream: bool,
) -> None:
    http, _ = serve(chooses(*likely, token=token))
    answer = post(http, logprobs=len(likely), stream=stream)
    [choice] = (chunks(answer.text)[0] if stream else answer.json)["choices"]
    [top] = choice["logprobs"]["top_logprobs"]
    assert list(top.items()) == listed
    assert top[choice["logprobs"]["tokens"][0]] == choice["logprobs"]["token_logprobs"][0] == token[2]


def test_streamed_logprobs_concatenate_to_the_text_and_count_on_in_offsets() -> None:
    http, _ = serve(with_probs)
    choices = [chunk["choices"][0] for chunk in chunks(post(http, logprobs=2, stream=True).text)]
    assert [choice["text"] for choice in choices] == [" é", "n", ""]
    assert [choice["logprobs"] and choice["logprobs"]["text_offset"] for choice in choices] == [[0, 1], [2], None]
    for choice in choices[:-1]:
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]


def test_token_ids_come_in_the_choices_where_asked_for() -> None:
    http, _ = serve()
    found = chunks(post(http, stream=True, return_tokens=True).text)
    assert [chunk["choices"][0].get("tokens") for chunk in found] == [[0], [1], [2], None]
    [choice] = post(http, return_tokens=True).json["choices"]
    assert choice["tokens"] == [0, 1, 2]


def one_branch_fails(command: Generate) -> Iterable[list[Event]]:
    request_id = command.request_id
    failed = len(command.branches) - 1
    yield [Accepted(request_id, 1)]
    yield [Delta(request_id, 0, " a", [1])]
    yield [BranchEnded(request_id, failed, "error", 0, code="grammar_dead_end", message="no token fits")]
    yield [
        *(BranchEnded(request_id, index, "eos", 1) for index in range(failed)),
        Done(request_id, 1, 0, 1, 1.0, 1.0),
    ]


def test_a_failed_branch_costs_only_itself() -> None:
    http, _ = serve(one_branch_fails)
    failed = {
        "index": 1, "text": "", "logprobs": None, "finish_reason": "error",
        "error": {"code": 400, "message": "no token fits", "type": "invalid_request_error"}, "seed": 8,
    }  # fmt: skip
    body = post(http, n=2, seed=7).json
    assert body["choices"][0]["text"] == " a"
    assert body["choices"][1] == failed
    found = chunks(post(http, n=2, seed=7, stream=True).text)
    assert [chunk["choices"][0] for chunk in found if chunk["choices"][0]["index"] == 1] == [failed]


def test_a_call_whose_every_branch_failed_is_an_error() -> None:
    http, _ = serve(one_branch_fails)
    assert post(http, n=1).status_code == 400
    *_, last = post(http, n=1, stream=True).text.removesuffix("\n\n").split("\n\n")
    assert orjson.loads(last.removeprefix("data: ")) == {
        "error": {
            "code": "grammar_dead_end",
            "message": "no token fits",
            "type": "invalid_request_error",
            "param": None,
        }
    }


def test_a_failure_after_the_first_byte_is_an_error_event_without_a_done_marker() -> None:
    def accept_and_die(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        engine.lose_engine()

    http, engine = serve(accept_and_die)
    text = post(http, stream=True).text
    assert orjson.loads(text.removeprefix("data: "))["error"]["type"] == "unavailable_error"
    assert "[DONE]" not in text


ALIASES = ["tiny[]model", '"choices":[]', '{"a": [{}]}', "%d%b"]


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_stream_is_whole_whatever_the_model_is_called(path: str, include_usage: bool, alias: str) -> None:
    http, engine = serve(say_brackets)
    engine.start()
    engine.receive([Ready(replace(MODEL, alias=alias).as_dict())])
    body = {
        "model": "any", "prompt": "x", "messages": [{"role": "user", "content": "x"}], "n": 2, "stream": True,
        "stream_options": {"include_usage": include_usage},
    }  # fmt: skip
    found = chunks(http.post(path, data=orjson.dumps(body)).text)
    assert {chunk["model"] for chunk in found} == {alias}
    assert {"usage" in chunk for chunk in found} == {include_usage}
    choices = [choice for chunk in found for choice in chunk["choices"]]
    texts = [(choice["index"], choice.get("text") or choice.get("delta", {}).get("content")) for choice in choices]
    assert [text for text in texts if text[1]] == [(0, SAID), (1, SAID)]
    assert all("finish_reason" in choice and "logprobs" in choice for choice in choices)


SAID = '[] "{}]}\n'


def say_brackets(command: Generate) -> Iterable[list[Event]]:
    request_id = command.request_id
    yield [Accepted(request_id, 5), Delta(request_id, 0, SAID, [1]), Delta(request_id, 1, SAID, [1])]
    yield [
        BranchEnded(request_id, 0, "eos", 1),
        BranchEnded(request_id, 1, "eos", 1),
        Done(request_id, 5, 2, 2, 10.0, 30.0),
    ]


@pytest.mark.parametrize("prompt", [["a", "b"], [[1, 2], [3]], ["a", [1]], ["a"], [[7]]])
def test_a_list_of_prompts_is_this_dialects_whatever_else_the_body_has(prompt: Any) -> None:
    http, _ = serve()
    answer = http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2})
    assert (answer.status_code, len(answer.json["choices"])) == (200, len(prompt))


def test_token_ids_are_one_prompt_of_the_srb_dialect() -> None:
    http, _ = serve()
    assert http.post("/v1/completions", json={"prompt": [1, 2], "max_tokens": 2}).mimetype == "text/event-stream"
