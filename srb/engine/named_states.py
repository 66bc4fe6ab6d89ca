"""States by name: a text that the tree keeps longest, and that a store may hold beyond the server's life."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srb.engine.match import Match
from srb.engine.model import SavedState, Scales, StateStore
from srb.engine.node import Node, NodeState
from srb.engine.prefix_tree import PrefixTree
from srb.engine.request import Request
from srb.engine.residency import Residency


class NamedStates:
    """Keeps, saves and takes in texts of the tree."""

    def __init__(self, tree: PrefixTree, residency: Residency, store: StateStore | None) -> None:
        """`store` is where states outlive the server; None: nowhere."""
        self._tree = tree
        self._residency = residency
        self._store = store

    # ---- of a prompt

    def keep_prompt(self, request: Request) -> None:
        """Keep a complete prompt under its request's name, and store it where it is not stored already."""
        prefix = request.prefix
        assert prefix.node is not None
        assert prefix.logits is not None
        self._residency.keep(request.state_name, prefix.node)
        is_new = request.saved is None or request.saved.tokens != prefix.tokens
        if self._store is not None and is_new and (blob := self._residency.snapshot(prefix.node)) is not None:
            self._store.save(request.state_name, SavedState(prefix.tokens, blob, prefix.logits, request.lora))
        request.saved = None

    def adopt(self, saved: SavedState) -> None:
        """Take in a text that was saved elsewhere, as a parked node, unless it is here or has no place."""
        root = self._tree.root(saved.lora)
        known = self._tree.match(saved.tokens, root).length
        if len(saved.blob) > self._residency.cache_bytes or known >= len(saved.tokens) - 1:
            return
        node = Node(root, saved.tokens, NodeState.PARKED)
        node.blob, node.logits = saved.blob, saved.logits if len(saved.logits) else None
        self._residency.adopt(node)

    # ---- of any text

    def save(self, name: str, tokens: Sequence[int], lora: Scales) -> SavedState | None:
        """Keep and store a text as far as the tree holds it; None where that is nothing, or no room to take it."""
        at = self._residency.bring(self._match(tokens, lora))
        try:
            blob = self._residency.snapshot(at) if at.end else None
        finally:
            self._residency.unpin(at)
        if blob is None:
            return None
        logits = at.logits if at.logits is not None else np.empty(0, np.float32)
        state = SavedState(list(tokens[: at.end]), blob, logits, lora)
        self._residency.keep(name, at)
        if self._store is not None:
            self._store.save(name, state)
        return state

    def kept(self, name: str) -> tuple[list[int], Scales] | None:
        """Return the tokens that are kept under a name, and the scales they were computed with."""
        node = self._residency.kept(name)
        if node is None:
            return None
        return [token for each in node.path() for token in each.tokens], self._tree.scales(node.root)

    def held(self, tokens: Sequence[int], lora: Scales) -> int:
        """Return how many tokens of a text the tree holds."""
        return self._match(tokens, lora).length

    def forget(self, tokens: Sequence[int], lora: Scales) -> int:
        """Drop a text as far as nothing else stands on it; return how many tokens that were."""
        match, count = self._match(tokens, lora), 0
        node = match.node
        while match.into is None and node.parent is not None and not node.pins and not node.children:
            parent, count = node.parent, count + len(node.tokens)
            self._residency.drop(node)
            node = parent
        return count

    def _match(self, tokens: Sequence[int], lora: Scales) -> Match:
        return self._tree.match([*tokens, -1], self._tree.root(lora))  # −1 is no token: it stands for what comes next
