"""Positions of tokens in models that give a picture fewer of them than it has tokens (M-RoPE: Qwen2-VL and its kin).

The engine counts tokens, which are cells. Such a model gives all tokens of a picture's run sections (t, y, x) from the
run's first position on, and the text after it goes on behind the longest of them. So the position of a token is its
index, less what the runs before it have saved; a sequence without such runs has nothing here, and costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from srb.engine.media import MediaRun
from srb.engine.model import Batch, Blob

_MAGIC = b"SRB runs"  # before the cells of a span that has runs
_FIELDS = 3  # start, end and number of positions of a run


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of the tokens `start` … `end` − 1; it and those before it take `saved` positions fewer than tokens."""

    start: int
    end: int
    saved: int
    before: "_Run | None"

    @property
    def first(self) -> int:
        """Position of the first token."""
        return self.start - (self.before.saved if self.before else 0)

    @property
    def num_positions(self) -> int:
        return self.end - self.saved - self.first


class Positions:
    """The runs of each sequence that save positions. Forks share them; a cut goes back through those that it takes."""

    def __init__(self) -> None:
        self._last: dict[int, _Run] = {}  # by sequence; sequences without runs are not here

    def of(self, batch: Batch) -> list[int] | npt.NDArray[np.int32]:
        """Return the positions of a batch that is computed next: one for each token.

        Those of a run of media are of shape (4, tokens), section by section.
        """
        if batch.run is not None and batch.run.chunk.sections is not None:
            run, sections = batch.run, batch.run.chunk.sections
            index = batch.positions[0]
            first = self.at(batch.seq_ids[0], run.start) if index > run.start else self._next(batch.seq_ids[0], index)
            return sections.at(first, run.pictures)[:, index - run.start : index - run.start + len(batch)]
        if not self._last:
            return batch.positions
        saved = {seq_id: self._last[seq_id].saved for seq_id in {*batch.seq_ids} if seq_id in self._last}
        places = zip(batch.positions, batch.seq_ids, strict=True)
        return [index - saved.get(seq_id, 0) for index, seq_id in places]

    def computed(self, batch: Batch) -> None:
        """Note that a batch was computed."""
        if batch.run is not None and batch.positions[0] == batch.run.start:
            self._append(batch.seq_ids[0], batch.run)

    def at(self, seq_id: int, index: int) -> int:
        """Return the position of the token at `index`, which may be the next one. No place within a run has one."""
        run = self._back_to(seq_id, index)
        return index - (run.saved if run else 0)

    def fork(self, source: int, target: int, end: int | None) -> int | None:
        """Let the empty `target` have the runs of `source`, those before `end`; return the position of `end`."""
        run = self._last.get(source) if end is None else self._back_to(source, end)
        if run is not None:
            self._last[target] = run
        return end if end is None else end - (run.saved if run else 0)

    def cut(self, seq_id: int, end: int) -> int:
        """Forget a sequence's runs from `end` on; return the position of `end`."""
        run = self._back_to(seq_id, end)
        self.remove(seq_id)
        if run is not None:
            self._last[seq_id] = run
        return end - (run.saved if run else 0)

    def remove(self, seq_id: int) -> None:
        self._last.pop(seq_id, None)

    def clear(self) -> None:
        self._last.clear()

    def pack(self, seq_id: int, start: int, cells: Blob) -> Blob:
        """Return the saved cells of a span, shape (bytes,), from `start` on behind its runs, if there are any."""
        runs: list[int] = []
        run = self._last.get(seq_id)
        while run is not None and run.start >= start:
            runs = [run.start, run.end, run.num_positions, *runs]
            run = run.before
        return _packed(runs, cells)

    @staticmethod
    def split(blob: Blob, at: int, split_cells: Callable[[Blob], tuple[Blob, Blob] | None]) -> tuple[Blob, Blob] | None:
        """Return the two spans of a saved one that end and begin at the token `at`; None if its cells cannot be split."""
        runs, cells = Positions.unpack(blob)
        parts = split_cells(cells)
        if parts is None or not runs:
            return parts
        upper, lower = ([run for run in runs if (run[0] < at) == is_upper] for is_upper in (True, False))
        return _packed([*chain(*upper)], parts[0]), _packed([*chain(*lower)], parts[1])

    @staticmethod
    def unpack(blob: Blob) -> tuple[list[tuple[int, int, int]], Blob]:
        """Return the runs of a saved span, for `restored`, and its cells. Raise ValueError for a damaged one."""
        size = len(_MAGIC)
        if blob[:size].tobytes() != _MAGIC:
            return [], blob
        count = int(blob[size : size + 4].copy().view(np.int32)[0]) if len(blob) >= size + 4 else -1
        end = size + 4 * (1 + _FIELDS * count)
        if not 0 < count <= len(blob) or end > len(blob):
            raise ValueError("the runs of a saved span are damaged")
        runs = blob[size + 4 : end].copy().view(np.int32).reshape(count, _FIELDS).tolist()
        return [(start, stop, taken) for start, stop, taken in runs], np.ascontiguousarray(blob[end:])

    def restored(self, seq_id: int, runs: list[tuple[int, int, int]]) -> None:
        """Note the runs of a span that was appended to a sequence."""
        for start, end, num_positions in runs:
            self._note(seq_id, start, end, num_positions)

    def _append(self, seq_id: int, run: MediaRun) -> None:
        self._note(seq_id, run.start, run.end, run.chunk.num_positions)

    def _note(self, seq_id: int, start: int, end: int, num_positions: int) -> None:
        if num_positions != end - start:
            before = self._last.get(seq_id)
            saved = end - start - num_positions + (before.saved if before else 0)
            self._last[seq_id] = _Run(start, end, saved, before)

    def _next(self, seq_id: int, index: int) -> int:
        run = self._last.get(seq_id)
        return index - (run.saved if run else 0)

    def _back_to(self, seq_id: int, end: int) -> _Run | None:
        """Return a sequence's last run before `end`; None if it has none there."""
        run = self._last.get(seq_id)
        while run is not None and run.start >= end:
            run = run.before
        if run is not None and run.end > end:
            raise AssertionError(f"sequence {seq_id} is cut at {end}, within a picture of {run.start} to {run.end}")
        return run


def _packed(runs: list[int], cells: Blob) -> Blob:
    """Return the cells of a span behind its runs, if there are any."""
    if not runs:
        return cells
    header = np.array([len(runs) // _FIELDS, *runs], np.int32).view(np.uint8)
    return np.concatenate([np.frombuffer(_MAGIC, np.uint8), header, cells])
