"""Harmony, the form of gpt-oss' replies: messages with a channel each, and calls that are messages to a function."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srb.web.chat.call_forms import Form, spaced_json
from srb.web.chat.grammar import Rules, quoted
from srb.web.chat.messages import MESSAGE, Messages
from srb.web.chat.reader import Reader, Steps
from srb.web.chat.tool_schemas import Tool, parameters_of


def _read_call(reader: Reader, name: str) -> Steps:
    reader.begin(name)
    yield from reader.space()
    yield from reader.arguments()
    reader.finish()


HARMONY = Messages(
    heads=("<|start|>", "<|channel|>", "to=", "<|constrain|>"),
    starts=("<|start|>", "<|channel|>"),
    ends=("<|end|>", "<|return|>", "<|call|>"),
    thinking=re.compile(r"^(?:(?!<\|channel\|>).)*<\|channel\|>\s*analysis\b", re.DOTALL),
    calling=re.compile(r"to=functions\.([\w.:/-]+)"),
    read_call=_read_call,
)


@dataclass(frozen=True)
class HarmonyCalls(Form):
    """Messages to functions, whose text is JSON."""

    def markers(self) -> tuple[str, ...]:
        return (*HARMONY.markers, "<|constrain|>")

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
