"""Speculation: drafted tokens are computed with a branch's newest one, and stay as far as the sampler draws the same.

Each token is drawn by the branch's own sampler from the logits of its place, so its text is the same as without drafts,
except for rounding. A draft is only added while it pays: while the tokens that it will probably give outweigh what a
larger batch, and the draft model that wrote it, take longer, all measured as the engine runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from srb.engine.branches import Branches
from srb.engine.drafting import DraftModel
from srb.engine.lookup import Draft, prompt_index
from srb.engine.model import Model
from srb.engine.request import Branch, BranchState, Request
from srb.engine.scheduler import Chunk, StepPlan
from srb.engine.step_times import StepTimes
from srb.engine.tree.residency import Residency
from srb.protocol import Event

_TRIES = 0.005  # share of the time that trying a draft model may cost where it has not paid
_MARGIN = 0.05  # part of a step's time that a draft model has to save at least, since chances are estimates
_MOST_CREDIT = 5.0  # seconds of such tries that can be saved up
_FIRST_SAVED = 0.25  # share of a step's time that a draft model saves, before it is measured
_LEARN_SAVED = 0.02  # weight of the newest step in that share
_FORESEEN = 256  # tokens that a branch is thought to write at most, where its limit is far away


@dataclass(slots=True)
class SpeculationCounters:
    """Counters of computed drafts since the start."""

    spec_decode_num_drafts_total: int = 0
    spec_decode_num_draft_tokens_total: int = 0
    spec_decode_num_accepted_tokens_total: int = 0


_Drafted = tuple[Chunk, Sequence[int], float]  # a draft for a chunk, and the chance of each token of it


class Speculation:
    """Adds drafts to steps where they pay, and draws tokens from the rows of a step with drafts."""

    def __init__(
        self,
        model: Model,
        residency: Residency,
        branches: Branches,
        clock: Callable[[], float],
        max_draft: int,
        looks_up: bool = True,
        drafts: DraftModel | None = None,
        min_draft: int = 0,
    ) -> None:
        """Draft at most `max_draft` tokens for a branch; 0, or memory that cannot be cut: none.

        Drafts come from the text itself where it `looks_up` and finds some, else from the draft model; of `min_draft`
        tokens at least.
        """
        self._model = model
        self._residency = residency
        self._branches = branches
        self._clock = clock
        self._max_draft = max_draft if model.supports_partial_reuse and not model.has_states else 0
        self._min_draft = min_draft
        self._looks_up = looks_up
        self._draft_model = drafts
        self._times = StepTimes()
        self._passes = StepTimes()  # of the draft model, by branches
        self._token_seconds = 0.0  # that the draft model takes for a token of a text that it reads
        self._saved = _FIRST_SAVED  # share of a step's time that it saves
        self._credit = 0.0  # seconds that it may be tried for
        self._spent = 0.0  # seconds that it took before the current step's decode
        self._has_drafted = self._is_try = False  # in the current step
        self._accepted_before = 0
        self.counters = SpeculationCounters()

    def add_drafts(self, plan: StepPlan) -> None:
        """Add drafted tokens to a step of newest tokens alone, the likeliest first, as many as pay."""
        self._spent, self._has_drafted, self._is_try = 0.0, False, False
        self._accepted_before = self.counters.spec_decode_num_accepted_tokens_total
        if not self._max_draft or not plan.chunks or plan.num_tokens != len(plan.chunks) or plan.num_prompt_tokens:
            return
        room = min(
            self._model.n_seq_max - len(plan.chunks),  # a batch has a row of logits for each sequence
            min(self._model.n_batch, self._model.n_ubatch) - plan.num_tokens,
            self._residency.available_cells - plan.num_tokens,
        )
        if room <= 0:
            return
        drafts: list[_Drafted] = []
        others: list[tuple[Chunk, int]] = []
        for chunk in plan.chunks:
            most = self._most(chunk.span)
            if found := self._look_up(chunk, most):
                drafts.append(found)
            elif most:
                others.append((chunk, most))
        if others and self._draft_model is not None:
            began = self._clock()
            drafts += self._ask(self._draft_model, others, plan.num_tokens, room)
            self._spent = self._clock() - began
            self._credit -= self._spent if self._is_try else 0.0
        if not drafts:
            return
        chances = [
            (chance ** (place + 1), number)
            for number, (_, tokens, chance) in enumerate(drafts)
            for place in range(len(tokens))
        ]
        chances.sort(reverse=True)
        count = self._times.best_addition(plan.num_tokens, [chance for chance, _ in chances[:room]])
        depths = [0] * len(drafts)
        for _, number in chances[:count]:
            depths[number] += 1
        for (chunk, tokens, _), depth in zip(drafts, depths, strict=True):
            chunk.draft = tokens[:depth]
        plan.num_tokens += count

    def _most(self, branch: object) -> int:
        """Return how many tokens may be drafted for a branch."""
        if not isinstance(branch, Branch) or not branch.is_plain or branch.path is not None:
            return 0
        most = min(self._max_draft, self._model.n_ctx_seq - branch.end)
        if branch.spec.max_tokens >= 0:
            most = min(most, branch.spec.max_tokens - branch.length - 1)
        return max(0, most)

    def _look_up(self, chunk: Chunk, most: int) -> _Drafted | None:
        """Return what followed the branch's last tokens before; None if there is nothing."""
        branch = chunk.span
        if not most or not self._looks_up or not isinstance(branch, Branch):
            return None
        if branch.draft is None:
            prefix = branch.request.prefix
            if prefix.index is None:
                prefix.index = prompt_index(prefix.tokens)
            branch.draft = Draft(prefix.tokens, prefix.index)
        tokens = branch.draft.propose(branch.tokens, most)
        return (chunk, tokens, branch.draft.chance) if tokens else None

    # ---- the draft model

    def _ask(self, drafts: DraftModel, wanted: list[tuple[Chunk, int]], size: int, room: int) -> list[_Drafted]:
        """Return drafts of the draft model where they pay; let it read on in texts that it does not know yet."""
        ready: list[tuple[Chunk, Branch, int]] = []
        behind: list[tuple[Branch, int]] = []
        for chunk, most in wanted:
            branch = chunk.span
            assert isinstance(branch, Branch)
            most = min(most, drafts.model.n_ctx_seq - branch.end)
            if most <= 0 or (lag := drafts.lag(branch)) is None:
                continue
            if drafts.has(branch) and lag <= self._max_draft:
                ready.append((chunk, branch, most))
            else:
                behind.append((branch, lag))
        if behind:
            self._read_on(drafts, behind, size)
        depths = self._depths(drafts, ready, size, room)
        asked = [(chunk, branch, depth) for (chunk, branch, _), depth in zip(ready, depths, strict=True) if depth]
        if not asked:
            self._saved += _LEARN_SAVED * (0.0 - self._saved) if ready else 0.0
            return []
        self._has_drafted = True
        began = self._clock()
        found = drafts.draft([(branch, depth) for _, branch, depth in asked], self._model.n_vocab)
        self._passes.note(len(asked), (self._clock() - began) / max(depth for _, _, depth in asked))
        return [
            (chunk, tokens, drafts.chance(branch))
            for (chunk, branch, _), tokens in zip(asked, found, strict=True)
            if len(tokens) >= max(1, self._min_draft)
        ]

    def _depths(self, drafts: DraftModel, ready: list[tuple[Chunk, Branch, int]], size: int, room: int) -> list[int]:
        """Return how many tokens to draft for each branch that is ready, by their chances and the time that it takes."""
        chances = [
            (place, -(drafts.chance(branch) ** (place + 1)), number)
            for number, (_, branch, most) in enumerate(ready)
            for place in range(most)
        ]
        if not self._times.is_fresh(size):
            return [0] * len(ready)  # a step without drafts tells again what they have to compete with
        chances.sort()  # all branches' first tokens come first, since they are drafted together
        a_pass = self._passes.seconds(len(ready)) or 0.0
        margin = _MARGIN * (self._times.seconds(size) or 0.0)
        costs = [(place + 1) * a_pass + margin for place, _, _ in chances]
        count = self._times.best_addition(size, [-chance for _, chance, _ in chances[:room]], costs)
        if not count and chances and a_pass <= self._credit:
            self._is_try = True
            count = min(room, len(ready) * max(1, self._min_draft))
        depths = [0] * len(ready)
        for _, _, number in chances[:count]:
            depths[number] += 1
        return [depth if depth >= self._min_draft else 0 for depth in depths]

    def _read_on(self, drafts: DraftModel, behind: list[tuple[Branch, int]], size: int) -> None:
        """Let the draft model compute a part of a text where the drafts will probably save more time than that takes.

        It is one ubatch at most, since everything waits for it.
        """
        budget = drafts.model.n_ubatch
        promises: dict[Request, float] = {}  # each takes a look at all branches of a request
        for branch, lag in behind:
            if budget <= 0:
                break
            request = branch.request
            if request not in promises:
                promises[request] = self._promise(request, size)
            cost = lag * self._token_seconds
            is_promising = cost <= promises[request]
            if not (is_promising or cost <= self._credit):
                continue
            began = self._clock()
            count = drafts.compute(branch, budget)
            seconds = self._clock() - began
            if count:
                weight = 0.3 if self._token_seconds else 1.0
                self._token_seconds += weight * (seconds / count - self._token_seconds)
            self._credit -= 0.0 if is_promising else seconds
            budget -= count

    def _promise(self, request: Request, size: int) -> float:
        """Return the seconds that drafts will probably save for the branches of a request."""
        plain = self._times.seconds(size) or 0.0
        tokens = 0
        for each in request.branches:
            if each.is_active:
                limit = each.spec.max_tokens
                tokens += _FORESEEN if limit < 0 else min(_FORESEEN, limit - each.length)
        return self._saved * tokens * plain / size

    @property
    def most_tokens(self) -> int:
        """Most tokens that the draft model computes before a step."""
        return self._draft_model.model.n_ubatch + self._max_draft if self._draft_model is not None else 0

    @property
    def is_over_budget(self) -> bool:
        return self._draft_model is not None and self._draft_model.is_over_budget

    def trim(self) -> None:
        """Park texts of the draft model that are not in use, as far as one step may."""
        if self._draft_model is not None:
            self._draft_model.trim()

    def close(self) -> None:
        """Free the draft model."""
        if self._draft_model is not None:
            self._draft_model.close()

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) by name."""
        of_model = self._draft_model.tokens_total if self._draft_model is not None else 0
        return asdict(self.counters) | {"spec_decode_draft_model_tokens_total": of_model}

    def check_invariants(self) -> None:
        """Assert the rules of the draft model's memory."""
        if self._draft_model is not None:
            self._draft_model.check_invariants()

    # ---- results

    def draw(self, branch: Branch, draft: Sequence[int], row: int, events: list[Event]) -> None:
        """Sample a branch's next token from its newest one's `row`, and the next from each row that was drafted rightly."""
        self.counters.spec_decode_num_drafts_total += 1
        self.counters.spec_decode_num_draft_tokens_total += len(draft)
        branch.num_drafted += len(draft)  # before a token may end the branch, whose end tells it
        self._branches.sample(branch, row, events)
        for place, token in enumerate(draft, 1):
            if branch.state is not BranchState.RUNNING or branch.pending != 1 or branch.tokens[-1] != token:
                break
            self._branches.read_newest(branch, events)  # it may end the branch
            if branch.lease is None:
                break
            branch.num_computed += 1
            branch.num_ahead -= 1
            self.counters.spec_decode_num_accepted_tokens_total += 1
            branch.num_accepted += 1
            self._branches.sample(branch, row + place, events)
        self._branches.drop_ahead(branch)

    def note(self, plan: StepPlan, seconds: float) -> None:
        """Note how long a step took, the draft model's part included."""
        if not self._max_draft or not plan.num_tokens:
            return
        if not plan.num_prompt_tokens:
            self._times.note(plan.num_tokens, seconds - self._spent)
        plain = self._times.seconds(len(plan.chunks))
        if not self._has_drafted:
            self._credit = min(_MOST_CREDIT, self._credit + _TRIES * seconds)
        elif plain:
            written = len(plan.chunks) + self.counters.spec_decode_num_accepted_tokens_total - self._accepted_before
            without = plain * written / len(plan.chunks)  # what these tokens would have taken
            self._saved += _LEARN_SAVED * ((without - seconds) / without - self._saved)


def without_drafts(chunks: Sequence[Chunk]) -> list[Chunk] | None:
    """Return the chunks without their drafts; None if none has one."""
    if not any(chunk.draft for chunk in chunks):
        return None
    return [Chunk(chunk.span, chunk.count) for chunk in chunks]
