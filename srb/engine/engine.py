"""The engine: requests go in, events come out, with one llama.cpp decode per step.

`step` reads as the definition of continuous batching: admit, schedule, decode, commit, start. The core does no I/O and
has no clock of its own. The decode thread calls it; `prepare`, `tokenize` and `detokenize` are safe from any thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srb.engine.branches import Branches
from srb.engine.drafting import DraftModel
from srb.engine.embedding import EmbeddingJob, EmbeddingQueue
from srb.engine.media import IsWanted, always
from srb.engine.model import Batch, DecodeStatus, LoraScales, Model, Sampler, StateStore
from srb.engine.named_states import NamedStates
from srb.engine.preparing import Preparer
from srb.engine.prompts import Prompts
from srb.engine.registry import Overdue, Registry
from srb.engine.request import Branch, BranchState, Prefix, Request
from srb.engine.scheduler import UNREAD_EVERY, Chunk, Scheduler, StepPlan
from srb.engine.slots import Slots
from srb.engine.speculation import Speculation, without_drafts
from srb.engine.state_actions import StateActions, StateJob
from srb.engine.steering import Growth, Steering, branch_of, describe_branch
from srb.engine.tree.checkpoints import AUTO
from srb.engine.tree.prefix_tree import PrefixTree
from srb.engine.tree.residency import Residency
from srb.errors import (
    Cancelled,
    Conflict,
    DecodeFailed,
    InvalidRequest,
    NotSupported,
    QueueFull,
    QueueTimeout,
    RateLimited,
    SRBError,
)
from srb.protocol import (
    Accepted,
    AddBranches,
    Ask,
    Attach,
    BranchAdded,
    ChangeBranch,
    CountTokens,
    Done,
    Embed,
    EndReasoning,
    Event,
    Failed,
    FinishReason,
    Generate,
    GetAdapters,
    GetRequest,
    GetSlots,
    GetSlotTime,
    GetStats,
    HoldPlaces,
    ListRequests,
    Rejected,
    Reply,
    Rerank,
    Resting,
    SetAdapters,
    StateAction,
    StopBranches,
)

FATAL_WINDOW = 60.0  # seconds; after a second fatal decode within this time the context is not trusted any more


class EngineFault(Exception):
    """llama.cpp's context is broken beyond repair: the process should exit and be restarted."""


@dataclass(slots=True)
class Counters:
    """Counters of requests, decodes and seconds since the start, for /metrics."""

    requests_total: int = 0
    prompt_seconds_total: float = 0.0
    tokens_predicted_seconds_total: float = 0.0
    n_decode_total: int = 0
    busy_slots_total: int = 0  # prompts and branches in each decode
    decode_failures_total: int = 0


class Engine:
    """Continuous batching of requests with many branches each, over one Model."""

    def __init__(
        self,
        model: Model,
        *,
        max_queue: int,
        max_running: int = 0,
        queue_timeout: float = 0.0,
        request_timeout: float = 0.0,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] | None = None,
        cache_cells: int = 0,
        cache_bytes: int = 0,
        checkpoint_every: int = AUTO,
        states: StateStore | None = None,
        max_draft: int = 0,
        looks_up: bool = True,
        draft_model: Model | None = None,
        min_draft: int = 0,
        min_draft_p: float = 0.0,
    ) -> None:
        """Serve `model`; at most `max_queue` requests wait. `clock` returns seconds and never goes back. `wall_clock`
        returns the UNIX time, by which the replicas of a cluster tell whose text of a slot is newer; None: `clock` is asked.

        At most `max_running` requests run at once; 0: as many as there is room for.

        A request that waits for more than `queue_timeout` seconds fails; one that takes more than `request_timeout`
        seconds ends with the text it has. 0 means no limit. The prefix tree keeps `cache_cells` idle cells in the KV
        store and `cache_bytes` bytes in host memory, and a checkpoint after each `checkpoint_every` tokens if the model's
        memory keeps states (see `Spacing`). `states` stores named states beyond the server's life; None:
        nowhere. At most `max_draft` tokens are drafted for a branch; 0: no speculation. Drafts come from the text itself
        where it `looks_up`, else from the `draft_model`, as long as its probabilities are at least `min_draft_p`; shorter
        ones than `min_draft` of it are not used. A quarter of `cache_bytes` is for the draft model's texts.
        """
        self.model = model
        drafts: DraftModel | None = None
        if draft_model is not None:
            cache_bytes, for_drafts = cache_bytes - cache_bytes // 4, cache_bytes // 4
            drafts = DraftModel(draft_model, cache_cells, for_drafts, min_draft_p)
        self._max_queue = max_queue
        self._clock = clock
        self._embeddings = EmbeddingQueue(model)
        self._residency = Residency(model, cache_cells, cache_bytes, checkpoint_every)
        self._keeps_states = model.has_states
        self._tree = PrefixTree(model, self._residency)
        named = NamedStates(self._tree, self._residency, states)
        self._preparer = Preparer(model, states, named.is_in_memory, clock)
        self.wake: Callable[[], None] = lambda: None  # called by other threads when `collect` has events
        # Takes a step's events that are ready while a device computes; None: `step` returns all of them.
        self.emit: Callable[[list[Event]], None] | None = None
        self._saves: deque[tuple[str, SRBError | None]] = (
            deque()
        )  # (request_id, error) of ended saves, put here by other threads
        self._slots = Slots(model.n_seq_max, max_running)
        self._state_actions = StateActions(named, self._slots, clock, wall_clock or clock, self._end_save)
        self._prompts = Prompts(
            model, self._tree, self._residency, named, clock, *([drafts.forget_prompt] if drafts else [])
        )
        self._steering = Steering(model, self._preparer, clock)
        self._branches = Branches(
            model,
            self._tree,
            self._prompts,
            clock,
            self._preparer.count_special,
            self._state_actions.note_end,
            *([drafts.forget] if drafts else []),
        )
        self._speculation = Speculation(
            model, self._residency, self._branches, clock, max_draft, looks_up, drafts, min_draft
        )
        self._scheduler = Scheduler(model, self._tree, self._residency, max_running)
        self._registry = Registry(queue_timeout, request_timeout)
        self._counters = Counters()
        self._last_fatal = float("-inf")
        self._has_skipped_decode = False  # in the previous step
        self._num_steps = 0
        self.step_tokens = 0  # tokens of the latest step

    # ---- any thread

    def tokenize(self, parts: Sequence[str | int], add_special: bool, parse_special: bool) -> list[int]:
        return self._preparer.tokenize(parts, add_special, parse_special)

    def count_tokens(self, command: CountTokens) -> int:
        """Return the number of tokens of a prompt with media. Raise InvalidRequest or NotSupported."""
        return self._preparer.count_tokens(command)

    def knows_media(self, command: Generate) -> bool:
        """Whether no medium of a request has to be encoded. Raise InvalidRequest or NotSupported."""
        return self._preparer.knows_media(command)

    def has_grammar(self, command: Generate | Embed | Rerank | StateAction | AddBranches) -> bool:
        """Whether a command has a grammar to compile, or to go on in from a fork's beginning. Raise NotFound."""
        match command:
            case Generate(branches=specs):
                return any(spec.has_grammar for spec in specs)
            case AddBranches(target=target, owner=owner, branches=entries):
                own = any(not {"grammar", "json_schema"}.isdisjoint(dict(sampling)) for *_, sampling in entries)
                return own or any(branch.spec.has_grammar for branch in self.find(target, owner).branches)
        return False

    def detokenize(self, tokens: Sequence[int], special: bool = True) -> list[bytes]:
        return self._preparer.detokenize(tokens, special)

    def prepare(
        self, command: Generate | Embed | Rerank | StateAction | AddBranches, is_wanted: IsWanted = always
    ) -> Request | EmbeddingJob | StateJob | Growth:
        """Tokenize and check a command, and build its samplers. The caller must submit or close the result.

        No further picture is encoded for a command that `is_wanted` no more.
        """
        match command:
            case Generate():
                return self._preparer.request(command, is_wanted)
            case Embed() | Rerank():
                return self._preparer.embedding(command)
            case StateAction():
                return self._preparer.state_job(command)
            case AddBranches():
                return self._steering.growth(command, self.find(command.target, command.owner))

    def find(self, request_id: str, owner: str) -> Request:
        """Return a request that has not ended; an empty `owner` may be anybody. Raise NotFound."""
        return self._registry.find(request_id, owner)

    def _end_save(self, request_id: str, error: SRBError | None) -> None:
        self._saves.append((request_id, error))
        self.wake()

    # ---- the decode thread

    def submit(self, request: Request | EmbeddingJob | StateJob | Growth) -> list[Event]:
        """Queue a request; return Accepted, or Rejected if the queue is full or the id is in use.

        An accepted job has no event here: `step` returns the Reply of an EmbeddingJob. The Reply of a StateJob is
        returned at once, or by `collect` when its file is written.
        """
        if isinstance(request, StateJob):
            return self._state_actions.act(request)
        if isinstance(request, Growth):
            return self._grow(request)
        error: SRBError | None = None
        events: list[Event] = []  # of a request that has to leave the queue
        if request.request_id in self._registry or request.request_id in self._embeddings:
            error = InvalidRequest("request_id is in use")
        elif (full := self._queue_up(events)) is not None:
            error = full
        elif isinstance(request, Request) and 0 < request.max_unread <= self._registry.count_unread(request.owner):
            error = RateLimited(f"{request.max_unread} requests linger without a reader; stop one, or read it")
        if error:
            request.close()
            return [*events, Rejected.of(request.request_id, error)]
        self._counters.requests_total += 1
        if isinstance(request, EmbeddingJob):
            self._embeddings.add(request)
            return events
        self._registry.add(request, self._clock())
        return [*events, Accepted(request.request_id, request.num_sent)]

    def collect(self) -> list[Event]:
        """Return the replies to saves of states that other threads have ended, and the ends of rests that are over."""
        events: list[Event] = []
        self._end_rests(self._clock(), events)
        while self._saves:
            events += self._state_actions.end_save(*self._saves.popleft())
        return events

    def cancel(self, request_id: str, index: int | None = None) -> list[Event]:
        """Cancel a request, or the branch `index` of it. Unknown ids are ignored: those requests have ended."""
        request = self._registry.get(request_id)
        if request is None:
            return self._embeddings.end(request_id, Cancelled("the request was cancelled"))
        events: list[Event] = []
        if index is None:
            _stop_exploring(request)
            request.linger = 0.0
            self._end_rests(self._clock(), events)
        for branch in request.branches:
            if branch.state is not BranchState.ENDED and index in (None, branch.index):
                self._branches.end(branch, FinishReason.CANCELLED, events)
        self._finish_ended(events)
        return events

    def leave(self, request_id: str) -> list[Event]:
        """Note that nobody reads a request any more: it lingers, or is cancelled.

        If more of its owner's requests run without a reader than may, the one that has done so longest ends by the limit:
        it rests with its texts, and may go on for a reader that comes back.
        """
        request = self._registry.get(request_id)
        if request is None or not request.linger:
            return self.cancel(request_id)
        self._registry.note_unread(request, self._clock())
        lingering, events = self._registry.lingering(request.owner), list[Event]()
        if 0 < request.max_lingering < len(lingering):
            self._end_by_limit(lingering[0], events)
        return events

    def attach(self, request_id: str, owner: str) -> dict[str, Any]:
        """Note that a request has a reader; return its description with all texts. Raise NotFound."""
        request = self.find(request_id, owner)
        self._registry.note_reader(request)
        return self._steering.describe(request)

    def control(self, command: StopBranches | EndReasoning | ChangeBranch) -> list[Event]:
        """Stop or change branches, or end their reasoning; return their events and the Reply to the command.

        Raise NotFound, Conflict, InvalidRequest, QueueFull or RateLimited.
        """
        request = self.find(command.target, command.owner)
        if isinstance(command, EndReasoning):
            return [Reply(command.request_id, {"branches": self._steering.end_reasoning(request, command.index)})]
        if isinstance(command, StopBranches) and command.index is None:
            return [*self.cancel(command.target), Reply(command.request_id, {"id": command.target, "state": "ended"})]
        assert command.index is not None
        branch = branch_of(request, command.index)
        events: list[Event] = []
        if isinstance(command, ChangeBranch):
            if branch.can_resume:
                self._check_resume(request, events)
            self._steering.change(branch, command)
            if branch.state is BranchState.ENDED:
                self._branches.resume(branch)
                self._registry.resume(request, self._clock())
                events.append(BranchAdded(request.request_id, branch.index, branch.spec.seed, resumed=True))
                self._branches.jump_ahead(branch, events)
        elif branch.state is BranchState.ENDED:
            raise Conflict(f"branch {branch.index} has ended", state="ended")
        else:
            self._branches.end(branch, FinishReason.CANCELLED, events)
            self._finish_ended(events)
        return [*events, Reply(command.request_id, describe_branch(branch, text=False))]

    def _grow(self, growth: Growth) -> list[Event]:
        """Add prepared branches to their request; return BranchAdded for each, and the Reply."""
        command, events = growth.command, list[Event]()
        try:
            request = self.find(command.target, command.owner)
            self._check_resume(request, events)
            added = self._steering.grow(request, growth)
        except SRBError as error:
            growth.close()
            return [*events, Rejected.of(command.request_id, error)]
        if growth.point:
            self._branches.share(growth.point.origin)
        self._registry.resume(request, self._clock())
        self._slots.assign_added(added, self._registry.active.values())
        now = self._clock() if request.ceased_at is None else request.ceased_at  # neither a rest nor the queue counts
        events += [_added(branch, request.predicted_ms(now)) for branch in added]
        said = {"indices": [each.index for each in added], "seeds": [each.spec.seed for each in added]}
        return [*events, Reply(command.request_id, said)]

    @property
    def _is_queue_full(self) -> bool:
        if self._registry.num_queued + len(self._embeddings) < self._max_queue:
            return False  # nearly always, and cheap
        # Those that came since the last step and have room wait for nobody: a burst finds an idle engine idle.
        waiting = self._registry.num_queued - self._scheduler.num_starting(self._in_turn())
        return waiting + self._embeddings.num_waiting >= self._max_queue

    def _queue_up(self, events: list[Event]) -> QueueFull | None:
        """Make room in the queue for one request, if there is none; return the error if that cannot be.

        A request without a reader that waits leaves the queue: it rests.
        """
        if not self._is_queue_full:
            return None
        for request in self._registry.lingering():
            if request.is_queued:
                self._end_by_limit(request, events)
                return None
        return QueueFull(f"{self._max_queue} requests are waiting already; try again in a moment")

    def _check_resume(self, request: Request, events: list[Event]) -> None:
        """Raise QueueFull or RateLimited if a request that rests may not go on now: it has to wait, as new ones do."""
        if request.rests_since is None:
            return
        unread = len(self._registry.lingering(request.owner))
        limit = min((limit for limit in (request.max_unread, request.max_lingering) if limit), default=0)
        if request.is_unread and 0 < limit <= unread:
            raise RateLimited(f"{unread} requests run without a reader; stop one, or read it")
        if (full := self._queue_up(events)) is not None:
            raise full

    @property
    def seconds_to_rest(self) -> float | None:
        """Seconds until the first rest is over; None if no request rests."""
        return self._registry.seconds_to_rest(self._clock())

    @property
    def has_work(self) -> bool:
        needs_trim = self._residency.needs_trim or self._speculation.needs_trim
        return bool(self._registry.active or self._embeddings) or needs_trim

    def step(self) -> list[Event]:
        """Compute one batch and return its events. Raise EngineFault if the context is beyond repair."""
        began = self._branches.now = self._clock()
        events: list[Event] = []
        self._expire(began, events)
        self._give_way()
        if self._branches.go_on(events):
            self._finish_ended(events)
        if not self._admit(events):
            self._residency.trim()
            self._speculation.trim()
        elif self._start_branches(events) and not self._has_skipped_decode:
            # Their prompt is cached: send the first tokens before the next decode, but never twice in a row.
            self._has_skipped_decode = True
            self._finish_ended(events)
            return events
        self._has_skipped_decode = False
        self._num_steps += 1
        plan = self._scheduler.schedule(self._in_turn(), with_unread=self._num_steps % UNREAD_EVERY == 0)
        more = self._embeddings.next_tokens + self._speculation.most_tokens
        self.step_tokens = plan.num_tokens + more  # told to the heartbeat before anything takes its time
        self._speculation.add_drafts(plan)
        self.step_tokens = plan.num_tokens + more
        self._make_room(plan, events)
        self._decode(plan, events)
        self._start_branches(events)
        self._finish_ended(events)
        self._account(plan, self._clock() - began)
        return events + self._embeddings.step()

    def flush(self) -> None:
        """Carry out the edits of KV stores that waited until the events were sent: forks of new branches above all."""
        self.model.flush()
        self._speculation.flush()

    def fail_all(self, error: SRBError) -> list[Event]:
        """Fail every request and job with `error`."""
        events = [event for request in self._registry for event in self._fail(request, error)]
        return events + self._embeddings.end_all(error)

    def serve_query(self, command: Ask | Attach) -> Any:
        """Return a query's value, as the command's docstring describes it. Raise NotSupported for other commands."""
        match command:
            case GetStats():
                return self.stats()
            case GetSlots():
                return self._slots.show(self.model, self._registry.active.values())
            case GetSlotTime(_, slot):
                return self._state_actions.since(slot)
            case ListRequests(_, owner):
                own = (request for request in self._registry if request.owner == owner)
                return [self._steering.describe(request, texts=False) for request in own]
            case GetRequest(_, target, owner):
                return self._steering.describe(self.find(target, owner))
            case HoldPlaces(_, target, owner):
                return self._steering.hold_places(self.find(target, owner), command)
            case GetAdapters():
                return self.adapters()
            case SetAdapters(_, scales):
                self._preparer.lora = self._preparer.scales(scales)
                return self.adapters()
            case _:
                raise NotSupported(f"the engine does not answer {type(command).__name__}")

    def adapters(self) -> list[dict[str, Any]]:
        """Return the LoRA adapters, each with the scale that future requests get unless they name another."""
        scaled = zip(self.model.adapters, self._preparer.lora, strict=True)
        return [{"id": place} | asdict(adapter) | {"scale": scale} for place, (adapter, scale) in enumerate(scaled)]

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        branches = [branch for request in self._registry.active.values() for branch in request.branches]
        queued = self._registry.num_queued
        return asdict(self._counters) | {
            "requests_processing": len(self._registry.active) - queued,
            "requests_deferred": queued,
            "requests_resting": len(self._registry.resting),
            "branches_running": sum(branch.state is BranchState.RUNNING for branch in branches),
            "branches_waiting": sum(branch.state in (BranchState.WAITING, BranchState.HELD) for branch in branches),
            "branches_room": self._scheduler.room(list(self._registry.active.values())),
            "kv_cells": self.model.n_ctx,
            "sequences": self.model.n_seq_max,
            "threads": self.model.threads,
            "slot_text_tokens": self._state_actions.slot_tokens,
            "embedding_tokens_total": self._embeddings.tokens_total,
            **asdict(self._branches.counters),
            **self._speculation.stats(),
            **self._prompts.stats(),
            **self._preparer.media.stats(),
            **self._residency.stats(),
        }

    def check_invariants(self) -> None:
        """Assert the rules that hold between two steps. Visits every node: for tests, not for a step."""
        branches = [branch for request in self._registry.active.values() for branch in request.branches]
        prompts = [node for request in self._registry.active.values() if (node := request.prefix.node) is not None]
        leases = [branch.lease for branch in branches if branch.lease is not None]
        self._tree.check_invariants(prompts, leases, sum(branch.own_cells for branch in branches))
        for branch in branches:
            if branch.lease is not None:
                assert branch.request.prefix.node in branch.lease.node.path(), f"{branch!r} is not below its prefix"
        self._registry.check_invariants()
        self._speculation.check_invariants()
        for branch in branches:
            assert (branch.state is BranchState.RUNNING) == (branch.seq_id is not None), repr(branch)
            has_work = branch.pending or self._branches.is_late(branch)
            assert branch.state is not BranchState.RUNNING or has_work, f"{branch!r} has nothing to compute"
        for request in self._registry.active.values():
            assert request.words is None or not request.words.next_held(request), f"{request!r} holds a branch in vain"

    def close(self) -> None:
        """Free every sampler and the model."""
        for request in self._registry:
            request.close()
        self._registry.clear()
        self._speculation.close()
        self.model.close()

    # ---- step: admit, make room, decode

    def _expire(self, now: float, events: list[Event]) -> None:
        """Fail requests that have waited too long, and end those that run too long with the text they have."""
        for request, reason in self._registry.overdue(now):
            match reason:
                case Overdue.UNREAD:
                    events += self.cancel(request.request_id)
                case Overdue.QUEUED:
                    self._end_wait(request, events)
                case Overdue.RUNNING:
                    self._end_by_limit(request, events)
        self._end_rests(now, events)

    def _end_wait(self, request: Request, events: list[Event]) -> None:
        """Fail a request that has waited too long; one that has rested keeps its texts, and its new branches fail."""
        error = QueueTimeout(f"the request did not start within {self._registry.queue_timeout:.0f} s")
        if request.started_at is None:
            events += self._fail(request, error)
            return
        for branch in request.branches:
            if branch.is_active:
                self._branches.end(branch, FinishReason.ERROR, events, error=error)
        self._finish_ended(events)

    def _end_by_limit(self, request: Request, events: list[Event]) -> None:
        """End all branches of an active request with what they have; it rests if it lingers."""
        _stop_exploring(request)
        for branch in request.branches:
            if branch.is_active:
                self._branches.end(branch, FinishReason.LIMIT, events)
        self._finish_ended(events)

    def _give_way(self) -> None:
        """Take back cells and sequences from requests without a reader that others need; their tokens stay in the tree."""
        for request in self._scheduler.giving_way(list(self._registry.active.values())):
            for branch in request.in_state(BranchState.RUNNING):
                self._branches.pause(branch)
            self._prompts.release(request.prefix)

    def _in_turn(self) -> list[Request]:
        """Return the requests that run or may begin now, those with a reader first, each kind oldest first."""
        return self._scheduler.in_turn(list(self._registry.active.values()))

    def _admit(self, events: list[Event]) -> bool:
        """Begin every admissible request; return whether there was one."""
        began = False
        for request, match in self._scheduler.admissible(self._in_turn()):
            began = True
            if request.is_queued:
                self._slots.assign(request, (other for other in self._registry.active.values() if not other.is_queued))
            self._prompts.begin(request, match, events)
        return began

    def _make_room(self, plan: StepPlan, events: list[Event]) -> None:
        for branch in plan.pauses:
            self._branches.pause(branch)
        for request in plan.drops:
            self._prompts.release(request.prefix)
        for branch in plan.ends:
            self._branches.end(branch, FinishReason.LIMIT, events, truncated=True)
        has_room = self._residency.make_room(plan.num_tokens, 0)
        assert has_room, "the plan needs more cells than can be freed"

    def _decode(self, plan: StepPlan, events: list[Event]) -> None:
        """Compute and commit the chunks of a plan, in one decode or several."""
        groups = _groups(plan.chunks) if self.model.adapters or self.model.encoder else [plan.chunks]
        if self.model.apart_from:
            groups = [part for chunks in groups for part in _parts(chunks, self.model.apart_from)]
        if len(groups) == 1:
            self._compute(groups[0], events)
            return
        for chunks in groups:
            alive = [chunk for chunk in chunks if self._is_alive(chunk)]
            # Branches that ended in the previous decode may occupy cells that were planned for this one.
            self._residency.make_room(sum(chunk.num_tokens for chunk in alive), 0)
            self._compute(alive, events)

    def _compute(self, chunks: list[Chunk], events: list[Event], parked: int = 0) -> None:
        """Decode `chunks` in one batch and commit them; retry with less if llama.cpp refuses the batch.

        `parked` idle nodes have been parked for this batch already.
        """
        if not chunks:
            return
        batch = Batch(chunks[0].span.request.lora)
        rows = [chunk.add_to(batch) for chunk in chunks]
        if self.model.samples_on_device:
            batch.samplers = _lone_samplers(chunks, rows)
        self._counters.n_decode_total += 1
        self._counters.busy_slots_total += len(chunks)
        match self.model.decode(batch):
            case DecodeStatus.OK:
                self._branches.now = self._clock()
                self._commit(chunks, rows, events)
            case DecodeStatus.NO_ROOM:
                self._compute_less(chunks, events, parked)
            case DecodeStatus.INVALID:
                self._compute_apart(chunks, events)
            case DecodeStatus.FATAL:
                self._recover(events)

    def _compute_less(self, chunks: list[Chunk], events: list[Event], parked: int) -> None:
        """Retry a batch that found no cells: without drafts, without prompts, then with fewer branches, tokens, nodes."""
        if plain := without_drafts(chunks):
            self._compute(plain, events, parked)
            return
        decodes = [chunk for chunk in chunks if chunk.is_newest]
        first = chunks[0]
        if decodes and len(decodes) < len(chunks):
            self._compute(decodes, events)
        elif len(decodes) > 1:
            kept = len(decodes) // 2
            for chunk in decodes[kept:]:
                assert isinstance(chunk.span, Branch)
                self._branches.pause(chunk.span)
            self._compute(decodes[:kept], events)
        elif len(chunks) > 1 or first.can_be_less:
            count = max(1, first.count // 2) if first.can_be_less else first.count
            self._compute([Chunk(first.span, count)], events)
        elif more := self._residency.park_some(parked + 1):  # twice as many each time, so that retries are few
            self._compute(chunks, events, parked + more)
        elif isinstance(first.span, Branch):
            self._branches.end(first.span, FinishReason.LIMIT, events, truncated=True)
        else:
            events += self._fail(first.span.request, DecodeFailed("the KV store has no room for this prompt"))

    def _compute_apart(self, chunks: list[Chunk], events: list[Event]) -> None:
        """Compute each request's chunks apart after an invalid batch, so that only the request at fault fails."""
        if plain := without_drafts(chunks):
            self._compute(plain, events)
            return
        self._counters.decode_failures_total += 1
        by_request: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            by_request.setdefault(chunk.span.request.request_id, []).append(chunk)
        if len(by_request) == 1:
            events += self._fail(chunks[0].span.request, DecodeFailed("llama.cpp refused this request's tokens"))
            return
        for own in by_request.values():  # an earlier part may have been fatal and have ended all requests
            self._compute([chunk for chunk in own if self._is_alive(chunk)], events)

    def _is_alive(self, chunk: Chunk) -> bool:
        """Whether a chunk's request has not failed, and its branch not ended, since the chunk was planned."""
        span = chunk.span
        return span.request.request_id in self._registry.active and (isinstance(span, Prefix) or span.is_active)

    def _recover(self, events: list[Event]) -> None:
        """Recover from a fatal decode: fail running requests, empty the KV store, and test it with one token.

        Raise EngineFault if the test fails, or if the previous fatal decode was less than FATAL_WINDOW seconds ago.
        """
        self._counters.decode_failures_total += 1
        now = self._clock()
        repeated = now - self._last_fatal < FATAL_WINDOW
        self._last_fatal = now
        for request in list(self._registry.active.values()):
            if not request.is_queued:
                events += self._fail(request, DecodeFailed("the computation failed; the request can be sent again"))
        self._tree.clear()
        if repeated:
            raise EngineFault("the computation failed twice within a minute")
        test = Batch()
        test.add(0, 0, [0], want_logits=True)
        if self.model.decode(test) is not DecodeStatus.OK:
            raise EngineFault("the computation failed, and so did a self-test after it")
        self.model.clear()

    # ---- step: commit

    def _commit(self, chunks: list[Chunk], rows: list[int], events: list[Event]) -> None:
        """Record the computed tokens, and sample the next token of every span that is fully computed."""
        done: list[tuple[Prefix | Branch, int, Sequence[int]]] = []
        for chunk, row in zip(chunks, rows, strict=True):  # all of them first, since ending a branch counts free cells
            span = chunk.span
            if chunk.completes:
                done.append((span, row, chunk.draft))
            if isinstance(span, Branch):
                if span.ending is not None:
                    self._branches.note_rows(span, chunk.count, row)
                if not span.length:
                    span.num_decoded += chunk.count
                self._residency.record_branch(chunk.num_tokens, span.start + span.num_computed)
                span.num_computed, span.num_ahead = span.num_computed + chunk.count, len(chunk.draft)
                if self._keeps_states:
                    self._branches.note_computed(span, chunk.count)
            else:
                self._prompts.advance(span, chunk.count, row, events)
        if self._branches.read(events):  # while the device computes; branches may have ended
            done = [each for each in done if isinstance(each[0], Prefix) or each[0].is_active]
            if self.emit is not None:
                self.emit(events)
                events.clear()
        if self.model.samples_in_threads(len(done)):
            self.model.sample_ahead(
                [(span.sampler, row) for span, row, _ in done if isinstance(span, Branch) and span.is_free]
            )
        for span, row, draft in done:
            if draft and isinstance(span, Branch):
                self._speculation.draw(span, draft, row, events)
            elif isinstance(span, Branch):
                self._branches.sample(span, row, events)
            else:
                self._prompts.complete(span, row, events)

    def _start_branches(self, events: list[Event]) -> bool:
        """Start branches while there is room; each samples its own first token. Return whether one was started."""
        began = False
        self._explore(events)
        for branch in self._scheduler.startable(self._in_turn()):
            began = True
            self._branches.start(branch, events)
        if self._explore(events):  # from first tokens
            return self._start_branches(events) or began
        return began

    def _explore(self, events: list[Event]) -> bool:
        """Begin the forks that explored branches have led to; return whether there was one."""
        grown = False
        for request in self._registry.exploring.values():
            while request.exploration is not None and (added := request.exploration.take(request)):
                grown = True
                self._slots.assign_added([branch for branch, _ in added], self._registry.active.values())
                for branch, fork in added:
                    self._branches.begin_fork(branch, fork, events)
        return grown

    # ---- ends

    def _finish_ended(self, events: list[Event]) -> None:
        """Finish each request whose branches have all ended: release its prompt, and emit Done or let it rest."""
        self._explore(events)  # an end may leave room for forks that waited
        for request in [request for request in self._registry.active.values() if request.is_over]:
            self._prompts.release(request.prefix)
            self._registry.rest(request, self._clock())
            if request.linger:
                events.append(Resting.of(_done(request), request.linger))
            else:
                events.append(_done(request))
                request.close()

    def _end_rests(self, now: float, events: list[Event]) -> None:
        """Finish the requests whose rest is over."""
        for request in self._registry.rested(now):
            events.append(_done(request))
            request.close()

    def _fail(self, request: Request, error: SRBError) -> list[Event]:
        for branch in request.branches:
            self._branches.abandon(branch)
        self._prompts.release(request.prefix)
        request.close()
        self._registry.remove(request)
        return [Failed(request.request_id, error.code, error.message)]

    def _account(self, plan: StepPlan, seconds: float) -> None:
        """Divide a step's time between prefill and decode, in proportion to their tokens."""
        self._speculation.note(plan, seconds)
        total, prompt = plan.num_tokens, plan.num_prompt_tokens
        if total:
            self._counters.prompt_seconds_total += seconds * prompt / total
            self._counters.tokens_predicted_seconds_total += seconds * (total - prompt) / total


def _stop_exploring(request: Request) -> None:
    if request.exploration is not None:
        request.exploration.stop()


def _added(branch: Branch, predicted_ms: float) -> BranchAdded:
    origin, token = branch.origin or (None, None)
    text = "".join(branch.shown)
    said = (False, origin, token, text)
    spec, request_id = branch.spec, branch.request.request_id
    return BranchAdded(request_id, branch.index, spec.seed, *said, place=spec.place, predicted_ms=predicted_ms)


def _done(request: Request) -> Done:
    """Return the end of a request whose branches have all ended."""
    ceased = request.ceased_at
    assert ceased is not None
    started = ceased if request.started_at is None else request.started_at
    prefix_done = ceased if request.prefix_done_at is None else request.prefix_done_at
    return Done(
        request.request_id,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=request.cached_tokens,
        completion_tokens=sum(branch.num_sampled for branch in request.branches),
        prompt_ms=(prefix_done - started) * 1000,
        predicted_ms=request.predicted_ms(ceased),
        restored_tokens=request.prefix.num_restored,
        image_tokens=request.prefix.num_image_tokens,
        audio_tokens=request.prefix.num_audio_tokens,
        drafted_tokens=sum(branch.num_drafted for branch in request.branches),
        accepted_tokens=sum(branch.num_accepted for branch in request.branches),
        computed_tokens=request.computed_tokens,
    )


def _lone_samplers(chunks: list[Chunk], rows: list[int]) -> dict[int, Sampler]:
    """Return by row the samplers of branches whose next token alone is needed, and not the logits."""
    return {
        row: branch.sampler
        for chunk, row in zip(chunks, rows, strict=True)
        if isinstance(branch := chunk.span, Branch)
        and chunk.completes
        and not chunk.draft
        and branch.is_free
        and not branch.spec.is_scored
    }


def _groups(chunks: list[Chunk]) -> list[list[Chunk]]:
    """Group chunks by decodes: a context has one set of LoRA scales at a time, and media are computed by themselves."""
    groups: dict[LoraScales, list[Chunk]] = {}
    media: list[list[Chunk]] = []
    for chunk in chunks:
        if chunk.media is not None:
            media.append([chunk])
        else:
            groups.setdefault(chunk.span.request.lora, []).append(chunk)
    return [*groups.values(), *media]


def _parts(chunks: list[Chunk], apart_from: int) -> list[list[Chunk]]:
    """Part the newest tokens of branches from longer chunks if together they are `apart_from` tokens or more."""
    newest = [chunk for chunk in chunks if chunk.is_newest]
    if not 0 < len(newest) < len(chunks) or sum(chunk.num_tokens for chunk in chunks) < apart_from:
        return [chunks]
    return [newest, [chunk for chunk in chunks if not chunk.is_newest]]
