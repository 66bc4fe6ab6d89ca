"""Answers in the formats of others: examples of each, in its dialect's `answers.json`, and the JSON schemas that follow.

An answer is like one of its examples: it has the same keys, with values of the same types. In a file a key that ends with ?
may be absent, and the value of one that ends with |null may be null; "…" stands for any value or, as a key, for any further
keys, and "@Name" for another answer.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

_ANY, _ABSENT, _NULL, _OTHER = "…", "?", "|null", "@"
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@cache
def schemas_of(name: str) -> dict[str, Any]:
    """Return the schema of an answer, as `dialect.Name` names it, and of those that it refers to, by their names."""
    dialect, _, answer = name.partition(".")
    found = {name: _schema(_examples(dialect)[answer], dialect)}
    for place, option in enumerate(
        options := found[name].get("anyOf", [])
    ):  # by names, as generators of clients want it
        if "$ref" not in option:
            found[f"{name}.{place}"] = option
            options[place] = {"$ref": f"#/components/schemas/{name}.{place}"}
    for other in {each for schema in list(found.values()) for each in _references(schema)} - found.keys():
        found |= schemas_of(other)
    return found


@cache
def _examples(dialect: str) -> dict[str, list[Any]]:
    file = Path(__file__).with_name("dialects") / dialect / "answers.json"
    found: dict[str, list[Any]] = orjson.loads(file.read_bytes())
    return found


def _schema(examples: Sequence[Any], dialect: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for example in examples:
        if (schema := _of(example, dialect)) not in found:
            found.append(schema)
    return found[0] if len(found) == 1 else {"anyOf": found}


def _of(example: Any, dialect: str) -> dict[str, Any]:
    """Return the schema of one example."""
    if isinstance(example, dict):
        further = _of(example[_ANY], dialect) if _ANY in example else False
        schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": further}
        for key, value in example.items():
            name = key.removesuffix(_ABSENT).removesuffix(_NULL)
            if key != _ANY:
                schema["properties"][name] = _schema([value, None] if _NULL in key else [value], dialect)
                schema["required"] += [] if key.endswith(_ABSENT) else [name]
        return schema
    if isinstance(example, list):
        return {"type": "array", "items": _schema(example, dialect)} if example else {"type": "array"}
    if example == _ANY:
        return {}
    if isinstance(example, str) and example.startswith(_OTHER):
        name = example.removeprefix(_OTHER)
        return {"$ref": f"#/components/schemas/{name if '.' in name else f'{dialect}.{name}'}"}
    return {"type": _TYPES[type(example)]}


def _references(schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    inner = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    for each in inner:
        if isinstance(each, dict):
            yield from _references(each)
