"""How many lists and objects of a JSON schema may be open at once. Pure.

llguidance keeps every alternative that the text may still be. Where alternatives lead to alternatives, a bracket opens or
closes all of them with each other, and the work of one token grows with the third power of their number.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from srb.engine.grammar.limits import MAX_NESTED
from srb.engine.grammar.recursion import groups
from srb.engine.grammar.references import References, list_of

_CHOICES = ("anyOf", "oneOf")
_OTHERS = {"null", "boolean", "integer", "number", "string"}


def nested_alternatives(whole: dict[str, Any], references: References) -> int:
    """Return how many lists and objects are alternatives that lead to further alternatives; 0 if they are few."""
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
