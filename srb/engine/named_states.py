"""Named states: texts that are evicted last, and that a store of states may keep beyond the server's life.

A state is the text's records in the store of texts. Those that are lacking are written first, one after the other and in no
step's way; then the store of states copies them into a file of the name.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from srb.engine.model import Logits, Record, SavedState, Scope, StateStore
from srb.engine.request import Request
from srb.engine.tokens import NEXT, Tokens, tokens_of
from srb.engine.tree.match import Match
from srb.engine.tree.node import Node, NodeState
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import InsufficientStorage, SRBError, StateNotSaved, not_saved

log = logging.getLogger("srb.states")

OnSaved = Callable[[int, SRBError | None], None]  # with the bytes of the text's KV


@dataclass(slots=True)
class _Saving:
    """A text that is to be stored under a name, once all of its records are written."""

    name: str
    tokens: Tokens
    scope: Scope
    logits: Logits | None  # of the last token
    on_saved: OnSaved | None  # None: a request has named it, and nobody waits


class NamedStates:
    """Names of texts in the tree, and a store for those texts."""

    def __init__(self, tree: PrefixTree, residency: Residency, store: StateStore | None) -> None:
        """Keep states in `store` beyond the server's life, if texts are stored; None: in memory only."""
        self._tree = tree
        self._residency = residency
        self._store = store if residency.stored.store is not None else None
        self._saving: list[_Saving] = []  # in their order

    # ---- of a prompt

    def keep_prompt(self, request: Request) -> None:
        """Name a complete prompt as its request asks, and store it unless the store has it."""
        prefix, name = request.prefix, request.state_name
        assert prefix.node is not None
        self._residency.host.set_name(name, prefix.node)
        store = None if prefix.node.is_private else self._store  # a private node is in no text that can be found
        if store is not None and not store.holds(name, prefix.tokens, request.scope):
            self._saving = [each for each in self._saving if each.name != name or each.on_saved is not None]
            self._saving.append(_Saving(name, prefix.tokens[:], request.scope, prefix.logits, None))

    def adopt(self, saved: SavedState) -> None:
        """Take a text that the store has loaded into the tree, as far as the tree lacks it."""
        self._residency.stored.adopt(zip(saved.records, saved.parts, strict=True))
        for record, blob in zip(saved.records, saved.blobs, strict=True):
            if blob is not None:
                self._residency.stored.note_at_hand(record.id, blob)
        at = self._end_of(self._match(saved.tokens, saved.scope)) if saved.logits is not None else None
        if at is not None and at.end == len(saved.tokens) and at.logits is None:
            self._residency.host.set_logits(at, saved.logits)
        self._residency.host.make_room()  # for the parts of a parked node

    # ---- of any text

    @property
    def has_store(self) -> bool:
        """Whether states are stored beyond the server's life."""
        return self._store is not None

    def save(self, name: str, tokens: Tokens, scope: Scope, on_saved: OnSaved) -> int:
        """Name and store the part of a text that the tree holds; return how many tokens that is.

        With a store, and a text that is not empty, `on_saved` is called from any thread when the state is safe, or with the
        error.
        """
        at = self._end_of(self._match(tokens, scope))
        if at.end:
            self._residency.host.set_name(name, at)
            if self._store is not None:
                self._saving.append(_Saving(name, tokens[: at.end], scope, at.logits, on_saved))
                self.collect()
        self._residency.host.make_room()  # for the parts of a parked node
        return at.end

    def _end_of(self, match: Match) -> Node:
        """Return a node that ends where a match does, or before, where the text is still being computed."""
        node = match.into
        if node is None or node.state is NodeState.COMPUTING:
            return match.node
        return self._residency.cut(node, match.cut) or match.node

    @property
    def is_busy(self) -> bool:
        """Whether parts of texts are still to be written for their names."""
        return bool(self._saving)

    def collect(self) -> None:
        """Store the texts whose records are all written, and write what is lacking of the next one."""
        if not self._saving:
            return
        stored = self._residency.stored
        if stored.pressed is None:
            stored.has_failed = False  # by another text
        while self._saving:
            saving = self._saving[0]
            try:
                records = self._written(saving)
            except StateNotSaved as error:
                log.error("%s", error.message)
                if saving.on_saved is not None:
                    saving.on_saved(0, error)
            else:
                if records is None:
                    return
                assert self._store is not None
                state = SavedState(saving.tokens, records, saving.logits)
                self._store.save(saving.name, state, saving.on_saved and partial(saving.on_saved, state.nbytes))
            self._saving.pop(0)
        stored.set_pressed(None)

    def _written(self, saving: _Saving) -> list[Record] | None:
        """Return a text's records; None: one of them is being written, or waits for room. Raise StateNotSaved."""
        stored = self._residency.stored
        if stored.has_failed:
            assert stored.store is not None
            raise not_saved(saving.name, stored.store.error)
        if not self._residency.can_copy:
            return None
        match = self._match(saving.tokens, saving.scope)
        if match.length < len(saving.tokens):
            what = "memory had no room for its text until it was written"
            raise InsufficientStorage(f"The state {saving.name} was not saved: {what}")
        node = match.into or match.node
        stored.set_pressed(node)
        return self._residency.press(node, match.length)

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
        """Evict the part of a text that no other text or request needs, and that no name waits for; return its tokens."""
        match, count = self._match(tokens, scope), 0
        node = match.node
        saved = set[Node]()
        for saving in self._saving:
            found = self._match(saving.tokens, saving.scope)
            saved.update((found.into or found.node).path())
        while (
            match.into is None
            and node.parent is not None
            and node.is_childless
            and not (node.is_needed or node in saved)
        ):
            parent, count = node.parent, count + len(node.tokens)
            self._residency.evict(node)
            if parent.state is NodeState.EVICTED:  # merged into its other child
                break
            node = parent
        return count

    def _match(self, tokens: Tokens, scope: Scope) -> Match:
        return self._tree.match(tokens + tokens_of((NEXT,)), self._tree.root(scope))
