"""Anthropic's Messages over HTTP, with a scripted engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.errors import InvalidRequest, NotSupported
from srb.web.dialects.anthropic.body import MessagesBody
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event, Failed, PromptDone, Rejected
from tests.official import anthropic, anthropic_over, application
from tests.shapes import read
from tests.unit.test_web_chat import CALL, writes

USER = {"role": "user", "content": "Hi"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: dict[str, Any] = {"name": "weather", "description": "Tell the weather", "input_schema": PARAMETERS}
OTHER: dict[str, Any] = {"type": "custom", "name": "time", "input_schema": {"type": "object"}}
REPLY = ("<think>", "hm", "m</think>", "Hello ", "you", CALL, " there")


def serve(*texts: str, **how: Any) -> FlaskClient:
    return application(writes(*texts, **how))[0].test_client()


def post(http: FlaskClient, path: str = "/v1/messages", **body: Any) -> Any:
    return http.post(path, data=orjson.dumps({"messages": [USER], "max_tokens": 50, **body}))


def events(text: str) -> list[dict[str, Any]]:
    """Return the data of each event; its name is its type."""
    found = []
    for part in text.removesuffix("\n\n").split("\n\n"):
        name, data = part.split("\n")
        value = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def parsed(**body: Any) -> MessagesBody:
    return MessagesBody.parse({"messages": [USER], "max_tokens": 50, **body})


def blocks(*given: dict[str, Any], role: str = "user") -> list[Any]:
    return [{"role": role, "content": list(given)}]


# The conversation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({}, [USER]),
        ({"system": "S"}, [{"role": "system", "content": "S"}, USER]),
        ({"system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=a5145;", "cache_control": {}},
            {"type": "text", "text": "S"},
        ]}, [{"role": "system", "content": "x-anthropic-billing-header: cc_version=2.1; cch=fffff;S"}, USER]),
        ({"system": ""}, [USER]),
        ({"messages": [USER, {"role": "system", "content": "Now."}]}, [USER, {"role": "system", "content": "Now."}]),
        ({"messages": blocks({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}})},
         [{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
        ({"messages": [
            USER,
            *blocks(
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I ask."},
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "b", "name": "time", "input": {}},
                role="assistant",
            ),
            *blocks(
                {"type": "tool_result", "tool_use_id": "a", "content": "rain", "is_error": False},
                {"type": "tool_result", "tool_use_id": "b", "content": [
                    {"type": "text", "text": "no"}, {"type": "text", "text": "on"},
                ]},
                {"type": "text", "text": "And now?"},
            ),
            *blocks({"type": "tool_result", "tool_use_id": "c"}),
            {"role": "assistant", "content": []},
        ]}, [
            USER,
            {
                "role": "assistant", "reasoning_content": "hm", "content": [{"type": "text", "text": "I ask."}],
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
                    {"id": "b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "rain"},
            {"role": "tool", "tool_call_id": "b", "content": "noon"},
            {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
            {"role": "assistant", "content": ""},
        ]),
    ],
)  # fmt: skip
def test_blocks_become_the_messages_of_a_chat(body: dict[str, Any], messages: list[Any]) -> None:
    assert parsed(**body).messages == messages


def test_fields_become_those_of_a_chat() -> None:
    body = parsed(
        tools=[TOOL, OTHER], tool_choice={"type": "any", "disable_parallel_tool_use": True}, stop_sequences=["x"],
        top_k=3, metadata={"user_id": "u"}, output_config={"effort": "high"}, session="s",
    )  # fmt: skip
    assert body.tools == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Tell the weather", "parameters": PARAMETERS},
        },
        {"type": "function", "function": {"name": "time", "description": "", "parameters": {"type": "object"}}},
    ]
    assert (body.tool_choice, body.parallel_tool_calls) == ("required", False)
    assert (body.stop, body.n_predict, body.reasoning_effort, body.session) == (("x",), 50, "high", "s")


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "time"}, "=time"),
    ],
)
def test_every_form_of_a_tool_choice(choice: Any, wanted: str) -> None:
    assert parsed(tools=[TOOL, OTHER], tool_choice=choice).tool_choice == wanted


@pytest.mark.parametrize(
    ("thinking", "budget"),
    [
        (None, None),
        ({"type": "enabled", "budget_tokens": 1024}, 1024),
        ({"type": "enabled"}, -1),
        ({"type": "adaptive", "display": "summarized"}, -1),
        ({"type": "disabled"}, 0),
    ],
)
def test_thinking_is_the_budget_of_a_chat(thinking: Any, budget: int | None) -> None:
    assert parsed(**({"thinking": thinking} if thinking else {})).reasoning_budget_tokens == budget


def test_a_body_without_max_tokens_has_llama_servers_limit() -> None:
    app, engine = application()
    assert app.test_client().post("/v1/messages", data=orjson.dumps({"messages": [USER]})).status_code == 200
    assert engine.sent[0].branches[0].max_tokens == 4096


def test_a_format_is_the_schema_of_the_reply() -> None:
    app, engine = application()
    config = {"format": {"type": "json_schema", "schema": PARAMETERS}}
    assert post(app.test_client(), output_config=config).status_code == 200
    assert orjson.loads(engine.sent[0].branches[0].sampling.json_schema) == PARAMETERS


def test_samplers_and_fields_of_srb_pass_through() -> None:
    app, engine = application()
    assert post(app.test_client(), min_p=0.2, seed=7, session="s", banned_strings=["x"]).status_code == 200
    (branch,) = engine.sent[0].branches
    assert (branch.sampling.min_p, branch.seed, branch.banned_strings) == (0.2, 7, ("x",))
    assert engine.sent[0].session == "s"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [3]}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages"),
        ({"messages": blocks({"type": "text"})}, "messages"),
        ({"messages": blocks({"type": "tool_use", "id": 3, "name": "f", "input": {}}, role="assistant")}, "messages"),
        ({"messages": blocks({"type": "tool_use", "id": "a", "input": {}}, role="assistant")}, "messages"),
        ({"messages": blocks({"type": "thinking", "thinking": 3}, role="assistant")}, "messages"),
        ({"messages": blocks({"type": "image", "source": {"type": "files", "file_id": "f"}})}, "messages"),
        ({"system": 3}, "system"),
        ({"system": [{"type": "image"}]}, "system"),
        ({"tools": {}}, "tools"),
        ({"tools": [3]}, "tools"),
        ({"tools": [{"name": "f"}]}, "tools"),
        ({"tools": [{"input_schema": {}}]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "always"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -3}}, "thinking.budget_tokens"),
        ({"thinking": True}, "thinking"),
        ({"output_config": {"effort": 3}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop_sequences": 3}, "stop_sequences"),
        ({"metadata": "x"}, "metadata"),
        ({"n": "2"}, "n"),
        ({"branches": [{}]}, "branches"),
        ({"explore": {}}, "explore"),
        ({"rank": True}, "rank"),
        ({"logprobs": True}, "logprobs"),
        ({"n_probs": 3}, "n_probs"),
        ({"return_tokens": True}, "return_tokens"),
        ({"return_progress": True}, "return_progress"),
        ({"verbose": True}, "verbose"),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_by_its_own_name(body: dict[str, Any], field: str) -> None:
    http = serve("a")
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        answer = post(http, path, **body)
        assert answer.status_code == 400, answer.text
        error = read("anthropic.AnthropicError", answer.data)["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == field
        assert f"Field '{field}'" in error["message"]


@pytest.mark.parametrize("n", [2, 3])
def test_the_content_of_several_branches_stands_in_one_message(n: int) -> None:
    http = serve(*REPLY)
    one = post(http, tools=[TOOL], seed=7).json
    several = post(http, tools=[TOOL], seed=7, n=n).json
    assert "branches" not in one
    own: list[list[Any]] = [[] for _ in range(n)]
    for block in several["content"]:
        own[block.pop("branch", 0)].append({key: value for key, value in block.items() if key != "id"})
    assert own == [[{key: value for key, value in block.items() if key != "id"} for block in one["content"]]] * n
    ends = [{"index": index, "seed": 7 + index, "stop_reason": "tool_use", "stop_sequence": None} for index in range(n)]
    assert several["branches"] == ends
    assert several["usage"]["output_tokens"] == n * one["usage"]["output_tokens"]
    read("anthropic.MessageAnswer", orjson.dumps(several))
    given: Any = {"model": "any", "max_tokens": 50, "messages": [USER], "tools": [TOOL], "extra_body": {"n": n}}
    message = anthropic_over(application(writes(*REPLY))[0]).messages.create(**given)
    assert [block.text for block in message.content if block.type == "text"] == ["Hello you", " there"] * n


def test_the_blocks_of_several_branches_grow_side_by_side_in_a_stream() -> None:
    http = serve(*REPLY)
    found = events(post(http, tools=[TOOL], n=2, stream=True).text)
    for event in found:
        read("anthropic.StreamEvent", orjson.dumps(event))
    begun = {event["index"]: event["content_block"] for event in found if event["type"] == "content_block_start"}
    assert list(begun) == list(range(len(begun)))
    assert [block.get("branch", 0) for block in begun.values()] == [0, 1] * (len(begun) // 2)
    text = dict.fromkeys(begun, "")
    for event in found:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            text[event["index"]] += event["delta"]["text"]
    assert [text[index] for index, block in begun.items() if block["type"] == "text"] == ["Hello you"] * 2 + [
        " there"
    ] * 2
    assert [event["type"] for event in found].count("content_block_stop") == len(begun)
    (end,) = (event for event in found if event["type"] == "message_delta")
    assert [branch["stop_reason"] for branch in end["branches"]] == ["tool_use"] * 2
    client = anthropic_over(application(writes(*REPLY))[0])
    given: Any = {"model": "any", "max_tokens": 50, "messages": [USER], "tools": [TOOL], "extra_body": {"n": 2}}
    with client.messages.stream(**given) as stream:
        final = stream.get_final_message()
    assert [block.text for block in final.content if block.type == "text"] == ["Hello you"] * 2 + [" there"] * 2


def test_a_branch_that_fails_tells_its_error_beside_the_others() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5), PromptDone(request_id, 0, 0, 1.0), Delta(request_id, 0, "a", [1])]
        failed = BranchEnded(request_id, 1, "error", 0, code="grammar_dead_end", message="no token fits")
        yield [BranchEnded(request_id, 0, "eos", 1), failed, Done(request_id, 5, 0, 1, 1.0, 1.0)]

    http = application(script)[0].test_client()
    for ends in (
        post(http, n=2).json["branches"],
        events(post(http, n=2, stream=True).text)[-2]["branches"],
    ):
        assert [end["stop_reason"] for end in ends] == ["end_turn", None]
        assert "no token fits" in ends[1]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": blocks({"type": "document", "source": {"type": "base64", "data": "x"}})}, "messages"),
        ({"messages": blocks({"type": "search_result"})}, "messages"),
        (
            {"messages": blocks({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "document"}]})},
            "messages",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
    ],
)
def test_what_the_server_cannot_do_is_said_with_the_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises((InvalidRequest, NotSupported)) as refused:
        parsed(**body)
    assert refused.value.extra["param"] == field
    assert f"Field '{field}'" in refused.value.message


# The answer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"tools": [TOOL]}, {"thinking": {"type": "adaptive", "display": "omitted"}}])
def test_answers_and_events_have_the_shapes_that_the_document_says(body: dict[str, Any]) -> None:
    http = serve(*REPLY)
    read("anthropic.MessageAnswer", post(http, **body).data)
    for event in events(post(http, stream=True, **body).text):
        read("anthropic.StreamEvent", orjson.dumps(event))


def test_an_answer_has_a_block_for_each_part_of_the_reply() -> None:
    answer = post(serve(*REPLY), tools=[TOOL], seed=7).json
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use", "text"]
    thought, text, call, after = answer["content"]
    assert (thought["thinking"], thought["signature"]) == ("hmm", "")
    assert (text["text"], after["text"]) == ("Hello you", " there")
    assert (call["name"], call["input"]) == ("weather", {"city": "Oslo"})
    assert (answer["stop_reason"], answer["stop_sequence"], answer["seed"]) == ("tool_use", None, 7)
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (3, 2, 7)


def ends(ended: BranchEnded) -> Any:
    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        end = BranchEnded(request_id, 0, ended.reason, 1, stopping_word=ended.stopping_word, truncated=ended.truncated)
        yield [Accepted(request_id, 5), PromptDone(request_id, 2, 0, 1.0)]
        yield [Delta(request_id, 0, "a", [1]), end, Done(request_id, 5, 2, 1, 10.0, 30.0)]

    return script


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("ended", "reason", "sequence"),
    [
        (BranchEnded("", 0, "eos", 1), "end_turn", None),
        (BranchEnded("", 0, "limit", 1), "max_tokens", None),
        (BranchEnded("", 0, "limit", 1, truncated=True), "model_context_window_exceeded", None),
        (BranchEnded("", 0, "word", 1, stopping_word="END"), "stop_sequence", "END"),
        (BranchEnded("", 0, "word", 1, stopping_word="<|im_end|>"), "end_turn", None),
        (BranchEnded("", 0, "boundary", 1), "end_turn", None),
        (BranchEnded("", 0, "cancelled", 1), "max_tokens", None),
    ],
)
def test_each_end_has_its_stop_reason(ended: BranchEnded, reason: str, sequence: str | None, stream: bool) -> None:
    answer = post(application(ends(ended))[0].test_client(), stop_sequences=["END"], stream=stream)
    if stream:
        start, *_, delta, _ = events(answer.text)
        assert start["message"]["usage"]["cache_read_input_tokens"] == 2
        assert start["message"]["usage"]["input_tokens"] == 3
        assert delta["type"] == "message_delta"
    stopped = delta["delta"] if stream else answer.json
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("reason", "stopped"), [("limit", "max_tokens"), ("eos", "end_turn")])
def test_a_call_that_breaks_off_asks_for_no_tool(reason: str, stopped: str, stream: bool) -> None:
    http = serve('<tool_call>{"name": "weather", "arguments": {"city": "Os', reason=reason)
    answer = post(http, tools=[TOOL], stream=stream)
    assert (events(answer.text)[-2]["delta"] if stream else answer.json)["stop_reason"] == stopped


@pytest.mark.parametrize(
    ("written", "names"), [('", "arguments": {"city": "Os', ["weather"]), ("", []), ('", "arg', [])]
)
def test_a_forced_call_that_is_cut_has_one_form_streamed_or_not(written: str, names: list[str]) -> None:
    http = serve('<tool_call>\n{"name": "weather' + written, reason="limit")
    asked = {"tools": [TOOL], "tool_choice": {"type": "any"}}
    whole = post(http, **asked).json
    told = events(post(http, stream=True, **asked).text)
    begun = [event["content_block"] for event in told if event["type"] == "content_block_start"]
    assert [(block["type"], block["name"]) for block in begun] == [("tool_use", name) for name in names]
    assert [(block["type"], block["name"]) for block in whole["content"]] == [("tool_use", name) for name in names]
    assert whole["stop_reason"] == told[-2]["delta"]["stop_reason"] == "max_tokens"


def test_thinking_that_is_omitted_leaves_an_empty_block() -> None:
    http = serve("<think>", "hm</think>", "a")
    asked = {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}}
    assert post(http, **asked).json["content"][0] == {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [
        event["delta"]["type"]
        for event in events(post(http, stream=True, **asked).text)
        if "delta" in event and "index" in event
    ]
    assert deltas == ["signature_delta", "text_delta"]


def test_a_reply_without_text_is_a_message_without_blocks() -> None:
    http = serve()
    assert post(http).json["content"] == []
    kinds = [event["type"] for event in events(post(http, stream=True).text)]
    assert kinds == ["message_start", "message_delta", "message_stop"]


def test_tokens_are_those_of_the_prompt() -> None:
    app, engine = application()
    http = app.test_client()
    post(http, system="S")
    (prompt,) = engine.sent[0].prompt
    assert post(http, "/v1/messages/count_tokens", system="S").json == {"input_tokens": len(prompt) + 1}


# Errors ---------------------------------------------------------------------------------------------------------------


def ask(client: anthropic.Anthropic, **more: Any) -> Any:
    return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], **more)


def test_errors_before_the_route_have_the_form_of_the_api() -> None:
    app, _ = application(api_key="secret", rate_limit=1)
    with pytest.raises(anthropic.AuthenticationError) as unknown:
        ask(anthropic_over(app, "wrong"))
    assert unknown.value.type == "authentication_error"
    allowed = anthropic_over(app, "secret")
    ask(allowed)
    with pytest.raises(anthropic.RateLimitError) as limited:
        ask(allowed)
    assert limited.value.type == "rate_limit_error"
    assert int(limited.value.response.headers["retry-after"]) >= 1
    http = application(max_body_bytes=1024)[0].test_client()
    for response, kind in (
        (http.get("/v1/messages/batches"), "not_found_error"),
        (http.get("/v1/messages"), "invalid_request_error"),
        (http.post("/v1/messages", data=b"x" * 1100), "request_too_large"),
        (http.post("/v1/messages", data=b"{"), "invalid_request_error"),
        (http.post("/v1/messages", data=b"{}", headers={"Host": "srb.example"}), "permission_error"),
    ):
        assert read("anthropic.AnthropicError", response.data)["error"]["type"] == kind
        assert read("anthropic.AnthropicError", response.data)["error"]["code"] == response.status_code
    assert "type" not in http.get("/v1/chat").json


def test_the_key_may_be_sent_in_either_header() -> None:
    app, _ = application(api_key="secret")
    http = app.test_client()
    body = orjson.dumps({"messages": [USER], "max_tokens": 5})
    for headers in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"}):
        more = {"anthropic-version": "2023-06-01", "anthropic-beta": "interleaved-thinking-2025-05-14"}
        assert http.post("/v1/messages", data=body, headers=headers | more).status_code == 200
    assert http.post("/v1/messages", data=body, headers={"x-api-key": "secre"}).status_code == 401


def refuses(code: str, **extra: Any) -> Any:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Rejected(command.request_id, code, "no", extra)]

    return script


@pytest.mark.parametrize(
    ("code", "extra", "error", "kind", "words"),
    [
        ("queue_full", {}, "RateLimitError", "rate_limit_error", "no"),
        ("loading", {}, "APIStatusError", "overloaded_error", "no"),
        ("decode_failed", {}, "InternalServerError", "api_error", "no"),
        ("not_supported", {}, "APIStatusError", "invalid_request_error", "no"),
        ("context_exceeded", {"n_prompt_tokens": 9, "n_ctx": 8}, "BadRequestError", "invalid_request_error",
         "prompt is too long: 9 tokens > 8 maximum"),
    ],
)  # fmt: skip
def test_refusals_of_the_engine_have_the_types_of_the_api(
    code: str, extra: dict[str, Any], error: str, kind: str, words: str
) -> None:
    app, _ = application(refuses(code, **extra))
    with pytest.raises(getattr(anthropic, error)) as refused:
        ask(anthropic_over(app))
    assert refused.value.type == kind
    body: Any = refused.value.body
    assert body["error"]["message"] == words


def test_a_client_does_not_send_again_what_is_not_supported() -> None:
    app, engine = application(refuses("not_supported"))
    with pytest.raises(anthropic.APIStatusError):
        ask(anthropic_over(app).with_options(max_retries=3))
    assert len([sent for sent in engine.sent if isinstance(sent, Generate)]) == 1


def test_an_engine_that_is_lost_is_an_error_in_the_stream() -> None:
    def script(command: Generate) -> Iterable[list[Event]]:
        yield [Accepted(command.request_id, 5), Delta(command.request_id, 0, "a", [1])]
        yield [Failed(command.request_id, "engine_restarted", "gone")]

    app, _ = application(script)
    with pytest.raises(anthropic.APIStatusError) as lost, ask(anthropic_over(app), stream=True) as stream:
        list(stream)
    assert lost.value.type == "overloaded_error"


def test_a_tool_choice_whose_type_is_no_string_is_refused() -> None:
    answer = post(serve("x"), tools=[TOOL], tool_choice={"type": ["any"]})
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "tool_choice")


# Blocks that others read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s", "input": {}},
        {"type": "something_new", "text": "x"},
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_block_that_only_its_server_reads_is_skipped(block: dict[str, Any], place: int) -> None:
    said: list[dict[str, Any]] = [{"type": "text", "text": "A"}]
    plain = parsed(messages=[USER, *blocks(*said, role="assistant"), USER]).messages
    mixed = [*said[:place], block, *said[place:]]
    assert parsed(messages=[USER, *blocks(*mixed, role="assistant"), USER]).messages == plain


TEXTS = [
    ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "D"}}, "D"),
    ({"type": "document", "title": "T", "source": {"type": "text", "data": "D"}}, "T\n\nD"),
    ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "D"}]}}, "D"),
    ({"type": "search_result", "title": "T", "source": "u", "content": [{"type": "text", "text": "D"}]}, "T\nu\n\nD"),
    ({"type": "tool_reference", "tool_name": "weather"}, "weather"),
]


@pytest.mark.parametrize(("block", "text"), TEXTS)
def test_a_block_with_text_is_a_text_also_in_a_result(block: dict[str, Any], text: str) -> None:
    assert parsed(messages=blocks(block)).messages[-1]["content"] == [{"type": "text", "text": text}]
    result = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    assert parsed(messages=blocks(result)).messages[-1]["content"] == text


def test_a_picture_of_an_earlier_turn_is_a_text_for_a_model_that_reads_text_only() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [picture]}
    http = serve("a")
    earlier = [*blocks(picture), *blocks(call, role="assistant"), *blocks(result)]
    answered = [*earlier, {"role": "assistant", "content": "A"}, USER]
    assert post(http, messages=answered).status_code == 200
    assert post(http, "/v1/messages/count_tokens", messages=answered).status_code == 200
    for newest in (earlier, [USER, {"role": "assistant", "content": "A"}, *blocks(picture)]):
        answer = post(http, messages=newest)
        assert answer.status_code == 400
        assert answer.json["error"]["param"] == "messages"
