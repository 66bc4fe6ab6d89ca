"""JSON schemas that would hurt the converter are refused before it sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srb.engine.json_schema import check_schema
from srb.errors import InvalidRequest


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_ordinary_schemas_pass() -> None:
    check_schema("{}")
    check_schema(json.dumps({"properties": {f"a{i}": {"type": "string", "maxLength": 2000} for i in range(100)}}))
    check_schema(json.dumps(nested(60)))
    check_schema(json.dumps({"pattern": "^(a{1,2000}[{5000])$", "maxItems": 2000, "minLength": None}))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "bytes|nested"),
        ("[" * 30_000, "not valid JSON"),
        ("true", "should be an object"),
        ('{"a": "' + "x" * 70_000 + '"}', "at most 65536"),
        (json.dumps(nested(65)), "nested deeper than 64"),
        ('{"items": {"maxItems": 1000000000}}', "maxItems should be from 0 to 2000"),
        ('{"minLength": -1}', "minLength should be from"),
        ('{"minLength": 1e300}', "minLength should be from"),
        ('{"pattern": "^a{99999999999999}$"}', "repeats something more than 2000"),
        (json.dumps({"properties": {f"a{i}": {} for i in range(101)}}), "more than 100 properties"),
    ],
)
def test_bombs_are_refused_with_the_limit_they_exceed(schema: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        check_schema(schema)
    assert caught.value.extra["param"] == "json_schema"
