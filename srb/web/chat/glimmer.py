"""The form of Muse Glimmer's replies: messages to `self`, to the user, and to functions, whose calls are tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srb.web.chat.call_forms import TaggedCalls
from srb.web.chat.grammar import Rules, quoted
from srb.web.chat.messages import ASSISTANT, MESSAGE, Messages
from srb.web.chat.reader import Reader, Steps
from srb.web.chat.tool_schemas import Tool

NEXT = f"<|eom|>{ASSISTANT} "  # between two messages of a reply


@dataclass(frozen=True)
class GlimmerCalls(TaggedCalls):
    """Messages to functions, whose name is said again in the tags."""

    def markers(self) -> tuple[str, ...]:
        return (*GLIMMER.markers, *super().markers())

    @property
    def prefix(self) -> str:
        return quoted(" ")

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        return tuple(("word", _header(tool["name"])) for tool in tools)

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        end = quoted(self.closing)
        calls = (f"{quoted(_header(tool['name']) + self.opening)} {self._tool(tool, rules)} {end}" for tool in tools)
        one = rules.add("call", " | ".join(calls))
        return f"{one} ( {quoted(NEXT)} {one} )*" if parallel else one

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        told = (f"{_header(name)}{self.opening}{self._written(name, given)}{self.closing}" for name, given in calls)
        return " " + NEXT.join(told)


def _header(name: str) -> str:
    return f"to={name}{MESSAGE}"


CALLS = GlimmerCalls(
    "<atem:function_calls>", "</atem:function_calls>", name_begin='<atem:invoke name="', name_end='">',
    key='<atem:parameter name="', key_end='">', value_end="</atem:parameter>", end="</atem:invoke>",
)  # fmt: skip


def _read_call(reader: Reader, name: str) -> Steps:
    reader.drop()
    yield from CALLS.read(reader)


GLIMMER = Messages(
    heads=("<|start|>", "to=", MESSAGE),
    starts=("<|start|>",),
    ends=("<|eom|>", "<|eot|>"),
    thinking=re.compile(r"\bto=self\s*$"),
    calling=re.compile(r"\bto=(?!(?:self|user)\s*$)([\w.:/-]+)\s*$"),
    read_call=_read_call,
)
