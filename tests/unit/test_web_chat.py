"""Chat completions over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.sampling_params import PLACE
from srb.config.sampling_params import TOOL as TOOL_MARK
from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.chat.families import BLANK
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Progress, Rejected
from tests import scripted
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read
from tests.unit import chat_templates as wild

USER = {"role": "user", "content": "Hi"}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
OTHER = {"type": "function", "function": {"name": "time"}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def serve(script: Script = count_to_three, **settings: Any) -> tuple[FlaskClient, ScriptedClient]:
    made = Settings(**settings)
    engine = ScriptedClient(made, script)
    return create_app(made, engine).test_client(), engine


def post(http: FlaskClient, path: str = "/v1/chat/completions", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps({"messages": [USER], **body}))


def writes(*texts: str, reason: str = "eos", probs: bool = False) -> Script:
    """Return an engine that gives every branch these texts, one a step."""

    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        indices = range(len(command.branches))
        yield [Accepted(request_id, 5)]
        for place, text in enumerate(texts):
            entries = (
                [{"id": place, "token": text, "bytes": [], "logprob": -0.5, "top_logprobs": []}] if probs else None
            )
            yield [Delta(request_id, index, text, [place], entries) for index in indices]
        yield [BranchEnded(request_id, index, reason, len(texts)) for index in indices]
        yield [Done(request_id, 5, 2, len(texts) * len(indices), 10.0, 30.0)]

    return script


def chunks(text: str) -> list[dict[str, Any]]:
    lines = text.removesuffix("\n\n").split("\n\n")
    assert lines.pop() == "data: [DONE]"
    return [orjson.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize(
    "body",
    [
        {"n": 2, "logprobs": True, "return_tokens": True},
        {"tools": [TOOL]},
        {"stream_options": {"include_usage": True}, "return_progress": True},
    ],
)
def test_answers_and_chunks_have_the_shapes_that_the_document_says(body: dict[str, Any]) -> None:
    http, _ = serve(writes("<think>a</think>", CALL, "b", probs=True))
    read("openai.ChatCompletion", post(http, **body).data)
    if "logprobs" in body:
        body = {**body, "logprobs": False}
    for chunk in chunks(post(http, stream=True, **body).text):
        read("openai.ChatCompletionChunk", orjson.dumps(chunk))


def deltas(response: Any, index: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the deltas of one choice of a stream, without the first and the last, and the last choice."""
    found = [chunk["choices"][0] for chunk in chunks(response.text) if chunk["choices"]]
    mine = [choice for choice in found if choice["index"] == index]
    assert mine[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in mine[:-1]] == [None] * (len(mine) - 1)
    assert mine[-1]["delta"] == {}
    return [choice["delta"] for choice in mine[1:-1]], mine[-1]


# The answer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_one_answer_has_the_choices_in_order_and_the_usage_summed(path: str) -> None:
    http, engine = serve()
    body = post(http, path, n=2, max_tokens=2, seed=7).json
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "storyteller"
    assert body["choices"] == [
        {
            "index": i, "message": {"role": "assistant", "content": f" {i}.0 {i}.1", "refusal": None}, "logprobs": None,
            "finish_reason": "length", "seed": 7 + i,
        }
        for i in range(2)
    ]  # fmt: skip
    assert body["usage"] == {
        "prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2},
    }  # fmt: skip
    assert body["timings"]["predicted_n"] == 4
    (command,) = engine.sent
    assert command.prompt == ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",)


def test_n_defaults_to_one_and_tokens_to_no_limit() -> None:
    http, engine = serve()
    assert len(post(http).json["choices"]) == 1
    assert [branch.max_tokens for branch in engine.sent[0].branches] == [-1]


def test_a_stream_begins_with_the_role_and_ends_with_an_empty_delta_for_each_choice() -> None:
    http, _ = serve()
    response = post(http, n=3, stream=True)
    found = chunks(response.text)
    assert all(len(chunk["choices"]) == 1 for chunk in found)
    assert {chunk["object"] for chunk in found} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in found}) == 1
    for index in range(3):
        between, last = deltas(response, index)
        assert between == [{"content": f" {index}.{step}"} for step in range(3)]
        assert last["finish_reason"] == "stop"
        assert last["stop_reason"] == ""


def test_usage_is_sent_once_summed_and_only_where_asked_for() -> None:
    http, _ = serve()
    assert all("usage" not in chunk for chunk in chunks(post(http, n=2, stream=True).text))
    *rest, last = chunks(post(http, n=2, stream=True, stream_options={"include_usage": True}).text)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 6
    assert [chunk["usage"] for chunk in rest] == [None] * len(rest)


def test_logprobs_are_a_list_of_content() -> None:
    http, engine = serve(writes("a", "b", probs=True))
    answer = post(http, logprobs=True, top_logprobs=3).json["choices"][0]
    assert [entry["token"] for entry in answer["logprobs"]["content"]] == ["a", "b"]
    streamed = [chunk["choices"][0] for chunk in chunks(post(http, logprobs=True, stream=True).text)]
    assert [[entry["token"] for entry in choice["logprobs"]["content"]] for choice in streamed[1:-1]] == [["a"], ["b"]]
    post(http)
    assert [command.branches[0].sampling.n_probs for command in engine.sent] == [3, 20, -1]


def test_logprobs_wait_with_the_text_that_waits_and_none_is_lost() -> None:
    http, _ = serve(writes("<thi", "nk>a</th", "ink>", "b", probs=True))
    found = [chunk["choices"][0] for chunk in chunks(post(http, logprobs=True, stream=True).text)]
    tokens = [entry["token"] for choice in found for entry in (choice["logprobs"] or {}).get("content", [])]
    assert "".join(tokens) == "<think>a</think>b"


def test_progress_is_told_in_chunks_with_an_empty_delta() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        assert command.report_progress
        yield [Accepted(command.request_id, 5)]
        yield [Progress(command.request_id, 5, 2, 4, 1.5)]
        yield [BranchEnded(command.request_id, 0, "eos", 0), Done(command.request_id, 5, 2, 0, 1.0, 1.0)]

    http, _ = serve(script)
    found = [
        chunk for chunk in chunks(post(http, stream=True, return_progress=True).text) if "prompt_progress" in chunk
    ]
    assert [chunk["prompt_progress"] for chunk in found] == [{"total": 5, "cache": 2, "processed": 4, "time_ms": 1}]
    assert found[0]["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}]


def test_verbose_adds_the_llamacpp_dialects_object_of_the_first_branch() -> None:
    http, _ = serve(writes("<think>a</think>", "b\n"))
    answer = post(http, n=2, seed=7, verbose=True, return_tokens=True)
    read("openai.ChatCompletion", answer.data)
    found = answer.json["__verbose"]
    assert (found["index"], found["content"], found["tokens"]) == (0, "<think>a</think>b\n", [0, 1])
    assert (found["stop_type"], found["tokens_predicted"], found["has_new_line"]) == ("eos", 2, True)
    assert found["prompt"] == "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert found["generation_settings"]["seed"] == 7
    assert post(http, verbose=True, response_fields=["stop_type"]).json["__verbose"] == {"stop_type": "eos"}
    for body in ({}, {"verbose": False}):
        assert "__verbose" not in post(http, **body).json
    assert post(http, verbose="yes").json["error"]["param"] == "verbose"
    assert post(http, verbose=True, response_fields=[3]).json["error"]["param"] == "response_fields"


def test_in_a_stream_verbose_is_in_the_first_chunk_that_a_branchs_end_makes() -> None:
    http, _ = serve(writes("a", "<thi"))
    for chunk in (found := chunks(post(http, n=2, stream=True, verbose=True).text)):
        read("openai.ChatCompletionChunk", orjson.dumps(chunk))
    told = [chunk for chunk in found if "__verbose" in chunk]
    assert [chunk["choices"][0]["index"] for chunk in told] == [0, 1]
    assert [chunk["__verbose"]["tokens_predicted"] for chunk in told] == [2, 2]
    assert [chunk["__verbose"]["content"] for chunk in told] == ["", ""]
    held = chunks(post(serve(writes("<thi"))[0], stream=True, verbose=True).text)
    assert ["__verbose" in chunk for chunk in held] == [False, True, False]
    assert [chunk["choices"][0]["delta"] for chunk in held[1:]] == [{"content": "<thi"}, {}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_beyond_the_context_is_refused_before_the_stream_begins(stream: bool) -> None:
    def refuse(command: Generate) -> Iterable[list[Event]]:
        yield [Rejected(command.request_id, "context_exceeded", "too long", {"n_prompt_tokens": 9, "n_ctx": 8})]

    response = post(serve(refuse)[0], stream=stream)
    assert (response.status_code, response.mimetype) == (400, "application/json")
    assert response.json["error"] == {
        "code": "context_length_exceeded", "message": "too long", "type": "exceed_context_size_error", "param": None,
        "n_prompt_tokens": 9, "n_ctx": 8,
    }  # fmt: skip


def test_token_ids_come_where_asked_for_and_wait_with_the_text() -> None:
    http, _ = serve(writes("<thi", "nk>a</th", "ink>", "b"))
    assert post(http, return_tokens=True).json["choices"][0]["tokens"] == [0, 1, 2, 3]
    found = [
        chunk["choices"][0].get("tokens", []) for chunk in chunks(post(http, return_tokens=True, stream=True).text)
    ]
    assert [token for tokens in found for token in tokens] == [0, 1, 2, 3]


def one_branch_fails(command: Generate) -> Iterable[list[Event]]:
    request_id, last = command.request_id, len(command.branches) - 1
    yield [Accepted(request_id, 1)]
    yield [BranchEnded(request_id, last, "error", 0, code="grammar_dead_end", message="no token fits")]
    yield [*(BranchEnded(request_id, i, "eos", 1) for i in range(last)), Done(request_id, 1, 0, 1, 1.0, 1.0)]


def test_a_failed_branch_costs_only_itself_and_a_call_of_failures_is_an_error() -> None:
    http, _ = serve(one_branch_fails)
    first, second = post(http, n=2).json["choices"]
    assert first["finish_reason"] == "stop"
    assert second["error"]["message"] == "no token fits"
    assert deltas(post(http, n=2, stream=True), 1)[1]["finish_reason"] == "error"
    assert post(http).status_code == 400
    assert "[DONE]" not in post(http, stream=True).text


def test_a_failure_after_the_first_byte_is_an_error_event() -> None:
    def accept_and_die(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 1)]
        engine.lose_engine()

    http, engine = serve(accept_and_die)
    *_, last = post(http, stream=True).text.removesuffix("\n\n").split("\n\n")
    assert orjson.loads(last.removeprefix("data: "))["error"]["type"] == "unavailable_error"


# The conversation -----------------------------------------------------------------------------------------------------


def test_the_bos_that_the_engine_adds_is_not_in_the_text_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for add_bos, begin in ((True, "Hi"), (False, "<s>Hi")):
        model = replace(scripted.MODEL, add_bos=add_bos, chat_template="{{ bos_token }}{{ messages[0].content }}")
        monkeypatch.setattr(scripted, "MODEL", model)
        http, engine = serve()
        assert post(http).status_code == 200
        assert engine.sent[0].prompt == (begin,)
        assert engine.sent[0].add_special


def test_the_last_message_is_continued_where_it_is_the_assistants() -> None:
    http, engine = serve()
    begun = [USER, {"role": "assistant", "content": "Once"}]
    post(http, messages=begun)
    post(http, messages=begun, continue_final_message=False)
    assert engine.sent[0].prompt[0].endswith("assistant\nOnce")
    assert engine.sent[1].prompt[0].endswith("Once<|im_end|>\n<|im_start|>assistant\n")


def test_continuing_and_a_generation_prompt_exclude_each_other_where_both_are_asked_for() -> None:
    http, engine = serve()
    begun = [USER, {"role": "assistant", "content": "Once"}]
    response = post(http, messages=begun, continue_final_message=True, add_generation_prompt=True)
    assert response.status_code == 400
    assert (
        "Cannot set both add_generation_prompt and continue_final_message to true." in response.json["error"]["message"]
    )
    for body in ({"add_generation_prompt": False}, {}):
        assert post(http, messages=begun, continue_final_message=True, **body).status_code == 200
        assert engine.sent[-1].prompt[0].endswith("assistant\nOnce")
    thought = [USER, {"role": "assistant", "reasoning_content": "Hm", "content": "Once"}]
    post(http, messages=thought, continue_final_message="reasoning_content")
    assert engine.sent[-1].prompt[0].endswith("assistant\n<think>\nHm")
    calls = [USER, {"role": "assistant", "tool_calls": [{"function": {"name": "weather"}}]}]
    for messages, why in ((calls, "contains tool calls"), ([USER], "is not the assistant's")):
        response = post(http, messages=messages, continue_final_message=True)
        assert (response.status_code, response.json["error"]["param"]) == (400, "continue_final_message")
        assert why in response.json["error"]["message"]


def test_apply_template_says_what_would_be_continued() -> None:
    http, engine = serve()
    assert post(http, "/apply-template").json == {"prompt": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"}
    assert post(http, "/apply-template", add_generation_prompt=False).json["prompt"].endswith("Hi<|im_end|>\n")
    assert engine.sent == []
    assert post(http, "/apply-template", messages=[]).status_code == 400


def test_a_template_gets_variables_from_the_settings_and_from_the_body() -> None:
    template = "{{ a }} {{ b }} {{ enable_thinking }} {{ reasoning_effort }}"
    http, _ = serve(chat_template=template, chat_template_kwargs='{"a": 1, "b": 1}')

    def text(**body: Any) -> str:
        return str(post(http, "/apply-template", **body).json["prompt"])

    assert text(chat_template_kwargs={"b": 2}) == "1 2 True "
    assert text(reasoning_effort="none") == "1 1 False "
    assert text(reasoning_effort="high") == "1 1 True high"
    assert text(reasoning_budget_tokens=0) == text(thinking_budget_tokens=0) == "1 1 False "
    assert text(reasoning_effort="high", chat_template_kwargs={"reasoning_effort": "low"}) == "1 1 True high"
    assert text(reasoning_effort="none", chat_template_kwargs={"reasoning_effort": "low"}) == "1 1 False "
    wrong = post(http, "/apply-template", chat_template_kwargs={"enable_thinking": "yes"})
    assert wrong.json["error"]["param"] == "chat_template_kwargs"
    http, _ = serve(chat_template=template, reasoning="off", reasoning_effort="low")
    assert text() == "  False low"
    assert text(reasoning_effort="high") == "  True high"


def test_a_template_gets_llama_servers_dates_and_switches_of_past_reasoning() -> None:
    names = ("preserve_thinking", "clear_thinking", "truncate_history_thinking", "drop_thinking", "reasoning_strength")
    template = "{{ date_string }}|{{ datetime }}|" + " ".join(f"{{{{ {name} }}}}" for name in names)
    http, _ = serve(chat_template=template)

    def text(**body: Any) -> str:
        return str(post(http, "/apply-template", **body).json["prompt"])

    before, found, after = datetime.now(), text(), datetime.now()
    assert found in {f"{day:%d %b %Y}|{day:%b %d %Y}|True False False False " for day in (before, after)}
    forgetting = text(chat_template_kwargs={"preserve_reasoning": False, "drop_thinking": "x"}, reasoning_effort="low")
    assert forgetting.partition("|")[2].partition("|")[2] == "False True True x low"


def test_a_template_that_computes_for_ever_is_the_requests_error_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("srb.web.chat.sandbox.MAX_SECONDS", 0.05)
    endless = "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}"
    http, _ = serve(chat_template="{% if messages[0].content == 'Hi' %}" + endless + "{% endif %}ok")
    response = post(http)
    assert response.status_code == 400
    assert "the template took more than 0.051 s of CPU time" in response.json["error"]["message"]
    assert post(http, messages=[{"role": "user", "content": "x"}]).status_code == 200


# Reasoning ------------------------------------------------------------------------------------------------------------

THOUGHT = ("<think>", "\nHm", ", so", "\n</think>", "\n\nYes", ".")


def test_reasoning_is_apart_from_the_content() -> None:
    http, _ = serve(writes(*THOUGHT))
    expected = {"role": "assistant", "content": "Yes.", "refusal": None, "reasoning_content": "Hm, so"}
    assert post(http).json["choices"][0]["message"] == expected
    between, _ = deltas(post(http, stream=True))
    assert between == [{"reasoning_content": "Hm"}, {"reasoning_content": ", so"}, {"content": "Yes"}, {"content": "."}]


def test_reasoning_stays_where_it_is_with_the_format_none() -> None:
    http, _ = serve(writes(*THOUGHT))
    assert post(http, reasoning_format="none").json["choices"][0]["message"]["content"] == "".join(THOUGHT)
    between, _ = deltas(post(http, stream=True, reasoning_format="none"))
    assert [delta["content"] for delta in between] == list(THOUGHT)
    assert (
        "reasoning_content"
        not in post(serve(writes(*THOUGHT), reasoning_format="none")[0]).json["choices"][0]["message"]
    )


def test_the_legacy_format_has_it_in_both_places() -> None:
    http, _ = serve(writes(*THOUGHT))
    message = post(http, reasoning_format="deepseek-legacy").json["choices"][0]["message"]
    assert message["reasoning_content"] == "Hm, so"
    assert message["content"] == "<think>Hm, so</think>Yes."


# Tools ----------------------------------------------------------------------------------------------------------------


def test_a_tool_call_is_an_object_and_not_text() -> None:
    http, engine = serve(writes("One moment.\n", *CALL))
    choice = post(http, tools=[TOOL]).json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "One moment."
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert '"weather"' in engine.sent[0].prompt[0]


def test_a_streamed_call_comes_as_it_is_written_and_nothing_of_it_leaks() -> None:
    http, _ = serve(writes("Wait", ".", " ", *CALL, "\n", *CALL))
    between, last = deltas(post(http, tools=[TOOL], stream=True, n=2), 1)
    assert between[:2] == [{"content": "Wait"}, {"content": "."}]
    assert {key for delta in between[2:] for key in delta} == {"tool_calls"}
    parts = [part for delta in between[2:] for part in delta["tool_calls"]]
    begun = [part for part in parts if "id" in part]
    assert [part["index"] for part in begun] == [0, 1]
    assert len({part["id"] for part in begun}) == 2
    assert {(part["function"]["name"], part["function"]["arguments"]) for part in begun} == {("weather", "")}
    for index in range(2):
        arguments = [part["function"]["arguments"] for part in parts if part["index"] == index]
        assert "".join(arguments) == '{"city": "Oslo"}'
        assert len(arguments) > 10
    assert last["finish_reason"] == "tool_calls"


def test_a_call_that_was_cut_has_what_came_of_it_streamed_or_not() -> None:
    http, _ = serve(writes(CALL[:30], reason="limit"))
    choice = post(http, tools=[TOOL]).json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": CALL[:30], "refusal": None}
    assert choice["finish_reason"] == "length"
    between, _ = deltas(post(http, tools=[TOOL], stream=True))
    assert "".join(delta["content"] for delta in between) == CALL[:30]
    http, _ = serve(writes(CALL[:-20], reason="limit"))
    message = post(http, tools=[TOOL]).json["choices"][0]["message"]
    assert message["content"] is None
    between, last = deltas(post(http, tools=[TOOL], stream=True))
    told = "".join(part["function"]["arguments"] for delta in between for part in delta["tool_calls"])
    assert CALL[:-20].endswith(told)
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [told]
    assert last["finish_reason"] == "length"


def test_with_the_choice_none_the_tools_are_neither_told_nor_called() -> None:
    http, engine = serve(writes(CALL))
    choice = post(http, tools=[TOOL], tool_choice="none").json["choices"][0]
    assert choice["message"]["content"] == CALL
    assert "weather" not in engine.sent[0].prompt[0]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_is_required_is_forced_by_a_grammar(choice: Any) -> None:
    http, engine = serve(writes(*CALL))
    answer = post(http, tools=[TOOL], tool_choice=choice).json["choices"][0]
    assert answer["message"]["content"] is None
    assert answer["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert answer["finish_reason"] == "tool_calls"
    (command,) = engine.sent
    assert command.prompt[0].endswith("<|im_start|>assistant\n")
    sampling = command.branches[0].sampling
    assert (sampling.grammar_triggers, sampling.reasoning_tags) == ((), ())
    assert sampling.grammar.startswith('root ::= "<tool_call>"') or '"<tool_call>"' in sampling.grammar
    placed = {
        PLACE: "tools[0].function.parameters",
        TOOL_MARK: TOOL["function"]["name"],
        **TOOL["function"]["parameters"],
    }
    assert [orjson.loads(schema) for schema in sampling.grammar_schemas] == [placed]


def test_any_of_several_tools_may_be_the_one_that_is_required() -> None:
    http, engine = serve()
    post(http, tools=[TOOL, OTHER], tool_choice="required")
    post(http, tools=[TOOL, OTHER], tool_choice={"type": "function", "function": {"name": "time"}})
    several, one = (command.branches[0].sampling.grammar for command in engine.sent)
    assert ('\\"weather\\"' in several, '\\"time\\"' in several) == (True, True)
    assert ('\\"weather\\"' in one, '\\"time\\"' in one) == (False, True)


@pytest.mark.parametrize(
    ("fields", "several"),
    [
        ({"tool_choice": "required"}, True),
        ({"tool_choice": "required", "parallel_tool_calls": False}, False),
        ({"tool_choice": {"type": "function", "function": {"name": "time"}}}, False),
        ({"tools": [OTHER]}, True),
        ({"tools": [OTHER], "tool_choice": "required"}, False),
        ({"tools": [OTHER], "tool_choice": "required", "parallel_tool_calls": True}, True),
    ],
)
def test_several_calls_may_be_required_unless_one_tool_is_meant(fields: dict[str, Any], several: bool) -> None:
    http, engine = serve()
    post(http, **{"tools": [TOOL, OTHER], **fields})
    assert ("*" in engine.sent[0].branches[0].sampling.grammar.splitlines()[0]) == several


def test_text_is_free_up_to_a_call_and_the_call_is_constrained() -> None:
    http, engine = serve()
    post(http, tools=[TOOL], branches=[{}, {"grammar": 'root ::= "x"'}])
    free, own = engine.sent[0].branches
    assert free.sampling.grammar_triggers[:2] == (("word", "<tool_call>"), ("word", "<|python_tag|>"))
    assert free.sampling.reasoning_tags == ("<think>", "</think>")
    assert "*" in free.sampling.grammar.splitlines()[0]
    assert (own.sampling.grammar, own.sampling.grammar_triggers) == ('root ::= "x"', ())
    assert "<tool_call>" in engine.sent[0].preserved_tokens
    post(http, tools=[TOOL], parallel_tool_calls=False)
    assert "*" not in engine.sent[1].branches[0].sampling.grammar.splitlines()[0]
    post(http)
    assert engine.sent[2].branches[0].sampling.grammar == ""
    assert engine.sent[2].preserved_tokens == ("<think>", "</think>")


@pytest.mark.parametrize("field", ["response_format", "json_schema"])
def test_beside_tools_an_answer_follows_the_schema(field: str) -> None:
    http, engine = serve()
    schema = {"const": 7}
    given = {"json_schema": {"json_schema": schema}}.get(
        field, {field: {"type": "json_schema", "json_schema": {"schema": schema}}}
    )
    branches = [{}, {"grammar": 'root ::= "x"'}, {"json_schema": {"const": 8}}]
    assert post(http, tools=[TOOL], branches=branches, **given).status_code == 200
    both, own, other = (branch.sampling for branch in engine.sent[0].branches)
    assert both.json_schema == ""
    place = "json_schema" if field == "json_schema" else f"{field}.json_schema.schema"
    assert {PLACE: place, **schema} in map(orjson.loads, both.grammar_schemas)
    assert '\\"weather\\"' in both.grammar
    assert both.grammar_triggers in ((), (("answer", ""),))
    assert (own.grammar, other.json_schema, other.grammar) == ('root ::= "x"', '{"const":8}', "")
    post(http, tools=[TOOL], tool_choice="required", **given)
    assert not [text for text in engine.sent[1].branches[0].sampling.grammar_schemas if '"const":7' in text]


def test_a_budget_of_reasoning_is_the_requests_or_the_settings() -> None:
    http, engine = serve(reasoning_budget=7)
    post(http)
    post(http, reasoning_budget_tokens=3, reasoning_budget_message="Stop.")
    post(http, thinking_budget_tokens=-1)
    found = [command.branches[0].sampling for command in engine.sent]
    assert [each.reasoning_budget_tokens for each in found] == [7, 3, 7]
    assert [each.reasoning_budget_message for each in found] == ["", "Stop.", ""]
    assert {each.reasoning_tags for each in found} == {("<think>", "</think>")}
    refused = post(http, explore={}, reasoning_budget_tokens=3)
    assert (refused.status_code, refused.json["error"]["param"]) == (400, "reasoning_budget_tokens")


NAMED = {"type": "function", "function": {"name": "get weather"}}


def test_a_name_that_a_familys_calls_cannot_have_is_refused_in_plain_words() -> None:
    http, _ = serve()
    assert post(http, tools=[NAMED]).status_code == 200  # JSON has any name
    http, _ = serve(chat_template="{{ tools }}<tool_call><function=f><parameter=a>{{ messages[0].content }}")
    refused = post(http, tools=[TOOL, NAMED])
    assert (refused.status_code, refused.json["error"]["param"]) == (400, "tools")
    assert 'tool 1: calls of this model (qwen3-coder) have no place for the name "get weather"' in refused.text.replace(
        "\\", ""
    )
    assert post(http, tools=[NAMED], tool_choice="none").status_code == 200


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_of_the_tools_only_the_allowed_ones_are_told_and_called(mode: str, inner: bool) -> None:
    http, engine = serve()
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "time"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed} if inner else {"type": "allowed_tools", **allowed}
    assert post(http, tools=[TOOL, OTHER], tool_choice=choice).status_code == 200
    [command] = engine.sent
    sampling = command.branches[0].sampling
    assert "weather" not in command.prompt[0] + sampling.grammar  # type: ignore[operator]
    assert bool(sampling.grammar_triggers) == (mode == "auto")


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": []}}, '"mode" auto or required'),
        ({"type": "allowed_tools", "mode": "auto"}, 'a list of "tools"'),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]}, "the name of a function"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "unknown"}]}, "allows a tool that 'tools' lacks"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "needs tools"),
    ],
)
def test_allowed_tools_that_are_wrong_are_refused_in_plain_words(choice: Any, words: str) -> None:
    http, _ = serve()
    refused = post(http, tools=[TOOL, OTHER], tool_choice=choice)
    assert (refused.status_code, refused.json["error"]["param"]) == (400, "tool_choice")
    assert words in refused.json["error"]["message"]


# How the reply has to look --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ({"response_format": {"type": "text"}}, ""),
        ({"response_format": {}}, ""),
        ({"response_format": {"type": None, "json_schema": None}}, ""),
        ({"response_format": {"type": "json_object"}}, '{"type":"object"}'),
        ({"response_format": {"type": "json_object", "schema": {"type": "array"}}}, '{"type":"array"}'),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": 1}}}}, '{"const":1}'),
        ({"json_schema": {"const": 1}}, '{"const":1}'),
    ],
)
def test_a_schema_reaches_the_engine(field: dict[str, Any], schema: str) -> None:
    http, engine = serve()
    assert post(http, **field).status_code == 200
    assert engine.sent[0].branches[0].sampling.json_schema == schema


@pytest.mark.parametrize(
    "off",
    [
        {"reasoning_budget_tokens": 0},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
@pytest.mark.parametrize("fixed", ["response_format", "json_schema", "grammar", "tool_choice"])
def test_a_grammar_holds_after_the_thoughts_or_from_the_first_token_without_any(
    off: dict[str, Any], fixed: str
) -> None:
    body: dict[str, Any] = {
        "response_format": {"response_format": {"type": "json_object"}},
        "json_schema": {"json_schema": {"const": 1}},
        "grammar": {"grammar": 'root ::= "x"'},
        "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
    }[fixed]
    http, engine = serve(chat_template="{{ tools }}{{ messages[0].content + '<think>\n' }}")
    post(http, **body)
    post(http, **body, **off)
    thinking, eager = engine.sent
    sampling = thinking.branches[0].sampling
    assert sampling.grammar_triggers == (("answer", BLANK),)
    assert sampling.reasoning_tags == ("", "</think>")
    assert eager.branches[0].sampling.grammar_triggers == ()
    assert "<think>" in str(thinking.prompt)
    if fixed != "tool_choice":
        assert eager.prompt == ("NoneHi",)


def test_a_model_that_may_think_begins_with_its_thoughts_or_with_the_answer() -> None:
    fixed = {"response_format": {"type": "json_object"}}
    http, engine = serve(chat_template=wild.QWEN_3)
    post(http, **fixed)
    post(http, **fixed, reasoning_effort="none")
    post(http, **fixed, messages=[USER, {"role": "assistant", "content": "{"}])
    post(http, branches=[{}, {"json_schema": {}}], reasoning_budget_tokens=5)
    http, other = serve(chat_template=wild.LLAMA_3)
    post(http, **fixed)
    found = [branch.sampling for command in (*engine.sent, *other.sent) for branch in command.branches]
    assert [each.reasoning_tags for each in found] == [
        ("<think>", "</think>"),
        (),
        (),
        *[("<think>", "</think>")] * 2,
        (),
    ]
    assert [bool(each.grammar_triggers) for each in found] == [True, False, False, False, True, False]
    assert [each.reasoning_budget_tokens for each in found] == [-1, -1, -1, 5, 5, -1]


def test_an_answer_of_gpt_oss_has_its_header_with_thoughts_and_without() -> None:
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant"
    )
    http, engine = serve(chat_template=template + "{# <|channel|> #}")
    for effort in ("high", "none"):
        post(http, response_format={"type": "json_object"}, reasoning_effort=effort)
    thinking, plain = (command.branches[0].sampling for command in engine.sent)
    assert thinking.reasoning_tags == ("<|channel|>analysis<|message|>", "<|end|>")
    assert plain.reasoning_tags == ()
    for sampling in (thinking, plain):
        [(kind, before)] = sampling.grammar_triggers
        assert (kind, '"<|channel|>final"' in str(before)) == ("answer", True)


# Bad requests ---------------------------------------------------------------------------------------------------------

CHOOSE = {"type": "function", "function": {"name": "unknown"}}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages"),
        ({"messages": [{"role": 1, "content": "Hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages"),
        ({"messages": [{"role": "user", "content": [7]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": 1}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}, "messages"),
        ({"messages": [{"role": "assistant", "reasoning_content": 1}]}, "messages"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"logprobs": 3}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 1000}, "top_logprobs"),
        ({"logprobs": True, "tools": [TOOL], "stream": True}, "logprobs"),
        ({"tools": {}}, "tools"),
        ({"tools": [{}]}, "tools"),
        ({"tools": [{"type": "retrieval"}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]}, "tools"),
        ({"tools": [TOOL] * 257}, "tools"),
        ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": CHOOSE}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [TOOL["function"]]}, "functions"),
        ({"functions": [TOOL["function"]], "tools": [TOOL]}, "functions"),
        ({"function_call": {"name": "weather"}}, "function_call"),
        ({"tools": [TOOL], "grammar": 'root ::= "a"'}, "grammar"),
        ({"tools": [TOOL], "grammar": 'root ::= "x"'}, "grammar"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": 1}}, "response_format"),
        ({"json_schema": {}, "grammar": 'root ::= "a"'}, "json_schema"),
        ({"json_schema": {}, "response_format": {"type": "json_object"}}, "response_format"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"reasoning_format": "x"}, "reasoning_format"),
        ({"reasoning_budget_tokens": -2}, "reasoning_budget_tokens"),
        ({"add_generation_prompt": "yes"}, "add_generation_prompt"),
        ({"stream_options": 1}, "stream_options"),
    ],
)
def test_a_bad_field_is_400_and_named_and_no_work(body: dict[str, Any], param: str) -> None:
    http, engine = serve()
    response = post(http, **body)
    assert response.status_code == 400
    assert response.json["error"]["param"] == param
    assert f"'{param}'" in response.json["error"]["message"]
    assert engine.sent == []


@pytest.mark.parametrize("kind", ["video_url", "input_file", "file"])
def test_parts_that_are_no_text_picture_or_sound_are_refused_by_name(kind: str) -> None:
    response = post(serve()[0], messages=[{"role": "user", "content": [{"type": kind, kind: {}}]}])
    assert response.status_code == 400
    assert response.json["error"]["param"] == "messages"
    assert kind in response.json["error"]["message"]


@pytest.mark.parametrize("part", [{"text": "x"}, 3, None, {"type": "text"}, {"type": ["text"]}, {"type": "image"}])
def test_malformed_parts_are_bad_requests(part: Any) -> None:
    response = post(serve()[0], messages=[{"role": "user", "content": [part]}])
    assert (response.status_code, response.json["error"]["param"]) == (400, "messages")


@pytest.mark.parametrize("depth", [300, 900])
@pytest.mark.parametrize(
    "body",
    [
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": %s}}}]',
        '"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": %s}}}]',
        '"chat_template_kwargs": {"x": %s}',
        '"json_schema": {"x": %s}',
        '"response_format": {"type": "json_object", "schema": {"x": %s}}',
        '"documents": [%s]',
        '"stop": %s',
    ],
)
def test_a_body_that_is_nested_too_deeply_is_no_server_error(body: str, depth: int) -> None:
    http, _ = serve(chat_template="{{ tools|tojson }}{{ x }}{{ documents|tojson }}{{ messages[0].content }}")
    data = '{"messages": [{"role": "user", "content": "Hi"}], ' + body % ("[" * depth + "]" * depth) + "}"
    assert http.post("/v1/chat/completions", data=data).status_code in (200, 400)


def test_unknown_fields_and_nulls_are_accepted() -> None:
    http, _ = serve()
    extras = {f"unknown_{i}": i for i in range(90)} | {"n": None, "tools": None, "stop": None, "response_format": None}
    assert post(http, **extras).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_breaks_off_does_not_finish_with_tool_calls(stream: bool) -> None:
    http, _ = serve(writes('<tool_call>{"name": "weather", "arguments": {"city": "Os'))
    response = http.post("/v1/chat/completions", json={"messages": [USER], "tools": [TOOL], "stream": stream})
    choice = chunks(response.text)[-1]["choices"][0] if stream else response.json["choices"][0]
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('<tool_call>\n{"name": "weather", "arguments": {"city": "Os', '{"city": "Os'),
        ('<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}', '{"city": "Oslo"}'),
        ('<tool_call>\n{"name": "weather", "argu', None),
        ('<tool_call>\n{"na', None),
        ("<tool_c", None),
        ("<think>Hm</think><tool_call>\n", None),
    ],
)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_forced_call_that_is_cut_has_one_form_streamed_or_not(
    written: str, arguments: str | None, choice: Any
) -> None:
    http, _ = serve(writes(*written, reason="limit"))
    body = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 9}
    whole = post(http, **body).json["choices"][0]
    said, last = deltas(post(http, stream=True, **body))
    assert whole["finish_reason"] == last["finish_reason"] == "length"
    assert "".join(delta.get("content") or "" for delta in said) == (whole["message"]["content"] or "") == ""
    streamed = "".join(call["function"]["arguments"] for delta in said for call in delta.get("tool_calls", ()))
    calls = whole["message"].get("tool_calls", [])
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in calls] == (
        [] if arguments is None else [("weather", arguments)]
    )
    assert streamed == (arguments or "")


NULLS: list[dict[str, Any]] = [
    {"stream_options": {"include_usage": None}},
    {"reasoning": {"exclude": None, "effort": None}},
    {"thinking": {"type": "enabled", "budget_tokens": None}},
    {"user": {"id": 7}},
    {"user": 7},
]


@pytest.mark.parametrize("fields", NULLS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_null_in_an_object_counts_as_absent_and_a_user_may_be_anything(path: str, fields: dict[str, Any]) -> None:
    http, _ = serve()
    answer = post(http, path, input="Hi", **fields)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("field", ["text", "reasoning", "stream_options", "output_config", "thinking"])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_an_object_of_nulls_is_empty(path: str, field: str) -> None:
    http, _ = serve()
    body = dict.fromkeys(("format", "effort", "verbosity", "include_usage", "display"))
    given = body | ({"type": "enabled"} if field == "thinking" else {})
    answer = post(http, path, input="Hi", max_tokens=5, **{field: given})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("given", [{}, {"type": None}, {"type": None, "name": None, "schema": None}])
@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/chat/completions", ""), ("/v1/responses", "text"), ("/v1/messages", "output_config")],
)
def test_a_format_of_nulls_is_any_text(path: str, field: str, given: dict[str, Any]) -> None:
    http, engine = serve()
    fields = {field: {"format": given}} if field else {"response_format": given}
    answer = post(http, path, input="Hi", max_tokens=5, **fields)
    assert answer.status_code == 200, answer.text
    assert not engine.sent[0].branches[0].sampling.json_schema
    wrong = {**given, "schema": {"type": "object"}}
    fields = {field: {"format": wrong}} if field else {"response_format": wrong}
    assert post(http, path, input="Hi", max_tokens=5, **fields).status_code == 400, "a schema is never ignored"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_tool_choice_of_any_is_required(path: str) -> None:
    http, engine = serve()
    tool = TOOL if path.endswith("completions") else {"type": "function", **TOOL["function"]}
    for choice in ("any", "required"):
        assert post(http, path, input="Hi", tools=[tool], tool_choice=choice).status_code == 200
    by_any, required = (command.branches[0].sampling for command in engine.sent)
    assert by_any.grammar
    assert by_any == required
