"""Whether JSON schemas have no value in common, as far as types, only values and required properties tell. Pure.

llguidance reads `oneOf` as `anyOf`, which is the same where its schemas are apart, as those of tagged unions are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from srb.engine.grammar.limits import MAX_NESTED
from srb.engine.grammar.recursion import groups
from srb.engine.grammar.references import References, list_of

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


_CHOICES = ("anyOf", "oneOf")
_OTHERS = {"null", "boolean", "integer", "number", "string"}


def nested_alternatives(whole: dict[str, Any], references: References) -> int:
    """Return how many lists and objects are alternatives that lead to further alternatives; 0 if they are few.

    llguidance keeps every alternative that the text may still be. Where alternatives lead to alternatives, a bracket opens
    or closes all of them with each other, and the work of one token grows with the third power of their number.
    """
    nodes = {id(node): node for node in _nodes(whole)}
    if sum(len(each) for node in nodes.values() for each in _choices(node)) <= MAX_NESTED:
        return 0
    in_place: dict[int, set[int]] = {}
    all_below: dict[int, set[int]] = {}
    for key, node in nodes.items():
        targets = [references.target(node["$ref"])] if isinstance(node.get("$ref"), str) else []
        parts = [part for word in _CHOICES for part in list_of(node, word)]
        parts += every if len(every := list_of(node, "allOf")) == 1 else []
        in_place[key] = {id(each) for each in (*targets, *parts) if id(each) in nodes}
        all_below[key] = in_place[key].union(id(each) for each in _children(node) if id(each) in nodes)
    containers: dict[int, frozenset[int]] = {}  # that a node may be
    for group in groups(in_place, list(nodes)):
        found = {key for key in group if _is_container(nodes[key])}
        found.update(*(containers[inner] for key in group for inner in in_place[key] if inner in containers))
        containers |= dict.fromkeys(group, frozenset(found))
    wide = {key for key, node in nodes.items() if any(_choices(node)) and len(containers[key]) > 1}
    leading: set[int] = set()  # nodes that are such a choice, or lead to one
    for group in groups(all_below, list(nodes)):
        if any(key in wide or not leading.isdisjoint(all_below[key]) for key in group):
            leading.update(group)
    return len(leading.intersection(*[set().union(*(containers[key] for key in wide))]))


def _nodes(whole: Any) -> Iterator[dict[str, Any]]:
    waiting = [whole]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
        waiting += _children(node)


def _children(node: Any) -> Iterable[Any]:
    """Return the parts of a value, those of lists in it included."""
    inner = list(node.values()) if isinstance(node, Mapping) else list(node) if isinstance(node, list) else []
    return [part for each in inner for part in (each if isinstance(each, list) else (each,))]


def _choices(node: dict[str, Any]) -> list[list[Any]]:
    return [each for word in _CHOICES if len(each := list_of(node, word)) > 1]


def _is_container(node: dict[str, Any]) -> bool:
    """Whether a schema itself is one of lists or objects, and not those that it names are."""
    is_merged = len(list_of(node, "allOf")) > 1
    if not is_merged and not node.keys().isdisjoint(("$ref", *_CHOICES, "allOf", "enum", "const")):
        return False
    kinds = node.get("type", ())
    named = set(kinds if isinstance(kinds, list) else [kinds] if isinstance(kinds, str) else ())
    return not named or not named <= _OTHERS
