"""Speculation: drafted tokens are computed with a branch's newest one, and stay as far as the sampler draws the same.

Each token is drawn by the branch's own sampler from the logits of its place, so its text is the same as without drafts,
except for rounding. A draft is only added while it pays: while the tokens that it will probably give outweigh what a
larger batch takes longer, both measured as the engine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srb.engine.branches import Branches
from srb.engine.lookup import Draft, prompt_index
from srb.engine.model import Model
from srb.engine.request import Branch, BranchState
from srb.engine.scheduler import Chunk, StepPlan
from srb.engine.tree.residency import Residency
from srb.protocol import Event

_GAIN = 1.03  # least expected gain in tokens per second for which a draft is added
_WEIGHT = 0.1  # of the newest step in the mean of a batch's seconds
_MOST_SLOWER = 3.0  # times the mean; slower steps count as so much, since something else may have held them up
_FIRST = 3  # steps of a size before its time counts
_STALE = 4096  # steps after which a measured time is forgotten


@dataclass(slots=True)
class _Measured:
    """Measured seconds of steps of one size; of the first few the fastest counts, since new sizes have a slow start."""

    seconds: float
    count: int
    at: int  # number of the latest step of this size


class StepTimes:
    """Measured seconds of a decode step, by the number of its tokens."""

    def __init__(self) -> None:
        self._steps = 0
        self._measured: dict[int, _Measured] = {}

    def note(self, size: int, seconds: float) -> None:
        """Note a step with `size` tokens."""
        self._steps += 1
        known = self._measured.get(size)
        if known is None or self._steps - known.at > _STALE:
            self._measured[size] = _Measured(seconds, 1, self._steps)
            return
        known.count, known.at = known.count + 1, self._steps
        if known.count <= _FIRST:
            known.seconds = min(known.seconds, seconds)
        else:
            known.seconds += _WEIGHT * (min(seconds, _MOST_SLOWER * known.seconds) - known.seconds)

    def best_addition(self, size: int, chances: Sequence[float]) -> int:
        """Return how many drafted tokens to add to a step of `size` tokens; 0 until such a step was measured.

        `chances` are the probabilities that each of them gives a token, the likeliest first. Between two measured sizes
        the time is interpolated; beyond the largest it is taken not to grow, so that larger steps are tried.
        """
        if not self._is_known(size, 1):
            return 0
        least = self._measured[size].seconds
        best, best_rate = 0, _GAIN * size / least
        larger = sorted(other for other in self._measured if other > size and self._is_known(other, _FIRST))
        below, above, tokens = (size, least), None, float(size)
        for count, chance in enumerate(chances, 1):
            tokens += chance
            while larger and (above is None or above[0] < size + count):
                below = above or below
                other = larger.pop(0)
                above = other, max(least, self._measured[other].seconds)
            seconds = _between(below, above, size + count)
            if tokens / seconds > best_rate:
                best, best_rate = count, tokens / seconds
        return best

    def _is_known(self, size: int, count: int) -> bool:
        known = self._measured.get(size)
        return known is not None and known.count >= count and self._steps - known.at <= _STALE


def _between(below: tuple[int, float], above: tuple[int, float] | None, size: int) -> float:
    """Return the seconds of a step from those of a smaller and a larger size; without a larger one the nearest's."""
    if above is None:
        return below[1]
    if above[0] <= size:
        return above[1]
    return below[1] + (above[1] - below[1]) * (size - below[0]) / (above[0] - below[0])


@dataclass(slots=True)
class SpeculationCounters:
    """Counters of computed drafts since the start."""

    spec_decode_num_drafts_total: int = 0
    spec_decode_num_draft_tokens_total: int = 0
    spec_decode_num_accepted_tokens_total: int = 0


class Speculation:
    """Adds drafts to steps where they pay, and draws tokens from the rows of a step with drafts."""

    def __init__(self, model: Model, residency: Residency, branches: Branches, max_draft: int) -> None:
        """Draft at most `max_draft` tokens for a branch; 0, or memory that cannot be cut: none."""
        self._model = model
        self._residency = residency
        self._branches = branches
        self._max_draft = max_draft if model.supports_partial_reuse and not model.has_states else 0
        self._times = StepTimes()
        self.counters = SpeculationCounters()

    def add_drafts(self, plan: StepPlan) -> None:
        """Add drafted tokens to a step of newest tokens alone, the likeliest first, as many as pay."""
        if not self._max_draft or not plan.chunks or plan.num_tokens != len(plan.chunks) or plan.num_prompt_tokens:
            return
        drafts = [(chunk, *found) for chunk in plan.chunks if (found := self._propose(chunk.span)) is not None]
        if not drafts:
            return
        chances = [
            (chance ** (place + 1), number)
            for number, (_, tokens, chance) in enumerate(drafts)
            for place in range(len(tokens))
        ]
        chances.sort(reverse=True)
        room = min(
            self._model.n_seq_max - len(plan.chunks),  # a batch has a row of logits for each sequence
            min(self._model.n_batch, self._model.n_ubatch) - plan.num_tokens,
            self._residency.available_cells - plan.num_tokens,
        )
        count = self._times.best_addition(plan.num_tokens, [chance for chance, _ in chances[: max(0, room)]])
        depths = [0] * len(drafts)
        for _, number in chances[:count]:
            depths[number] += 1
        for (chunk, tokens, _), depth in zip(drafts, depths, strict=True):
            chunk.draft = tokens[:depth]
        plan.num_tokens += count

    def _propose(self, branch: object) -> tuple[Sequence[int], float] | None:
        """Return tokens that may follow a branch, and the chance of each; None if it has no draft."""
        if not isinstance(branch, Branch) or not branch.is_plain or branch.path is not None:
            return None
        most = min(self._max_draft, self._model.n_ctx_seq - branch.end)
        if branch.spec.max_tokens >= 0:
            most = min(most, branch.spec.max_tokens - branch.length - 1)
        if most <= 0:
            return None
        if branch.draft is None:
            prefix = branch.request.prefix
            if prefix.index is None:
                prefix.index = prompt_index(prefix.tokens)
            branch.draft = Draft(prefix.tokens, prefix.index)
        tokens = branch.draft.propose(branch.tokens, most)
        return (tokens, branch.draft.chance) if tokens else None

    def draw(self, branch: Branch, draft: Sequence[int], row: int, events: list[Event]) -> None:
        """Sample a branch's next token from its newest one's `row`, and the next from each row that was drafted rightly."""
        self._branches.sample(branch, row, events)
        self.counters.spec_decode_num_drafts_total += 1
        self.counters.spec_decode_num_draft_tokens_total += len(draft)
        for place, token in enumerate(draft, 1):
            if branch.state is not BranchState.RUNNING or branch.pending != 1 or branch.tokens[-1] != token:
                break
            self._branches.read_newest(branch, events)  # it may end the branch
            if branch.lease is None:
                break
            branch.num_computed += 1
            branch.num_ahead -= 1
            self.counters.spec_decode_num_accepted_tokens_total += 1
            self._branches.sample(branch, row + place, events)
        self._branches.drop_ahead(branch)

    def note(self, plan: StepPlan, seconds: float) -> None:
        """Note how long a step took."""
        if self._max_draft and plan.num_tokens and not plan.num_prompt_tokens:
            self._times.note(plan.num_tokens, seconds)


def without_drafts(chunks: Sequence[Chunk]) -> list[Chunk] | None:
    """Return the chunks without their drafts; None if none has one."""
    if not any(chunk.draft for chunk in chunks):
        return None
    return [Chunk(chunk.span, chunk.count) for chunk in chunks]
