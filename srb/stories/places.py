"""Places of nodes in their parents' texts: checked by stored lengths, so an edit costs nothing for the text around it."""

from dataclasses import dataclass
from typing import Protocol

from srb.stories.nodes import Node, splits_pair


@dataclass(frozen=True, slots=True)
class Place:
    """The numbers of a stored node: its splice, the units of its own text, and the length of its whole text."""

    parent: str | None
    keep: int
    tail: int | None
    units: int
    length: int
    open: bool

    @property
    def written(self) -> int:
        """The length of the parent's part and the node's own text, without the parent's rest."""
        return self.keep + self.units


@dataclass(frozen=True, slots=True)
class Children:
    """The parts of a node's text that its children stand on: the greatest `keep`, and whether any goes on with `tail`."""

    most_kept: int
    has_tails: bool


class Places(Protocol):
    """The known nodes of one story."""

    @property
    def has_pairs(self) -> bool:
        """Whether any text has a character of two units; without one no offset can split a pair."""

    def place(self, name: str) -> Place | None:
        """Return a node's place, or None for an unknown node."""

    def node(self, name: str) -> Node:
        """Return a stored node."""


class Shelf(Places, Protocol):
    """The stored nodes of one story."""

    def children(self, name: str) -> Children | None:
        """Return where a node's children stand, or None without children."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that is not stored; `reason` is a word for programs, `message` a sentence."""

    reason: str
    message: str


def fit(node: Node, shelf: Places) -> Place | Refusal:
    """Return a node's place in its parent's text, or why it has none."""
    own = node.units
    if node.parent is None:
        return Place(None, 0, None, own, own, node.open)
    parent = shelf.place(node.parent)
    if parent is None:
        return Refusal("parent_unknown", f"its parent {node.parent} is not in the story")
    if parent.open and node.tail is not None:
        return Refusal("parent_open", f"its parent {node.parent} is still being written, so `tail` has no meaning yet")
    most = parent.written if parent.open else parent.length
    if node.keep > most:
        return Refusal("beyond", f"`keep` is {node.keep}, but the parent's text has {most} units")
    if node.tail is not None and node.tail > parent.length:
        return Refusal("beyond", f"`tail` is {node.tail}, but the parent's text has {parent.length} units")
    for name, offset in (("keep", node.keep), ("tail", node.tail)):
        if offset is not None and shelf.has_pairs and _splits(node.parent, offset, shelf):
            return Refusal("splits_pair", f"`{name}` is {offset}, between the halves of one character")
    rest = 0 if node.tail is None else parent.length - node.tail
    return Place(node.parent, node.keep, node.tail, own, node.keep + own + rest, node.open)


def _splits(name: str, offset: int, shelf: Places) -> bool:
    """Whether an offset into a node's whole text splits a character: only inside one piece can it do so."""
    while (place := shelf.place(name)) is not None:
        if place.keep < offset < place.written:
            return splits_pair(shelf.node(name).text, offset - place.keep)
        if offset in (place.keep, place.written, place.length):
            return False
        if offset > place.written:
            assert place.tail is not None, "only a node with `tail` has a text behind its own"
            offset += place.tail - place.written
        if place.parent is None:
            return False
        name = place.parent
    return False
