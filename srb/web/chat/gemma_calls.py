"""Gemma 4's calls, whose objects have bare keys and strings between marks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from srb.web.chat.call_forms import NAME, Form
from srb.web.chat.grammar import Rules, any_text_until, quoted
from srb.web.chat.reader import MAX_NESTING, NoCall, Reader, Steps
from srb.web.chat.tool_schemas import (
    Tool,
    has_any_properties,
    is_string,
    parameters_of,
    properties_of,
    required_of,
    type_of,
    values_of,
)


@dataclass(frozen=True)
class GemmaCalls(Form):
    """Gemma 4's calls: a name and an object whose keys are bare and whose strings stand between `<|"|>`."""

    def markers(self) -> tuple[str, ...]:
        return (*super().markers(), GEMMA_QUOTE)

    def _body(self, reader: Reader) -> Steps:
        yield from reader.expect("call:")
        name, _ = yield from reader.until("{")
        if not NAME.fullmatch(name.strip()):
            raise NoCall
        reader.begin(name.strip())
        parts: list[str] = ["{"]
        yield from _gemma_value(reader, parts)
        text = "".join(parts)
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            raise NoCall from None
        reader.tell(text)
        reader.finish()

    def _written(self, name: str, arguments: Any) -> str:
        return f"call:{name}{_gemma_text(arguments)}"

    def _tool(self, tool: Tool, rules: Rules) -> str:
        """Return the grammar of a call: keys and texts are the schema's, and nested objects are of any form."""
        schemas = parameters_of(tool)
        required = required_of(schemas)
        rules.set("gemma-text", f"{quoted(GEMMA_QUOTE)} {any_text_until(rules, GEMMA_QUOTE)} {quoted(GEMMA_QUOTE)}")
        rules.set("gemma-scalar", 'gemma-text | "-"? [0-9]+ ( "." [0-9]+ )? | "true" | "false" | "null"')
        rules.set("gemma-object", '"{" ( gemma-pair ( "," gemma-pair )* )? "}"')
        rules.set("gemma-pair", '[A-Za-z_] [A-Za-z0-9_-]* ":" gemma-any')
        rules.set("gemma-any", 'gemma-scalar | gemma-object | "[" ( gemma-any ( "," gemma-any )* )? "]"')
        names = sorted(properties_of(schemas), key=lambda key: key not in required)
        arguments = ""
        for place, key in reversed(list(enumerate(names))):
            schema = properties_of(schemas)[key]
            kind = type_of(schema)
            if is_string(schema):
                words = [quoted(GEMMA_QUOTE + word + GEMMA_QUOTE) for word in values_of(schema)]
                value = f"( {' | '.join(words)} )" if words else "gemma-text"
            elif kind in ("integer", "number", "boolean"):
                value = rules.schema(schema)
            else:
                value = "gemma-object" if kind == "object" else "gemma-any"
            is_last = place == len(names) - 1
            optional = "" if is_last or set(names[place + 1 :]) & required else "?"
            follows = "" if is_last else f'( "," {arguments} ){optional}'
            arguments = f"{quoted(key + ':')} {value} {follows}"
        if names and not required:
            arguments = f"( {arguments} )?"
        if has_any_properties(tool.get("parameters")):
            arguments = '( gemma-pair ( "," gemma-pair )* )?'
        return f'{quoted("call:" + tool["name"] + "{")} {arguments} "}}"'


GEMMA_QUOTE = '<|"|>'


def _gemma_value(reader: Reader, parts: list[str]) -> Steps:
    """Append the JSON of an object that has begun to `parts`."""
    depth = 1
    while depth:
        if (yield from reader.literal(GEMMA_QUOTE)):
            text: list[str] = []
            yield from reader.streamed((GEMMA_QUOTE,), text.append)
            parts.append(orjson.dumps("".join(text)).decode())
            continue
        char = yield from reader.peek()
        if not char:
            raise NoCall
        if char.isalnum() or char in "_-+.$":
            word = yield from reader.match(_GEMMA_WORD)
            yield from reader.space()
            is_key = (yield from reader.peek()) == ":"
            parts.append(orjson.dumps(word).decode() if is_key else word)
            continue
        reader.at += 1
        if char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        if depth > MAX_NESTING:
            raise NoCall
        parts.append(char)


_GEMMA_WORD = re.compile(r"[\w.$+-]+")


def _gemma_text(value: Any) -> str:
    if isinstance(value, str):
        return GEMMA_QUOTE + value + GEMMA_QUOTE
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_gemma_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_gemma_text, value)) + "]"
    return orjson.dumps(value).decode()
