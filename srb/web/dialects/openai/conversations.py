"""Conversations in the forms of every dialect, read as the messages of a chat.

Programs carry a history from one interface to another, so each form is read wherever it stands: OpenAI's messages, parts and
calls, items of Responses, Anthropic's blocks, Ollama's messages. Parts that no model here reads are left out, with a line in
the log.
All functions raise ValueError with a message that fits after "Field 'x': ".
"""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from srb.errors import bad_field
from srb.web.bodies.fields import short_json
from srb.web.bodies.media import check_base64
from srb.web.bodies.unread import leave_out
from srb.web.chat.media import MEDIA_PART, PlacedPart, media_of, media_part, without_past_media
from srb.web.loop.yielding import yielding

log = logging.getLogger("srb.web")

Message = dict[str, Any]
Part = Mapping[str, Any]

FUNCTION_ID = "function1"  # of the calls of 2023, which have none
_MAX_TOLD = 8  # kinds in a line of the log

_TEXTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "tool_reference": "tool_name",
}
_THOUGHTS = {"thinking": "thinking", "reasoning_text": "text", "summary_text": "text"}
_CALLS = ("tool_use", "tool_call", "tool-call", "function_call")
_RESULTS = ("tool_result", "tool-result", "function_call_output")
_MEDIA = ("image_url", "input_image", "image", "audio_url", "input_audio", "input_file", "file")
_DOCUMENTS = ("document", "search_result", "container_upload")
# What servers wrote for themselves: their own calls and results, and thoughts that they have encrypted.
_OF_SERVERS = re.compile(r"server_tool_use|mcp_tool_use|.+_tool_result|redacted_thinking|item_reference")
_IDS = ("call_id", "tool_use_id", "tool_call_id", "toolCallId", "id")
_NAMES = ("name", "toolName")
_ARGUMENTS = ("arguments", "input", "args", "action")
_OUTPUTS = ("content", "output", "result", "tools")


@dataclass(frozen=True)
class Form:
    """How errors call the places of a dialect's conversations, and which roles and further fields its messages have."""

    field: str = "messages"  # of the body
    message: str = "message"
    part: str = "{}, part {}"  # of a message, and the number of a part in its field `{}`
    roles: tuple[str, ...] = ()  # empty: any
    keeps_fields: bool = False  # those that are unknown, for templates


CHAT = Form(keeps_fields=True)


def parse_messages(value: Any, form: Form = CHAT) -> list[Message]:
    """Return a body's messages without their null fields, and without the documents and files of earlier turns.

    Raise ValueError for malformed messages, InvalidRequest for documents and files in the newest turn.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("must be a non-empty list of messages")
    return checked(read(value, form))


def checked(given: Sequence[Message]) -> list[Message]:
    """Return messages without the documents and files of earlier turns. Raise InvalidRequest for those of the newest."""
    if not given:
        raise ValueError("must not be empty")
    messages = without_past_media(given, lambda part: "unread" in part)
    if unread := next((part for part in media_of(messages) if "unread" in part), None):
        problem = f"is of type {short_json(unread['unread'])}; text, pictures and sounds are supported"
        raise bad_field("messages", f"{unread['place']} {problem}")
    return messages


def read(value: Sequence[Any], form: Form) -> list[Message]:
    """Return messages, items and blocks as messages of a chat. Raise ValueError for malformed ones."""
    reader = _Reader(form)
    messages: list[Message] = []
    for place, entry in yielding(enumerate(value)):
        messages += reader.entry(f"{form.message} {place}", entry)
    if reader.left:
        told = ", ".join(f"{count} {short_json(kind)}" for kind, count in reader.left.most_common(_MAX_TOLD))
        log.info("left out of a conversation: %s", told)
        leave_out(form.field, reader.left)
    return _with_ids(messages)


def _with_ids(messages: list[Message]) -> list[Message]:
    """Return messages whose calls and results have ids: a result without one belongs to the first call that has none.

    Made ids have nine letters and digits, as some templates want them.
    """
    waiting: list[str] = []
    made = 0
    for before, message in zip([{"role": ""}, *messages], messages, strict=False):
        if calls := message.get("tool_calls"):
            for call in calls:
                made += 1
                if call.get("id") is None:
                    call["id"] = f"call{made:05d}"
            waiting = [*(waiting if before["role"] == "assistant" else []), *(str(call["id"]) for call in calls)]
        elif message["role"] == "tool":
            if message.get("tool_call_id") is None:
                message["tool_call_id"] = waiting[0] if waiting else "call00000"
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
    return messages


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def with_images(content: Any, images: Sequence[str], where: str = "") -> list[Any]:
    """Return a message's content with its pictures as parts: at the text's `[img]`, and before it those that are left.

    `where`: what errors say before a picture's number.
    """
    parts = [
        PlacedPart(
            {"type": "image_url", "image_url": {"url": f"data:image/*;base64,{image}"}}, f"{where}image {number}"
        )
        for number, image in enumerate(images)
    ]
    if not isinstance(content, str):
        return [*parts, *(content or ())]
    first, *after = content.split("[img]", len(parts))
    before = parts[len(after) :]
    placed = [piece for part, text in zip(parts, after, strict=False) for piece in (part, text_part(text))]
    return [part for part in (*before, text_part(first), *placed) if part.get("text") != ""]


@dataclass
class _Reader:
    """Reads one conversation; `left` counts the kinds of what it leaves out."""

    form: Form
    left: Counter[str] = field(default_factory=Counter)

    def entry(self, where: str, entry: Any) -> list[Message]:
        if not isinstance(entry, dict):
            raise ValueError(f"{where} must be an object, but got {short_json(entry)}")
        kept = {name: part for name, part in entry.items() if part is not None}
        kind = kept.get("type")
        if "role" in kept or not isinstance(kind, str):
            return self._message(where, kept)
        says = kind in _CALLS or kind in ("reasoning", "output_text", "refusal", *_THOUGHTS) or kind.endswith("_call")
        if not (says or _is_part(kept) or kind in _DOCUMENTS or _is_result(kind, kept)):
            self.left[kind] += 1
            return []
        turn = _Turn(self, where, "assistant" if says else "user", is_item=True)
        turn.add(where, kept)
        return turn.messages({})

    def _message(self, where: str, kept: Message) -> list[Message]:
        role = kept.get("role")
        if not isinstance(role, str) or not role:
            raise ValueError(f"{where}: 'role' must be a string")
        if self.form.roles and role not in self.form.roles:
            raise ValueError(f"{where}: 'role' must be one of {', '.join(self.form.roles)}")
        turn = _Turn(self, where, "tool" if role == "function" else role)
        for name in ("reasoning_content", "thinking", "reasoning"):
            thought = kept.get(name, "")
            if name == "reasoning_content" and not isinstance(thought, str):
                raise ValueError(f"{where}: 'reasoning_content' must be a string")
            if isinstance(thought, str) and thought and not turn.thoughts:
                turn.thoughts.append(thought)
        calls = kept.get("tool_calls", [])
        if not isinstance(calls, list):
            raise ValueError(f"{where}: 'tool_calls' must be a list")
        turn.calls += [_chat_call(where, call) for call in calls]
        if "function_call" in kept:
            turn.calls.append(_chat_call(where, {"id": FUNCTION_ID, "function": kept["function_call"]}))
        content = kept.get("content") or kept.get("refusal") or kept.get("content")
        if isinstance(content, dict):
            content = [content]
        if "images" in kept:
            try:
                images = check_base64(kept["images"])
            except ValueError as error:
                raise ValueError(f"{where}: 'images' {error}") from None
            content = with_images(content, images, f"{where}, ") if images else content
        if not isinstance(content, str | list | None):
            raise ValueError(f"{where}: 'content' must be a string, null or a list of parts")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            turn.add(self.form.part.format(where, number, "content"), part)
        rest: Message = {} if content is None and role == "assistant" else {"content": turn.content or ""}
        if isinstance(content, str):
            rest["content"] = content
        elif turn.results and not turn.content:
            rest = {}
        if turn.role == "tool":
            named = {"tool_call_id": FUNCTION_ID} if role == "function" else {}
            rest |= named | {name: kept[name] for name in ("name", "tool_call_id") if name in kept}
            if "tool_name" in kept:
                rest.setdefault("name", kept["tool_name"])
        if self.form.keeps_fields:
            taken = ("role", "content", "tool_calls", "function_call", "refusal", "images", "thinking", "tool_name")
            rest = {name: value for name, value in kept.items() if name not in taken} | rest
        return turn.messages(rest)


class _Turn:
    """The parts of one message, sorted into the messages of a chat."""

    def __init__(self, reader: _Reader, where: str, role: str, is_item: bool = False) -> None:
        self._reader = reader
        self._where = where
        self.role = role
        self.is_item = is_item  # a part that stands in a message's place
        self.content: list[dict[str, Any]] = []
        self.thoughts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[Message] = []

    def add(self, place: str, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            self.content += self._parts(place, part)
        elif _is_result(kind, part):
            self.results.append(self._result(place, kind, part))
        elif kind in _THOUGHTS or kind == "reasoning":
            thought = _thought(self._where, kind, part)
            self._take(kind, self.thoughts, [thought] if thought else [])
        elif kind in _CALLS or (kind.endswith("_call") and "call_id" in part):
            self._take(kind, self.calls, [_call(self._where, kind, part)])
        else:
            self.content += self._parts(place, part)

    def _take(self, kind: str, found: list[Any], read: list[Any]) -> None:
        """Take calls and thoughts, if the message is the assistant's: no other has any."""
        if self.role == "assistant" and read:
            found += read
        else:
            self._reader.left[kind] += 1

    def messages(self, rest: Message) -> list[Message]:
        """Return the messages of the turn: of a user the results of tools first, since templates expect them after calls.

        `rest`: further fields of the message itself, which is left out if it had nothing but results.
        """
        message: Message = {"role": self.role, **rest}
        if self.content and "content" not in rest:
            message["content"] = self.content
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        if self.calls:
            message["tool_calls"] = self.calls
        own = [message] if len(message) > 1 or not (self.results or self.is_item) else []
        return [*own, *self.results] if self.role == "assistant" else [*self.results, *own]

    def _result(self, place: str, kind: str, part: Part) -> Message:
        """Return a tool's result: a text, parts, or anything else as JSON."""
        name = next((name for name in _OUTPUTS if part.get(name) is not None), "")
        given = part.get(name, "")
        if isinstance(given, dict) and isinstance(given.get("image_url"), str):  # a computer's screenshot
            given = [{"type": "input_image", "image_url": given["image_url"]}]
        elif isinstance(given, dict) and isinstance(given.get("value"), str):
            given = given["value"]
        if isinstance(given, list) and (kind == "tool_result" or all(map(_is_part, given))):
            given = self._parts_of(place, given, name)
            if kind == "tool_result" and all(each["type"] == "text" for each in given):
                given = "".join(each["text"] for each in given)
        elif not isinstance(given, str):
            given = _json(self._where, given)
        return {"role": "tool", "tool_call_id": _id(self._where, part, _IDS[:-1]), "content": given}

    def _parts_of(self, place: str, parts: list[Any], name: str = "content") -> list[dict[str, Any]]:
        numbered = ((self._reader.form.part.format(place, number, name), part) for number, part in enumerate(parts))
        return [each for inner, part in numbered for each in self._parts(inner, part)]

    def _parts(self, place: str, part: Any) -> list[dict[str, Any]]:
        """Return a part of a message or of a result as parts of a chat's content.

        A document has the parts of its content. Of a part that is unknown here the model reads that there is one.
        """
        if isinstance(part, str):
            return [text_part(part)] if part else []
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str):
            if kind in _TEXTS and isinstance(part.get(_TEXTS[kind]), str):
                return [text_part(part[_TEXTS[kind]])]
            if kind in _DOCUMENTS:
                return self._of_document(place, part) or [_unread(kind, place)]
            if part.get("file_id") and kind in ("input_image", "image"):
                return [_unread(f"{kind} with a file_id", place)]
            if kind == "image" and "image" not in part:
                return [_of_source(place, part.get("source"))]
            place = part.place if isinstance(part, PlacedPart) else place
            try:
                medium = media_part(part, place)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from None
            if medium is not None:
                return [medium]
            if kind not in _TEXTS:
                self._reader.left[kind] += 1
                is_told = self.role != "assistant" and not _OF_SERVERS.fullmatch(kind)
                return [text_part(f"[a block of type {short_json(kind)}]")] if is_told else []
        raise ValueError(f'{place}: must be {{"type": "text", "text": "…"}}, a picture or a sound')

    def _of_document(self, place: str, block: Part) -> list[dict[str, Any]]:
        """Return the parts of a document or of a result of a search; none of a file that is no text."""
        source = block.get("source") if block["type"] == "document" else block
        if not isinstance(source, dict):
            return []
        content = source.get("data") if source.get("type") == "text" else source.get("content")
        if isinstance(content, str):
            parts = [text_part(content)]
        else:
            parts = self._parts_of(place, content) if isinstance(content, list) else []
        if parts and all(part["type"] == "text" for part in parts):
            parts = [text_part("\n".join(part["text"] for part in parts))]
        head = "\n".join(
            block[name] for name in ("title", "source") if isinstance(block.get(name), str) and block[name]
        )
        if parts and parts[0]["type"] == "text" and head:
            parts[0] = text_part(f"{head}\n\n{parts[0]['text']}")
        return parts


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in (*_TEXTS, *_MEDIA)


def _is_result(kind: str, part: Part) -> bool:
    return kind in _RESULTS or (kind.endswith("_output") and "call_id" in part)


def _unread(kind: str, place: str) -> dict[str, str]:
    return {"type": MEDIA_PART, "unread": kind, "place": place}


def _of_source(place: str, source: Any) -> dict[str, str]:
    """Return the picture of an image block."""
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "file":
        return _unread("image with a file_id", place)
    if kind == "base64" and isinstance(source.get("data"), str) and isinstance(source.get("media_type"), str):
        return {"type": MEDIA_PART, "url": f"data:{source['media_type']};base64,{source['data']}", "place": place}
    if kind == "url" and isinstance(source.get("url"), str):
        return {"type": MEDIA_PART, "url": str(source["url"]), "place": place}
    raise ValueError(f"{place}: the 'source' of an image must be base64 with 'media_type' and 'data', or a 'url'")


def _thought(where: str, kind: str, part: Part) -> str:
    """Return the text of a thought; of an item its content, else its summary; "" if it was encrypted elsewhere."""
    name = _THOUGHTS.get(kind, "text")
    if kind in _THOUGHTS or name in part:
        if not isinstance(part.get(name), str):
            raise ValueError(f"{where}: '{name}' of a {kind} block must be a string")
        return str(part[name])
    for name in ("content", "summary"):
        parts = part.get(name, [])
        if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
            raise ValueError(f"{where}: '{name}' must be a list of parts")
        texts = [each.get("text") for each in parts]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where}: a part of its '{name}' must have a 'text'")
        if any(texts):
            return "\n\n".join(filter(None, texts))
    return ""


def _chat_call(where: str, call: Any) -> dict[str, Any]:
    """Return an entry of `tool_calls`, OpenAI's or Ollama's, whose arguments are a text or an object."""
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(call, dict) and function is None and ("custom" in call or "name" in call):
        inner = call["custom"] if isinstance(call.get("custom"), dict) else call
        return _call(where, "", {**inner, **({"id": call["id"]} if "id" in call else {})})
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError(f"{where}: a tool call must have a 'function' with a 'name'")
    arguments = function.get("arguments")
    if not isinstance(arguments, (str, dict)):
        arguments = "" if arguments is None else _json(where, arguments)
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}


def _call(where: str, kind: str, part: Part) -> dict[str, Any]:
    """Return a call in any other form. An `input` that is a text is one argument, but in a call that was cut off."""
    name = next((part[name] for name in _NAMES if part.get(name) is not None), "")
    if not name and kind not in _CALLS:
        name = kind.removesuffix("_call")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}: 'name' of a call must be a string")
    if isinstance(space := part.get("namespace"), str) and space:
        name = offered(space, name)
    key = next((key for key in _ARGUMENTS if part.get(key) is not None), "")
    given = part.get(key, "" if kind == "function_call" else {})
    if isinstance(given, str) and key == "input" and kind != "tool_use":
        given = {"input": given}
    arguments = given if isinstance(given, str) else _json(where, given)
    return {"id": _id(where, part), "type": "function", "function": {"name": name, "arguments": arguments}}


def offered(namespace: str, name: str) -> str:
    """Return the name under which a tool of a namespace is offered."""
    return namespace + ("" if namespace.endswith("__") else "__") + name


def _id(where: str, part: Part, names: Sequence[str] = _IDS) -> str | None:
    """Return the id of a call, for a call or its result; None without one."""
    for name in names:
        if part.get(name) is not None:
            if not isinstance(part[name], str):
                raise ValueError(f"{where}: '{name}' must be a string")
            return str(part[name])
    return None


def _json(where: str, value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        raise ValueError(f"{where} is nested too deeply") from None
