"""JSON schemas as generators and servers make them, and what a validator says of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice, permutations, product
from typing import Any

import jsonschema_rs

from srb.engine.grammar.matcher import Matcher

MOST_ORDERS = 24  # of the keys of an instance that are tried

PYDANTIC_2 = {
    "$defs": {
        "Mood": {"enum": ["calm", "angry"], "title": "Mood", "type": "string"},
        "Item": {
            "properties": {
                "name": {"title": "Name", "type": "string", "maxLength": 8},
                "price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None, "title": "Price"},
                "tags": {"default": [], "items": {"type": "string", "maxLength": 4}, "maxItems": 2, "type": "array"},
            },
            "required": ["name"], "title": "Item", "type": "object",
        },
    },
    "properties": {
        "mood": {"allOf": [{"$ref": "#/$defs/Mood"}], "default": "calm"},
        "items": {"items": {"$ref": "#/$defs/Item"}, "maxItems": 2, "title": "Items", "type": "array"},
        "count": {"exclusiveMinimum": 0, "title": "Count", "type": "integer", "maximum": 999},
    },
    "required": ["items", "count"], "title": "Order", "type": "object",
}  # fmt: skip
MADE: dict[str, dict[str, Any]] = {
    "pydantic 2": PYDANTIC_2,
    "pydantic 1": {
        "title": "User", "type": "object",
        "properties": {
            "id": {"title": "Id", "type": "integer"}, "role": {"$ref": "#/definitions/Role"},
            "email": {"title": "Email", "type": "string", "format": "email"},
        },
        "required": ["id", "role"],
        "definitions": {"Role": {"title": "Role", "description": "An enumeration.", "enum": ["admin", "user"]}},
    },
    "pydantic 1, generic": {
        "$ref": "#/definitions/Bar%3Cstring%3E",
        "definitions": {"Bar<string>": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}},
    },
    "a union that is told apart": {
        "discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "$defs": {
            name.title(): {"type": "object", "properties": {"kind": {"const": name}, "n": {"type": "integer", "maximum": 9}},
                           "required": ["kind"]}
            for name in ("cat", "dog")
        },
    },
    "zod": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
        "properties": {
            "when": {"type": "string", "format": "uuid"}, "n": {"type": "number", "minimum": 0, "maximum": 1},
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "boolean"}, {"type": "null"}]},
            "maybe": {"type": ["string", "null"], "maxLength": 5},
        },
        "required": ["when", "n", "pair", "maybe"],
    },
    "zod, a record": {"type": "object", "additionalProperties": {"type": "boolean"}, "propertyNames": {"enum": ["a", "b"]}},
    "TypeScript": {
        "$ref": "#/definitions/Tree",
        "definitions": {"Tree": {
            "type": "object", "additionalProperties": False, "required": ["value"],
            "properties": {"value": {"type": "boolean"}, "left": {"$ref": "#/definitions/Tree"}},
        }},
    },
    "an MCP server's path": {
        "type": "object", "properties": {"path": {"type": "string", "pattern": "^[^/]+$", "maxLength": 9},
                                          "head": {"type": "number", "description": "lines"}}, "required": ["path"],
    },
    "an MCP server's nulls": {
        "type": "object", "properties": {"a": {"type": "boolean", "enum": None, "items": None}}, "required": None,
    },
    "any JSON": {"type": "object", "properties": {"a": {"title": "Any"}, "b": {"enum": [1]}}, "required": ["b"]},
    "enum with null": {"type": ["string", "null"], "enum": ["red", "green", None]},
    "numbers or null": {"type": ["integer", "null"], "enum": [1, 2, None]},
    "nullable object": {"type": ["object", "null"], "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
    "nullable list": {"type": ["array", "null"], "items": {"type": "boolean"}, "maxItems": 3},
    "nullable pattern": {"type": ["string", "null"], "pattern": "^a{1,3}$"},
    "number or text": {"type": ["integer", "string"], "maxLength": 4},
    "an anchor": {"$ref": "#pt", "$defs": {"x": {"$anchor": "pt", "type": "boolean"}}},
    "further properties": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": {"type": "null"},
    },
    "allOf": {"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                        {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}]},
    "anyOf of required": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}},
                          "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a quote": {"type": "string", "pattern": '^"$'}, "a backslash": {"type": "string", "pattern": r"^\\$"},
    "a line end": {"type": "string", "pattern": "^\n$"}, "alternatives": {"type": "string", "pattern": "^foo$|^bar$"},
    "digits": {"type": "string", "pattern": r"^\d{1,4} \d{1,4}$"}, "a word": {"type": "string", "pattern": r"^[\w-]{1,5}$"},
    "no space": {"type": "string", "pattern": r"^[^\s]{1,4}$"}, "letters": {"type": "string", "pattern": r"^\p{L}{1,4}$"},
    "not anchored": {"type": "string", "pattern": "ab", "maxLength": 6},
    "data that is no schema": {"type": "object", "required": ["pattern"], "properties": {"pattern": {"const": "a{9999}"}}},
    "a float's length": {"type": "string", "maxLength": 10.0}, "deep lists": {"type": "array", "items": {
        "type": "array", "items": {"enum": [0, 1]}, "maxItems": 2}, "minItems": 1, "maxItems": 2},
    "pydantic 2, a decimal": {
        "properties": {"price": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "maxLength": 12, "pattern":
            r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}], "title": "Price"}},
        "required": ["price"], "title": "Bill", "type": "object",
    },
    "pydantic 2, a record of literals": {
        "additionalProperties": {"anyOf": [{"const": "on", "type": "string"}, {"const": 1, "type": "integer"}]},
        "propertyNames": {"enum": ["lamp", "door"]}, "title": "Switches", "type": "object",
    },
    "pydantic 2, a tuple and a date": {
        "properties": {"at": {"format": "date-time", "title": "At", "type": "string"}, "pair": {
            "maxItems": 2, "minItems": 2, "prefixItems": [{"type": "integer"}, {"enum": ["a", "b"], "type": "string"}],
            "title": "Pair", "type": "array"}}, "required": ["at", "pair"], "title": "Entry", "type": "object",
    },
    "zod 4, whole numbers": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
        "properties": {"n": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
                       "id": {"type": "string", "format": "uuid", "pattern":
                              "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$"}},
        "required": ["n", "id"],
    },
    "zod, a discriminated union": {
        "$schema": "http://json-schema.org/draft-07/schema#", "anyOf": [
            {"type": "object", "properties": {"type": {"type": "string", "const": name}, "value": {"type": kind}},
             "required": ["type", "value"], "additionalProperties": False}
            for name, kind in (("flag", "boolean"), ("nothing", "null"))
        ],
    },
    "Rust": {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "Config", "type": "object", "required": ["port"],
        "properties": {"port": {"type": "integer", "format": "uint16", "minimum": 0.0, "maximum": 65535.0},
                       "scale": {"type": ["number", "null"], "format": "double", "maximum": 1.7976931348623157e308},
                       "mode": {"oneOf": [{"type": "string", "enum": ["Fast"]}, {"type": "object", "required": ["Slow"],
                                "properties": {"Slow": {"type": "boolean"}}, "additionalProperties": False}]}},
    },
    "C#": {
        "type": ["object", "null"], "properties": {"name": {"type": ["string", "null"], "maxLength": 8}, "age": {
            "type": ["string", "integer"], "pattern": "^-?(?:0|[1-9]\\d*)$", "maxLength": 6}}, "required": ["name", "age"],
    },
    "OpenAPI 3.0": {
        "$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "required": ["share", "kind"],
        "properties": {"share": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
                       "kind": {"$ref": "#/definitions/Kind"}},
        "definitions": {"Kind": {"type": "string", "enum": ["whole", "part"]}},
    },
    "TypeBox": {
        "type": "object", "unevaluatedProperties": False, "required": ["a"],
        "properties": {"a": {"anyOf": [{"const": "x", "type": "string"}, {"type": "null"}]}, "b": {"type": "boolean"}},
    },
    "inherited, twice": {
        "$defs": {"Named": {"type": "object", "properties": {"name": {"enum": ["a"]}}, "required": ["name"]},
                  "Aged": {"allOf": [{"$ref": "#/$defs/Named"},
                                     {"properties": {"age": {"enum": [1]}}, "required": ["age"]}]}},
        "allOf": [{"$ref": "#/$defs/Aged"},
                  {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}],
    },
    "an MCP server's draft": {
        "$schema": "http://json-schema.org/schema#", "type": "object", "properties": {"query": {"type": "string",
        "minLength": 1, "maxLength": 9}, "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}},
        "required": ["query"],
    },
    "an MCP server's headers": {
        "type": "object", "properties": {"headers": {"type": "object", "patternProperties": {r"^[A-Z][\w-]{0,4}$": {
            "type": "string", "maxLength": 5}}, "additionalProperties": False, "maxProperties": 2}}, "required": ["headers"],
    },
}  # fmt: skip


def validator_of(schema: dict[str, Any]) -> Any:
    """Return a validator of what holds: neither null as a keyword's value, nor an unknown draft, nor a look-around."""
    meant = _held(schema)
    if meant.get("$schema") == "http://json-schema.org/schema#":
        del meant["$schema"]
    return jsonschema_rs.validator_for(meant)


def _held(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_held(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _held(value)
        for key, value in schema.items()
        if value is not None and not (key == "pattern" and isinstance(value, str) and "(?!" in value)
    }


def takes(matcher: Matcher, data: Any) -> bool:
    """Whether a model may write a value: keys come in the order of their schema, so each order is tried."""
    vocabulary = matcher._vocabulary
    end = min(vocabulary.ends)
    for each in islice(_orders(data), 200):
        tokens, place = vocabulary(json.dumps(each, ensure_ascii=False)), matcher.copy()
        if place.takes(tokens):
            for token in tokens:
                place.accept(token)
            if place.allows(end):
                return True
    return False


def _orders(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        pairs = [[(key, each) for each in _orders(inner)] for key, inner in value.items()]
        for order in islice(permutations(pairs), MOST_ORDERS):
            yield from map(dict, product(*order))
    elif isinstance(value, list):
        yield from map(list, product(*(list(islice(_orders(each), MOST_ORDERS)) for each in value)))
    else:
        yield value
