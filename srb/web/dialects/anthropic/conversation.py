"""A conversation of Anthropic's Messages as messages, tools and a tool choice of a chat.

All functions raise ValueError with a message that fits after "Field 'x': ", and NotSupported for tools that Anthropic
defines. Blocks of tools that Anthropic's servers ran are left out, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from srb.errors import NotSupported
from srb.web.bodies.fields import short_json
from srb.web.chat.media import PlacedPart, UnreadPart
from srb.web.loop.yielding import yielding

Message = dict[str, Any]
Block = Mapping[str, Any]

ROLES = ("user", "assistant", "system")
# Claude Code begins its system prompt with a line of which this part is another one in each request.
_BILLING = re.compile(r"^(x-anthropic-billing-header:[^\n]*?\bcch=)[0-9a-zA-Z]+(?=;)")


def system_messages(value: Any) -> list[Message]:
    """Return the message of a body's `system`: a string, or blocks of text, which are joined as in llama-server.

    The changing part of Claude Code's billing header is made constant: otherwise no turn's prompt would continue the last.
    """
    if value is None:
        return []
    text = "".join(_steady(each) for each in ([value] if isinstance(value, str) else _texts("it", value)))
    return [{"role": "system", "content": text}] if text else []


def _steady(text: str) -> str:
    return _BILLING.sub(r"\1fffff", text)


def _texts(where: str, blocks: Any) -> list[str]:
    if not isinstance(blocks, list):
        raise ValueError(f"{where} must be a string or a list of blocks")
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise ValueError(f'{where} may have blocks of the form {{"type": "text", "text": "…"}} only')
    return [block["text"] for block in blocks]


def chat_messages(value: Any) -> list[Message]:
    """Return a body's `messages` in the form of chats.

    Results of tools become messages of their own, before the rest of their message: templates expect them after the calls.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of messages")
    messages: list[Message] = []
    for place, message in yielding(enumerate(value)):
        messages += _converted(f"message {place}", message)
    return messages


def _converted(where: str, message: Any) -> list[Message]:
    if not isinstance(message, dict):
        raise ValueError(f"{where} must be an object, but got {short_json(message)}")
    role, content = message.get("role"), message.get("content")
    content = "" if content is None else content
    if role not in ROLES:
        raise ValueError(f"{where}: 'role' must be one of {', '.join(ROLES)}")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        raise ValueError(f"{where}: 'content' must be a string or a list of blocks")
    turn = _Turn(where, role)
    for number, block in enumerate(content):
        turn.add(f"{where}, block {number}", block)
    return turn.messages()


_OWN = ("text", "image", "document", "thinking", "tool_use", "tool_result")  # blocks that say something here
# Calls that Anthropic's servers ran, and their results.
_OF_SERVERS = re.compile(r"server_tool_use|mcp_tool_use|.+_tool_result")


class _Turn:
    """The blocks of one message, sorted into the messages of a chat."""

    def __init__(self, where: str, role: str) -> None:
        self._where = where
        self._role = role
        self._content: list[dict[str, Any]] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._results: list[Message] = []

    def add(self, place: str, block: Any) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking" and self._role == "assistant":
            self._thoughts.append(self._string(block, "thinking"))
        elif kind == "redacted_thinking" and self._role == "assistant":
            pass  # encrypted for the server that wrote it
        elif kind == "tool_use" and self._role == "assistant":
            self._calls.append(self._call(block))
        elif kind == "tool_result" and self._role == "user":
            self._results.append(self._result(place, block))
        elif isinstance(kind, str) and _OF_SERVERS.fullmatch(kind):
            pass
        elif self._role == "assistant" and isinstance(kind, str) and kind not in _OWN:
            pass  # what Anthropic's servers wrote for themselves
        else:
            self._content += _parts(place, block)

    def messages(self) -> list[Message]:
        if not self._content and not self._thoughts and not self._calls:
            return self._results or [{"role": self._role, "content": ""}]
        message: Message = {"role": self._role, "content": self._content or ""}
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        return [*self._results, message]

    def _string(self, block: Block, name: str) -> str:
        value = block.get(name)
        if not isinstance(value, str):
            raise ValueError(f"{self._where}: '{name}' of a {block['type']} block must be a string")
        return value

    def _call(self, block: Block) -> dict[str, Any]:
        """Return a call; an `input` that is no object, as of a call that was cut off, is the text of its arguments."""
        arguments = block.get("input")
        try:
            written = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
        except orjson.JSONEncodeError:
            raise ValueError(f"{self._where}: 'input' of a tool_use block is nested too deeply") from None
        function = {"name": self._string(block, "name"), "arguments": written}
        return {"id": self._string(block, "id"), "type": "function", "function": function}

    def _result(self, place: str, block: Block) -> Message:
        content = block.get("content")
        if content is not None and not isinstance(content, (str, list)):
            raise ValueError(f"{self._where}: 'content' of a tool_result block must be a string or a list of blocks")
        if isinstance(content, list):
            content = _parts_of(f"{place}, block", content)
            if all(part["type"] == "text" for part in content):
                content = "".join(part["text"] for part in content)
        return {"role": "tool", "tool_call_id": self._string(block, "tool_use_id"), "content": content or ""}


def _parts_of(place: str, blocks: list[Any]) -> list[dict[str, Any]]:
    return [part for number, block in enumerate(blocks) for part in _parts(f"{place} {number}", block)]


def _parts(place: str, block: Any) -> list[dict[str, Any]]:
    """Return a block of a user's message or of a result as parts of a chat's content.

    A document has the parts of its content. Of a block that is unknown here the model reads that there is one.
    """
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return [{"type": "text", "text": block["text"]}]
    if kind == "tool_reference":
        return [{"type": "text", "text": str(block.get("tool_name", ""))}]
    if kind == "image":
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") == "file":
            return [UnreadPart({"type": "image with a file_id"}, place)]
        return [PlacedPart({"type": "image_url", "image_url": {"url": _image_url(place, source)}}, place)]
    if kind in ("document", "search_result"):
        return _of_document(place, block) or [UnreadPart({"type": kind}, place)]
    if kind == "container_upload":
        return [UnreadPart({"type": kind}, place)]
    if isinstance(kind, str) and kind not in _OWN:
        return (
            [] if _OF_SERVERS.fullmatch(kind) else [{"type": "text", "text": f"[a block of type {short_json(kind)}]"}]
        )
    raise ValueError(f'{place}: must be {{"type": "text", "text": "…"}}, and calls, thoughts and results of tools must '
                     "stand in messages of the right role")  # fmt: skip


def _of_document(place: str, block: Block) -> list[dict[str, Any]]:
    """Return the parts of a document or of a result of a search; none of a file that is no text."""
    source = block.get("source") if block["type"] == "document" else block
    if not isinstance(source, dict):
        return []
    content = source.get("data") if source.get("type") == "text" else source.get("content")
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    else:
        parts = _parts_of(f"{place}, block", content) if isinstance(content, list) else []
    if all(part["type"] == "text" for part in parts):
        parts = [{"type": "text", "text": "\n".join(part["text"] for part in parts)}] if parts else []
    title = block.get("title")
    if parts and parts[0]["type"] == "text" and isinstance(title, str) and title:
        parts[0] = {"type": "text", "text": f"{title}\n\n{parts[0]['text']}"}
    return parts


def _image_url(where: str, source: Any) -> str:
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "base64" and isinstance(source.get("data"), str) and isinstance(source.get("media_type"), str):
        return f"data:{source['media_type']};base64,{source['data']}"
    if kind == "url" and isinstance(source.get("url"), str):
        return str(source["url"])
    raise ValueError(f"{where}: the 'source' of an image must be base64 with 'media_type' and 'data', or a 'url'")


# Tools ----------------------------------------------------------------------------------------------------------------


def chat_tools(value: Any) -> list[dict[str, Any]]:
    """Return the tools in the form of chats."""
    if not isinstance(value, list):
        raise ValueError("must be a list of tools")
    return [_tool(place, tool) for place, tool in enumerate(value)]


def _tool(place: int, tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ValueError(f"tool {place} must be an object, but got {short_json(tool)}")
    if tool.get("type") not in (None, "custom"):
        raise NotSupported(
            f"Field 'tools': tool {place} is of type {short_json(tool['type'])}; only those with input_schema are known",
            param="tools",
        )
    if not isinstance(tool.get("input_schema"), dict | bool):
        raise ValueError(f"tool {place} must have an 'input_schema', an object or true")
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": {name: part for name, part in function.items() if part is not None}}


def chat_tool_choice(value: Any) -> str:
    """Return the choice in the form of ChatBody."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "tool" and isinstance(value.get("name"), str):
        return f"={value['name']}"
    choices = {"auto": "auto", "any": "required", "none": "none"}
    if not isinstance(kind, str) or kind not in choices:
        raise ValueError('its type must be one of "auto", "any", "none" and "tool" with a "name"')
    return choices[kind]
