"""Schemas that speak of one value together: what they say of it is what a model may write, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from srb.engine.fake import FakeModel
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.schemas import prepared
from srb.errors import InvalidRequest
from tests.made_schemas import takes
from tests.walks import examples

NAMES = ("a", "b")  # of properties that are whole numbers; "p" is one that is an object
names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
numbers = st.dictionaries(st.sampled_from(NAMES), st.just(1))


@st.composite
def objects(draw: st.DrawFn, depth: int = 1, definitions: str = "") -> dict[str, Any]:
    """Schemas of objects: some of their own, some that refer to `definitions` or are put together of others."""
    inner = objects(depth - 1, definitions) if depth else st.just({"type": "object"})
    references = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in definitions]) if definitions else inner
    made: dict[str, Any] = {"type": "object", "properties": {name: {"type": "integer"} for name in draw(names)}}
    if depth and draw(st.integers(0, 3)):
        made["properties"]["p"] = draw(inner)
    if draw(st.integers(0, 3)) == 0:
        made["required"] = draw(names)
    if draw(st.integers(0, 5)) == 0:
        made["additionalProperties"] = draw(st.sampled_from([False, True]) | inner)
    if draw(st.integers(0, 7)) == 0:
        made["patternProperties"] = {"^p": draw(inner)}
    if depth and draw(st.booleans()):
        made["allOf"] = draw(st.lists(references | inner, min_size=1, max_size=2))
    return draw(references) if draw(st.integers(0, 5)) == 0 else made


values = st.builds(
    lambda own, within, more: own | {"p": within | more},
    numbers, numbers, st.fixed_dictionaries({}, optional={"p": numbers}),
)  # fmt: skip


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    made = FakeModel(n_ctx=64, n_seq_max=1, n_batch=16).grammars
    made.make_ready()
    return made


@given(objects(2, "DE"), objects(1, "E"), objects(), st.lists(values, min_size=4, max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_a_model_may_write_what_all_schemas_of_a_value_allow_with_the_names_of_any(
    grammars: Grammars, schema: dict[str, Any], one: dict[str, Any], other: dict[str, Any], instances: list[Any]
) -> None:
    whole = {**schema, "$defs": {"D": one, "E": other}}
    try:
        made = prepared(json.dumps(whole), "json_schema")
        matcher = grammars.matcher("root ::= schema-0", (made.text,), "json_schema")
    except InvalidRequest as error:
        assume("nsatisfiable" not in error.message)
        raise
    assert made.remarks == ()
    validator = jsonschema_rs.Draft202012Validator(whole)
    for each in instances:
        is_taken = takes(matcher, each)
        if not validator.is_valid(each):
            assert not is_taken, each
        elif _is_named(list(_speaking(schema, whole, set())), each, whole):
            assert is_taken, each


def _speaking(schema: Any, whole: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that speak of the same value."""
    if not isinstance(schema, dict):
        return
    yield schema
    name = schema.get("$ref", "").rpartition("/")[2]
    if name and name not in seen:
        seen.add(name)
        yield from _speaking(whole["$defs"][name], whole, seen)
    for each in schema.get("allOf", ()):
        yield from _speaking(each, whole, seen)


def _is_named(schemas: list[dict[str, Any]], value: Any, whole: dict[str, Any]) -> bool:
    """Whether each property of an object, and of those within it, is named by one of the schemas that speak of it."""
    if not isinstance(value, dict):
        return True
    for name, inner in value.items():
        within = [each["properties"][name] for each in schemas if name in each.get("properties", ())]
        within += [{} for each in schemas if name in each.get("required", ())]
        if not within:
            return False
        if not _is_named([each for schema in within for each in _speaking(schema, whole, set())], inner, whole):
            return False
    return True
