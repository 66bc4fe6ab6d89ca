"""Chats whose thoughts are hidden, left in the text, or ended while they are written, in every dialect that has them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.errors import Conflict, NotFound, bad_field
from srb.wire.commands import EndReasoning, Generate
from tests.scripted import ScriptedClient
from tests.shapes import read
from tests.unit.test_web_chat import CALL, THOUGHT, TOOL, USER, deltas, post, serve, writes

CONTROL = "/v1/chat/completions/control"


def sent(engine: ScriptedClient) -> Generate:
    (command,) = (each for each in engine.sent if isinstance(each, Generate))
    return command


# Hidden ---------------------------------------------------------------------------------------------------------------

HIDING: list[dict[str, Any]] = [{"reasoning": {"exclude": True}}, {"include_reasoning": False}]


@pytest.mark.parametrize("reasoning_format", ["auto", "none", "deepseek-legacy"])
@pytest.mark.parametrize("body", HIDING)
def test_hidden_thoughts_are_nowhere_in_an_answer(body: dict[str, Any], reasoning_format: str) -> None:
    http, engine = serve(writes(*THOUGHT))
    answer = post(http, n=2, reasoning_format=reasoning_format, **body)
    read("openai.ChatCompletion", answer.data)
    for choice in answer.json["choices"]:
        assert choice["message"] == {"role": "assistant", "content": "Yes.", "refusal": None}
    assert answer.json["usage"]["completion_tokens"] == 2 * len(THOUGHT)
    between, _ = deltas(post(http, stream=True, reasoning_format=reasoning_format, **body))
    assert between == [{"content": "Yes"}, {"content": "."}]
    assert {each.branches[0].sampling.reasoning_budget_tokens for each in engine.sent} == {-1}  # it thinks all the same


def test_calls_after_hidden_thoughts_are_calls() -> None:
    http, _ = serve(writes("<think>Hm</think>", *CALL))
    (choice,) = post(http, tools=[TOOL], include_reasoning=False).json["choices"]
    assert (choice["finish_reason"], "reasoning_content" in choice["message"]) == ("tool_calls", False)
    between, _ = deltas(post(http, tools=[TOOL], include_reasoning=False, stream=True))
    assert {name for delta in between for name in delta} == {"tool_calls"}


@pytest.mark.parametrize(
    ("path", "body", "kinds"),
    [
        ("/v1/responses", {"input": "Hi"}, ["message"]),
        ("/v1/messages", {"messages": [USER], "max_tokens": 9}, ["text"]),
    ],
)
def test_hidden_thoughts_are_no_item_and_no_block_but_counted(
    path: str, body: dict[str, Any], kinds: list[str]
) -> None:
    http, _ = serve(writes(*THOUGHT))
    answer = http.post(path, data=orjson.dumps({**body, "include_reasoning": False})).json
    assert [part["type"] for part in answer.get("output", answer.get("content"))] == kinds
    details = answer["usage"]["output_tokens_details"]
    assert 0 < next(iter(details.values())) < len(THOUGHT)
    streamed = http.post(path, data=orjson.dumps({**body, "include_reasoning": False, "stream": True})).text
    assert "Hm" not in streamed
    assert "Yes" in streamed


# Left in the text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "body", "kept"),
    [
        (True, {}, True),
        (False, {}, False),
        (False, {"chat_template_kwargs": {"preserve_reasoning": True}}, True),
        (True, {"chat_template_kwargs": {"preserve_reasoning": False}}, False),
    ],
)
def test_past_thoughts_are_kept_by_the_setting_or_the_request(setting: bool, body: dict[str, Any], kept: bool) -> None:
    template = "{{ preserve_thinking }} {{ clear_thinking }}"
    http, engine = serve(
        chat_template=template, chat_template_kwargs=orjson.dumps({"preserve_reasoning": setting}).decode()
    )
    post(http, **body)
    assert sent(engine).prompt == (f"{kept} {not kept}",)


@pytest.mark.parametrize("name", ["thinking_budget", "thinking_token_budget"])
def test_a_budget_has_the_names_that_clients_send(name: str) -> None:
    http, engine = serve()
    post(http, **{name: 5})
    assert sent(engine).branches[0].sampling.reasoning_budget_tokens == 5


# Ended ----------------------------------------------------------------------------------------------------------------


def control(http: FlaskClient, **body: Any) -> Any:
    answer = http.post(CONTROL, data=orjson.dumps({"id": "chatcmpl-abc", "action": "reasoning_end", **body}))
    if answer.status_code == 200:
        read("openai.Controlled", answer.data)
    return answer


def test_a_request_says_whether_its_reasoning_may_be_ended() -> None:
    http, engine = serve()
    post(http, n=2, reasoning_control=True, reasoning_budget_message="Enough.")
    post(http)
    controlled, free = (command.branches[0].sampling for command in engine.sent)
    assert (controlled.reasoning_control, controlled.reasoning_budget_tokens) == (True, -1)
    assert (controlled.reasoning_tags, controlled.reasoning_budget_message) == (("<think>", "</think>"), "Enough.")
    assert (free.reasoning_control, free.reasoning_tags) == (False, ())
    refused = post(http, explore={}, reasoning_control=True)
    assert (refused.status_code, refused.json["error"]["param"]) == (400, "reasoning_control")


def test_text_between_tags_may_be_controlled_as_well() -> None:
    http, engine = serve()
    body = {"prompt": "x", "reasoning_budget_end_tag": "</t>", "reasoning_control": True}
    http.post("/completion", data=orjson.dumps(body))
    sampling = sent(engine).branches[0].sampling
    assert (sampling.reasoning_control, sampling.reasoning_tags) == (True, ("", "</t>"))
    assert http.post("/completion", data=orjson.dumps({**body, "explore": {}})).status_code == 400


@pytest.mark.parametrize("prefix", ["chatcmpl-", "cmpl-", "resp_", "msg_", ""])
def test_a_control_reaches_the_request_of_an_answers_id(prefix: str) -> None:
    http, engine = serve()
    assert control(http, id=f"{prefix}abc").json == {"success": True, "branches": [0]}
    assert control(http, id=f"{prefix}abc", index=2, model="any").json == {"success": True, "branches": [2]}
    commands = [command for command in engine.sent if isinstance(command, EndReasoning)]
    assert [(command.target, command.index) for command in commands] == [("abc", None), ("abc", 2)]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NotFound("the request has ended"), "no active completion for this id"),
        (
            Conflict("reasoning control not enabled for this completion"),
            "reasoning control not enabled for this completion",
        ),
    ],
)
def test_a_control_without_effect_says_why(error: Exception, message: str) -> None:
    http, engine = serve()
    engine.answers = raising(error)
    answer = control(http)
    assert (answer.status_code, answer.json) == (200, {"success": False, "message": message})


@pytest.mark.parametrize(
    ("body", "param"),
    [({"id": ""}, "id"), ({"id": None}, "id"), ({"action": "reasoning_begin"}, "action"), ({"index": -1}, "index")],
)
def test_a_bad_control_is_400_and_names_the_field(body: dict[str, Any], param: str) -> None:
    http, engine = serve()
    answer = control(http, **body)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, param)
    assert not engine.sent
    engine.answers = raising(bad_field("index", "the request has 1 branches"))
    answer = control(http, index=7)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "index")


def raising(error: Exception) -> Any:
    def answers(*_: Any) -> Any:
        raise error

    return answers


def test_only_the_key_that_made_a_request_controls_it() -> None:
    http, engine = serve(api_key="one,two")
    headers = {"Authorization": "Bearer two"}
    http.post(CONTROL, data=orjson.dumps({"id": "abc", "action": "reasoning_end"}), headers=headers)
    command = engine.sent[-1]
    assert isinstance(command, EndReasoning)
    assert command.owner
