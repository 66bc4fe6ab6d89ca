"""How much of a text a tree of nodes holds. Everything here reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srb.engine.node import Node, NodeState

WORTH_SHARING = 16  # tokens: fewer are computed sooner than waited for, and cheaper kept twice than split off


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a text there is: `node`'s whole path and `cut` tokens of its child `into`.

    `awaits` is a node that another request is computing and that holds more of this text: worth waiting for.
    """

    node: Node
    into: Node | None = None
    cut: int = 0
    awaits: Node | None = None

    @property
    def length(self) -> int:
        return self.node.end + self.cut


def longest_match(tokens: Sequence[int], start: Node, can_cut: bool) -> Match:
    """Find how much of a text is there, at or below `start`; all of it only with the logits of its last token.

    Without `can_cut` a node is used whole or not at all.
    """
    node, usable = start, len(tokens) - 1
    while True:
        child, common = best_child(node, tokens, node.end, can_cut)
        if child is None:
            return Match(node)
        whole = common == len(child.tokens)
        if child.state is NodeState.COMPUTING:
            gains = common > child.num_computed
            cut = min(common, child.num_computed, usable - node.end) if can_cut else 0
            return Match(node, child if cut else None, cut, child if gains else None)
        if whole and (child.end <= usable or child.logits is not None):
            node = child
            if node.end == len(tokens):
                return Match(node)
            continue
        cut = min(common, usable - node.end) if can_cut else 0
        return Match(node, child if cut else None, cut)


def best_child(node: Node, tokens: Sequence[int], offset: int, can_cut: bool) -> tuple[Node | None, int]:
    """Return the child that shares most of `tokens[offset:]`, and how many, where that is worth anything."""
    best, most = None, 0
    for child in node.children:
        common = common_length(child.tokens, tokens, offset)
        if common > most and _is_worth_sharing(child, common, len(tokens) - offset, can_cut):
            best, most = child, common
    return best, most


def _is_worth_sharing(child: Node, common: int, wanted: int, can_cut: bool) -> bool:
    if not can_cut:
        return common == len(child.tokens)
    return common >= WORTH_SHARING or common in (len(child.tokens), wanted)


def common_length(a: Sequence[int], b: Sequence[int], offset: int) -> int:
    """Return how many tokens `a` and `b[offset:]` have in common at their beginning."""
    most = min(len(a), len(b) - offset)
    if most <= 0 or a[0] != b[offset]:
        return 0
    if a[:most] == b[offset : offset + most]:
        return most
    low, high = 1, most  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[offset + low : offset + middle]:
            low = middle
        else:
            high = middle
    return low
