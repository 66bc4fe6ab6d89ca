"""Sequences of models with M-RoPE, in which the tokens of a picture share positions.

The engine counts tokens; llama.cpp cuts, copies and saves by positions. Several cells have the same position, so nothing
is ever cut within a picture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

from srb.engine.llama.sequences import GuardedSequences, NewestWindows, NewestWindowsAlone, Sequences, StatefulSequences
from srb.engine.llama.swa import SwaCache, usable_sequences
from srb.engine.model import Batch, Blob
from srb.engine.positions import Positions

NUM_SECTIONS = 4  # of a position: t, y, x and z
_MORE_CELL_BYTES = 12  # of a saved cell: its x and y, and its token


class MRopeSequences(Sequences):
    """Sequences of another kind, whose positions are those of the tokens less what pictures save."""

    def __init__(self, inner: Sequences) -> None:
        self._inner = inner
        inner.form = replace(inner.form, cell_bytes=inner.form.cell_bytes + _MORE_CELL_BYTES)
        self._positions = Positions()
        self.count = inner.count
        self.can_be_cut = inner.can_be_cut
        self.has_states = inner.has_states
        self.shares_states = inner.shares_states

    def positions(self, batch: Batch) -> list[int] | npt.NDArray[np.int32]:
        places = self._positions.of(batch)
        if batch.vectors is not None and isinstance(places, list):  # the same in all sections
            return np.tile(np.array(places, np.int32), NUM_SECTIONS)
        return places if isinstance(places, list) else places.ravel()

    def computed(self, batch: Batch) -> None:
        self._inner.computed(batch)
        self._positions.computed(batch)

    def fork(self, source: int, target: int, end: int | None) -> None:
        self._inner.fork(source, target, self._positions.fork(source, target, end))

    def truncate(self, seq_id: int, end: int) -> None:
        self._inner.truncate(seq_id, self._positions.cut(seq_id, end))

    def splice(self, source: int, target: int, end: int) -> None:
        self._inner.splice(source, target, self._positions.at(target, end))  # the same text, so the same runs

    def save(self, seq_id: int, start: int) -> Blob:
        return self._positions.pack(seq_id, start, self._inner.save(seq_id, self._positions.at(seq_id, start)))

    def restore(self, seq_id: int, blob: Blob) -> bool:
        try:
            runs, cells = self._positions.unpack(blob)
        except ValueError:
            return False
        if not self._inner.restore(seq_id, cells):
            return False
        self._positions.restored(seq_id, runs)
        return True

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        try:
            return self._positions.split(blob, at, lambda cells: self._inner.split(cells, start, at))
        except ValueError:
            return None

    def save_state(self, seq_id: int) -> Blob:
        return self._inner.save_state(seq_id)

    def restore_state(self, seq_id: int, state: Blob) -> bool:
        return self._inner.restore_state(seq_id, state)

    def copy_state(self, source: int, target: int) -> None:
        self._inner.copy_state(source, target)

    def remove(self, seq_id: int) -> None:
        self._inner.remove(seq_id)
        self._positions.remove(seq_id)

    def clear(self) -> None:
        self._inner.clear()
        self._positions.clear()


def has_mrope(model: Any) -> bool:
    """Whether a model has M-RoPE."""
    return lib.llama_model_rope_type(model) in (lib.LLAMA_ROPE_TYPE_MROPE, lib.LLAMA_ROPE_TYPE_IMROPE)


def sequences_of(context: Any, model: Any, windows: SwaCache) -> Sequences:
    """Return the sequences of a context that was made for these `windows`."""
    sequences = _sequences_of(context, model, windows)
    return MRopeSequences(sequences) if has_mrope(model) else sequences


def _sequences_of(context: Any, model: Any, windows: SwaCache) -> Sequences:
    count = usable_sequences(int(lib.llama_n_seq_max(context)), windows)
    if windows is SwaCache.FULL:
        return GuardedSequences(context, count, lib.llama_model_n_swa(model))
    if windows is SwaCache.SMALL:
        return NewestWindowsAlone(context, count)
    if windows is SwaCache.BESIDE_STATES:
        return NewestWindows(context, count)
    has_windows = lib.llama_model_n_swa(model) > 0  # in an architecture that is not cut
    is_recurrent = bool(lib.llama_model_is_recurrent(model))
    if (is_recurrent or lib.llama_model_is_hybrid(model)) and not has_windows:
        return StatefulSequences(context, count, has_cells=not is_recurrent)
    return Sequences(context, count, cuts=not has_windows)
