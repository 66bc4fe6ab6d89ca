"""Speculation: drafted tokens are computed with a branch's newest one, and stay as far as the sampler draws the same.

Each token is drawn by the branch's own sampler from the logits of its place, so its text is the same as without drafts,
except for rounding. A draft is only added while it pays (`DraftDecision`): while the tokens that it will probably give
outweigh what a larger batch, and the draft model that wrote it, take longer, all measured as the engine runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from srb.engine.branches import Branches
from srb.engine.draft_decision import DraftDecision
from srb.engine.drafting import Drafter
from srb.engine.lookup import Draft, PromptLookup
from srb.engine.model import Model
from srb.engine.pace import Pace
from srb.engine.request import Branch, BranchState, Request
from srb.engine.scheduler import Chunk, StepPlan
from srb.engine.tree.residency import Residency
from srb.wire.events import Event

_FORESEEN = 256  # tokens that a branch is thought to write at most: a far limit would make any reading look worth it


@dataclass(slots=True)
class SpeculationCounters:
    """Counters of computed drafts since the start."""

    spec_decode_num_drafts_total: int = 0
    spec_decode_num_draft_tokens_total: int = 0
    spec_decode_num_accepted_tokens_total: int = 0


_Found = tuple[Chunk, Sequence[int], list[float]]  # a draft for a chunk; for each token the chance of all up to it


class Speculation:
    """Adds drafts to steps where they pay, and draws tokens from the rows of a step with drafts."""

    def __init__(
        self,
        model: Model,
        residency: Residency,
        branches: Branches,
        clock: Callable[[], float],
        drafts: Drafter | None,
        *,
        max_draft: int,
        looks_up: bool,
        step_seconds: float = 0.0,
    ) -> None:
        """Draft at most `max_draft` tokens for a branch; 0, or memory that cannot go back after wrong ones: none.

        Drafts come from the text itself where it `looks_up` and finds some, else from `drafts`: a draft model, or the
        model's head. A step in which it reads a text takes about `step_seconds`; 0: a ubatch's time.
        """
        self._model = model
        self._residency = residency
        self._branches = branches
        self._clock = clock
        self._max_draft = max_draft if can_draft(model) else 0
        self._looks_up = looks_up
        self._drafter = drafts
        self._decision = DraftDecision()
        self._reading_pace = Pace(step_seconds)
        self._is_noted = False  # whether the current step's time is noted: it computes newest tokens, and drafts
        self._is_again = False  # whether it computes, beside newest tokens, those that a wrong draft took back
        self._accepted_before = 0
        self.counters = SpeculationCounters()

    def add_drafts(self, plan: StepPlan) -> None:
        """Add drafted tokens to a step of newest tokens alone, the likeliest first, as many as pay."""
        if self._drafter is not None:
            self._drafter.follow_prompts(self._decision.is_hopeful)
        size = len(plan.chunks)
        self._is_noted = bool(self._max_draft and size and plan.num_tokens == size and not plan.num_prompt_tokens)
        may_be_again = self._max_draft and size and self._model.has_states and not self._is_noted
        self._is_again = bool(may_be_again) and all(chunk.is_newest for chunk in plan.chunks)
        if not self._is_noted:
            return
        self._accepted_before = self.counters.spec_decode_num_accepted_tokens_total
        room = min(
            self._model.n_seq_max - size,  # a batch has a row of logits for each sequence
            min(self._model.n_batch, self._model.n_ubatch) - size,
            self._residency.available_cells - size,
        )
        if not self._decision.begin(size) or room <= 0:
            return
        drafts: list[_Found] = []
        others: list[tuple[Chunk, int]] = []
        for chunk in plan.chunks:
            most = self._most(chunk.span)
            if found := self._look_up(chunk, most):
                drafts.append(found)
            elif most:
                others.append((chunk, most))
        if others and self._drafter is not None:
            drafts += self._ask(self._drafter, others, room)
        if not drafts:
            return
        chances = [(chance, number) for number, (_, _, each) in enumerate(drafts) for chance in each]
        chances.sort(reverse=True)
        count = self._decision.count([chance for chance, _ in chances[:room]])
        depths = [0] * len(drafts)
        for _, number in chances[:count]:
            depths[number] += 1
        left = self._residency.free_ids if self._model.has_states else len(drafts)  # for the states before them
        for (chunk, tokens, _), depth in zip(drafts, depths, strict=True):
            if depth and left:
                chunk.draft, left = tokens[:depth], left - 1
                plan.num_tokens += depth

    def _most(self, branch: object) -> int:
        """Return how many tokens may be drafted for a branch."""
        if not isinstance(branch, Branch) or not branch.chooser.is_plain or branch.ending is not None:
            return 0
        grammar = branch.sampler.grammar if self._model.has_states else None
        if grammar is not None and not grammar.is_quick:
            return 0  # it may have to wait with its logits, which a branch that goes back has no more
        most = min(self._max_draft, self._model.n_ctx_seq - branch.end)
        if branch.spec.max_tokens >= 0:
            most = min(most, branch.spec.max_tokens - branch.length - 1)
        return max(0, most)

    def _look_up(self, chunk: Chunk, most: int) -> _Found | None:
        """Return what followed the branch's last tokens before; None if there is nothing."""
        branch = chunk.span
        if not most or not self._looks_up or not isinstance(branch, Branch):
            return None
        if branch.draft is None:
            prefix = branch.request.prefix
            if prefix.lookup is None:
                prefix.lookup = PromptLookup(prefix.tokens)
            branch.draft = Draft(prefix.lookup)
        tokens, chances = branch.draft.propose(branch.tokens, most)
        return (chunk, tokens, chances) if tokens else None

    # ---- a model or a head that drafts

    def _ask(self, drafts: Drafter, wanted: list[tuple[Chunk, int]], room: int) -> list[_Found]:
        """Return drafts of the draft model where they pay; let it read on in texts that it does not know yet."""
        ready: list[tuple[Chunk, Branch, int]] = []
        behind: list[tuple[Chunk, Branch, int]] = []
        for chunk, most in wanted:
            branch = chunk.span
            assert isinstance(branch, Branch)
            most = min(most, drafts.model.n_ctx_seq - branch.end)
            if most > 0:
                (ready if self._is_ready(drafts, branch) else behind).append((chunk, branch, most))
        if behind and self._read_on(drafts, [branch for _, branch, _ in behind]):
            ready += [each for each in behind if self._is_ready(drafts, each[1])]
        ready, decision = ready[:room], self._decision
        deepest = min(decision.num_passes(len(ready)), room // max(1, len(ready)))
        if not deepest:
            return []
        asked = [(branch, min(most, deepest)) for _, branch, most in ready]
        least, before, began = decision.least_chance(len(ready)), drafts.passes_total, self._clock()
        found = drafts.draft(asked, self._model.n_vocab, least)
        decision.note_asked(len(ready), drafts.passes_total - before, self._clock() - began)
        return [
            (chunk, tokens, chances) for (chunk, _, _), (tokens, chances) in zip(ready, found, strict=True) if tokens
        ]

    def _is_ready(self, drafts: Drafter, branch: Branch) -> bool:
        """Whether the draft model has all of a branch's text but for a few tokens."""
        lag = drafts.lag(branch)
        return lag is not None and drafts.has(branch) and lag <= self._max_draft

    def _read_on(self, drafts: Drafter, behind: list[Branch]) -> bool:
        """Let the draft model compute a part of a text where the drafts will probably save more time than that takes.

        It is one ubatch at most, or as much as a step has time for, since everything waits for it. Return whether anything
        was computed.
        """
        paced = self._reading_pace.most_prompt(0)
        most = budget = drafts.model.n_ubatch if paced is None else min(paced, drafts.model.n_ubatch)
        foreseen: dict[Request, int] = {}  # each takes a look at all branches of a request
        for branch in behind:
            if budget <= 0:
                break
            request, lag = branch.request, drafts.lag(branch)
            if lag is None or (drafts.has(branch) and lag <= self._max_draft):  # it has another branch's prompt now
                continue
            if request not in foreseen:
                foreseen[request] = self._foreseen(request)
            if not self._decision.may_read(lag, foreseen[request]):
                continue
            began = self._clock()
            count = drafts.compute(branch, budget)
            took = self._clock() - began
            self._decision.note_read(count, took)
            self._reading_pace.note(0, count, took)
            budget -= count
        return budget < most

    def _foreseen(self, request: Request) -> int:
        """Return how many tokens the branches of a request will probably write."""
        tokens = 0
        for each in request.branches:
            if each.is_active:
                limit = each.spec.max_tokens
                tokens += _FORESEEN if limit < 0 else min(_FORESEEN, limit - each.length)
        return tokens

    @property
    def most_tokens(self) -> int:
        """Most tokens that the draft model computes before a step."""
        return self._drafter.model.n_ubatch + self._max_draft if self._drafter is not None else 0

    @property
    def needs_trim(self) -> bool:
        return self._drafter is not None and self._drafter.needs_trim

    def trim(self) -> None:
        """Park texts of the draft model that are not in use, as far as one step may."""
        if self._drafter is not None:
            self._drafter.trim()

    def flush(self) -> None:
        """Carry out the edits of the draft model's KV store that wait."""
        if self._drafter is not None:
            self._drafter.model.flush()

    def close(self) -> None:
        """Free the draft model."""
        if self._drafter is not None:
            self._drafter.close()

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) by name."""
        of_model = self._drafter.tokens_total if self._drafter is not None else 0
        return asdict(self.counters) | {"spec_decode_draft_model_tokens_total": of_model}

    def check_invariants(self) -> None:
        """Assert the rules of the draft model's memory."""
        if self._drafter is not None:
            self._drafter.check_invariants()

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
            branch.num_unverified -= 1
            self.counters.spec_decode_num_accepted_tokens_total += 1
            branch.num_accepted += 1
            self._branches.sample(branch, row + place, events)
        is_right = not branch.num_unverified
        self._branches.drop_ahead(branch)
        if is_right and self._model.has_states and branch.lease is not None:
            self._branches.note_computed(branch, 1 + len(draft))

    def note(self, plan: StepPlan, seconds: float) -> None:
        """Note how long a step took, the draft model's part included."""
        if self._is_noted:
            accepted = self.counters.spec_decode_num_accepted_tokens_total - self._accepted_before
            self._decision.end(plan.num_tokens, accepted, seconds)
        elif self._is_again:
            self._decision.end_again(len(plan.chunks), seconds)


def can_draft(model: Model) -> bool:
    """Whether the model's sequences can go back to any place: by a cut, or to the state before, of which a copy is free."""
    return model.supports_partial_reuse and (model.shares_states or not model.has_states)


def without_drafts(chunks: Sequence[Chunk]) -> list[Chunk] | None:
    """Return the chunks without their drafts; None if none has one."""
    if not any(chunk.draft for chunk in chunks):
        return None
    return [Chunk(chunk.span, chunk.count) for chunk in chunks]
