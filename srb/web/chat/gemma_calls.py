"""Gemma 4's calls, whose objects have bare keys and strings between marks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from srb.web.chat import tool_schemas as schemas
from srb.web.chat.call_forms import NAME, Form
from srb.web.chat.grammar import Rules, any_text_until, members, quoted
from srb.web.chat.reader import MAX_NESTING, NoCall, Reader, Steps
from srb.web.chat.tool_schemas import Tool


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
        rules.set("gemma-text", f"{quoted(GEMMA_QUOTE)} {any_text_until(rules, GEMMA_QUOTE)} {quoted(GEMMA_QUOTE)}")
        rules.set("gemma-scalar", 'gemma-text | "-"? [0-9]+ ( "." [0-9]+ )? | "true" | "false" | "null"')
        rules.set("gemma-object", '"{" ( gemma-pair ( "," gemma-pair )* )? "}"')
        rules.set("gemma-pair", '[A-Za-z_] [A-Za-z0-9_-]* ":" gemma-any')
        rules.set("gemma-any", 'gemma-scalar | gemma-object | "[" ( gemma-any ( "," gemma-any )* )? "]"')
        given = _object_rules(schemas.parameters_of(tool), rules, {})
        return f"{quoted('call:' + tool['name'])} {given}"


def _object_rules(schema: Any, rules: Rules, known: dict[str, str], depth: int = 0) -> str:
    """Return the expression of an object; `known` are the rules of schemas by their text."""
    if schemas.has_any_properties(schema):
        return "gemma-object"
    required = schemas.required_of(schema)
    first: list[str] = []
    others: list[str] = []
    for key, inner in schemas.properties_of(schema).items():
        pair = f"{quoted(key + ':')} {_value_rules(inner, rules, known, depth + 1)}"
        (first if key in required else others).append(pair)
    return f'"{{" {members(rules, first, others, quoted(","))} "}}"'


def _value_rules(schema: Any, rules: Rules, known: dict[str, str], depth: int) -> str:
    """Return the name of a value's rule; a schema that refers to itself has a rule that does so."""
    if not isinstance(schema, Mapping) or depth > MAX_NESTING // 2:
        return "gemma-any"
    text = schemas.own_text(schema)
    if text in known:
        return known[text]
    name = known[text] = rules.reserve("gemma-value")
    ways = [way for each in schemas.variants_of(schema) for way in _ways(each, rules, known, depth)]
    rules.set(name, " | ".join(dict.fromkeys(ways)) or "gemma-any")
    return name


def _ways(schema: Mapping[str, Any], rules: Rules, known: dict[str, str], depth: int) -> list[str]:
    """Return the expressions of the values of a schema without branches, one for each type."""
    if values := schemas.values_of(schema):
        return [quoted(_gemma_text(value)) for value in values]
    ways = []
    for kind in schemas.kinds_of(schema):
        if kind == "string":
            ways.append("gemma-text")
        elif kind == "object":
            ways.append(_object_rules({**schema, "type": "object"}, rules, known, depth))
        elif kind == "array":
            item = _value_rules(schemas.items_of(schema), rules, known, depth + 1)
            ways.append(f'"[" ( {item} ( "," {item} )* )? "]"')
        elif kind in ("integer", "number", "boolean", "null"):
            ways.append(rules.schema({**schema, "type": kind}))
        else:
            ways.append("gemma-any")
    return ways or ["gemma-any"]


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
