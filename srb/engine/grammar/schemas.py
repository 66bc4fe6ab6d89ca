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

# Keywords, by what their values are.
_OF_DATA = ("const", "enum", "default", "examples", "example")
_OF_NAMES = ("properties", "patternProperties", "dependentSchemas")
_OF_VALUES = ("items", "prefixItems", "additionalItems", "additionalProperties", "contains")
_OF_OBJECTS = ("properties", "required", "patternProperties")
_OF_FURTHER = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties")
_OF_PARTS = ("allOf", "if", "not", "dependentSchemas")
_IN_PLACE = ("anyOf", "oneOf", "allOf", "if", "then", "else", "not")  # schemas of the same value
_BESIDE = frozenset({"$ref", "$defs", "definitions", "$schema", "$id", "title", "description", "default", "examples"})
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
    return json.dumps({**_Preparation(schema).schema(schema, True), "x-guidance": OPTIONS}, separators=(",", ":"))


def _check_depth(value: Any, depth: int, field: str) -> None:
    if depth > MAX_DEPTH:
        raise bad_field(field, f"is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _check_depth(each, depth + 1, field)


class _Preparation:
    """One schema on its way. An object that is the whole of a value has no more properties than the schema names."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._shared: set[str] = set()  # references to schemas that are only a part of what holds for a value
        self._find_shared(schema, is_shared=False)

    def _find_shared(self, schema: Any, is_shared: bool) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._find_shared(each, is_shared)
        if not isinstance(schema, dict):
            return
        is_shared = is_shared or any(key in schema for key in _OF_PARTS)
        if isinstance(reference := schema.get("$ref"), str) and (is_shared or schema.keys() - _BESIDE):
            self._shared.add(reference)
        for key, value in schema.items():
            self._find_shared(value, is_shared and key in _IN_PLACE)

    def schema(self, schema: Any, is_whole: bool) -> Any:
        """Return a schema; `is_whole`: no other one says anything of the same value."""
        if isinstance(schema, list):
            return [self.schema(each, is_whole) for each in schema]
        if not isinstance(schema, dict):
            return schema
        made: dict[str, Any] = {}
        is_union = is_whole and schema.keys().isdisjoint((*_OF_OBJECTS, *_OF_PARTS))
        for key, value in schema.items():
            if key in _OF_DATA:
                made[key] = value
            elif value is None:  # as if it were not there
                continue
            elif key in ("$defs", "definitions") and isinstance(value, dict):
                made[key] = {
                    name: self.schema(inner, f"#/{key}/{name}" not in self._shared) for name, inner in value.items()
                }
            elif key in _OF_NAMES and isinstance(value, dict):
                made[key] = {name: self.schema(inner, key != "dependentSchemas") for name, inner in value.items()}
            elif key == "$ref" and isinstance(value, str):
                made[key] = quote(value, safe=_IN_REFERENCES)
            elif isinstance(value, dict | list):
                made[key] = self.schema(value, is_union if key in ("anyOf", "oneOf") else key in _OF_VALUES)
            else:
                made[key] = value
        if made.get("type") == "integer" and made.keys().isdisjoint(_BOUNDS):
            made |= {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
        return self._closed(made) if is_whole else made

    @staticmethod
    def _closed(schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a whole value, of the type that its keywords speak of and without further properties."""
        if schema.keys().isdisjoint(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")):
            if isinstance(schema.get("properties"), dict):
                schema["type"] = "object"
            elif "items" in schema:
                schema["type"] = "array"
        if schema.get("properties") and schema.keys().isdisjoint((*_OF_FURTHER, *_OF_PARTS, *_IN_PLACE, "$ref")):
            schema["additionalProperties"] = False
        return schema
