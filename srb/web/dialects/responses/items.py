"""Input items of OpenAI's Responses, as messages, tools and a tool choice of a chat.

All functions raise ValueError with a message that fits after "Field 'x': ".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import orjson

from srb.web.bodies.fields import short_json
from srb.web.chat.history import SYSTEMS, as_one
from srb.web.chat.media import PlacedPart, UnreadPart
from srb.web.dialects.openai.chat_fields import parse_tool_choice
from srb.web.loop.yielding import yielding

Message = dict[str, Any]
Item = Mapping[str, Any]

ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")
_MEDIA_PARTS = ("input_image", "input_audio", "input_file")
_NOT_KEPT = "the server keeps no responses and no files; send it again in the input"


def chat_messages(value: Any, instructions: str | None) -> list[Message]:
    """Return the messages of a conversation: `instructions` and the body's `input`.

    The items of one turn of the assistant (reasoning, messages, calls) become one message. So do the instructions and the
    system's and the developer's messages that follow them, since many templates take one system message at the beginning.
    """
    messages = [_message("system", instructions)] if instructions else []
    if isinstance(value, str):
        return [*messages, _message("user", value)]
    if not isinstance(value, list):
        raise ValueError(f"must be a string or a list of items, but got {short_json(value)}")
    for place, item in yielding(enumerate(value)):
        _add(messages, _converted(f"item {place}", item))
    if not messages:
        raise ValueError("must not be empty")
    return messages


def _message(role: str, content: Any) -> Message:
    return {"role": role, "content": content}


def _converted(where: str, item: Any) -> Message | None:
    if not isinstance(item, dict):
        raise ValueError(f"{where} must be an object, but got {short_json(item)}")
    kept = {name: part for name, part in item.items() if part is not None}
    kind = kept.get("type", "message" if "role" in kept else None)
    if isinstance(kind, str) and kind in _ITEMS:
        return _ITEMS[kind](where, kept)
    if kind == "item_reference":
        raise ValueError(f"{where} refers to an item of an earlier response, but {_NOT_KEPT}")
    if isinstance(kind, str):
        return _of_other_tool(where, kind, kept)
    raise ValueError(f"{where} must have a 'role' or a 'type'; {_KNOWN}")


def _of_message(where: str, item: Item) -> Message:
    if item.get("role") not in ROLES:
        raise ValueError(f"{where}: 'role' must be one of {', '.join(ROLES)}")
    return _message(item["role"], _content(where, "content", item.get("content", "")))


def _of_call(where: str, item: Item) -> Message:
    for name in ("call_id", "name"):
        if not isinstance(item.get(name), str):
            raise ValueError(f"{where}: '{name}' must be a string")
    namespace = item.get("namespace")
    name = _offered(namespace, item["name"]) if isinstance(namespace, str) and namespace else item["name"]
    function = {"name": name, "arguments": item.get("arguments")}
    return {"role": "assistant", "tool_calls": [{"id": item["call_id"], "type": "function", "function": function}]}


def _of_output(where: str, item: Item) -> Message:
    if not isinstance(item.get("call_id"), str):
        raise ValueError(f"{where}: 'call_id' must be a string")
    content = _content(where, "output", item.get("output", ""))
    return {**_message("tool", content), "tool_call_id": item["call_id"]}


def _of_reasoning(where: str, item: Item) -> Message | None:
    """Return the reasoning's text, else its summary; None without either, as if its text was encrypted elsewhere."""
    for name in ("content", "summary"):
        parts = item.get(name, [])
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise ValueError(f"{where}: '{name}' must be a list of parts")
        texts = [part.get("text") for part in parts]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where}: a part of its '{name}' must have a 'text'")
        if any(texts):
            return {"role": "assistant", "reasoning_content": "\n\n".join(filter(None, texts))}
    return None


def _of_other_tool(where: str, kind: str, item: Item) -> Message | None:
    """Return a call of a tool that OpenAI's servers or their clients run, or its result; None for an item of another kind.

    Such items stand in histories that were begun elsewhere. One without a `call_id` has no result that the model could read.
    """
    if not isinstance(item.get("call_id"), str):
        return None
    if kind.endswith("_output"):
        output = item.get("output", item.get("tools", ""))
        if isinstance(output, dict) and isinstance(output.get("image_url"), str):
            output = [{"type": "input_image", "image_url": output["image_url"]}]
        is_content = isinstance(output, str) or (isinstance(output, list) and all(map(_is_part, output)))
        return _of_output(where, {**item, "output": output if is_content else _json(where, output)})
    if not kind.endswith("_call"):
        return None
    name = item.get("name", kind.removesuffix("_call"))
    given = item.get("arguments", item.get("action", {"input": item["input"]} if "input" in item else {}))
    return _of_call(
        where, {**item, "name": name, "arguments": given if isinstance(given, str) else _json(where, given)}
    )


def _json(where: str, value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        raise ValueError(f"{where} is nested too deeply") from None


_ITEMS: dict[Any, Callable[[str, Item], Message | None]] = {
    "message": _of_message,
    "function_call": _of_call,
    "function_call_output": _of_output,
    "reasoning": _of_reasoning,
}
_KNOWN = f"supported are {', '.join(_ITEMS)}"


def _content(where: str, name: str, value: Any) -> Any:
    """Return a text or a list of parts, in the form of chats."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError(f"{where}: '{name}' must be a string or a list of parts")
    return [_part(f"{where}, part {number} of its {name}", part) for number, part in enumerate(value)]


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in (*_TEXT_PARTS, *_MEDIA_PARTS)


def _part(where: str, part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind == "input_image":
        if part.get("file_id"):
            return UnreadPart({"type": "input_image with a file_id"}, where)
        if not isinstance(part.get("image_url"), str):
            raise ValueError(f"{where}: the 'image_url' of an image must be a string")
        return PlacedPart({"type": "image_url", "image_url": {"url": part["image_url"]}}, where)
    if kind in _MEDIA_PARTS:
        return PlacedPart(part, where)  # for the chat's parser: it knows what the server can read
    raise ValueError(f'{where} must be {{"type": "input_text", "text": "…"}}')


def _add(messages: list[Message], message: Message | None) -> None:
    """Append a message, or join it with the last one."""
    if message is None:
        return
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
    for place, tool in enumerate(value):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise ValueError(f'tool {place} must be an object of "type": "function"')
        if tool["type"] == "function":
            tools[f"{place}"] = {"type": "function", "function": _function(tool)}
        for name, (number, inner) in inside(tool).items():
            tools[f"{place}, its tool {number}"] = {"type": "function", "function": {**_function(inner), "name": name}}
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
        _offered(tool["name"], each["name"]): (number, each)
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


def _offered(namespace: str, name: str) -> str:
    return namespace + ("" if namespace.endswith("__") else "__") + name


def _function(tool: Item) -> dict[str, Any]:
    return {name: part for name, part in tool.items() if name != "type" and part is not None}


def chat_tool_choice(value: Any) -> str:
    """Return the choice in the form of ChatBody; raise ValueError."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "function" and isinstance(value.get("name"), str):
        return f"={value['name']}"
    if isinstance(kind, str) and kind not in ("function", "allowed_tools"):
        raise ValueError(f"asks for a tool of type {short_json(kind)}, which the server does not run")
    try:
        return parse_tool_choice(value)
    except ValueError:
        if kind == "allowed_tools":
            raise
        raise ValueError('must be "auto", "none", "required" or {"type": "function", "name": "…"}') from None
