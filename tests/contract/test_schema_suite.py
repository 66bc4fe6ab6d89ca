"""The JSON Schema Test Suite, draft 7 and 2020-12: which of its instances a schema lets a model write."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.schemas import LOOSENED, prepared
from srb.errors import InvalidRequest
from tests import vocabularies
from tests.made_schemas import takes
from tests.needs import need
from tools.generated import API
from tools.json_schema_suite import DRAFTS, FOLDER
from tools.real_models import path_of
from tools.schema_table import EXAMPLES

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
# Groups whose valid instances are refused, though the log has no word of it, by the reason, which docs/api.md tells.
HABITS = {
    "a schema without a type is of objects if it has properties, of lists if it has items; no further properties": (
        "additionalProperties.json: additionalProperties being false does not allow other properties",
        "additionalProperties.json: additionalProperties are allowed by default",
        "anyOf.json: anyOf complex types",
        "items.json: a schema given for items",
        "items.json: an array of schemas for items",
        "not.json: forbidden property",
        "properties.json: object properties validation",
        "properties.json: properties whose names are Javascript object property names",
        "ref.json: root pointer ref",
        "ref.json: refs with relative uris and defs",
        "ref.json: relative refs with absolute uris and defs",
        "ref.json: simple URN base URI with $ref via the URN",
        "required.json: required validation",
        "unevaluatedItems.json: non-array instances are valid",
    ),
    "a number of const and enum is written as the schema writes it, a whole number without a fraction": (
        "const.json: const with 0 does not match other zero-like types",
        "const.json: const with 1 does not match true",
        "const.json: const with -2.0 matches integer and float types",
        "const.json: float and integers are equal up to 64-bit representation limits",
        "enum.json: enum with 0 does not match false",
        "enum.json: enum with [0] does not match [false]",
        "enum.json: enum with 1 does not match true",
        "enum.json: enum with [1] does not match [true]",
        "type.json: integer type matches integers",
    ),
    "a format holds in every draft": tuple(
        f"format.json: {name} format"
        for name in ("email", "ipv4", "ipv6", "hostname", "date", "date-time", "time", "uri", "uuid", "duration")
    ),
    "keywords beside a reference hold in every draft": ("ref.json: ref overrides any sibling keywords",),
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """A schema of the suite, and its instances with whether each is valid."""

    draft: str
    name: str
    schema: Any
    instances: tuple[tuple[Any, bool], ...]


@dataclass(frozen=True)
class Judged:
    """A group, what is said of its schema, and the instances that are taken otherwise than the suite has it."""

    group: Group
    remarks: tuple[str, ...] = ()
    error: str = ""
    refused: tuple[Any, ...] = ()
    let_through: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        if self.error:
            return "no grammar" if any(is_valid for _, is_valid in self.group.instances) else "exact"
        if not self.refused and not self.let_through:
            return "exact"
        return "loosened" if self.remarks else "let through" if self.let_through else "refused"


@cache
def groups() -> tuple[Group, ...]:
    """Return the groups without references to other documents, which the server does not fetch."""
    need(FOLDER.exists(), "the JSON Schema Test Suite: python -m tools.json_schema_suite")
    found = []
    for draft in DRAFTS:
        for path in sorted((FOLDER / draft).glob("*.json")):
            for each in json.loads(path.read_text()):
                schema = each["schema"]
                if draft == "draft7" and isinstance(schema, dict):
                    schema = {"$schema": _DRAFT_7, **schema}
                instances = tuple((test["data"], test["valid"]) for test in each["tests"])
                found.append(Group(draft, f"{path.name}: {each['description']}", schema, instances))
    return tuple(group for group in found if not _is_remote(group))


def _is_remote(group: Group) -> bool:
    text = json.dumps(group.schema)
    return (
        group.name.startswith("refRemote.json")
        or '"http://localhost:1234/draft' in text
        or f'"$ref": "{_DRAFT_7}"' in text
        or '"$ref": "https://json-schema.org/draft/2020-12/schema"' in text
    )


@pytest.fixture(scope="module", params=["fake", "smollm2", "gemma3"])
def grammars(request: pytest.FixtureRequest) -> Grammars:
    """The grammars of a vocabulary: 302, 49,152 and 262,144 tokens."""
    if request.param == "fake":
        made = FakeModel(n_ctx=64, n_seq_max=1, n_batch=16).grammars
    else:
        path: Path = path_of(request.param)
        need(path.exists(), f"{path.name}: make real-models fetches it")
        made = vocabularies.load(path).grammars
    made.make_ready()  # a grammar that waits for its vocabulary on a busy machine may take too long
    return made


@pytest.fixture(scope="module")
def judged(grammars: Grammars) -> list[Judged]:
    return [_judge(grammars, group) for group in groups()]


def _judge(grammars: Grammars, group: Group) -> Judged:
    try:
        made = prepared(json.dumps(group.schema), "json_schema")
        matcher = grammars.matcher("root ::= schema-0", (made.text,), "json_schema")
    except InvalidRequest as error:
        return Judged(group, error=error.message)
    taken = [(data, is_valid, takes(matcher, data)) for data, is_valid in group.instances]
    return Judged(
        group,
        made.remarks,
        refused=tuple(data for data, is_valid, is_taken in taken if is_valid and not is_taken),
        let_through=tuple(data for data, is_valid, is_taken in taken if is_taken and not is_valid),
    )


def test_nothing_invalid_is_let_through_but_where_the_log_names_the_place(judged: list[Judged]) -> None:
    assert [(each.group.name, each.let_through) for each in judged if each.kind == "let through"] == []


def test_what_is_valid_is_refused_by_habits_alone(judged: list[Judged]) -> None:
    known = {name for names in HABITS.values() for name in names}
    assert {each.group.name for each in judged if each.kind == "refused"} == known


def test_what_does_not_hold_is_in_the_documented_table(judged: list[Judged]) -> None:
    loosened = {remark.split()[0].rpartition(".")[2] for each in judged for remark in each.remarks}
    assert loosened <= {*LOOSENED, *(key for example in EXAMPLES for key in example)}


def test_the_documented_numbers_are_those_of_the_suite(judged: list[Judged]) -> None:
    count = Counter(each.kind for each in judged)
    said = (
        f"Of the {len(judged)} groups of the JSON Schema Test Suite (drafts 7 and 2020-12, "
        "without references to other documents), "
        f"{count['exact']} are exact on all their instances, {count['loosened']} are loosened as the table says, "
        f"in {count['refused']} a valid instance is refused by the habits above, and {count['no grammar']} make no grammar."
    )
    assert said in " ".join(API.read_text().split())
