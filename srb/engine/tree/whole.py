"""Whole texts, for memory that cannot be cut: each is reused whole or not at all, and found by a hash of its tokens.

The hash of a text's first i tokens is the sum of (token + 2) × M^j over 1 ≤ j ≤ i, modulo 2⁶⁴. One pass of numpy gives
it for every i, so a prompt can be looked up at each length that any text has. Equal hashes are checked token by token.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter

import numpy as np
import numpy.typing as npt

from srb.engine.tokens import Tokens
from srb.engine.tree.match import Match
from srb.engine.tree.node import Node, NodeState

_FACTOR = 0x9E3779B97F4A7C15  # odd, so that its powers never vanish


def prefix_hashes(tokens: Tokens) -> npt.NDArray[np.uint64]:
    """Return the hashes of the first 1, 2, … tokens, shape (len(tokens),)."""
    values = np.asarray(tokens).astype(np.uint64) + np.uint64(2)
    powers = np.full(len(values), _FACTOR, np.uint64)
    return np.cumsum(values * np.cumprod(powers, dtype=np.uint64), dtype=np.uint64)


def text_key(tokens: Tokens) -> int:
    """Return the hash of a whole text, which is its node's key; 0 for no tokens."""
    return int(prefix_hashes(tokens)[-1]) if tokens else 0


class Lengths:
    """Lengths of the texts, in ascending order, each with the number of texts that have it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._sorted: list[int] = []

    def add(self, length: int) -> None:
        if not self._counts[length]:
            insort(self._sorted, length)
        self._counts[length] += 1

    def remove(self, length: int) -> None:
        self._counts[length] -= 1
        if not self._counts[length]:
            del self._counts[length]
            del self._sorted[bisect_right(self._sorted, length) - 1]

    def up_to(self, limit: int) -> list[int]:
        """Return the lengths up to `limit`, longest first."""
        return self._sorted[: bisect_right(self._sorted, limit)][::-1]


def longest_whole_match(tokens: Tokens, root: Node, lengths: Lengths, usable: int) -> Match:
    """Match `tokens` with the texts under `root`; return the longest text that `tokens` begin with.

    A text longer than `usable` tokens matches only if the logits of its last token are known.
    """
    if not tokens or not root.children:
        return Match(root)
    hashes, awaits = prefix_hashes(tokens), None
    for length in lengths.up_to(len(tokens)):
        for node in root.children.get(int(hashes[length - 1]), ()):
            if node.tokens != tokens[:length]:
                continue
            if node.state is NodeState.COMPUTING:
                awaits = awaits or node
            elif length <= usable or node.logits is not None:
                return Match(node, awaits=awaits, logits=node.logits if length > usable else None)
    return Match(root, awaits=awaits)


def find_text(tokens: Tokens, root: Node, key: int) -> Node | None:
    """Return the node of exactly this text, whose hash is `key`, unless it is being computed, or None."""
    siblings = root.children.get(key, ())
    return next((node for node in siblings if node.tokens == tokens and node.state is not NodeState.COMPUTING), None)
