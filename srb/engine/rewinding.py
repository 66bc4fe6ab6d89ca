"""Rewinds of a branch: its last tokens are taken back, the first of them is forbidden at its place, and it goes on.

All that a branch remembers becomes as if those tokens had never been: its sampler, its sums, a shift of the context. The
places are numbers of sampled tokens from the branch's start; only held-back tokens can be taken back.
"""

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass

import numpy as np

from srb.engine.model import Logits, Sampler
from srb.engine.tokens import Tokens
from srb.errors import BannedDeadEnd, GrammarDeadEnd

MAX_REWINDS = 32  # at one place, then a dead end: where all leads to banned texts a branch would draw for ever


@dataclass(frozen=True, slots=True)
class Shift:
    """A context shift that may have to be undone: the discarded tokens, which stood at `place` of the text.

    The prompt had `start` tokens, the branch the others.
    """

    place: int
    discarded: Tokens
    start: int


class Rewinding:
    """A branch's memory of its held-back tokens: what it forbids at their places, and its sums before each."""

    __slots__ = ("_forbidden", "_rewinds", "_sampler", "_sums", "forbidden", "shifts")

    def __init__(self, sampler: Sampler) -> None:
        """Have the sampler remember its states from now on."""
        sampler.remember()
        self._sampler = sampler
        self._sums: list[float] = []  # sums of log-probabilities before each held-back token, and before the newest
        self._forbidden: dict[int, set[int]] = {}  # tokens by place
        self._rewinds: dict[int, int] = {}  # rewinds by place, until the token at the place is no longer held back
        self.forbidden: Collection[int] = ()  # tokens that may not come next
        self.shifts: list[Shift] = []  # during the held-back tokens

    def note_sum(self, logprob_sum: float) -> None:
        """Note the sum of log-probabilities before a token is sampled."""
        self._sums.append(logprob_sum)

    def sample(self, draw: Callable[[Logits], int], logits: Logits, *, is_shared: bool) -> int:
        """Sample and accept a branch's next token by `draw`, without those forbidden there.

        `draw` samples from `logits`, shape (n_vocab,), or from a copy if other branches share them. Raise BannedDeadEnd if
        no token is left.
        """
        if is_shared:
            logits = logits.copy()
        forbidden = np.fromiter(self.forbidden, np.int64)
        given = logits[forbidden]
        logits[forbidden] = -np.inf
        try:
            token = draw(logits)
        except GrammarDeadEnd as error:
            raise dead_end(len(self.forbidden)) from error
        finally:
            logits[forbidden] = given
        if token in self.forbidden:  # a chain samples one even if all are forbidden
            raise dead_end(len(self.forbidden))
        return token

    def commit(self, length: int, num_held: int) -> int:
        """Record that the newest of `length` tokens stays, and that only the last `num_held` can still be taken back.

        Return how many tokens can no longer be taken back that could be before.
        """
        self.forbidden = ()
        return self.release(length, num_held)

    def release(self, length: int, num_held: int) -> int:
        """Record, as `commit` does, that fewer tokens can be taken back; what is forbidden next stays so."""
        settled = len(self._sums) - num_held
        if settled:
            if not num_held:
                self.shifts.clear()
            del self._sums[:settled]
            self._sampler.forget(num_held)
            if self._rewinds:
                first = length - num_held
                for by_place in (self._forbidden, self._rewinds):
                    for place in [place for place in by_place if place < first]:
                        del by_place[place]
        return settled

    def rewind(self, place: int, token: int, count: int) -> float:
        """Take back the last `count` tokens, the newest included; forbid `token`, the first of them, at its `place`.

        Return the sum of log-probabilities before it.
        """
        self._sampler.rewind(count)
        logprob_sum = self._sums[-count]
        del self._sums[-count:]
        for later in [other for other in self._forbidden if other > place]:
            del self._forbidden[later]
        self.forbidden = self._forbidden.setdefault(place, set())
        self.forbidden.add(token)
        self._rewinds[place] = self._rewinds.get(place, 0) + 1
        return logprob_sum

    def undo(self) -> None:
        """Take back the latest draw, which has given no token: the end of the text, or an error."""
        self._sampler.rewind(1)
        del self._sums[-1:]

    def forbid(self, place: int, tokens: Set[int]) -> None:
        """Forbid more tokens at `place`, the next one."""
        self.forbidden = self._forbidden.setdefault(place, set())
        self.forbidden |= tokens

    def allow(self, place: int, tokens: Set[int]) -> None:
        """Forbid some tokens no longer at `place`, the next one."""
        forbidden = self._forbidden.get(place, set())
        forbidden -= tokens
        self.forbidden = forbidden

    def pardon(self, place: int) -> None:
        """Forbid nothing any longer at `place`, the next one, as if the branch had never been rewound to it."""
        self._rewinds.pop(place, None)
        self._forbidden.pop(place, None)
        self.forbidden = ()

    def close(self) -> None:
        """Have the sampler remember nothing any more; no token can be taken back."""
        self._sampler.stop_remembering()

    def is_dead_end(self, place: int) -> bool:
        """Whether the branch has been rewound to a place too often."""
        return self._rewinds.get(place, 0) >= MAX_REWINDS


def dead_end(count: int) -> BannedDeadEnd:
    return BannedDeadEnd(f"every text that goes on here begins a banned string or pattern; {count} tokens were tried")
