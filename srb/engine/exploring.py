"""Requests that explore: branches take the likeliest token everywhere, and fork where another one is nearly as likely.

The result is the same whatever runs when: the forks whose paths are the likeliest, of all that the walk comes across. So a
candidate becomes a branch only once enough room is certain for all likelier candidates that may still be found.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from srb.engine.choosing import Drawing, Rows
from srb.engine.model import Logits, Model
from srb.engine.probs import all_token_probs
from srb.engine.text import Prob
from srb.errors import GrammarDeadEnd, bad_field
from srb.wire.commands import MAX_DEPTH, Explore, Generate

_SLACK = 1e-6  # for rounding, when candidates that may come are counted: sums of one path differ by their order
_MOST = 50.0  # exponent beyond which a count exceeds any limit of branches, and from about 709 exp() raises


@dataclass(frozen=True, slots=True)
class Biases:
    """Numbers to add to the logits of some tokens, arrays of one shape (tokens,): -inf forbids a token."""

    tokens: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]

    @classmethod
    def of(cls, biases: dict[int, float]) -> "Biases":
        return cls(np.array(list(biases), np.int64), np.array(list(biases.values()), np.float32))

    def add_to(self, logits: Logits) -> Logits:
        """Return the logits, shape (n_vocab,), with the biases; a copy, if there are any."""
        if not len(self.tokens):
            return logits
        logits = logits.copy()
        logits[self.tokens] += self.values
        return logits


@dataclass(frozen=True, slots=True)
class Fork:
    """A candidate: `token` instead of the one that `origin` has after its first `at` tokens."""

    origin: Drawing
    at: int
    token: int
    logprob: float  # of the path, with the token
    before: float  # of the path before the token
    prob: Prob | None  # the token's, if the answer tells it


class Exploration:
    """The walk of one request, the chooser of all its branches: its candidates, and which of them become branches."""

    is_plain: ClassVar[bool] = False

    def __init__(self, asked: Explore, model: Model, biases: Biases, early: Biases) -> None:
        """Add `biases` to the logits, or `early` at places before `min_tokens`."""
        self._model = model
        self._cutoff = math.log(asked.cutoff)
        self._max_branches = asked.max_branches
        self._biases = biases
        self._early = early
        self._heap: list[tuple[float, int, int, int, Fork]] = []  # the likeliest first; then by origin, place and token
        self._least = -math.inf  # log-probability of paths below which no candidate can become a branch any more

    def choose(self, branch: Drawing, row: int | None, rows: Rows, logits: Logits | None = None) -> int:
        """Return the likeliest token; keep the other likely ones as candidates. Raise GrammarDeadEnd if none is allowed."""
        logits = rows.of(branch, row) if logits is None else logits
        assert branch.path is not None
        biases = self._early if branch.length < branch.spec.min_tokens else self._biases
        scores = biases.add_to(logits)
        token = int(scores.argmax())
        largest = float(scores[token])
        if not math.isfinite(largest):
            raise GrammarDeadEnd("the request's settings allow no token here")
        total = largest + math.log(np.exp(scores - scores[token]).sum(dtype=np.float64))
        self._keep(branch, logits, self._likely(branch, scores, token, total), scores, total)
        path = branch.path
        path.logprob += largest - total
        if not self._model.is_eog(token):
            path.of_text = path.logprob
        return token

    def is_free(self, branch: Drawing) -> bool:
        return False

    def is_early(self, branch: Drawing) -> bool:
        return False

    def take(self, branches: Sequence[Drawing]) -> list[Fork]:
        """Return the candidates that are certain to be among the likeliest beside the branches; each is to become one."""
        active = [branch.path.logprob for branch in branches if branch.is_active and branch.path is not None]
        taken: list[Fork] = []
        while self._heap and (room := self._max_branches - len(branches) - len(taken)) > 0:
            fork = self._heap[0][-1]
            if sum(_most_likelier(logprob, fork.logprob) for logprob in active) >= room:
                return taken
            heapq.heappop(self._heap)
            active.append(fork.logprob)  # as a branch it may find likelier candidates than the next ones
            taken.append(fork)
        if len(branches) + len(taken) >= self._max_branches:
            self.stop()
        return taken

    def stop(self) -> None:
        """Drop all candidates, and keep no further ones."""
        self._heap.clear()
        self._max_branches = 0

    def _likely(self, branch: Drawing, scores: Logits, token: int, total: float) -> list[int]:
        """Return the tokens that are likely enough beside the likeliest, no more than there is room for."""
        assert branch.path is not None
        room = self._max_branches - len(branch.siblings)
        if room <= 0:
            return []
        least = max(float(scores[token]) + self._cutoff, self._least - branch.path.logprob + total - _SLACK)
        others = np.flatnonzero(scores >= least)
        others = others[others != token]
        if len(others) > room:
            others = others[np.argpartition(-scores[others], room - 1)[:room]]
        return [int(other) for other in others]

    def _keep(self, branch: Drawing, logits: Logits, tokens: list[int], scores: Logits, total: float) -> None:
        if not tokens:
            return
        assert branch.path is not None
        n_probs, before = branch.spec.sampling.n_probs, branch.path.logprob
        probs = all_token_probs(self._model, logits, tokens, n_probs) if n_probs >= 0 else [None] * len(tokens)
        for token, prob in zip(tokens, probs, strict=True):
            logprob = before + float(scores[token]) - total
            fork = Fork(branch, branch.length, token, logprob, before, prob)
            heapq.heappush(self._heap, (-logprob, branch.index, branch.length, token, fork))
        room = self._max_branches - len(branch.siblings)
        if len(self._heap) >= 2 * room:  # the others can never become branches
            self._heap = heapq.nsmallest(room, self._heap)
            self._least = -self._heap[-1][0]


def check_exploring(command: Generate) -> None:
    """Raise InvalidRequest, which names the field, for an exploration that the decode thread could not run."""
    asked = command.explore
    if asked is None:
        return
    if type(asked.cutoff) not in (int, float) or not 0 < asked.cutoff <= 1:
        raise bad_field("explore.cutoff", f"should be a number above 0, and at most 1, not {asked.cutoff!r}")
    if type(asked.max_branches) is not int or asked.max_branches < 1:
        raise bad_field("explore.max_branches", f"should be a whole number of at least 1, not {asked.max_branches!r}")
    if type(asked.depth) is not int or not 1 <= asked.depth <= MAX_DEPTH:
        raise bad_field("explore.depth", f"should be a whole number from 1 to {MAX_DEPTH}, not {asked.depth!r}")
    [spec, *others] = command.branches
    sampling = spec.sampling
    refused = {
        "n": bool(others),
        "append": bool(spec.append),
        "banned_strings": bool(spec.banned_strings),
        "banned_patterns": bool(spec.banned_patterns),
        "grammar": bool(sampling.grammar),
        "json_schema": bool(sampling.json_schema),
        "post_sampling_probs": sampling.post_sampling_probs and sampling.n_probs >= 0,
        "context_shift": command.shift is not None,
        "distinct_first": command.distinct_first,
        "distinct_words": command.distinct_words,
        "sibling_penalty": command.sibling_penalty > 0,
        "sampling": command.arithmetic,
        "echo": command.prompt_logprobs,
    }
    for name, is_used in refused.items():
        if is_used:
            raise bad_field("explore", f"cannot be used together with {name}")


def _most_likelier(path: float, candidate: float) -> int:
    """Return how many candidates, at most, a branch can still find that are at least as likely as `candidate`.

    Beyond the branch's own continuation, these are the beginnings of texts that exclude each other; their probabilities
    sum up to that of the branch's `path` at most.
    """
    return max(0, math.floor(math.exp(min(path - candidate, _MOST)) + _SLACK) - 1)
