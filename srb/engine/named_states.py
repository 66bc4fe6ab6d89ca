"""Named states: texts that are evicted last, and that a store may keep beyond the server's life."""

from collections.abc import Callable

import numpy as np

from srb.engine.model import SavedState, Scope, StateStore
from srb.engine.request import Request
from srb.engine.tokens import NEXT, Tokens, tokens_of
from srb.engine.tree.match import Match
from srb.engine.tree.node import NodeState
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import SRBError, Unavailable


class NamedStates:
    """Names of texts in the tree, and a store for those texts."""

    def __init__(self, tree: PrefixTree, residency: Residency, store: StateStore | None) -> None:
        """Keep states in `store` beyond the server's life; None: in memory only."""
        self._tree = tree
        self._residency = residency
        self._store = store

    # ---- of a prompt

    def keep_prompt(self, request: Request) -> None:
        """Name a complete prompt as its request asks, and store it unless the store has it."""
        prefix = request.prefix
        assert prefix.node is not None
        assert prefix.logits is not None
        self._residency.host.set_name(request.state_name, prefix.node)
        request.saved = None
        store, name = self._store, request.state_name
        if store is None or store.is_busy or store.holds(name, prefix.tokens, request.scope):
            return  # a busy store gets it with the next request of this name
        if (blob := self._residency.snapshot(prefix.node)) is not None:
            store.save(name, SavedState(prefix.tokens, blob, prefix.logits, request.scope))

    def insert(self, saved: SavedState) -> None:
        """Insert a saved text as a parked node, unless the tree has it or it does not fit into host memory."""
        root = self._tree.root(saved.scope)
        known = self._tree.match(saved.tokens, root).length
        if len(saved.blob) > self._residency.cache_bytes or known >= len(saved.tokens) - 1:
            return
        logits = saved.logits if len(saved.logits) else None
        self._residency.insert_parked(root, saved.tokens[:], saved.blob, logits)

    # ---- of any text

    @property
    def has_store(self) -> bool:
        """Whether states are stored beyond the server's life."""
        return self._store is not None

    def save(
        self, name: str, tokens: Tokens, scope: Scope, on_saved: Callable[[SRBError | None], None]
    ) -> SavedState | None:
        """Name and store the part of a text that the tree holds; return None if that is empty or cannot be copied.

        With a store, `on_saved` is called from any thread when the state is safe, or with the error. Raise Unavailable
        if the store is busy.
        """
        if self._store is not None and self._store.is_busy:
            raise Unavailable("other states are still being written; try again in a moment")
        at = self._residency.make_resident(self._match(tokens, scope))
        try:
            blob = self._residency.snapshot(at) if at.end else None
            if blob is None:
                return None
            logits = at.logits if at.logits is not None else np.empty(0, np.float32)
            state = SavedState(tokens[: at.end], blob, logits, scope)
            self._residency.host.set_name(name, at)  # while it is pinned: a node without pins and names may be merged
        finally:
            self._residency.unpin(at)
        if self._store is not None:
            self._store.save(name, state, on_saved)
        return state

    def note_not_saved(self, name: str) -> None:
        """Remove a name from memory after its new text could not be stored; an older stored text keeps the name."""
        self._residency.host.remove_name(name)

    def is_in_memory(self, name: str) -> bool:
        """Whether memory has a text of this name. Safe from any thread; may be outdated on return."""
        return self._residency.host.named(name) is not None

    def find(self, name: str) -> tuple[Tokens, Scope] | None:
        """Return the tokens of a named state and their scope, or None."""
        node = self._residency.host.named(name)
        if node is None:
            return None
        return node.text(), self._tree.scope(node.root)

    def cached_length(self, tokens: Tokens, scope: Scope) -> int:
        """Return how many tokens of a text the tree holds."""
        return self._match(tokens, scope).length

    def evict(self, tokens: Tokens, scope: Scope) -> int:
        """Evict the part of a text that no other text or request needs; return the number of evicted tokens."""
        match, count = self._match(tokens, scope), 0
        node = match.node
        while match.into is None and node.parent is not None and node.is_childless and not node.is_needed:
            parent, count = node.parent, count + len(node.tokens)
            self._residency.evict(node)
            if parent.state is NodeState.EVICTED:  # merged into its other child
                break
            node = parent
        return count

    def _match(self, tokens: Tokens, scope: Scope) -> Match:
        return self._tree.match(tokens + tokens_of((NEXT,)), self._tree.root(scope))
