"""Arithmetic sampling: each branch reads its tokens from one number, and the numbers of the branches lie evenly apart.

The number of a branch is a point of [0, 1), which the probabilities of the next token divide; the point's part is the token,
and its place within the part is the number for the next one. Branches with the same text so far never crowd together, while
each branch alone is an exact sample: its point is uniform, since all points are shifted by one random number.

Source: Vilnis et al., "Arithmetic Sampling: Parallel Diverse Decoding for Large Language Models" (ICML 2023),
https://arxiv.org/abs/2210.15458. The points are van der Corput's, so that branches may be added.
"""

import math
from hashlib import blake2b
from typing import ClassVar

import numpy as np

from srb.engine.choosing import PLAIN, Drawing, Rows
from srb.engine.model import Candidates, Logits

BITS = 24  # of a point that are read, of the 53 that it has; then few branches still have a text in common


def point_of(index: int, shift: float) -> float:
    """Return the point of a branch: its index with the bits reversed behind the binary point, shifted around [0, 1)."""
    reversed_bits = int(f"{index:032b}"[::-1], 2) / 2**32
    return math.modf(reversed_bits + shift)[0]


class Code:
    """The part of a branch's point that is not read yet."""

    __slots__ = ("_bits", "_number")

    def __init__(self, number: float) -> None:
        self._number = number
        self._bits = 0.0

    @property
    def is_spent(self) -> bool:
        return self._bits >= BITS

    def take(self, candidates: Candidates) -> int:
        """Return the candidate in whose part the point lies, and go on within that part."""
        sums = candidates.probs.astype(np.float64).cumsum()
        at = min(int(sums.searchsorted(self._number * sums[-1], side="right")), len(sums) - 1)
        low = sums[at - 1] if at else 0.0
        width = sums[at] - low
        if width > 0:
            self._number = min(max(0.0, (self._number * sums[-1] - low) / width), 1 - 2**-53)
            self._bits -= math.log2(width / sums[-1])
        return int(candidates.ids[at])


class Arithmetic:
    """Chooses the first tokens of a request's branches by their points, and the others as their samplers do."""

    is_plain: ClassVar[bool] = False
    __slots__ = ("_codes", "_shift")

    def __init__(self, seed: int) -> None:
        self._shift = int.from_bytes(blake2b(str(seed).encode(), digest_size=6).digest()) / 2**48
        self._codes: dict[int, Code] = {}  # by index of the branch

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says."""
        code = self._codes.setdefault(branch.index, Code(point_of(branch.index, self._shift)))
        if code.is_spent:
            return PLAIN.choose(branch, row, rows, logits)
        return branch.sampler.sample_by(rows.of(branch, row) if logits is None else logits, code.take)

    def is_free(self, branch: Drawing) -> bool:
        """Whether the sampler draws the next token."""
        code = self._codes.get(branch.index)
        return code is not None and code.is_spent

    def is_early(self, branch: Drawing) -> bool:
        return False
