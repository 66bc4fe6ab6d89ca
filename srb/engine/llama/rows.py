"""The rows of logits that a context's last decode left."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp as lib

from srb.engine.llama.memory import floats_at
from srb.engine.model import Logits


class Rows:
    """Views of a context's rows of logits, which its next decode overwrites."""

    def __init__(self, context: Any, n_vocab: int) -> None:
        self.context = context
        self._n_vocab = n_vocab
        self._wanted: list[int] = []  # 1 for each row of the last decode that has logits
        self._logits: dict[int, Logits] = {}  # views of these rows, once one of them was asked for
        self._address, self._views = 0, list[Logits]()  # where llama.cpp has had its rows, and views of them

    def follow(self, wanted: list[int]) -> None:
        """Take the rows of the next decode: 1 for each that has logits, else 0."""
        self._wanted = wanted
        self._logits.clear()

    def has(self, row: int) -> bool:
        return 0 <= row < len(self._wanted) and bool(self._wanted[row])

    def logits(self, row: int) -> Logits:
        """Return a wanted row, shape (n_vocab,)."""
        if not self._logits:  # llama.cpp has the wanted rows one after the other; a view of each alone would cost more
            wanted = [row for row, is_wanted in enumerate(self._wanted) if is_wanted]
            self._logits = dict(zip(wanted, self._all(len(wanted)), strict=False))
        return self._logits[row]

    def order(self, row: int) -> None:
        """Have llama.cpp put its rows into order, as the first call for a row does; then threads may read them."""
        lib.llama_get_logits_ith(self.context, row)

    def _all(self, count: int) -> list[Logits]:
        """Return views of `count` rows or more; made again only if they lie elsewhere."""
        pointer = lib.llama_get_logits(self.context)
        address = ctypes.addressof(pointer.contents)
        if address != self._address or count > len(self._views):
            self._address = address
            self._views = list(floats_at(pointer, count * self._n_vocab).reshape(-1, self._n_vocab))
        return self._views
