"""Merging: which of two versions stays, decided alike on every machine and in any order of arrival.

Closed nodes never change. An open node of a model only grows; of a person's, the version with the greater `changed` stays.
Values (of the story, of marks, runs) have a time each, and the last one stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from srb.stories.nodes import Node, common_units
from srb.stories.places import Place, Refusal, Shelf, fit


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with the time at which a client set it, in milliseconds; `json` is its canonical text."""

    json: str
    changed: int

    def replaces(self, other: Entry | None) -> bool:
        """Whether this entry stays and the other goes; at equal times the greater text stays."""
        return other is None or (self.changed, self.json) > (other.changed, other.json)


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
    place = shelf.place(name)
    if place is None:
        return _write(new, shelf)
    old = shelf.node(name)
    match _order(old, new):
        case _Order.CONFLICT:
            return Refusal("conflict", "another node of this name is stored, or another text of it, and it stays")
        case _Order.OLDER:
            return Keep(differs=True)
        case _Order.SAME:
            joined = old.joined(new)
            return Keep(joined.json != new.json) if joined.json == old.json else Write(joined, place)
    kept = shelf.most_kept(name)
    if kept is not None and _unchanged(old, new) < kept:
        return Refusal("children", f"{kept} units of its text are kept by other nodes, and this version changes them")
    return _write(new, shelf)


def _write(node: Node, shelf: Shelf) -> Write | Refusal:
    place = fit(node, shelf)
    return place if isinstance(place, Refusal) else Write(node, place)


def _order(old: Node, new: Node) -> _Order:
    """Compare a stored version of a node with a posted one."""
    if (old.by, old.parent) != (new.by, new.parent):
        return _Order.CONFLICT
    if old.open and new.open:
        return _order_of_persons(old, new) if old.by == "person" else _order_of_growing(old, new)
    if old.core == new.core:
        return _Order.SAME if old.open == new.open else _Order.NEWER if old.open else _Order.OLDER
    if old.open:  # the new version closes it
        return _Order.NEWER if old.by == "person" or _grows(old, new) else _Order.CONFLICT
    if new.open:  # a version from before it was closed, or somebody still writes it
        late = _is_before(new, old) if old.by == "person" else _grows(new, old)
        return _Order.OLDER if late else _Order.CONFLICT
    return _Order.CONFLICT


def _order_of_growing(old: Node, new: Node) -> _Order:
    """Compare two open versions of a text that only grows."""
    if old.core == new.core:
        mine, theirs = old.changed or 0, new.changed or 0
        return _Order.SAME if mine == theirs else _Order.NEWER if mine < theirs else _Order.OLDER
    if _grows(old, new):
        return _Order.NEWER
    return _Order.OLDER if _grows(new, old) else _Order.CONFLICT


def _order_of_persons(old: Node, new: Node) -> _Order:
    """Compare two open versions of a person's text by their times; without times the last that arrives stays."""
    if old.changed is not None and new.changed is not None and old.changed != new.changed:
        return _Order.NEWER if old.changed < new.changed else _Order.OLDER
    if old.core == new.core:
        return _Order.SAME
    if old.changed is None or new.changed is None:
        return _Order.NEWER
    return _Order.NEWER if old.json < new.json else _Order.OLDER


def _grows(old: Node, new: Node) -> bool:
    return (old.keep, old.tail) == (new.keep, new.tail) and new.text.startswith(old.text)


def _is_before(early: Node, late: Node) -> bool:
    return early.changed is not None and late.changed is not None and early.changed <= late.changed


def _unchanged(old: Node, new: Node) -> int:
    """Return how many units at the beginning of a node's whole text stay as they are."""
    return old.keep + common_units(old.text, new.text) if old.keep == new.keep else min(old.keep, new.keep)
