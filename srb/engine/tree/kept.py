"""Cells that a parked text keeps: the newest text's beginning stays in the KV store until something else is computed.

Idle texts are parked, since each step of other texts would visit their cells. While nothing runs they cost nothing, and
the next prompt mostly goes on with the newest text: then its beginning is taken back as it lies there, and not restored.
The text must stay together, since a step visits all cells up to the last one in use. So only *solid* cells are kept:
those of one path, in its order, at the beginning of the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srb.engine.tokens import Tokens, has_at
from srb.engine.tree.node import Node, NodeState


class SolidCells:
    """The number of cells from the first one on that hold one path in its order, as far as growth and removal tell."""

    def __init__(self) -> None:
        self.count = 0

    def note_growth(self, start: int, count: int, used: int) -> None:
        """Note that `count` tokens were added to a path of `start` tokens, while `used` cells were in use."""
        if start == used == self.count:
            self.count += count

    def cut(self, most: int) -> None:
        """Note that no more than the first `most` cells are certain to be solid."""
        self.count = min(self.count, most)


@dataclass(frozen=True, slots=True)
class KeptText:
    """The beginning of a parked text, in the sequence `seq_id`, which no node has."""

    root: Node
    tokens: Tokens
    seq_id: int

    @staticmethod
    def of(leaf: Node, count: int, seq_id: int) -> KeptText:
        """Return the first `count` tokens of the path to `leaf`, which `seq_id` holds."""
        return KeptText(leaf.root, leaf.text()[:count], seq_id)

    def has(self, at: Node, steps: Iterable[Node]) -> list[Node]:
        """Return the first of the nodes `steps`, which follow each other after `at`, whose cells are kept.

        Of live nodes there is none but on the kept text's path, so `at` is on it, or the root.
        """
        found: list[Node] = []
        if at.root is not self.root or (at.parent is not None and at.seq_id is None):
            return found
        for node in steps:
            is_kept = node.end <= len(self.tokens) and has_at(self.tokens, node.start, node.tokens)
            if node.state is not NodeState.PARKED or node.is_inner or not is_kept:
                break
            found.append(node)
        return found
