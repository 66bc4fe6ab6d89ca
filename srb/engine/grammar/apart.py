"""Whether JSON schemas have no value in common, as far as types, only values and required properties tell. Pure.

llguidance reads `oneOf` as `anyOf`, which is the same where its schemas are apart, as those of tagged unions are.
"""

import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

MAX_APART = 64  # schemas compared each with each; more count as not apart, which only loosens
_KINDS = ("null", "boolean", "number", "string", "array", "object")


def are_apart(schemas: Sequence[Any]) -> bool:
    """Whether each value follows at most one of these schemas, whose references were looked up."""
    if len(schemas) > MAX_APART:
        return False
    seen = [_Seen(each) for each in schemas if each is not False]
    return all(_are_two_apart(one, other) for one, other in combinations(seen, 2))


class _Seen:
    """A schema as it is compared."""

    def __init__(self, schema: Any) -> None:
        schema = schema if isinstance(schema, dict) else {}
        self.values = _only_values(schema)
        self.kinds = _kinds(schema) if self.values is None else {_kind(json.loads(value)) for value in self.values}
        properties, required = schema.get("properties"), schema.get("required")
        self.properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        self.required = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        self.names = set(self.properties) if is_closed else None  # that an object may have; None: any

    def needs_more_than(self, other: "_Seen") -> bool:
        """Whether an object needs a property that the other's may not have."""
        return other.names is not None and not self.required <= other.names

    def tags(self, name: str) -> frozenset[str] | None:
        schema = self.properties.get(name)
        return _only_values(schema) if isinstance(schema, dict) else None


def _are_two_apart(one: _Seen, other: _Seen) -> bool:
    if not (both := one.kinds & other.kinds):
        return True
    if one.values is not None and other.values is not None:
        return not one.values & other.values
    if both != {"object"} or one.values is not None or other.values is not None:
        return False
    if one.needs_more_than(other) or other.needs_more_than(one):
        return True
    for name in one.required & other.required:
        mine, others = one.tags(name), other.tags(name)
        if mine is not None and others is not None and not mine & others:
            return True
    return False


def _only_values(schema: dict[str, Any]) -> frozenset[str] | None:
    """Return the only values of a schema, as JSON that is equal for equal values; None if there may be others."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(map(_text, values)) if isinstance(values, list) else None


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Return the kinds of a schema's values; whole numbers are numbers."""
    types = schema.get("type", list(_KINDS))
    return {"number" if each == "integer" else each for each in (types if isinstance(types, list) else [types])}


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
