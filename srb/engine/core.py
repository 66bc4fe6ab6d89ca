"""The engine: requests go in, events come out, one llama.cpp decode a step.

`step` reads as the definition of continuous batching: schedule, decode, commit, start. The core does no I/O and has no
clock of its own; all of it but `prepare` belongs to one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from srb.engine.branches import Branches
from srb.engine.embedding import EmbeddingJob, EmbeddingQueue
from srb.engine.model import Batch, DecodeStatus, Model, Scales, StateStore
from srb.engine.named_states import NamedStates
from srb.engine.prefix_tree import PrefixTree
from srb.engine.preparing import Preparer
from srb.engine.prompts import Prompts
from srb.engine.request import Branch, BranchState, Prefix, Request
from srb.engine.residency import Residency
from srb.engine.scheduler import Run, Scheduler, StepPlan
from srb.engine.slots import slots
from srb.engine.state_actions import StateActions, StateJob
from srb.errors import (
    Cancelled,
    DecodeFailed,
    InvalidRequest,
    NotSupported,
    QueueFull,
    QueueTimeout,
    SRBError,
)
from srb.protocol import (
    Accepted,
    Answer,
    Ask,
    Done,
    Embed,
    Event,
    Failed,
    FinishReason,
    Generate,
    GetAdapters,
    GetSlots,
    GetStats,
    Rejected,
    Rerank,
    SetAdapters,
    StateAction,
)

FATAL_WINDOW = 60.0  # seconds: a second fatal decode within them means that the context cannot be trusted


class EngineFault(Exception):
    """The context is broken beyond repair: the process should exit and be started again."""


@dataclass(slots=True)
class Counters:
    """What has been done since the start; tokens and seconds, for /metrics."""

    requests_total: int = 0
    prompt_seconds_total: float = 0.0
    tokens_predicted_seconds_total: float = 0.0
    n_decode_total: int = 0
    decode_failures_total: int = 0


class Engine:
    """Continuous batching of requests with many branches each, over one Model."""

    def __init__(
        self,
        model: Model,
        *,
        max_queue: int,
        queue_timeout: float = 0.0,
        request_timeout: float = 0.0,
        clock: Callable[[], float],
        cache_cells: int = 0,
        cache_bytes: int = 0,
        states: StateStore | None = None,
    ) -> None:
        """Serve `model`; at most `max_queue` requests wait. `clock` gives seconds and only ever grows.

        After so many seconds, where they are not 0, a request that waits fails, and one that runs ends with what it has.
        The prefix tree keeps `cache_cells` idle cells in the KV store and `cache_bytes` of parked ones in memory.
        `states` is where named states outlive the server.
        """
        self.model = model
        self._max_queue = max_queue
        self._queue_timeout = queue_timeout or math.inf
        self._request_timeout = request_timeout or math.inf
        self._clock = clock
        self._preparer = Preparer(model, states)
        self._embeddings = EmbeddingQueue(model)
        self._residency = Residency(model, cache_cells, cache_bytes)
        self._tree = PrefixTree(model, self._residency)
        named = NamedStates(self._tree, self._residency, states)
        self._state_actions = StateActions(named, clock)
        self._prompts = Prompts(model, self._tree, self._residency, named, clock)
        self._branches = Branches(model, self._tree, clock, self._preparer.count_special, self._state_actions.note_end)
        self._scheduler = Scheduler(model, self._tree, self._residency)
        self._requests: dict[str, Request] = {}  # in the order of arrival
        self._counters = Counters()
        self._last_fatal = float("-inf")
        self.step_tokens = 0  # of the step that was begun last

    # ---- any thread

    def tokenize(self, parts: Sequence[str | int], add_special: bool, parse_special: bool) -> list[int]:
        return self._preparer.tokenize(parts, add_special, parse_special)

    def detokenize(self, tokens: Sequence[int]) -> list[bytes]:
        return self._preparer.detokenize(tokens)

    def prepare(self, command: Generate | Embed | Rerank | StateAction) -> Request | EmbeddingJob | StateJob:
        """Tokenize and validate a command, and build its samplers; whoever gets the result must submit or close it."""
        match command:
            case Generate():
                return self._preparer.request(command)
            case Embed() | Rerank():
                return self._preparer.embedding(command)
            case StateAction():
                return self._preparer.state_job(command)

    # ---- the decode thread

    def submit(self, request: Request | EmbeddingJob | StateJob) -> list[Event]:
        """Queue a request: Accepted, or Rejected when the queue is full or the id is in use.

        Jobs are not accepted with an event of their own: the Answer of an EmbeddingJob follows, a StateJob has it now.
        """
        if isinstance(request, StateJob):
            try:
                return [Answer(request.request_id, self._state_actions.act(request))]
            except SRBError as refusal:
                return [Rejected(request.request_id, refusal.slug, refusal.message, refusal.extra)]
        error: SRBError | None = None
        waiting = sum(other.is_queued for other in self._requests.values()) + len(self._embeddings)
        if request.request_id in self._requests or request.request_id in self._embeddings:
            error = InvalidRequest("request_id is in use")
        elif waiting >= self._max_queue:
            error = QueueFull(f"{self._max_queue} requests are waiting already; try again in a moment")
        if error:
            request.close()
            return [Rejected(request.request_id, error.slug, error.message, error.extra)]
        self._counters.requests_total += 1
        if isinstance(request, EmbeddingJob):
            self._embeddings.add(request)
            return []
        request.arrived_at = self._clock()
        self._requests[request.request_id] = request
        return [Accepted(request.request_id, len(request.prefix.tokens))]

    def cancel(self, request_id: str, index: int | None = None) -> list[Event]:
        """End a request or one branch of it with `cancelled`; unknown ones have ended already."""
        request = self._requests.get(request_id)
        if request is None:
            return self._embeddings.end(request_id, Cancelled("the request was cancelled"))
        events: list[Event] = []
        for branch in request.branches:
            if branch.state is not BranchState.ENDED and index in (None, branch.index):
                self._branches.end(branch, FinishReason.CANCELLED, events)
        self._finish_ended(events)
        return events

    @property
    def has_work(self) -> bool:
        return bool(self._requests or self._embeddings) or self._residency.is_over_budget

    def step(self) -> list[Event]:
        """Compute one batch and return what came of it. Raise EngineFault when the context is beyond repair."""
        began = self._clock()
        events: list[Event] = []
        self._expire(began, events)
        if not self._admit(events):  # who has just come gets the first token first
            self._residency.trim()
        elif self._start_branches(events):  # of prompts that are there whole: what they begin with waits for no decode
            self._finish_ended(events)
            return events
        plan = self._scheduler.schedule(list(self._requests.values()))
        self.step_tokens = sum(run.count for run in plan.runs) + self._embeddings.next_tokens
        self._make_room(plan, events)
        self._decode(plan, events)
        self._start_branches(events)
        self._finish_ended(events)
        self._account(plan, self._clock() - began)
        return events + self._embeddings.step()

    def fail_all(self, error: SRBError) -> list[Event]:
        """End everything at once with `error`."""
        events = [event for request in list(self._requests.values()) for event in self._fail(request, error)]
        return events + self._embeddings.end_all(error)

    def answer(self, command: Ask) -> Any:
        """Return what a command asks for, as its docstring says. Raise NotSupported for one that needs more than that."""
        match command:
            case GetStats():
                return self.stats()
            case GetSlots():
                return slots(self.model, self._requests.values())
            case GetAdapters():
                return self.adapters()
            case SetAdapters(_, scales):
                self._preparer.lora = self._preparer.scales(scales)
                return self.adapters()
            case _:
                raise NotSupported("this server does not do that")

    def adapters(self) -> list[dict[str, Any]]:
        """Return the LoRA adapters, with the scales that requests to come will have unless they name others."""
        scaled = zip(self.model.adapters, self._preparer.lora, strict=True)
        return [{"id": place} | asdict(adapter) | {"scale": scale} for place, (adapter, scale) in enumerate(scaled)]

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        branches = [branch for request in self._requests.values() for branch in request.branches]
        queued = sum(request.is_queued for request in self._requests.values())
        return asdict(self._counters) | {
            "requests_processing": len(self._requests) - queued,
            "requests_deferred": queued,
            "branches_running": sum(branch.state is BranchState.RUNNING for branch in branches),
            "branches_waiting": sum(branch.state is BranchState.WAITING for branch in branches),
            "kv_cells": self.model.n_ctx,
            "sequences": self.model.n_seq_max,
            "prompt_tokens_total": self._prompts.tokens_total,
            "embedding_tokens_total": self._embeddings.tokens_total,
            **asdict(self._branches.counters),
            **self._tree.stats(),
        }

    def check_invariants(self) -> None:
        """Assert what must hold between two steps; cheap enough for tests after every operation and for idle times."""
        self._tree.check_invariants(self._requests.values())
        for request in self._requests.values():
            assert not request.is_over, f"{request!r} is over and was not finished"
            for branch in request.branches:
                assert (branch.state is BranchState.RUNNING) == (branch.seq_id is not None), repr(branch)
                assert branch.state is not BranchState.RUNNING or branch.pending, f"{branch!r} has nothing to compute"

    def close(self) -> None:
        """Free every sampler and the model."""
        for request in self._requests.values():
            request.close()
        self._requests.clear()
        self.model.close()

    # ---- step: admit, make room, decode

    def _expire(self, now: float, events: list[Event]) -> None:
        """End the requests whose time is up: nobody waits for ever, and what has been written is kept."""
        for request in list(self._requests.values()):
            seconds = now - request.arrived_at
            if request.is_queued and seconds > self._queue_timeout:
                events += self._fail(request, QueueTimeout(f"there was no room within {self._queue_timeout:.0f} s"))
            elif seconds > self._request_timeout:
                for branch in request.branches:
                    if branch.state is not BranchState.ENDED:
                        self._branches.end(branch, FinishReason.LIMIT, events)
                self._finish_ended(events)

    def _admit(self, events: list[Event]) -> bool:
        """Begin every request that may; return whether there was one."""
        began = False
        for request in self._scheduler.admissible(list(self._requests.values())):
            began = True
            self._prompts.begin(request, events)
        return began

    def _make_room(self, plan: StepPlan, events: list[Event]) -> None:
        for branch in plan.pauses:
            self._branches.pause(branch)
        for request in plan.drops:
            self._tree.release(request.prefix)
        for branch in plan.ends:
            self._branches.end(branch, FinishReason.LIMIT, events, truncated=True)
        there_is = self._residency.make_room(sum(run.count for run in plan.runs), 0)
        assert there_is, "a plan for more cells than there are"

    def _decode(self, plan: StepPlan, events: list[Event]) -> None:
        """Compute and commit the runs of a plan, those with other LoRA scales apart."""
        for runs in _by_lora(plan.runs):
            alive = [run for run in runs if run.span.request.request_id in self._requests]
            # What ended in the decode before may have been kept in cells that were planned for this one.
            self._residency.make_room(sum(run.count for run in alive), 0)
            self._compute(alive, events)

    def _compute(self, runs: list[Run], events: list[Event]) -> None:
        """Decode `runs` in one batch and commit them, or less of them where llama.cpp does not take the whole."""
        if not runs:
            return
        batch = Batch(runs[0].span.request.lora)
        rows = [run.add_to(batch) for run in runs]
        self._counters.n_decode_total += 1
        match self.model.decode(batch):
            case DecodeStatus.OK:
                self._commit(runs, rows, events)
            case DecodeStatus.NO_ROOM:
                self._compute_less(runs, events)
            case DecodeStatus.INVALID:
                self._compute_apart(runs, events)
            case DecodeStatus.FATAL:
                self._recover(events)

    def _compute_less(self, runs: list[Run], events: list[Event]) -> None:
        """Shrink a batch that found no cells: decodes before prompts, fewer tokens, then fewer branches."""
        decodes = [run for run in runs if isinstance(run.span, Branch) and run.count == 1]
        first = runs[0]
        if decodes and len(decodes) < len(runs):
            self._compute(decodes, events)
        elif len(decodes) > 1:
            kept = len(decodes) // 2
            for run in decodes[kept:]:
                assert isinstance(run.span, Branch)
                self._branches.pause(run.span)
            self._compute(decodes[:kept], events)
        elif len(runs) > 1 or first.count > 1:
            self._compute([Run(first.span, max(1, first.count // 2))], events)
        elif self._residency.park_one():
            self._compute(runs, events)
        elif isinstance(first.span, Branch):
            self._branches.end(first.span, FinishReason.LIMIT, events, truncated=True)
        else:
            events += self._fail(first.span.request, DecodeFailed("the KV store has no room for this prompt"))

    def _compute_apart(self, runs: list[Run], events: list[Event]) -> None:
        """Find the request that made a batch invalid: it fails, the others go on."""
        self._counters.decode_failures_total += 1
        by_request: dict[str, list[Run]] = {}
        for run in runs:
            by_request.setdefault(run.span.request.request_id, []).append(run)
        if len(by_request) == 1:
            events += self._fail(runs[0].span.request, DecodeFailed("llama.cpp refused this request's tokens"))
            return
        for request_id, own in by_request.items():
            if request_id in self._requests:  # else a part before was fatal and ended them all
                self._compute(own, events)

    def _recover(self, events: list[Event]) -> None:
        """After a failed computation: end what was running, empty the KV store, and see whether it works again."""
        self._counters.decode_failures_total += 1
        now = self._clock()
        repeated = now - self._last_fatal < FATAL_WINDOW
        self._last_fatal = now
        for request in list(self._requests.values()):
            if not request.is_queued:
                events += self._fail(request, DecodeFailed("the computation failed; the request may be sent again"))
        self._tree.clear()
        if repeated:
            raise EngineFault("the computation failed twice within a minute")
        test = Batch()
        test.add(0, 0, [0], want_logits=True)
        if self.model.decode(test) is not DecodeStatus.OK:
            raise EngineFault("the computation failed, and so did a self-test after it")
        self.model.clear()

    # ---- step: commit

    def _commit(self, runs: list[Run], rows: list[int], events: list[Event]) -> None:
        """Record what was computed; every span that has caught up gets its next token."""
        completed = [run.completes for run in runs]
        for run, row in zip(runs, rows, strict=True):
            if isinstance(run.span, Prefix) and run.span.request.wants_scores:
                self._prompts.score(run.span, run.count, row, events)
        for run in runs:  # all of them before a branch ends and what is free is counted
            if isinstance(run.span, Branch):
                self._residency.advance(run.span, run.count)
            else:
                self._prompts.advance(run.span, run.count, events)
        done = [(run.span, row) for run, row, is_done in zip(runs, rows, completed, strict=True) if is_done]
        self.model.sample_ahead([(span.sampler, row) for span, row in done if isinstance(span, Branch)])
        for span, row in done:
            if isinstance(span, Branch):
                self._branches.sample(span, row, events)
            else:
                self._prompts.complete(span, row, events)

    def _start_branches(self, events: list[Event]) -> bool:
        """Fork computed prefixes while there is room; each new branch samples its own first token. Was there one?"""
        began = False
        for branch in self._scheduler.startable(list(self._requests.values())):
            began = True
            self._branches.start(branch, events)
        return began

    # ---- ends

    def _finish_ended(self, events: list[Event]) -> None:
        """Say Done, once, for each request whose branches have all ended."""
        for request in [request for request in self._requests.values() if request.is_over]:
            self._tree.release(request.prefix)
            del self._requests[request.request_id]
            now = self._clock()
            started = now if request.started_at is None else request.started_at
            prefix_done = now if request.prefix_done_at is None else request.prefix_done_at
            events.append(
                Done(
                    request.request_id,
                    prompt_tokens=request.num_prompt,
                    cached_tokens=request.prefix.num_cached or 0,
                    completion_tokens=sum(branch.length for branch in request.branches),
                    prompt_ms=(prefix_done - started) * 1000,
                    predicted_ms=(now - prefix_done) * 1000,
                    restored_tokens=request.prefix.num_restored,
                )
            )

    def _fail(self, request: Request, error: SRBError) -> list[Event]:
        for branch in request.branches:
            self._tree.end(branch, keep=False)
        self._tree.release(request.prefix)
        request.close()
        del self._requests[request.request_id]
        return [Failed(request.request_id, error.slug, error.message)]

    def _account(self, plan: StepPlan, seconds: float) -> None:
        """Divide a step's time between prompts and decoding by their tokens."""
        total = sum(run.count for run in plan.runs)
        prompt = sum(run.count for run in plan.runs if isinstance(run.span, Prefix))
        if total:
            self._counters.prompt_seconds_total += seconds * prompt / total
            self._counters.tokens_predicted_seconds_total += seconds * (total - prompt) / total


def _by_lora(runs: list[Run]) -> list[list[Run]]:
    """Divide a step's runs by what they are computed with: a context has one set of scales at a time."""
    groups: dict[Scales, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.span.request.lora, []).append(run)
    return list(groups.values())
