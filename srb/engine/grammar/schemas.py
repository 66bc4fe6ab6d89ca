"""JSON schemas before llguidance reads them: what it is strict about and clients are not, and llama-server's habits."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from srb.errors import bad_field
from srb.sampling_params import MAX_GRAMMAR

MAX_DEPTH = 64
MAX_INTEGER = (
    10**16 - 1
)  # where a schema has no bounds: without any a model may write digits for ever; llama.cpp's limit
# Space as models write it: one space, or line breaks with an indentation; llama.cpp's converter takes the same.
SPACE = r" |\n{1,2}[ \t]{0,20}"
OPTIONS = {"whitespace_pattern": SPACE, "coerce_one_of": True}

_OF_DATA = ("const", "enum", "default", "examples", "example")
_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_IN_REFERENCES = "#/%~!$&'()*+,;=:@?-._"


def prepared(text: str, field: str) -> str:
    """Return a JSON schema with llguidance's options. Raise InvalidRequest, which names `field`, for text that is none."""
    if (size := len(text.encode())) > MAX_GRAMMAR:
        raise bad_field(field, f"has {size} bytes; at most {MAX_GRAMMAR} are taken")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_field(field, "is not valid JSON, or nested too deeply") from None
    if not isinstance(schema, dict):
        raise bad_field(field, "should be an object")
    _check_depth(schema, 0, field)
    return json.dumps({**_schema(schema, is_whole=True), "x-guidance": OPTIONS}, separators=(",", ":"))


def _check_depth(value: Any, depth: int, field: str) -> None:
    if depth > MAX_DEPTH:
        raise bad_field(field, f"is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _check_depth(each, depth + 1, field)


def _schema(schema: Any, is_whole: bool = False) -> Any:
    """Return a schema; one that is the whole of a value may be of the type that its keywords speak of."""
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _OF_DATA:
            made[key] = value
        elif value is None:  # as if it were not there
            continue
        elif key in _OF_NAMES and isinstance(value, dict):
            made[key] = {name: _schema(inner, key == "properties") for name, inner in value.items()}
        elif key == "$ref" and isinstance(value, str):
            made[key] = quote(value, safe=_IN_REFERENCES)
        elif isinstance(value, dict | list):
            made[key] = _schema(value, key == "items")
        else:
            made[key] = value
    if made.get("type") == "integer" and made.keys().isdisjoint(_BOUNDS):
        made |= {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
    if is_whole and made.keys().isdisjoint(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")):
        if isinstance(made.get("properties"), dict):
            made["type"] = "object"
        elif "items" in made:
            made["type"] = "array"
    return made
