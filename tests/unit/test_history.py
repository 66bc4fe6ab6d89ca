"""What strict templates refuse, in every chat dialect: it is rendered in a form that they take, each text at its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.ollama.body import Chat, OllamaChatBody
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.responses.body import ResponsesBody
from tests.scripted import MODEL

Message = dict[str, Any]

# Templates that do as published ones do.
ONE_CALL = (
    "{% for m in messages %}{% if 'tool_calls' in m and m.tool_calls|length != 1 %}{{ raise_exception('one call only') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
SYSTEM_FIRST = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}"
)
THROUGH_ARGUMENTS = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for call in m.tool_calls or [] %}{{ call.function.name }}"
    "{% for k, v in call.function.arguments|items %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}"
)
ARGUMENTS_AS_JSON = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for call in m.tool_calls or [] %}{{ call.function.name }}"
    "{{ call.function.arguments | tojson }}{% endfor %}{% endfor %}"
)
THROUGH_PROPERTIES = (
    "{% for t in tools %}{{ t.function.name }}:{{ t.function.description | trim }}:"
    "{% for k, v in t.function.parameters.properties|items %}{{ k }}{% endfor %}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)
TAKING_TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}"
    "{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"
)
SHOWN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def said(role: str, content: Any, **more: Any) -> Message:
    return {"role": role, "content": content, **more}


def called(arguments: Any) -> Message:
    return {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}


def chats(messages: list[Message], tools: list[Message]) -> ChatBody:
    return ChatBody.parse({"messages": messages, "tools": [{"type": "function", "function": tool} for tool in tools]})


def ollama(messages: list[Message], tools: list[Message]) -> ChatBody:
    body = OllamaChatBody.parse(
        {"messages": messages, "tools": [{"type": "function", "function": tool} for tool in tools]}
    )
    checked = body.check(Settings())
    assert isinstance(checked, Chat)
    return checked.body


def anthropic(messages: list[Message], tools: list[Message]) -> ChatBody:
    made = []
    for message in messages:
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            made.append(said("user", [result]))
        elif "tool_calls" in message:
            blocks = [
                {"type": "tool_use", "id": call["id"], "name": "f", "input": call["function"]["arguments"]}
                for call in message["tool_calls"]
            ]
            made.append(said("assistant", blocks or message["content"]))
        else:
            made.append(message)
    return MessagesBody.parse({"messages": made, "tools": [{**tool, "input_schema": {}} for tool in tools]})


def responses(messages: list[Message], tools: list[Message]) -> ChatBody:
    items: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            items.append(
                {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            )
            continue
        if message["content"] is not None or "tool_calls" not in message:
            items.append(said(message["role"], message["content"]))
        for call in message.get("tool_calls") or ():
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return ResponsesBody.parse({"input": items, "tools": [{"type": "function", **tool} for tool in tools]})


DIALECTS = [chats, ollama, anthropic, responses]


@pytest.fixture(params=DIALECTS)
def prompt(request: pytest.FixtureRequest) -> Callable[..., str]:
    def render(source: str, *messages: Message, tools: tuple[Message, ...] = ()) -> str:
        body = request.param(list(messages), list(tools))
        return str(body.render(Settings(), replace(MODEL, chat_template=source)).text)

    return render


ASKED = said("user", "Go.")
RESULT = said("tool", "done", tool_call_id="a")


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_message_without_content_is_an_empty_one(prompt: Callable[..., str], role: str) -> None:
    assert prompt(SHOWN, ASKED, said(role, None), ASKED) == f"<user>Go.<{role}><user>Go."


def test_a_result_without_content_is_an_empty_one(prompt: Callable[..., str]) -> None:
    history = [ASKED, said("assistant", None, tool_calls=[called("{}")]), {**RESULT, "content": None}]
    assert prompt(THROUGH_ARGUMENTS, *history) == "[user]Go.[assistant]f[tool]"


@pytest.mark.parametrize("calls", [[], None])
def test_an_empty_list_of_calls_is_none(calls: Any) -> None:
    for dialect in (chats, ollama):
        body = dialect([ASKED, said("assistant", "Hm.", tool_calls=calls), ASKED], [])
        text = body.render(Settings(), replace(MODEL, chat_template=ONE_CALL)).text
        assert text == "[user]Go.[assistant]Hm.[user]Go."


@pytest.mark.parametrize(
    ("messages", "rendered"),
    [
        ([said("system", "A"), ASKED, said("assistant", "B"), said("system", "C"), ASKED],
         "<system>A<user>Go.<assistant>B<user>C\n\nGo."),
        ([said("system", "A"), said("system", "B"), ASKED], "<system>A\n\nB<user>Go."),
        ([ASKED, said("system", "A"), said("assistant", "B"), ASKED], "<user>Go.<user>A<assistant>B<user>Go."),
        ([ASKED, said("assistant", "B"), said("system", "A")], "<user>Go.<assistant>B<user>A"),
    ],
)  # fmt: skip
def test_a_system_message_that_is_refused_becomes_a_part_of_the_users_at_its_place(
    prompt: Callable[..., str], messages: list[Message], rendered: str
) -> None:
    assert prompt(SYSTEM_FIRST, *messages) == rendered


def test_a_template_that_takes_late_system_messages_gets_them(prompt: Callable[..., str]) -> None:
    assert prompt(SHOWN, ASKED, said("system", "A"), ASKED) == "<user>Go.<system>A<user>Go."


@pytest.mark.parametrize("source", [SYSTEM_FIRST, TAKING_TURNS])
def test_the_next_turns_prompt_begins_with_this_one_in_a_stricter_form(prompt: Callable[..., str], source: str) -> None:
    history = [ASKED, said("assistant", "B"), said("system", "C"), ASKED, said("assistant", "D"), ASKED]
    grown = [prompt(source, *history[:length]) for length in (1, 4, 6)]
    assert all(later.startswith(before) for before, later in pairwise(grown))


@pytest.mark.parametrize("arguments", ['{"path": "a', '{"a":1}{"a":2}', '"x"', "[1]"])
def test_a_call_that_was_cut_off_stays_as_text_or_without_arguments(prompt: Callable[..., str], arguments: str) -> None:
    history = [ASKED, said("assistant", None, tool_calls=[called(arguments)]), RESULT]
    assert prompt(THROUGH_ARGUMENTS, *history) == "[user]Go.[assistant]f[tool]done"
    escaped = arguments.replace('"', '\\"')
    assert prompt(ARGUMENTS_AS_JSON, *history) == f'[user]Go.[assistant]f"{escaped}"[tool]done'


@pytest.mark.parametrize("arguments", ["null", None, "", "{}"])
def test_a_call_without_arguments_has_an_empty_object(prompt: Callable[..., str], arguments: Any) -> None:
    history = [ASKED, said("assistant", None, tool_calls=[called(arguments)]), RESULT]
    assert prompt(THROUGH_ARGUMENTS, *history) == "[user]Go.[assistant]f[tool]done"
    assert prompt(ARGUMENTS_AS_JSON, *history) == "[user]Go.[assistant]f{}[tool]done"


@pytest.mark.parametrize(
    "tool", [{"name": "f"}, {"name": "f", "description": None, "parameters": None}, {"name": "f", "parameters": {}}]
)
def test_a_tool_has_a_description_and_parameters_for_its_template(prompt: Callable[..., str], tool: Message) -> None:
    assert prompt(THROUGH_PROPERTIES, ASKED, tools=(tool,)) == "f::Go."


def test_roles_take_turns_where_a_template_wants_it(prompt: Callable[..., str]) -> None:
    greeting, answer = said("assistant", "Hello!"), said("assistant", "B")
    assert prompt(TAKING_TURNS, greeting, ASKED) == "<user><assistant>Hello!<user>Go."
    assert prompt(TAKING_TURNS, ASKED, ASKED, answer, answer, ASKED) == ("<user>Go.\n\nGo.<assistant>B\n\nB<user>Go.")


def test_calls_and_results_are_text_where_a_template_takes_none(prompt: Callable[..., str]) -> None:
    text = prompt(TAKING_TURNS, ASKED, said("assistant", None, tool_calls=[called('{"a": 1}')]), RESULT)
    assert text.startswith("<user>Go.<assistant>")
    assert '"name": "f"' in text
    assert text.endswith("<user><tool_response>\ndone\n</tool_response>")


def chat_prompt(*messages: Message, source: str = SHOWN) -> str:
    return chats(list(messages), []).render(Settings(), replace(MODEL, chat_template=source)).text


@pytest.mark.parametrize(
    "refusing",
    [
        said("assistant", [{"type": "refusal", "refusal": "Never."}]),
        said("assistant", None, refusal="Never."),
        {"role": "assistant", "refusal": "Never."},
    ],
)
def test_a_refusal_is_what_the_assistant_said(refusing: Message) -> None:
    assert chat_prompt(ASKED, refusing, ASKED) == "<user>Go.<assistant>Never.<user>Go."


def test_functions_of_2023_are_tools_in_a_history() -> None:
    calling = said("assistant", None, function_call={"name": "f", "arguments": '{"a": 1}'})
    history = [ASKED, calling, said("function", "done", name="f")]
    assert chat_prompt(*history, source=THROUGH_ARGUMENTS) == "[user]Go.[assistant]fa=1;[tool]done"


def test_several_last_messages_of_the_assistant_are_continued_as_one() -> None:
    history = [ASKED, said("assistant", "A"), said("assistant", "B")]
    assert chat_prompt(*history) == "<user>Go.A\n\nB"
