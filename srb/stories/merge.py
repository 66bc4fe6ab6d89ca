"""Merging: which of two versions stays, decided alike on every machine and page, and in any order of arrival.

A model's text only grows: the longer version stays, also where two pages followed one branch and one of them saw less of it.
A person's node is rewritten while it is open, and the version with the greater `changed` stays; closed, it never changes.
Values (of the story, of marks, runs) have a time each, and the last one stays. Of versions that nothing else tells apart the
one with the greater canonical text stays. The page decides alike, in story/merge.js.
"""

from dataclasses import dataclass
from enum import Enum, auto

import orjson

from srb.stories.canonical import canonical, in_utf16
from srb.stories.nodes import Node, common_units
from srb.stories.places import Place, Refusal, Shelf, fit


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with the time at which a client set it, in milliseconds; `json` is its stored text."""

    json: str
    changed: int

    def replaces(self, other: "Entry | None") -> bool:
        """Whether this entry stays and the other goes."""
        if other is None or self.changed != other.changed:
            return other is None or self.changed > other.changed
        return self.json != other.json and _rank(self.json) > _rank(other.json)


@dataclass(frozen=True, slots=True)
class Write:
    """A node to be written."""

    node: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Keep:
    """A stored node that stays as it is; `differs` if it is not the one that was posted."""

    differs: bool


class _Order(Enum):
    NEWER = auto()
    SAME = auto()
    OLDER = auto()
    CONFLICT = auto()


def decide(name: str, new: Node, shelf: Shelf) -> Write | Keep | Refusal:
    """Return what becomes of a posted node."""
    if shelf.place(name) is None:
        return _write(new, shelf)
    old = shelf.node(name)
    match _order(old, new):
        case _Order.CONFLICT:
            return Refusal("conflict", "another node of this name is stored, or another text of it, and it stays")
        case _Order.SAME:
            return Keep(differs=False)
        case _Order.OLDER:
            return Keep(differs=True)
    # A child has the beginning of its parent's text by length alone: another beginning would change the child's.
    if old.core != new.core and (children := shelf.children(name)) is not None:
        kept = children.most_kept
        if children.has_tails or kept > _unchanged(old, new):
            return Refusal("children", "other nodes keep a part of its text, which this version changes or moves")
    return _write(new, shelf)


def _write(node: Node, shelf: Shelf) -> Write | Refusal:
    place = fit(node, shelf)
    return place if isinstance(place, Refusal) else Write(node, place)


def _order(old: Node, new: Node) -> _Order:
    """Compare a stored version of a node with a posted one."""
    if (old.by, old.parent) != (new.by, new.parent):
        return _Order.CONFLICT
    if old.by == "model":
        return _order_of_models(old, new)
    if old.open and new.open:
        return _order_of_drafts(old, new)
    if old.open:  # the new version closes it
        return _Order.NEWER
    if new.open:  # a version from before it was closed, or somebody still writes it
        return _Order.OLDER if old.core == new.core or _is_before(new, old) else _Order.CONFLICT
    return _order_of_texts(old, new) if old.core == new.core else _Order.CONFLICT


def _order_of_models(old: Node, new: Node) -> _Order:
    """Compare two versions of a text that only grows; of equal ones the closed one is the later."""
    if (old.keep, old.tail) != (new.keep, new.tail):
        return _Order.CONFLICT
    if old.text == new.text:
        if old.open == new.open:
            return _order_of_texts(old, new)
        return _Order.NEWER if old.open else _Order.OLDER
    if new.text.startswith(old.text):
        return _Order.NEWER
    return _Order.OLDER if old.text.startswith(new.text) else _Order.CONFLICT


def _order_of_drafts(old: Node, new: Node) -> _Order:
    """Compare two open versions of a person's text by their times; without times the last that arrives stays."""
    if old.changed is None and new.changed is None:
        return _Order.SAME if old.json == new.json else _Order.NEWER
    mine, theirs = old.changed or 0, new.changed or 0
    if mine == theirs:
        return _order_of_texts(old, new)
    return _Order.NEWER if mine < theirs else _Order.OLDER


def _order_of_texts(old: Node, new: Node) -> _Order:
    """Compare two versions that nothing else tells apart by their texts."""
    if old.json == new.json:
        return _Order.SAME
    return _Order.NEWER if _rank(old.json) < _rank(new.json) else _Order.OLDER


def _rank(text: str) -> tuple[bytes, str]:
    """Return a stored text's place among versions of equal times; 1 and 1.0, one value for a page, differ in the last."""
    return in_utf16(canonical(orjson.loads(text))), text


def _is_before(early: Node, late: Node) -> bool:
    return early.changed is not None and late.changed is not None and early.changed <= late.changed


def _unchanged(old: Node, new: Node) -> int:
    """Return how many units at the beginning of a node's whole text stay as they are."""
    return old.keep + common_units(old.text, new.text) if old.keep == new.keep else min(old.keep, new.keep)
