"""Sequences in llama.cpp's KV store: forked, cut, saved and restored, for each kind of memory.

The last sequence id is the scratch, through which spans are saved and restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

from srb.engine.llama.batch import NativeBatch
from srb.engine.llama.kv_layout import Form, num_cells, split
from srb.engine.llama.memory import bytes_pointer
from srb.engine.model import Batch, Blob

_STATE_ALONE = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


class Sequences:
    """Sequences of memory without windows and states; those of plain attention can be cut."""

    has_states = False
    shares_states = False
    form = Form()

    def __init__(self, context: Any, count: int, cuts: bool) -> None:
        """Use the first `count` sequence ids of the context and the next one as the scratch."""
        self._context = context
        self._memory = lib.llama_get_memory(context)
        self.count = count
        self.can_be_cut = cuts
        self._scratch = count

    def positions(self, batch: Batch) -> list[int] | npt.NDArray[np.int32]:
        """Return llama.cpp's positions of a batch: shape (tokens,), or (4, tokens) for vectors, section by section."""
        return batch.positions

    def computed(self, batch: Batch) -> None:
        """Note that a batch was computed."""

    def fork(self, source: int, target: int, end: int | None) -> None:
        self._copy(source, target, *((-1, -1) if end is None else (0, end)))

    def truncate(self, seq_id: int, end: int) -> None:
        self._cut(seq_id, end, -1)

    def splice(self, source: int, target: int, end: int) -> None:
        self._cut(target, 0, end)
        self._copy(source, target, 0, end)

    def save(self, seq_id: int, start: int) -> Blob:
        return self._state(seq_id) if not start else self._span(seq_id, start, -1)

    def restore(self, seq_id: int, blob: Blob) -> bool:
        return self._append(seq_id, blob) if self.can_be_cut else self._set_state(seq_id, blob)

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        """Return the two spans of a saved one from `start` on, up to `at` and from there on; None: its form is not known."""
        return split(blob, at - start, self.form)

    def save_state(self, seq_id: int) -> Blob:
        return self._state(seq_id, _STATE_ALONE)

    def restore_state(self, seq_id: int, state: Blob) -> bool:
        return self._set_state(seq_id, state, _STATE_ALONE)

    def copy_state(self, source: int, target: int) -> None:
        """Let a sequence share the state of another's end, where `shares_states`."""
        self._copy(source, target, 0, 0)

    def remove(self, seq_id: int) -> None:
        self._cut(seq_id)

    def clear(self) -> None:
        lib.llama_memory_clear(self._memory, True)

    def _span(self, seq_id: int, start: int, end: int) -> Blob:
        """Save the positions from `start` up to `end`, −1: all, through the scratch."""
        self._copy(seq_id, self._scratch, start, end)
        blob = self._state(self._scratch)
        self._cut(self._scratch)
        return blob

    def _append(self, seq_id: int, blob: Blob) -> bool:
        """Restore a saved span behind the sequence's end, through the scratch; return False if there is no room."""
        # llama.cpp empties the sequence that it restores into, and puts the span behind what that held (`12-cells-behind`).
        # Without the last position the span could get cells before the sequence's own, and sums would have another order.
        self._copy(seq_id, self._scratch, self._end(seq_id) - 1, -1)
        if not self._set_state(self._scratch, blob):
            return False
        self._copy(self._scratch, seq_id)
        self._cut(self._scratch)
        return True

    # ---- llama.cpp's calls; positions from `start`, up to `end`, -1: all

    def _copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None:
        lib.llama_memory_seq_cp(self._memory, source, target, start, end)

    def _cut(self, seq_id: int, start: int = -1, end: int = -1) -> None:
        lib.llama_memory_seq_rm(self._memory, seq_id, start, end)

    def _end(self, seq_id: int) -> int:
        return int(lib.llama_memory_seq_pos_max(self._memory, seq_id)) + 1

    def _state(self, seq_id: int, flags: int = 0) -> Blob:
        size = lib.llama_state_seq_get_size_ext(self._context, seq_id, flags)
        blob = np.empty(size, np.uint8)
        if lib.llama_state_seq_get_data_ext(self._context, bytes_pointer(blob), size, seq_id, flags) != size:
            raise AssertionError(f"sequence {seq_id} could not be saved")
        return blob

    def _set_state(self, seq_id: int, blob: Blob, flags: int = 0) -> bool:
        size = len(blob)
        if lib.llama_state_seq_set_data_ext(self._context, bytes_pointer(blob), size, seq_id, flags) == size:
            return True
        self._cut(seq_id)
        return False


class GuardedSequences(Sequences):
    """Sequences over a full-size cache of sliding windows, which can be cut anywhere.

    For new tokens llama.cpp also takes cells that are beyond their sequence's window, though the cache has empty ones. It
    takes no cell that two sequences share, so each sequence has a *guard*: a second one, never computed on, that shares
    its cells from before they leave the window. Nor does it save cells beyond the window of a sequence's last
    token, so spans are saved window by window.
    """

    form = Form(num_caches=2)

    def __init__(self, context: Any, count: int, window: int) -> None:
        """Use the first `count` sequence ids, the next one as the scratch, and as many again for guards."""
        super().__init__(context, count, cuts=True)
        self._window = window
        self._n_ubatch = int(lib.llama_n_ubatch(context))
        self._guarded = [0] * count  # the end of each sequence's guarded part

    def computed(self, batch: Batch) -> None:
        for seq_id, position in zip(batch.seq_ids, batch.positions, strict=True):
            if (position + 1) % self._window == 0:  # no token leaves a window, or llama 4's chunk, before this
                self._guard(seq_id, self._guarded[seq_id])
        if len(batch) > self._n_ubatch:  # its first part was not guarded yet while the second was placed
            for seq_id in set(batch.seq_ids):
                if lib.llama_memory_seq_pos_min(self._memory, seq_id) != 0:
                    raise AssertionError(f"sequence {seq_id} lost cells to its own batch of {len(batch)} tokens")

    def fork(self, source: int, target: int, end: int | None) -> None:
        super().fork(source, target, end)
        self._guard(target, 0)

    def truncate(self, seq_id: int, end: int) -> None:
        super().truncate(seq_id, end)
        self._cut(self._guard_of(seq_id), end, -1)
        self._guarded[seq_id] = min(self._guarded[seq_id], end)

    def splice(self, source: int, target: int, end: int) -> None:
        self._cut(self._guard_of(target), 0, end)
        super().splice(source, target, end)
        self._guard(target, 0)

    def save(self, seq_id: int, start: int) -> Blob:
        return self._span(seq_id, start, self._end(seq_id))

    def restore(self, seq_id: int, blob: Blob) -> bool:
        parts = _parts(blob)
        if parts is None:
            return False
        for part in parts:
            if not self._append(seq_id, part):
                return False
            self._guard(seq_id, self._guarded[seq_id])
        return True

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        uppers: list[Blob] = []
        lowers, left = _parts(blob) or [], at - start
        while lowers and left:
            part = lowers.pop(0)
            size = num_cells(part)
            if size > left:
                parts = split(part, left, self.form)
                if parts is None:
                    return None
                part, size, lowers = parts[0], left, [parts[1], *lowers]
            uppers.append(part)
            left -= size
        return (_joined(uppers), _joined(lowers)) if lowers and not left else None

    def remove(self, seq_id: int) -> None:
        super().remove(seq_id)
        self._cut(self._guard_of(seq_id))
        self._guarded[seq_id] = 0

    def clear(self) -> None:
        super().clear()
        self._guarded = [0] * self.count

    def _span(self, seq_id: int, start: int, end: int) -> Blob:
        windows = self._windows(start, end)
        return _joined([super(GuardedSequences, self)._span(seq_id, *window) for window in windows])

    def _guard_of(self, seq_id: int) -> int:
        return self._scratch + 1 + seq_id

    def _guard(self, seq_id: int, start: int) -> None:
        """Let a sequence's guard share all its cells from position `start` on."""
        self._copy(seq_id, self._guard_of(seq_id), start, -1)
        self._guarded[seq_id] = self._end(seq_id)

    def _windows(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the spans from `start` to `end`, none with a token that the window of its last one does not reach."""
        while start < end:
            until = min(end, (start // self._window + 1) * self._window)
            yield start, until
            start = until


def _joined(parts: list[Blob]) -> Blob:
    """Return parts of a span as one, each behind its size."""
    sized = [each for part in parts for each in (np.array([len(part)], np.uint64).view(np.uint8), part)]
    return np.concatenate(sized) if sized else np.empty(0, np.uint8)


def _parts(blob: Blob) -> list[Blob] | None:
    """Return the parts of a joined span; None if it is not one."""
    parts, at = [], 0
    while at < len(blob):
        if at + 8 > len(blob):
            return None
        size = int(blob[at : at + 8].copy().view(np.uint64)[0])
        parts.append(np.ascontiguousarray(blob[at + 8 : at + 8 + size]))
        at += 8 + size
    return parts


class StatefulSequences(Sequences):
    """Sequences of recurrent and hybrid memory: cells of attention layers, which can be cut, and a state of the end.

    A copy to a sequence gives it the source's state, whatever span of cells is copied, and llama.cpp cuts no sequence whose
    state is beyond the cut. So a sequence loses its state before it is cut, and after it got a part of another. Spans are
    saved without a state. Purely recurrent memory has no cells: nothing is saved but states.
    """

    has_states = True
    shares_states = True
    form = Form(has_states=True)

    def __init__(self, context: Any, count: int, has_cells: bool) -> None:
        super().__init__(context, count, cuts=True)
        self._has_cells = has_cells
        self._no_state = self._state(self._scratch, _STATE_ALONE)  # of an empty sequence

    def fork(self, source: int, target: int, end: int | None) -> None:
        super().fork(source, target, end)
        if end is not None:
            self._drop_state(target)

    def truncate(self, seq_id: int, end: int) -> None:
        self._drop_state(seq_id)
        self._cut(seq_id, end, -1)

    def splice(self, source: int, target: int, end: int) -> None:
        if self._has_cells:
            self._copy(target, self._scratch, end, -1)
            self._cut(target)
            self._copy(source, target, 0, end)
            self._copy(self._scratch, target)  # the state with it
            self._cut(self._scratch)

    def save(self, seq_id: int, start: int) -> Blob:
        return self._span(seq_id, start, -1) if self._has_cells else np.empty(0, np.uint8)

    def split(self, blob: Blob, start: int, at: int) -> tuple[Blob, Blob] | None:
        return super().split(blob, start, at) if self._has_cells else (blob, blob)

    def restore(self, seq_id: int, blob: Blob) -> bool:
        if not self._has_cells:
            self._drop_state(seq_id)
            return True
        return super().restore(seq_id, blob)

    def _span(self, seq_id: int, start: int, end: int) -> Blob:
        self._copy(seq_id, self._scratch, start, end)
        self._drop_state(self._scratch)
        blob = self._state(self._scratch)
        self._cut(self._scratch)
        return blob

    def _drop_state(self, seq_id: int) -> None:
        if not self._set_state(seq_id, self._no_state, _STATE_ALONE):
            raise AssertionError(f"the state of sequence {seq_id} could not be dropped")


class NewestWindows(StatefulSequences):
    """Sequences over the small cache of sliding windows: the window of a sequence's newest tokens is in its state.

    llama.cpp has room for one window for each sequence, and frees a cell beyond the window only if no other sequence has
    it, so no two sequences share a window: a fork gets a copy of its source's state. The cells of layers without windows
    are shared, cut and saved as others. A sequence without a state has that of a text of one token, since llama.cpp can
    replace the window of a sequence, and not remove it alone.
    """

    shares_states = False
    form = Form(num_caches=2, has_states=True)

    def __init__(self, context: Any, count: int) -> None:
        super().__init__(context, count, has_cells=True)
        batch = Batch()
        batch.add(0, 0, [0], want_logits=True)
        if lib.llama_decode(context, NativeBatch(1).fill(batch)) != 0:
            raise AssertionError("one token could not be computed")
        self._no_state = self._state(0, _STATE_ALONE)
        self._cut(0)

    def fork(self, source: int, target: int, end: int | None) -> None:
        state = self._state(source, _STATE_ALONE) if end is None else self._no_state
        self._copy(source, target, *((-1, -1) if end is None else (0, end)))
        self._set_own_state(target, state)

    def splice(self, source: int, target: int, end: int) -> None:
        state = self._state(target, _STATE_ALONE)
        self._drop_state(target)
        self._cut(target, 0, end)
        self._copy(source, target, 0, end)
        self._set_own_state(target, state)

    def restore(self, seq_id: int, blob: Blob) -> bool:
        if not super().restore(seq_id, blob):
            return False
        self._drop_state(seq_id)  # else it would share the scratch's
        return True

    def _set_own_state(self, seq_id: int, state: Blob) -> None:
        if not self._set_state(seq_id, state, _STATE_ALONE):
            raise AssertionError(f"there is no room for the window of sequence {seq_id}")


class NewestWindowsAlone(NewestWindows):
    """Sequences over the small cache of sliding windows in a model without recurrent layers.

    The scratch needs no window, so its id is beyond the context's `n_seq_max`, by which llama.cpp sizes the cache. With
    unified cells such an id can be copied, cut and restored, but not saved. (Recurrent layers know no ids beyond.)
    """

    form = Form(num_caches=2)

    def save(self, seq_id: int, start: int) -> Blob:
        self._copy(seq_id, self._scratch)  # which keeps the whole sequence, while the sequence itself is the span
        self._cut(seq_id, 0, start)
        self._drop_state(seq_id)
        blob = self._state(seq_id)
        self._cut(seq_id)
        self._copy(self._scratch, seq_id)
        self._cut(self._scratch)
        return blob
