"""Saved sequences of llama.cpp, split: they have two layouts, values of a cell together, or transposed.

A context with flash attention has the values of each cell in a row, one without has them transposed: for each value's
place in the row, those of all cells. Keys are the same in both. A saved sequence begins with 8 bytes of llama.cpp's, and has
for each cache (one of all layers, or one of the layers without windows and one of those with them)

    n_stream, n_cells                                 uint32 each
    position, 1, seq_id                               int32 each, of each cell; with M-RoPE three more
    transposed, n_layers                              uint32 each
    type, bytes of a row, rows                        int32, uint64, of each layer's keys
    type, bytes of a row, rows                        int32, uint64, of each layer's values; or, transposed,
    type, bytes of a value, values of a row, columns  int32, uint32, uint32

as llama_kv_cache::state_write has it (src/llama-kv-cache.cpp). States of recurrent layers follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srb.engine.model import Blob

_HEAD = 8  # bytes before the first cache


@dataclass(frozen=True)
class Form:
    """The form of a memory's saved sequences."""

    num_caches: int = 1
    has_states: bool = False
    cell_bytes: int = 12  # of a cell's position and ids


def split(blob: Blob, count: int, form: Form) -> tuple[Blob, Blob] | None:
    """Return the first `count` tokens of a saved sequence, and the others, or None if its form is another one.

    Both have the states that follow the cells, and caches with another number of cells: the newest windows are states.
    """
    parts, at, order = ([blob[:_HEAD]], [blob[:_HEAD]]), _HEAD, None
    for _ in range(form.num_caches):
        found = _tables(blob, at, form)
        if found is None:
            return None
        n_cells, tables, end = found
        if order is None:  # cells stand in the order of memory, not of the text
            positions = tables[0][0, :, :4].copy().view(np.int32).ravel() if n_cells else np.empty(0, np.int32)
            order = np.argsort(positions, kind="stable")
            chosen = np.sort(order[:count]), np.sort(order[count:])
        for some, cells in zip(parts, chosen, strict=True):
            if n_cells == len(order):
                some += [blob[at : at + 4], _bytes(np.uint32(len(cells)))]
                some += [table[:, cells].ravel() if table.ndim == 3 else table for table in tables]
            else:
                some.append(blob[at:end])
        at = end
    if order is None or not 0 < count < len(order) or (not form.has_states and at != len(blob)):
        return None
    upper, lower = (np.concatenate([*some, blob[at:]]) for some in parts)
    return upper, lower


def num_cells(blob: Blob) -> int:
    """Return the number of cells of a saved sequence's first cache; 0 for bytes that are none."""
    return _number(blob, _HEAD + 4, np.uint32) if len(blob) >= _HEAD + 8 else 0


def _tables(blob: Blob, at: int, form: Form) -> tuple[int, list[Blob], int] | None:
    """Return the number of cells of the cache at a place of a saved sequence, what follows that number, and its end.

    Tables of shape (values, cells, bytes) alternate with heads of shape (bytes,).
    """

    def table(values: int, size: int) -> bool:
        """Take a table that the blob has whole."""
        nonlocal at
        start, at = at, at + values * n_cells * size
        if at <= len(blob):
            tables.append(blob[start:at].reshape(values, n_cells, size))
        return at <= len(blob)

    def head(size: int) -> bool:
        nonlocal at
        at += size
        tables.append(blob[at - size : at])
        return at <= len(blob)

    if len(blob) < at + 8 or _number(blob, at, np.uint32) != 1:
        return None
    n_cells, at = _number(blob, at + 4, np.uint32), at + 8
    tables: list[Blob] = []
    if not n_cells:
        return 0, tables, at
    if not (table(1, form.cell_bytes) and head(8)) or (transposed := _number(blob, at - 8, np.uint32)) > 1:
        return None
    n_layers = _number(blob, at - 4, np.uint32)
    for _ in range(n_layers):
        if not (head(12) and table(1, _number(blob, at - 8, np.uint64))):
            return None
    for _ in range(n_layers if at < len(blob) else 0):  # some models have keys alone
        if not head(12):
            return None
        size = _number(blob, at - 8, np.uint32 if transposed else np.uint64)
        if not table(_number(blob, at - 4, np.uint32) if transposed else 1, size):
            return None
    return n_cells, tables, at


def _number(blob: Blob, at: int, kind: type[np.unsignedinteger]) -> int:
    return int(blob[at : at + np.dtype(kind).itemsize].copy().view(kind)[0])


def _bytes(numbers: np.generic | np.ndarray) -> Blob:
    return np.frombuffer(numbers.tobytes(), np.uint8)
