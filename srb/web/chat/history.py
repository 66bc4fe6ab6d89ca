"""The forms of a chat's history: as its client sent it, then stricter ones, until the template takes one.

A client writes what it likes: several system messages, results without calls, two messages of one role in turn. A strict
template refuses some of it. Each form below changes only what the template may have refused and leaves each text at its
place, so that the prompt of the next turn begins as this one's does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from srb.web.chat.media import MEDIA_PART
from srb.web.loop.yielding import yielding

Message = dict[str, Any]

BETWEEN = "\n\n"  # two contents that become one
SYSTEMS = ("system", "developer")


def stricter(
    messages: Sequence[Mapping[str, Any]], write_calls: Callable[[Iterable[Any]], str]
) -> Iterator[list[Message]]:
    """Yield the history in stricter and stricter forms, each one that differs from the one before.

    `write_calls` returns calls as the model writes them.
    """
    made = [dict(message) for message in messages]
    forms: tuple[Callable[[list[Message]], list[Message]], ...] = (
        _without_late_systems,
        _with_one_system,
        _begun_by_a_user,
        _answered,
        _one_call_each,
        _without_empty_replies,
        _taking_turns,
        lambda history: with_written_calls(history, write_calls),
        _between_two,
    )
    for form in forms:
        changed = form(made)
        if changed != made:
            made = changed
            yield made


def content_text(content: Any, between: str = "\n") -> str:
    """Return a message's content as one text, with its parts joined; nothing is put beside the marks of media."""
    if not isinstance(content, list):
        return content or ""
    text, after_mark = "", True
    for part in content:
        is_mark = part["type"] == MEDIA_PART
        text += part["text"] if is_mark or after_mark else between + part["text"]
        after_mark = is_mark
    return text


def joined(first: Any, second: Any) -> Any:
    """Return two contents as one: texts with an empty line between them, parts in a list."""
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return first + BETWEEN + second
    return [*_parts(first), *_parts(second)]


def as_one(first: Message, second: Message) -> Message:
    """Return two messages of one role as one: the contents, the reasoning and the calls of both."""
    made = {**first, **second}
    if "content" in made:
        made["content"] = joined(first.get("content"), second.get("content"))
    thoughts = [message["reasoning_content"] for message in (first, second) if message.get("reasoning_content")]
    if thoughts:
        made["reasoning_content"] = BETWEEN.join(thoughts)
    calls = [call for message in (first, second) for call in message.get("tool_calls") or ()]
    if calls:
        made["tool_calls"] = calls
    return made


def with_written_calls(
    messages: Sequence[Mapping[str, Any]], write_calls: Callable[[Iterable[Any]], str]
) -> list[Message]:
    """Return the history with calls and their results as text of the assistant and of the user."""
    made: list[Message] = []
    for message in yielding([dict(message) for message in messages]):
        if calls := message.get("tool_calls"):
            said = [content_text(message.get("content")), write_calls(calls)]
            message = {**message, "content": "\n".join(filter(None, said))}
            del message["tool_calls"]
        elif message["role"] == "tool":
            message = _result_as_text(message)
        made.append(message)
    return made


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _user(content: Any) -> Message:
    return {"role": "user", "content": content}


def _result_as_text(message: Message) -> Message:
    content = message.get("content")
    if isinstance(content, list):  # a picture among the parts stays one
        return _user([*_parts("<tool_response>\n"), *content, *_parts("\n</tool_response>")])
    return _user(f"<tool_response>\n{content or ''}\n</tool_response>")


def _leading(messages: Sequence[Message]) -> int:
    """Return the number of system messages at the beginning."""
    return next((i for i, message in enumerate(messages) if message["role"] not in SYSTEMS), len(messages))


def _without_late_systems(messages: list[Message]) -> list[Message]:
    """Make a system message after the beginning a part of the user's message that follows it, or one of the user."""
    start = _leading(messages)
    made = messages[:start]
    waiting: Any = None
    for message in yielding(messages[start:]):
        if message["role"] in SYSTEMS:
            waiting = joined(waiting, message.get("content"))
            continue
        if waiting and message["role"] == "user":
            message = {**message, "content": joined(waiting, message.get("content"))}
            waiting = None
        elif waiting and message["role"] != "tool":  # results stay beside their calls
            made.append(_user(waiting))
            waiting = None
        made.append(message)
    return [*made, _user(waiting)] if waiting else made


def _with_one_system(messages: list[Message]) -> list[Message]:
    start = _leading(messages)
    if not start:
        return messages
    content: Any = ""
    for message in messages[:start]:
        content = joined(content, message.get("content"))
    return [{**messages[0], "role": "system", "content": content}, *messages[start:]]


def _begun_by_a_user(messages: list[Message]) -> list[Message]:
    """Put an empty message of the user before a history that an assistant begins, as a character's greeting does."""
    start = _leading(messages)
    if messages[start : start + 1] and messages[start]["role"] == "user":
        return messages
    return [*messages[:start], _user(""), *messages[start:]]


def _answered(messages: list[Message]) -> list[Message]:
    """Put the results of calls behind them, in their order, with ids of nine letters and digits; others become text."""
    made: list[Message] = []
    waiting: dict[str, dict[str, Any]] = {}  # the last calls, by their old ids
    count = 0
    for message in yielding(messages):
        if calls := message.get("tool_calls"):
            waiting, renamed = {}, []
            for call in calls:
                count += 1
                renamed.append({**call, "id": f"call{count:05d}"})
                waiting[str(call.get("id", count))] = renamed[-1]
            message = {**message, "tool_calls": renamed}
        elif message["role"] == "tool":
            asked = str(message.get("tool_call_id"))
            call = waiting.pop(asked if asked in waiting else next(iter(waiting), ""), {})
            message = _result_of(call, message) if call else _result_as_text(message)
        elif waiting:
            made += [_result_of(call, {"role": "tool", "content": ""}) for call in waiting.values()]
            waiting = {}
        made.append(message)
    made += [_result_of(call, {"role": "tool", "content": ""}) for call in waiting.values()]
    return made


def _result_of(call: Mapping[str, Any], message: Message) -> Message:
    return {"name": call["function"]["name"], **message, "tool_call_id": call["id"]}


def _one_call_each(messages: list[Message]) -> list[Message]:
    """Give each of several calls of one message a message of its own, with its result behind it."""
    made: list[Message] = []
    later: dict[str, Message] = {}  # the further calls of the last message, by their ids
    for message in messages:
        calls: list[Any] = message.get("tool_calls") or []
        if len(calls) > 1:
            later = {call["id"]: {"role": "assistant", "content": "", "tool_calls": [call]} for call in calls[1:]}
            message = {**message, "tool_calls": [calls[0]]}
        elif (asked := message.get("tool_call_id")) in later:
            made.append(later.pop(str(asked)))
        made.append(message)
    return made


def _without_empty_replies(messages: list[Message]) -> list[Message]:
    said = ("content", "tool_calls", "reasoning_content")
    return [
        message for message in messages if message["role"] != "assistant" or any(message.get(part) for part in said)
    ]


def _taking_turns(messages: list[Message]) -> list[Message]:
    """Join messages of one role that follow each other, but for calls that have results."""
    made: list[Message] = []
    for message in messages:
        before: Message = made[-1] if made else {}
        if before.get("role") == message["role"] and message["role"] != "tool" and not before.get("tool_calls"):
            made[-1] = as_one(before, message)
        else:
            made.append(message)
    return made


def _between_two(messages: list[Message]) -> list[Message]:
    """Give every message but the assistant's to the user, also those of roles that the template may not know."""
    start = _leading(messages)
    others = [
        message if message["role"] == "assistant" else {**message, "role": "user"} for message in messages[start:]
    ]
    return [*messages[:start], *_taking_turns(others)]
