"""Harmony, the form of gpt-oss' replies: messages with a channel each, and calls that are messages to a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from srb.web.chat.call_forms import Form, spaced_json
from srb.web.chat.grammar import Rules, quoted
from srb.web.chat.pieces import AnyPiece, Content, Reasoning
from srb.web.chat.reader import NoCall, Reader, Steps, first_of, possible_marker
from srb.web.chat.tool_schemas import Tool, parameters_of

MESSAGE = "<|message|>"
_HEADS = ("<|start|>", "<|channel|>", "to=", "<|constrain|>")
_ENDS = ("<|end|>", "<|return|>", "<|call|>")
_TO = re.compile(r"to=functions\.([\w.:/-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


@dataclass(frozen=True)
class HarmonyCalls(Form):
    """Messages to functions, whose text is JSON."""

    def markers(self) -> tuple[str, ...]:
        return (*_HEADS[:2], _HEADS[3], MESSAGE, *_ENDS)

    @property
    def prefix(self) -> str:
        return quoted("<|channel|>commentary ")

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        return (("word", "to=functions."),)

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        calls = " | ".join(self._tool(tool, rules) for tool in tools)
        return f'"to=functions." ( {calls} )'

    def _tool(self, tool: Tool, rules: Rules) -> str:
        channel = '( "<|channel|>" ( "commentary" | "analysis" ) )? ( ( " "? "<|constrain|>" | " " ) "json" )?'
        return f"{quoted(tool['name'])} {channel} {quoted(MESSAGE)} {rules.schema(parameters_of(tool))}"

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        told = (f"to=functions.{name} <|constrain|>json{MESSAGE}{spaced_json(given)}<|call|>" for name, given in calls)
        return "".join(f"<|channel|>commentary {call}" for call in told)


def read_harmony(reader: Reader, reasoning: bool, thinking: bool, has_begun: bool) -> Steps:
    """Read a reply to its end; with `thinking` it begins in the channel `analysis`, with `has_begun` in a message."""
    if thinking:
        yield from _body(reader, Reasoning if reasoning else Content)
    elif has_begun:
        yield from _body(reader, Content)
    while True:
        if not (yield from _is_header(reader)):
            if reader.final and not reader.has_more:
                return
            yield from _body(reader, Content)
            continue
        try:
            header, _ = yield from reader.until(MESSAGE)
        except NoCall:
            reader.go_back()
            reader.at += 1
            reader.emit(Content(reader.since))
            yield from _body(reader, Content)
            continue
        channel = _CHANNEL.search(header)
        to = _TO.search(header)
        if to and reader.tools:
            yield from _call(reader, to[1])
        elif channel and channel[1] == "analysis":
            if reasoning:
                reader.drop()
            else:
                reader.emit(Content(reader.since))
            yield from _body(reader, Reasoning if reasoning else Content)
        else:
            reader.drop()
            yield from _body(reader, Content)


def _is_header(reader: Reader) -> Generator[None, None, bool]:
    """Return whether a message's header follows."""
    while True:
        ahead = reader.ahead.lstrip()
        if any(ahead.startswith(head) for head in _HEADS):
            return True
        if reader.final or (ahead and not any(head.startswith(ahead) for head in _HEADS)):
            return False
        yield


def _call(reader: Reader, name: str) -> Steps:
    reader.begin(name)
    try:
        yield from reader.space()
        yield from reader.arguments()
    except NoCall:
        reader.finish(is_whole=False)
        yield from _body(reader, Content)
        return
    reader.finish()
    yield from reader.space()
    for end in _ENDS:
        if (yield from reader.literal(end)):
            break
    reader.drop()


def _body(reader: Reader, kind: Callable[[str], AnyPiece]) -> Steps:
    """Read a message's text, up to and with its end, or up to the next message."""
    stops = (*_ENDS, "<|start|>", "<|channel|>")
    while True:
        ahead = reader.ahead
        found = first_of(ahead, stops)
        place = found[0] if found else len(ahead) - (0 if reader.final else possible_marker(ahead, stops))
        if place:
            reader.at += place
            reader.emit(kind(ahead[:place]))
        if found:
            if found[1] in _ENDS:
                reader.at += len(found[1])
                reader.drop()
            return
        if reader.final:
            return
        yield
