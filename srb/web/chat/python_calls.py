"""Calls as Python writes them, LFM2's and Llama 4's."""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from srb.web.chat import tool_schemas
from srb.web.chat.call_forms import NAME, Form
from srb.web.chat.grammar import Rules, members, quoted
from srb.web.chat.reader import MAX_NESTING, NoCall, Reader, Steps
from srb.web.chat.tool_schemas import Tool

_KEY = re.compile(r"[\w.$-]+")
_TEXT = r"""( "'" ( [^'\\\n]+ | "\\" ['"\\bfnrt] )* "'" )"""  # in single quotes; one in double quotes is JSON


@dataclass(frozen=True)
class PythonCalls(Form):
    """A list of calls as Python writes them: [f(a=1, b='x')]."""

    def triggers(self, tools: Sequence[Tool]) -> tuple[tuple[str, str | int], ...]:
        return tuple(("start", f"[{tool['name']}(") for tool in tools) if self.at_start else super().triggers(tools)

    def read(self, reader: Reader) -> Steps:
        if self.opening:
            yield from reader.expect(self.opening)
            yield from reader.space()
        yield from reader.expect("[")
        while True:
            yield from reader.space()
            yield from self._body(reader)
            yield from reader.space()
            if (yield from reader.literal(",")):
                reader.drop()
                continue
            yield from reader.expect("]")
            break
        reader.drop()
        if self.closing:
            yield from reader.ending(self.closing)

    def _body(self, reader: Reader) -> Steps:
        name = yield from reader.match(NAME)
        if not name or (self.at_start and name not in reader.tools):
            raise NoCall
        yield from reader.expect("(")
        reader.begin(name)
        reader.tell("{")
        is_first = True
        while True:
            yield from reader.space()
            if is_first and (yield from reader.literal(")")):
                break
            key = yield from reader.match(_KEY)
            yield from reader.space()
            yield from reader.expect("=")
            value = yield from _python_value(reader)
            reader.tell(("" if is_first else ", ") + orjson.dumps(key).decode() + ": " + value)
            is_first = False
            yield from reader.space()
            if not (yield from reader.literal(",")):
                yield from reader.expect(")")
                break
        reader.tell("}")
        reader.finish()

    def write(self, calls: Sequence[tuple[str, Any]]) -> str:
        return f"{self.opening}[{', '.join(self._written(*call) for call in calls)}]{self.closing}"

    def _written(self, name: str, arguments: Any) -> str:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"

    def rules(self, tools: Sequence[Tool], rules: Rules, parallel: bool) -> str:
        one = rules.add("call", self._calls(tools, rules))
        more = f'( "," " "? {one} )*' if parallel else ""
        return f'{quoted(self.opening)} "[" {one} {more} "]" {quoted(self.closing)}'

    def _tool(self, tool: Tool, rules: Rules) -> str:
        schemas = tool_schemas.parameters_of(tool)
        required = tool_schemas.required_of(schemas)
        first: list[str] = []
        others: list[str] = []
        for key, schema in tool_schemas.properties_of(schemas).items():
            value = rules.schema(schema)
            if tool_schemas.type_of(schema) == "boolean":
                value = '( "True" | "False" )'
            elif tool_schemas.may_be_string(schema):
                texts = " | ".join(quoted(repr(each)) for each in tool_schemas.values_of(schema)) or _TEXT
                value = f"( {value} | {texts} )"
            (first if key in required else others).append(f"{quoted(key + '=')} {value}")
        arguments = members(rules, first, others, '"," " "?')
        if tool_schemas.has_any_properties(tool_schemas.parameters_of(tool)):
            one = f'[A-Za-z_] [A-Za-z0-9_]* "=" ( {rules.schema(tool_schemas.ANY_VALUE)} | {_TEXT} )'
            arguments = f'( {one} ( "," " "? {one} )* )?'
        return f'{quoted(tool["name"] + "(")} {arguments} ")"'


def _python_value(reader: Reader) -> Generator[None, None, str]:
    """Skip a Python literal up to the comma or bracket after it; return its JSON. Raise NoCall for anything else."""
    parts: list[str] = []
    depth, quote = 0, ""
    while True:
        char = yield from reader.peek()
        if not char:
            raise NoCall
        if not quote and not depth and char in ",)":
            break
        reader.at += 1
        parts.append(char)
        if quote:
            if char == "\\":
                parts.append((yield from reader.peek()))
                reader.at += len(parts[-1])
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        if depth > MAX_NESTING:
            raise NoCall
    text = "".join(parts).strip()
    try:
        return orjson.dumps(orjson.loads(text)).decode()
    except orjson.JSONDecodeError:
        pass
    try:
        return tool_schemas.json_of_python(text)
    except ValueError:
        raise NoCall from None
