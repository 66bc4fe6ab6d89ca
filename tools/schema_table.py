"""The table in docs/api.md of what the grammar of a JSON schema leaves out, made by preparing examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from srb.engine.fake import FakeModel
from srb.engine.grammar.grammars import Grammars
from srb.engine.grammar.limits import MAX_TOGETHER
from srb.engine.grammar.schemas import LOOSENED, prepared
from srb.errors import InvalidRequest

HEADER = "| In a schema | Then |"
_FIELD = "json_schema"
# Schemas of a property, each with one thing that is out of reach.
EXAMPLES: tuple[dict[str, Any], ...] = (
    {"pattern": "^(?!tmp)[a-z]+$"},
    {"pattern": "(?<=a)b"},
    {"pattern": r"\bfoo\b"},
    {"pattern": r"(a)\1"},
    {"patternProperties": {"^a": {}, "a$": {}}},
    {"oneOf": [{"minLength": 2}, {"maxLength": 4}]},
    {"format": "iri"},
    {"multipleOf": 0.123456789},
    {"maximum": 1.7976931348623157e308},
    {"enum": []},
    {"required": True},
    {"properties": {"a": {}}, "minProperties": 1},
    {"properties": {"a": {}}, "maxProperties": 1},
    {"$schema": "https://example.com/own"},
    {"$ref": "https://example.com/other.json"},
    {"$ref": "#/$defs/missing"},
    {"pattern": "("},
    {"type": "text"},
    {"allOf": [{"pattern": f"{letter}$"} for letter in "abcdefghi"[: MAX_TOGETHER + 1]]},
    {"allOf": [{"patternProperties": {"^a": {}}}, {"patternProperties": {"a$": {}}}]},
    {"allOf": [{"type": "string"}, {"type": "integer"}]},
    {"properties": {"a": {"$ref": "#/properties/box"}}, "allOf": [{"$ref": "#/properties/box/properties/a"}]},
)


def page(text: str) -> str:
    """Return docs/api.md with the table's rows. Raise ValueError without its header."""
    before, found, after = text.partition(f"{HEADER}\n|---|---|\n")
    if not found:
        raise ValueError(f"docs/api.md has no table {HEADER!r}")
    _, _, rest = after.partition("\n\n")
    return f"{before}{found}{''.join(_rows())}\n{rest}"


def _rows() -> Iterator[str]:
    beside = {
        "properties": {"a": {}},
        "anyOf": [{}],
    }  # some mean the same as others where nothing else speaks of a value
    said = {_said({**beside, name: {"const": 1}}).replace(f".{name} ", ".KEYWORD ") for name in LOOSENED}
    assert len(said) == 1, said
    yield f"| `{', '.join(LOOSENED)}` | {said.pop()} |\n"
    for example in EXAMPLES:
        yield f"| `{json.dumps(example)}` | {_said(example)} |\n".replace("\\\\", "\\")


@cache
def _grammars() -> Grammars:
    return FakeModel(n_ctx=64, n_seq_max=1, n_batch=16).grammars


def _said(schema: dict[str, Any]) -> str:
    """Return the warning that the log has about a property's schema, or the refusal."""
    try:
        made = prepared(json.dumps({"properties": {"box": schema}, "required": ["box"]}), _FIELD)
        if not made.remarks:
            _grammars().matcher("root ::= schema-0", (made.text,), _FIELD)
    except InvalidRequest as error:
        return f"400: `{error.message}`"
    [remark] = made.remarks
    return f"`{remark}`"
