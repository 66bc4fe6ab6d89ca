"""JSON schemas before llguidance reads them: limits, habits, and what stands for nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srb.engine.grammar.schemas import MAX_INTEGER, prepared
from srb.errors import InvalidRequest


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def made(schema: dict[str, Any]) -> dict[str, Any]:
    found = json.loads(prepared(json.dumps(schema), "json_schema"))
    del found["x-guidance"]
    return found


MANY: dict[str, Any] = {"properties": {f"a{i}": {"type": "string", "maxLength": 524288} for i in range(500)}}


@pytest.mark.parametrize("schema", [{}, nested(60), MANY], ids=["any", "deep", "wide"])
def test_ordinary_schemas_pass(schema: dict[str, Any]) -> None:
    made(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "bytes|nested"),
        ("[" * 30_000, "not valid JSON"),
        ("true", "should be an object"),
        ('{"a": "' + "x" * 70_000 + '"}', "at most 65536"),
        (json.dumps(nested(65)), "nested deeper than 64"),
    ],
)
def test_bombs_are_refused_with_the_limit_they_exceed(schema: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        prepared(schema, "json_schema")
    assert caught.value.extra["param"] == "json_schema"


@pytest.mark.parametrize("key", ["required", "items", "anyOf", "properties", "type", "pattern", "maxLength", "$ref"])
def test_null_as_a_keywords_value_stands_for_nothing(key: str) -> None:
    assert made({"type": "string", key: None}) == ({"type": "string"} if key != "type" else {})
    within = {"type": "object", "properties": {"a": {"type": "boolean", key: None}}}
    assert made(within)["properties"]["a"] == ({"type": "boolean"} if key != "type" else {})


def test_data_is_no_schema() -> None:
    data = {"maxLength": 99999, "pattern": "a{9999}", "type": None, "$ref": "a b"}
    schema = {"const": data, "default": data, "enum": [data, None], "examples": [data]}
    assert made(schema) == schema
    names = {"type": "object", "properties": {"const": {"type": "string", "pattern": None}, "pattern": {"const": None}}}
    assert made(names)["properties"] == {"const": {"type": "string"}, "pattern": {"const": None}}


def test_a_schema_without_a_type_has_the_type_that_its_keywords_speak_of() -> None:
    assert made({"properties": {"a": {"items": {}}}}) == {
        "type": "object", "properties": {"a": {"type": "array", "items": {}}}, "additionalProperties": False,
    }  # fmt: skip
    parts = {"anyOf": [{"properties": {"a": {}}}, {"type": "null"}], "properties": {"b": {}}}
    assert made(parts) == parts


OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: dict[str, Any] = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (OPEN, CLOSED),
        ({"type": "array", "items": OPEN}, {"type": "array", "items": CLOSED}),
        ({"anyOf": [OPEN, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"A": OPEN}, "$ref": "#/$defs/A"}, {"$defs": {"A": CLOSED}, "$ref": "#/$defs/A"}),
        ({"$defs": {"A": OPEN}, "items": {"$ref": "#/$defs/A"}, "type": "array"},
         {"$defs": {"A": CLOSED}, "items": {"$ref": "#/$defs/A"}, "type": "array"}),
        *(
            (same, same)
            for same in (
                {**OPEN, "additionalProperties": True}, {**OPEN, "patternProperties": {"^x": {}}},
                {"allOf": [OPEN, {"type": "object", "properties": {"b": {}}}]}, {**OPEN, "anyOf": [{"required": ["a"]}, {}]},
                {"$defs": {"A": OPEN}, "allOf": [{"$ref": "#/$defs/A"}, {"type": "object", "properties": {"b": {}}}]},
                {"$defs": {"A": OPEN}, "$ref": "#/$defs/A", "required": ["b"]}, {"type": "object"},
            )
        ),
    ],
    ids=str,
)  # fmt: skip
def test_an_object_has_the_properties_that_its_schema_names_and_no_others(
    schema: dict[str, Any], right: dict[str, Any]
) -> None:
    """Like llama-server's; with additionalProperties, or where schemas come together, the standard's word counts."""
    assert made(schema) == right


def test_whole_numbers_without_bounds_have_some_and_others_keep_theirs() -> None:
    bounds = {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
    assert made({"type": "integer"}) == {"type": "integer", **bounds}
    assert made({"type": "integer", "minimum": 3}) == {"type": "integer", "minimum": 3}


def test_references_are_uris() -> None:
    for written, right in (("#/$defs/a b", "#/$defs/a%20b"), ("#/$defs/Bar%3Cstring%3E", "#/$defs/Bar%3Cstring%3E")):
        assert made({"$ref": written, "$defs": {"a b": {}}})["$ref"] == right
