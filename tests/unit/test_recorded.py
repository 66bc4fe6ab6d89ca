"""Schemas of recorded answers: what a file of examples says of an answer, and that all files are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from srb.web import openapi
from srb.web.openapi import schemas_of

FILES = sorted((Path(openapi.__file__).parent / "dialects").glob("*/answers.json"))

EXAMPLES: dict[str, Any] = {
    "Plain": [{"id": 1, "rate": 0.5, "name|null": "a", "seed?": 2, "end|null?": "x", "tags": ["a"], "none": []}],
    "Map": [{"top": {"…": 0.5}, "any": "…"}],
    "Further": [{"code": 1, "…": "…"}],
    "Item": [{"type": "text", "text": "a"}, {"type": "call", "name": "f"}],
    "Items": [["@Item", None]],
    "State": [{"#": "A word.", "state": "|on|off"}],
}


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    known = openapi._examples
    monkeypatch.setattr(openapi, "_examples", lambda dialect: EXAMPLES if dialect == "made" else known(dialect))
    schemas_of.cache_clear()


def is_like(name: str, value: Any) -> bool:
    schema = {"$ref": f"#/components/schemas/made.{name}", "components": {"schemas": schemas_of(f"made.{name}")}}
    return jsonschema_rs.is_valid(schema, value)


WHOLE = {"id": 1, "rate": 1, "name": None, "tags": [], "none": [0]}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Plain", WHOLE, True),
        ("Plain", WHOLE | {"seed": 3, "end": None}, True),
        ("Plain", WHOLE | {"end": "x"}, True),
        ("Plain", WHOLE | {"end": 1}, False),
        ("Plain", WHOLE | {"id": None}, False),
        ("Plain", WHOLE | {"id": 1.5}, False),
        ("Plain", WHOLE | {"tags": [1]}, False),
        ("Plain", WHOLE | {"other": 1}, False),
        ("Plain", {key: value for key, value in WHOLE.items() if key != "name"}, False),
        ("Map", {"top": {"a": 1, "b": 0.25}, "any": [{}]}, True),
        ("Map", {"top": {"a": "b"}, "any": 1}, False),
        ("Further", {"code": 2, "n_ctx": 3}, True),
        ("Further", {"n_ctx": 3}, False),
        ("Item", {"type": "call", "name": "g"}, True),
        ("Item", {"type": "call", "text": "g", "name": "f"}, False),
        ("Items", [None, {"type": "text", "text": ""}], True),
        ("Items", [{"type": "text"}], False),
        ("State", {"state": "off"}, True),
        ("State", {"state": "|on|off"}, False),
        ("State", {"state": "on", "#": "A word."}, False),
    ],
)
def test_an_answer_is_like_one_of_its_examples(name: str, value: Any, expected: bool) -> None:
    assert is_like(name, value) is expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_answer_of_a_file_has_a_schema_and_refers_to_answers_that_are_there(file: Path) -> None:
    for name in orjson.loads(file.read_bytes()):
        found = schemas_of(f"{file.parent.name}.{name}")
        for schema in found.values():
            jsonschema_rs.meta.validate(schema)
            assert set(openapi._references(schema)) <= found.keys()
