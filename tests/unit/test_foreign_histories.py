"""Histories that another program kept: messages, calls, results, pictures and tools of each dialect in each one's body."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.ollama.body import OllamaChatBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.responses.body import ResponsesBody
from tests.media import b64, png

PNG = b64(png(seed=1))
URL = f"data:image/png;base64,{PNG}"
USER, AFTER = {"role": "user", "content": "Ask."}, {"role": "user", "content": "And?"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def chat(history: list[Any], **fields: Any) -> Any:
    return ChatBody.parse({"messages": history, **fields})


def messages(history: list[Any], **fields: Any) -> Any:
    return MessagesBody.parse({"messages": history, "max_tokens": 5, **fields})


def responses(history: list[Any], **fields: Any) -> Any:
    return ResponsesBody.parse({"input": history, **fields})


def ollama(history: list[Any], **fields: Any) -> Any:
    asked: Any = OllamaChatBody(messages=history, **fields).check(Settings())
    return asked.body


DIALECTS = [chat, messages, responses, ollama]


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def said(role: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts), **fields}


# The same turn, a thought, a text, a call and its result, as each program keeps it.
TURNS = {
    "openai": [
        {
            "role": "assistant", "content": "I look.", "reasoning_content": "hm",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "sky", "arguments": '{"city":"Oslo"}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
    ],
    "anthropic": [
        said(
            "assistant",
            part("thinking", thinking="hm", signature="x"),
            part("redacted_thinking", data="x"),
            part("text", text="I look."),
            part("tool_use", id="a", name="sky", input={"city": "Oslo"}),
        ),
        said("user", part("tool_result", tool_use_id="a", content=[part("text", text="rain")])),
    ],
    "responses": [
        part("reasoning", summary=[part("summary_text", text="hm")], encrypted_content="x"),
        part("message", role="assistant", content=[part("output_text", text="I look.")]),
        part("function_call", id="fc_1", call_id="a", name="sky", arguments='{"city":"Oslo"}'),
        part("function_call_output", call_id="a", output="rain"),
    ],
    "ollama": [
        {
            "role": "assistant", "content": "I look.", "thinking": "hm",
            "tool_calls": [{"function": {"name": "sky", "arguments": {"city": "Oslo"}}}],
        },
        {"role": "tool", "tool_name": "sky", "content": "rain"},
    ],
    "ai-sdk": [
        said(
            "assistant",
            part("reasoning", text="hm"),
            part("text", text="I look."),
            part("tool-call", toolCallId="a", toolName="sky", input={"city": "Oslo"}),
        ),
        said("tool", part("tool-result", toolCallId="a", toolName="sky", output=part("text", value="rain"))),
    ],
    "openai-custom": [
        {
            "role": "assistant", "content": "I look.", "reasoning": "hm",
            "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sky", "input": "Oslo"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": [part("text", text="rain")]},
    ],
    "2023": [
        {
            "role": "assistant", "content": "I look.", "thinking": "hm",
            "function_call": {"name": "sky", "arguments": '{"city":"Oslo"}'},
        },
        {"role": "function", "name": "sky", "content": "rain"},
    ],
}  # fmt: skip


def words(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content or ())


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("parse", DIALECTS)
def test_a_turn_with_a_call_is_read_in_every_form_by_every_dialect(parse: Any, name: str) -> None:
    asked, *made, after = parse([USER, *TURNS[name], AFTER]).messages
    assert (words(asked["content"]), words(after["content"])) == ("Ask.", "And?")
    assert "".join(each.get("reasoning_content", "") for each in made) == "hm"
    assert [(each["role"], words(each.get("content"))) for each in made if words(each.get("content"))] == [
        ("assistant", "I look."),
        ("tool", "rain"),
    ]
    [call] = [call for each in made for call in each.get("tool_calls", ())]
    assert call["function"]["name"] == "sky"
    assert "Oslo" in str(call["function"]["arguments"])
    assert made[-1]["tool_call_id"] == call["id"]


PICTURES = {
    "chats": said("user", part("text", text="Look"), part("image_url", image_url={"url": URL})),
    "url alone": said("user", part("text", text="Look"), part("image_url", image_url=URL)),
    "responses": said("user", part("input_text", text="Look"), part("input_image", image_url=URL)),
    "anthropic": said(
        "user",
        part("text", text="Look"),
        part("image", source={"type": "base64", "media_type": "image/png", "data": PNG}),
    ),
    "ai-sdk": said("user", part("text", text="Look"), part("image", image=URL)),
    "ollama": {"role": "user", "content": "Look", "images": [PNG]},
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("parse", DIALECTS)
def test_a_picture_is_read_in_every_form_by_every_dialect(parse: Any, name: str) -> None:
    [message] = parse([PICTURES[name]]).messages
    assert {each["type"] for each in message["content"]} == {"text", "media_marker"}
    [picture] = [each for each in message["content"] if each["type"] == "media_marker"]
    assert picture["url"].endswith(PNG)


LEFT = [
    said("assistant", part("redacted_thinking", data="x"), part("text", text="A")),
    said("assistant", part("server_tool_use", id="s", name="web", input={}), part("text", text="A")),
    said("assistant", part("hologram", x=1), "A"),
    said("assistant", part("reasoning", summary=[]), part("text", text="A")),
]


@pytest.mark.parametrize("message", LEFT, ids=lambda message: message["content"][0]["type"])
@pytest.mark.parametrize("parse", DIALECTS)
def test_what_nobody_here_reads_is_left_out_and_told_in_the_log(
    parse: Any, message: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.web")
    _, answer, _ = parse([USER, message, AFTER]).messages
    assert words(answer["content"]) == "A"
    assert f'left out of a conversation: 1 "{message["content"][0]["type"]}"' in caplog.text


def test_the_log_tells_few_kinds_and_no_line_of_a_clients(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "srb.web")
    chat([USER, said("assistant", *(part(f"x{number}\n" + "y" * 99) for number in range(50))), AFTER])
    [line] = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert "\n" not in line
    assert len(line) < 500


@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize("parse", DIALECTS)
def test_a_call_or_a_thought_of_another_than_the_assistant_ends_no_conversation(parse: Any, role: str) -> None:
    parts = part("tool_use", id="a", name="f", input={}), part("thinking", thinking="x"), part("text", text="T")
    [message, _] = parse([said(role, *parts), AFTER]).messages
    assert words(message["content"]) == "T"
    assert not message.keys() & {"tool_calls", "reasoning_content"}


def test_results_without_an_id_belong_to_the_calls_in_their_order() -> None:
    calls = [{"function": {"name": name, "arguments": {}}} for name in "fg"]
    told = [{"role": "tool", "content": name} for name in "fg"]
    _, called, first, second = chat([USER, {"role": "assistant", "tool_calls": calls}, *told]).messages
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in called["tool_calls"]]
    items = [part("function_call", name=name, arguments="{}") for name in "fg"]
    outputs = [part("function_call_output", output=name) for name in "fg"]
    _, called, first, second = responses([USER, *items, *outputs]).messages
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in called["tool_calls"]]


TOOLS = {
    "chats": {"type": "function", "function": {"name": "sky", "description": "D", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "sky", "description": "D", "parameters": SCHEMA},
    "anthropic": {"name": "sky", "description": "D", "input_schema": SCHEMA},
    "anthropic's type": {"type": "custom", "name": "sky", "description": "D", "input_schema": SCHEMA},
}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("parse", DIALECTS)
def test_a_tool_is_read_in_every_form_by_every_dialect(parse: Any, name: str) -> None:
    [tool] = parse([USER], tools=[TOOLS[name]]).tools
    assert tool == TOOLS["chats"]


@pytest.mark.parametrize("parse", [chat, messages, responses])
@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("required", "required"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        ({"type": "tool", "name": "sky"}, "=sky"),
        ({"type": "function", "name": "sky"}, "=sky"),
        ({"type": "function", "function": {"name": "sky"}}, "=sky"),
    ],
)
def test_a_tool_choice_is_read_in_every_form(parse: Any, choice: Any, read: str) -> None:
    assert parse([USER], tools=[TOOLS["chats"]], tool_choice=choice).tool_choice == read
