"""Histories as servers and clients leave them, through every chat template: a conversation can always go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from srb.config.settings import Settings
from srb.errors import InvalidRequest
from srb.web.chat.template import NAMED_TEMPLATES
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.ollama.body import Chat, OllamaChatBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.responses.body import ResponsesBody
from tests.scripted import MODEL
from tests.unit import chat_templates as wild
from tests.walks import examples
from tools.chat_templates import FOLDER

Message = dict[str, Any]

SOURCES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}
SOURCES |= {name: source for name, source in vars(wild).items() if name.isupper() and isinstance(source, str)}
SOURCES |= NAMED_TEMPLATES

texts = st.sampled_from(["Hello", "Go on.", "", None])
arguments = st.sampled_from(
    ['{"city":"Oslo"}', '{"path": "a', "null", '{"a":1}{"a":2}', None, "", "[1]", "3", '"x"', {"city": "Oslo"}]
)
names = st.sampled_from(["weather", "other"])
ids = st.sampled_from(["c1", "call_long_0123456789", "functions.weather:0", "abcdefghi"])
calls = st.fixed_dictionaries({"id": ids, "name": names, "arguments": arguments})
messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user", "user"]), "content": texts}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": texts, "calls": st.none() | st.lists(calls, max_size=3),
         "refusal": st.sampled_from([None, None, "Never."]), "thought": st.sampled_from([None, "", "hm"])}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": texts, "id": ids}),
)  # fmt: skip
histories = st.lists(messages, min_size=1, max_size=6)
OBJECT = {
    "type": "object",
    "properties": {"a": {"type": ["string", "null"]}, "b": {"description": "any"}, "c": {"enum": [1]}},
}
tools = st.lists(
    st.fixed_dictionaries(
        {"name": names}, optional={
            "description": st.sampled_from(["d", None]),
            "parameters": st.sampled_from([None, {}, {"type": "object"}, OBJECT]),
        },
    ),
    max_size=2, unique_by=lambda tool: tool["name"],
)  # fmt: skip


def chat(history: list[Message], offered: list[Message]) -> ChatBody:
    made = []
    for message in history:
        one: Message = {"role": message["role"], "content": message["content"], "refusal": message.get("refusal")}
        if message["role"] == "assistant":
            one["reasoning_content"] = message["thought"]
            one["tool_calls"] = message["calls"] and [
                {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
                for call in message["calls"]
            ]
        elif message["role"] == "tool":
            one["tool_call_id"] = message["id"]
        made.append(one)
    return ChatBody.parse({"messages": made, "tools": [{"type": "function", "function": tool} for tool in offered]})


def anthropic(history: list[Message], offered: list[Message]) -> ChatBody:
    made = []
    for message in history:
        role = {"developer": "system", "tool": "user"}.get(message["role"], message["role"])
        blocks: list[Message] = [{"type": "text", "text": message["content"]}] if message["content"] else []
        if message["role"] == "tool":
            blocks = [{"type": "tool_result", "tool_use_id": message["id"], "content": message["content"]}]
        if message.get("thought"):
            blocks.insert(0, {"type": "thinking", "thinking": message["thought"], "signature": ""})
        for call in message.get("calls") or ():
            blocks.append({"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]})
        made.append({"role": role, "content": blocks or message["content"]})
    named = [{"name": tool["name"], "input_schema": tool.get("parameters") or {}} for tool in offered]
    return MessagesBody.parse({"messages": made, "tools": named})


def responses(history: list[Message], offered: list[Message]) -> ChatBody:
    items: list[Message] = []
    for message in history:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["id"], "output": message["content"]})
            continue
        if message.get("thought"):
            items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": message["thought"]}]})
        content: Any = message["content"]
        if message.get("refusal"):
            content = [{"type": "refusal", "refusal": message["refusal"]}]
        items.append({"role": message["role"], "content": content})
        for call in message.get("calls") or ():
            given = (
                call["arguments"] if isinstance(call["arguments"], str) else orjson.dumps(call["arguments"]).decode()
            )
            items.append({"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": given})
    return ResponsesBody.parse({"input": items, "tools": [{"type": "function", **tool} for tool in offered]})


def ollama(history: list[Message], offered: list[Message]) -> ChatBody:
    made = []
    for message in history:
        one: Message = {"role": message["role"], "content": message["content"], "thinking": message.get("thought")}
        if message.get("calls") is not None:
            one["tool_calls"] = [
                {"function": {"name": call["name"], "arguments": call["arguments"]}} for call in message["calls"]
            ]
        made.append(one)
    body = OllamaChatBody.parse(
        {"messages": made, "tools": [{"type": "function", "function": tool} for tool in offered]}
    )
    checked = body.check(Settings())
    assert isinstance(checked, Chat)
    return checked.body


DIALECTS: list[Callable[[list[Message], list[Message]], ChatBody]] = [chat, anthropic, responses, ollama]


@pytest.mark.parametrize("name", SOURCES)
@settings(
    max_examples=examples(12), deadline=None, derandomize=True, database=None,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(history=histories, offered=tools, dialect=st.sampled_from(DIALECTS))
def test_no_template_ends_a_conversation(
    name: str,
    history: list[Message],
    offered: list[Message],
    dialect: Callable[[list[Message], list[Message]], ChatBody],
) -> None:
    body, model = dialect(history, offered), replace(MODEL, chat_template=SOURCES[name])
    if any(message["content"] for message in history if message["role"] in ("user", "tool")):
        assert body.render(Settings(), model).text
        return
    with suppress(InvalidRequest):  # a history that says nothing may have an empty prompt
        assert body.render(Settings(), model).text
