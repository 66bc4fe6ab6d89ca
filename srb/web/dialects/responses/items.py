"""Input items of OpenAI's Responses, as messages, tools and a tool choice of a chat.

All functions raise ValueError with a message that fits after "Field 'x': ".
"""

from collections.abc import Mapping
from typing import Any, cast

from srb.web.bodies.fields import short_json
from srb.web.bodies.unread import leave_out
from srb.web.chat.history import SYSTEMS, as_one
from srb.web.dialects.openai.chat_fields import chat_tool, parse_tool_choice
from srb.web.dialects.openai.conversations import Form, Message, checked, offered, read

Item = Mapping[str, Any]

FORM = Form("input", "item", "{}, part {} of its {}", ("user", "assistant", "system", "developer", "tool", "function"))


def parse_input(value: Any, instructions: str | None) -> list[Message]:
    """Return the messages of a conversation: `instructions` and the body's `input`. Raise what `parse_messages` raises.

    The items of one turn of the assistant (reasoning, messages, calls) become one message. So do the instructions and the
    system's and the developer's messages that follow them, since many templates take one system message at the beginning.
    """
    messages: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    if not isinstance(value, str | list):
        raise ValueError(f"must be a string or a list of items, but got {short_json(value)}")
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, dict) and item.get("type") == "item_reference":
                raise ValueError(
                    f"item {place} refers to an item of an earlier response, but the server keeps no responses and no "
                    "files; send it again in the input"
                )
    for message in [{"role": "user", "content": value}] if isinstance(value, str) else read(value, FORM):
        _add(messages, message)
    return checked(messages)


def _add(messages: list[Message], message: Message) -> None:
    """Append a message, or join it with the last one."""
    last = messages[-1] if messages else None
    is_turn = last is not None and last["role"] == message["role"] == "assistant"
    if last is not None and (is_turn or (len(messages) == 1 and {last["role"], message["role"]} <= set(SYSTEMS))):
        messages[-1] = {**as_one(last, message), "role": last["role"]}
    else:
        messages.append(message)


# Tools ----------------------------------------------------------------------------------------------------------------


def chat_tools(value: Any) -> dict[str, dict[str, Any]]:
    """Return the function tools in the form of chats, also those of a namespace, each with the namespace in its name,
    by what errors call their places.

    Other tools are left out, as in llama-server: Codex sends some of them with every request.
    """
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    tools = {}
    left = []
    for place, tool in enumerate(map(chat_tool, value)):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise ValueError(f'tool {place} must be an object of "type": "function"')
        if tool["type"] == "function":
            tools[f"{place}"] = tool if "function" in tool else {"type": "function", "function": _function(tool)}
        for name, (number, inner) in inside(tool).items():
            tools[f"{place}, its tool {number}"] = {"type": "function", "function": {**_function(inner), "name": name}}
        if tool["type"] not in ("function", "namespace"):
            left.append(tool["type"])
    leave_out("tools", dict.fromkeys(left))
    return tools


def namespaced(tools: Any) -> dict[str, tuple[str, str]]:
    """Return the namespace and the name of each tool that a namespace has, by the name under which it is offered."""
    found = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return {name: (tool["name"], inner["name"]) for tool in found for name, (_, inner) in inside(tool).items()}


def inside(tool: Item) -> dict[str, tuple[int, Item]]:
    """Return the numbered functions of a tool of the type namespace, by the names under which they are offered."""
    inner = tool.get("tools")
    if tool.get("type") != "namespace" or not isinstance(tool.get("name"), str) or not isinstance(inner, list):
        return {}
    functions = [(number, each) for number, each in enumerate(inner) if isinstance(each, dict)]
    return {
        offered(tool["name"], each["name"]): (number, each)
        for number, each in functions
        if each.get("type") == "function" and isinstance(each.get("name"), str)
    }


def offered_choice(choice: dict[str, Any], tools: Any) -> dict[str, Any]:
    """Return a `tool_choice` in which the tools of a namespace have the names under which they are offered.

    A tool may be named with its namespace, or without it if it is the only one of that name; a namespace stands for its
    tools.
    """
    if choice.get("type") == "namespace":
        return {"type": "allowed_tools", "mode": "required", "tools": _named([choice], tools)}
    if choice.get("type") == "function":
        [named] = _named([choice], tools)
        return cast(dict[str, Any], named)
    if isinstance(choice.get("tools"), list):
        return choice | {"tools": _named(choice["tools"], tools)}
    return choice


def _named(chosen: list[Any], tools: Any) -> list[Any]:
    known = namespaced(tools)
    plain = {tool.get("name") for tool in tools if isinstance(tool, dict)} if isinstance(tools, list) else set()
    named: list[Any] = []
    for each in chosen:
        kind, name, space = (
            (each.get(key) for key in ("type", "name", "namespace")) if isinstance(each, dict) else (None, None, None)
        )
        if kind == "namespace":
            named += [{"type": "function", "name": offered} for offered, (within, _) in known.items() if within == name]
            continue
        found = [offered for offered, (within, inner) in known.items() if inner == name and space in (None, within)]
        is_inside = kind == "function" and len(found) == 1 and (space is not None or name not in plain)
        named.append({"type": "function", "name": found[0]} if is_inside else each)
    return named


def _function(tool: Item) -> dict[str, Any]:
    return {name: part for name, part in tool.items() if name != "type" and part is not None}


def chat_tool_choice(value: Any) -> str:
    """Return the choice in the form of ChatBody; raise ValueError."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in ("function", "tool", "allowed_tools", "auto", "any", "none", "required"):
        raise ValueError(f"asks for a tool of type {short_json(kind)}, which the server does not run")
    return parse_tool_choice(value)
