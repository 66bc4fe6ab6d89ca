"""References within a JSON schema: what they name, and which schemas are only a part of what holds for a value. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

OF_OBJECTS = ("properties", "required", "patternProperties")
OF_PARTS = ("if", "not", "dependentSchemas")
UNIONS = ("anyOf", "oneOf", "allOf")
IN_PLACE = (*UNIONS, "if", "then", "else", "not")  # schemas of the same value
_BESIDE = frozenset({"$ref", "$defs", "definitions", "$schema", "$id", "title", "description", "default", "examples"})


def has_parts(schema: dict[str, Any]) -> bool:
    """Whether more than one schema speaks of a value: several of those within, or one of them and this one."""
    unions = [schema[key] for key in UNIONS if key in schema]
    every = schema.get("allOf")
    is_one = len(unions) < 2 and not (isinstance(every, list) and len(every) > 1)
    return not is_one or not schema.keys().isdisjoint((*OF_OBJECTS, *OF_PARTS))


class References:
    """The references of a whole schema. `has_ids`: they may be relative to addresses within, which are not followed.

    `heads`: the keywords of the whole below which references lead.
    """

    def __init__(self, whole: dict[str, Any]) -> None:
        self.has_ids = False
        self.heads: set[str] = set()
        self._whole = whole
        self._anchors: dict[str, Any] = {}
        self._shared: set[int] = set()  # the identities of schemas, which live as long as the whole
        waiting: list[str] = []
        self._walk(whole, False, waiting)
        while waiting:
            found = self.target(waiting.pop())
            if isinstance(found, dict) and id(found) not in self._shared:
                self._shared.add(id(found))
                waiting += _in_place(found)

    def target(self, reference: str) -> Any:
        """Return what a reference within the schema names; None if there is nothing."""
        if not reference.startswith("#"):
            return None
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        found: Any = self._whole
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found

    def is_shared(self, schema: dict[str, Any]) -> bool:
        """Whether something refers to this schema where another one speaks of the same value."""
        return id(schema) in self._shared

    def _walk(self, schema: Any, is_shared: bool, shared: list[str]) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._walk(each, is_shared, shared)
        if not isinstance(schema, dict):
            return
        self.has_ids = self.has_ids or isinstance(schema.get("$id"), str)
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(name), str):
                self._anchors[schema[name]] = schema
        if isinstance(reference := schema.get("$ref"), str):
            self.heads.add(reference.removeprefix("#/").partition("/")[0])
            if is_shared or schema.keys() - _BESIDE:
                shared.append(reference)
        is_shared = is_shared or has_parts(schema)
        for key, value in schema.items():
            self._walk(value, is_shared and key in IN_PLACE, shared)


def _in_place(schema: Any) -> Iterator[str]:
    """Yield the references that speak of the same value as a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _in_place(each)
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for key in IN_PLACE:
            yield from _in_place(schema.get(key))
