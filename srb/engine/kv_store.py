"""What is computed and where it lies: lends sequence ids, forks and frees them, and counts the cells in use.

A cell is one position in llama.cpp's unified store. A fork shares its source's cells, so a prefix counts once however
many branches run on it; each branch adds only the tokens it computed itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from srb.engine.model import Model
from srb.engine.request import Branch, Prefix, Request, Span


class KVStore:
    """The one writer of `Span.seq_id` and `Span.num_computed`."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._free_ids = list(range(model.n_seq_max - 1, -1, -1))
        self.used_cells = 0

    @property
    def free_cells(self) -> int:
        return self._model.n_ctx - self.used_cells

    @property
    def free_ids(self) -> int:
        return len(self._free_ids)

    def open(self, prefix: Prefix) -> None:
        """Lend an empty sequence to a prefix."""
        assert prefix.seq_id is None
        prefix.seq_id = self._free_ids.pop()

    def fork(self, branch: Branch) -> None:
        """Lend a sequence to a branch and give it the prefix's KV."""
        prefix = branch.request.prefix
        assert branch.seq_id is None
        assert prefix.seq_id is not None
        branch.seq_id = self._free_ids.pop()
        self._model.fork(prefix.seq_id, branch.seq_id)

    def computed(self, span: Span, count: int) -> None:
        """Record that `count` further tokens of `span` have been computed."""
        span.num_computed += count
        self.used_cells += count

    def release(self, span: Span) -> None:
        """Take the sequence back and free the cells that no other sequence shares; nothing to do where none is lent."""
        if span.seq_id is None:
            return
        self._model.remove(span.seq_id)
        self._free_ids.append(span.seq_id)
        self.used_cells -= span.num_computed
        span.seq_id, span.num_computed = None, 0

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """Sequence ids and cells are conserved: each id is free or lent once, and the count equals what is held."""
        spans = [span for request in requests for span in (request.prefix, *request.branches)]
        lent = [span.seq_id for span in spans if span.seq_id is not None]
        assert sorted(lent + self._free_ids) == list(range(self._model.n_seq_max)), "sequence ids are not conserved"
        assert self.used_cells == sum(span.num_computed for span in spans), "cells are not conserved"
        assert all(span.num_computed == 0 for span in spans if span.seq_id is None), "cells without a sequence"
        assert 0 <= self.used_cells <= self._model.n_ctx, "more cells in use than there are"
