"""Branches of one request that differ: distinct first tokens, and a penalty for tokens that siblings have sampled."""

from collections.abc import Set
from typing import Any, ClassVar

import numpy as np

from srb.config.sampling_params import MAX_SIBLING_PENALTY
from srb.engine.choosing import PLAIN, Drawing, Rows
from srb.engine.model import Candidates, Logits
from srb.errors import bad_field
from srb.wire.commands import Generate

BEYOND_SEEDS = 2**32  # added to a branch's seed for `other_candidate`: that draw is independent of any branch's own
_NONE = -1  # in place of a token: no vocabulary has a negative id
_FEW = 16  # tokens; for so few a loop is faster than numpy's overhead for a call


def check_diversity(command: Generate) -> None:
    """Raise InvalidRequest, which names the field, for a penalty that is no number of its range."""
    if command.arithmetic and (command.distinct_first or command.sibling_penalty):
        raise bad_field(
            "sampling", "is arithmetic, which cannot be used together with distinct_first and sibling_penalty"
        )
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


class _Place:
    """The tokens that branches have sampled at one place, by index of the branch."""

    __slots__ = ("_num_first", "tokens")

    def __init__(self, num_branches: int) -> None:
        self.tokens = [_NONE] * num_branches
        self._num_first = 0  # how many branches, from index 0 on, have all sampled their token

    def before(self, index: int) -> list[int]:
        """Return the tokens of branches with a lower index, one for each branch."""
        tokens = self.tokens[:index]
        return tokens if index <= self._num_first else [token for token in tokens if token != _NONE]

    def record(self, index: int, token: int) -> None:
        if index >= len(self.tokens):  # the branch was added later
            self.tokens += [_NONE] * (index + 1 - len(self.tokens))
        self.tokens[index] = token
        if index == self._num_first:
            self._num_first += 1

    def forget(self, index: int) -> None:
        if index < len(self.tokens):
            self.tokens[index] = _NONE
            self._num_first = min(self._num_first, index)


class _Lowered:
    """Logits of which those of some tokens are lower, each by `penalty` for every time that it is among the tokens.

    A decode leaves the processor's caches without numpy's code, so a few tokens are changed sooner without it.
    """

    __slots__ = ("_kept", "_tokens", "logits")

    def __init__(self, logits: Logits, tokens: list[int], penalty: float) -> None:
        self.logits, self._tokens = logits, tokens
        self._kept: Any
        if len(tokens) <= _FEW:
            view: Any = logits.data
            self._kept = [view[token] for token in tokens]
            for token in tokens:
                view[token] -= penalty
        else:
            self._kept = logits[tokens]
            np.subtract.at(logits, tokens, np.float32(penalty))

    def restore(self) -> None:
        """Give the logits back their values."""
        if len(self._tokens) <= _FEW:
            view: Any = self.logits.data
            for token, value in zip(self._tokens, self._kept, strict=True):
                view[token] = value
        else:
            self.logits[self._tokens] = self._kept


class Diversity:
    """The tokens that a request's branches have sampled, and how they keep those of the others away.

    A branch sees the tokens of siblings with a lower index alone. First tokens are drawn in the order of the branches. For
    others these siblings are ahead wherever branches start and pause in order, so equal seeds give equal branches, whether
    all run at once or some start late.
    """

    is_plain: ClassVar[bool] = False
    __slots__ = ("_first", "_is_distinct", "_penalizes", "_penalty", "_places", "_turn")

    def __init__(self, *, distinct_first: bool, sibling_penalty: float) -> None:
        """Keep first tokens distinct; subtract `sibling_penalty` from a token's logit for each sibling that chose it."""
        self._is_distinct = distinct_first
        self._penalty = float(np.float32(sibling_penalty))
        self._penalizes = sibling_penalty > 0
        self._first: dict[int, int] = {}  # first token of each branch that sampled its own, by index
        self._places: dict[int, _Place] = {}  # by distance from the shared prompt
        self._turn = 0  # every branch before this one has its first token for good

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the next token, as `Chooser` says. A row's logits are changed for the sampler; others are copied."""
        if self.is_free(branch):
            return PLAIN.choose(branch, row, rows, logits)
        return self._sample(branch, row, rows.of(branch, row) if logits is None else logits)

    def is_free(self, branch: Drawing) -> bool:
        """Whether the branch's next token depends on no sibling."""
        return not (self._penalizes or self._begins(branch))

    def is_early(self, branch: Drawing) -> bool:
        """Whether the branch's next token is its first, and one of a branch before it may still change."""
        if not self._begins(branch):
            return False
        branches = branch.siblings
        while self._turn < branch.index and _has_first(branches[self._turn]):
            self._turn += 1
        return self._turn < branch.index

    def _sample(self, branch: Drawing, row: int | None, logits: Logits) -> int:
        if not self._penalizes:
            return self._draw(branch, row, logits)
        at = _place(branch)
        place = self._places.get(at)
        if place is None:
            place = self._places[at] = _Place(len(branch.siblings))
        if siblings := place.before(branch.index):
            lowered = _Lowered(logits.copy() if row is None else logits, siblings, self._penalty)
            try:
                token = self._draw(branch, row, lowered.logits)
            finally:
                lowered.restore()
        else:
            token = self._draw(branch, row, logits)
        place.record(branch.index, token)
        return token

    def forget(self, branch: Drawing, count: int) -> None:
        """Forget the `count` tokens that a branch sampled at its next place and after it, and that were taken back."""
        first, index = _place(branch), branch.index
        if first <= branch.num_hidden - branch.num_directed:
            self._first.pop(index, None)
        for place in range(first, first + count):
            if place in self._places:
                self._places[place].forget(index)

    def _draw(self, branch: Drawing, row: int | None, logits: Logits) -> int:
        if self._begins(branch):
            taken = {token for index, token in self._first.items() if index != branch.index}
            token = self._first[branch.index] = branch.sampler.sample_apart(logits, taken, branch.spec.seed)
            return token
        return branch.sampler.sample_from(logits) if row is None else branch.sampler.sample(row)

    def _begins(self, branch: Drawing) -> bool:
        """Whether the branch's next token has to be distinct: the first of its text, which a fork has from its origin."""
        return self._is_distinct and _place(branch) == branch.num_hidden - branch.num_directed


def _has_first(branch: Drawing) -> bool:
    """Whether a branch has a first token that stays, its own or a fork's from its origin, or has ended without one."""
    return branch.num_given > branch.num_hidden or branch.num_held < branch.length or not branch.is_active


def _place(branch: Drawing) -> int:
    """Return the distance of a branch's next token from the prompt's end; a fork has its origin's there."""
    return branch.num_shifted + len(branch.tokens) - branch.num_directed
