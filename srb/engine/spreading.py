"""Branches of one request that differ: distinct first tokens, and a penalty for tokens that siblings have sampled."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from srb.engine.model import Candidates, Logits
from srb.errors import bad_field
from srb.protocol import Generate
from srb.sampling_params import MAX_SIBLING_PENALTY

if TYPE_CHECKING:
    from srb.engine.request import Branch

BEYOND_SEEDS = 2**32  # added to a branch's seed for `other_candidate`: that draw is independent of any branch's own
_NONE = -1  # in place of a token


def check_spreading(command: Generate) -> None:
    """Raise InvalidRequest, which names the field, for a penalty that is no number of its range."""
    value = command.sibling_penalty
    if type(value) not in (int, float) or not 0 <= value <= MAX_SIBLING_PENALTY:
        raise bad_field("sibling_penalty", f"should be a number from 0 to {MAX_SIBLING_PENALTY:g}, not {value!r}")


def other_candidate(candidates: Candidates, taken: Set[int], number: float) -> int | None:
    """Draw a candidate that is not `taken`, as likely as its probability says; None if there is none.

    `number` is a random number in [0, 1), independent of other draws.

    For a candidate that was drawn by the same probabilities and found taken: to keep it if it is free, and else to draw
    again among the free ones, gives each free one its share of their probability, as drawing without replacement does.
    """
    free = candidates.probs.astype(np.float64)
    for token in taken:
        free[candidates.ids == token] = 0.0
    sums = free.cumsum()
    if not len(sums) or not sums[-1] > 0:  # NaN, too: there is no candidate at all
        return None
    return int(candidates.ids[sums.searchsorted(number * sums[-1], side="right")])


class Spreading:
    """The tokens that a request's branches have sampled, and how they keep those of the others away.

    A branch sees the tokens of siblings with a lower index alone. These are ahead of it wherever branches start and
    pause in order, so equal seeds give equal branches, whether all run at once or some start late.
    """

    __slots__ = ("_first", "_is_distinct", "_penalty", "_places")

    def __init__(self, *, distinct_first: bool, sibling_penalty: float) -> None:
        """Keep first tokens distinct; subtract `sibling_penalty` from a token's logit for each sibling that chose it."""
        self._is_distinct = distinct_first
        self._penalty = sibling_penalty
        self._first: dict[int, int] = {}  # first token of each branch that sampled its own, by index
        self._places: dict[int, npt.NDArray[np.int32]] = {}  # by distance from the shared prompt: tokens by index

    def steers(self, branch: Branch) -> bool:
        """Whether the branch's next token depends on its siblings."""
        return self._penalty > 0 or self._begins(branch)

    def sample(self, branch: Branch, row: int | None, logits: Logits) -> int:
        """Sample a branch's next token from a row of the last decode, or from stored logits if `row` is None.

        `logits` are the row's own, which the sampler reads: they are changed while it does. Stored ones are copied.
        Raise GrammarDeadEnd as the sampler does.
        """
        siblings = self._siblings(branch)
        if not len(siblings):
            token = self._draw(branch, row, logits)
        elif row is None:
            logits = logits.copy()
            np.subtract.at(logits, siblings, self._penalty)
            token = self._draw(branch, row, logits)
        else:
            kept = logits[siblings]
            np.subtract.at(logits, siblings, self._penalty)
            try:
                token = self._draw(branch, row, logits)
            finally:
                logits[siblings] = kept
        if self._penalty:
            self._record(branch, token)
        return token

    def forget(self, branch: Branch, count: int) -> None:
        """Forget the `count` tokens that a branch sampled at its next place and after it, and that were taken back."""
        first, index = _place(branch), branch.index
        if first <= branch.num_hidden:
            self._first.pop(index, None)
        for place in range(first, first + count):
            tokens = self._places.get(place)
            if tokens is not None and index < len(tokens):
                tokens[index] = _NONE

    def _draw(self, branch: Branch, row: int | None, logits: Logits) -> int:
        if self._begins(branch):
            taken = {token for index, token in self._first.items() if index != branch.index}
            token = self._first[branch.index] = branch.sampler.sample_apart(logits, taken, branch.spec.seed)
            return token
        return branch.sampler.sample_from(logits) if row is None else branch.sampler.sample(row)

    def _begins(self, branch: Branch) -> bool:
        """Whether the branch's next token has to be distinct: the first of its text, which a fork has from its origin."""
        return self._is_distinct and _place(branch) == branch.num_hidden

    def _siblings(self, branch: Branch) -> npt.NDArray[np.int32]:
        """Return the tokens that siblings of a lower index have sampled at the branch's place, one for each sibling."""
        tokens = self._places.get(_place(branch))
        if tokens is None:
            return np.empty(0, np.int32)
        lower = tokens[: branch.index]
        siblings: npt.NDArray[np.int32] = lower[lower != _NONE]
        return siblings

    def _record(self, branch: Branch, token: int) -> None:
        place, index = _place(branch), branch.index
        tokens = self._places.get(place)
        if tokens is None or index >= len(tokens):
            grown = np.full(max(index + 1, len(branch.request.branches)), _NONE, np.int32)
            if tokens is not None:
                grown[: len(tokens)] = tokens
            tokens = self._places[place] = grown
        tokens[index] = token


def _place(branch: Branch) -> int:
    """Return the distance of a branch's next token from the shared prompt; a fork has its origin's there."""
    return branch.num_shifted + len(branch.tokens)
