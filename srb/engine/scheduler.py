"""Decides what the next step computes. Everything here reads; the engine acts on the plan.

The order is that of arrival: decode tokens of all running branches come first, then prompts in chunks, oldest first, as
far as the batch and the cells reach. Cells of idle nodes count as free: the tree parks those when they are needed. Under
pressure the youngest give way: branches are paused, then prompts let go, to be resumed from what the tree kept of them
when there is room. The oldest request always goes on, so nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from srb.engine.model import Batch, Model
from srb.engine.node import NodeState
from srb.engine.prefix_tree import PrefixTree
from srb.engine.request import Branch, BranchState, Prefix, Request
from srb.engine.residency import Residency

MOST_SCORED = 32  # tokens of prompts in a step: each takes a row of logits and about a millisecond
HEADROOM = 16  # cells kept free per running branch before more is begun, so that beginners do not push each other out


@dataclass(slots=True)
class Run:
    """Compute `count` pending tokens of a span in this step."""

    span: Prefix | Branch
    count: int

    @property
    def completes(self) -> bool:
        """Whether the span's last known token is computed, so that its logits are wanted."""
        return self.count == self.span.pending

    def add_to(self, batch: Batch) -> int:
        """Append the tokens to a batch; return the row of the last one."""
        span = self.span
        assert span.seq_id is not None, f"{span!r} is planned and has no sequence"
        first = span.num_computed
        tokens = span.tokens[first : first + self.count]
        want_all = isinstance(span, Prefix) and span.request.wants_scores
        return batch.add(span.seq_id, span.start + first, tokens, self.completes, want_all)


@dataclass(slots=True)
class StepPlan:
    """One step: `pauses`, `drops` and `ends` first, which free cells, then one decode of all `runs`."""

    pauses: list[Branch] = field(default_factory=list)
    drops: list[Request] = field(default_factory=list)
    ends: list[Branch] = field(default_factory=list)  # can never fit
    runs: list[Run] = field(default_factory=list)


class Scheduler:
    def __init__(self, model: Model, tree: PrefixTree, residency: Residency) -> None:
        self._model = model
        self._tree = tree
        self._residency = residency

    def schedule(self, requests: Sequence[Request]) -> StepPlan:
        """Plan a step for `requests`, oldest first."""
        plan = StepPlan()
        running = list(_running(requests))
        free = self._relieve(plan, requests, running)
        budget = self._model.n_batch
        for branch in running:
            if branch.pending == 1 and budget and free:
                plan.runs.append(Run(branch, 1))
                budget -= 1
                free -= 1
        # Running branches, who has just come and who wants to leave wait for this step: prompts fill one ubatch, no more.
        n_ubatch = self._model.n_ubatch
        budget = min(budget, n_ubatch - len(plan.runs) % n_ubatch)
        # Every sequence has a row of logits in a batch; a prompt whose tokens are scored takes what is left of them.
        prompts = sum(request.prefix.node is not None and not request.prefix.is_complete for request in requests)
        spare_rows = max(0, self._model.n_seq_max - len(running) - prompts)
        for span in _to_prefill((request for request in requests if request not in plan.drops), running):
            count = min(span.pending, budget, free)
            if isinstance(span, Prefix) and span.request.wants_scores:
                count = min(count, MOST_SCORED, 1 + spare_rows)
                spare_rows -= max(count - 1, 0)
            if count <= 0:
                break
            plan.runs.append(Run(span, count))
            budget -= count
            free -= count
        if running and not plan.runs and not plan.pauses and not plan.drops:
            plan.ends.append(running[-1])
        return plan

    def admissible(self, requests: Sequence[Request]) -> Iterator[Request]:
        """Yield requests that may begin now; the caller begins each before asking for the next.

        Who shares tokens with a prompt that is being computed waits for those; of all others nobody overtakes, so that
        a long prompt gets its turn when enough has ended.
        """
        if all(request.prefix.node is not None for request in requests):
            return
        # A prompt without a running branch will need cells for its rest and one more sequence id.
        promised_cells = sum(request.prefix.pending for request in requests if request.prefix.node is not None)
        promised_ids = sum(
            request.prefix.node is not None and not request.in_state(BranchState.RUNNING) for request in requests
        )
        headroom = HEADROOM * sum(1 for _ in _running(requests))
        for request in requests:
            if request.prefix.node is not None:
                continue
            if request.awaits is not None and request.awaits.state is NodeState.COMPUTING:
                continue
            root = self._tree.root(request.lora)
            match = self._tree.match(request.prefix.tokens, root) if request.reuses else None
            request.awaits = match.awaits if match is not None and request is not requests[0] else None
            if request.awaits is not None:
                continue
            cells = self._residency.cost(request.prefix.tokens, match) if match else len(request.prefix.tokens)
            must = request is requests[0] and not headroom and not promised_ids
            enough = cells + promised_cells + headroom <= self._residency.available_cells
            if not must and (not enough or self._residency.available_ids - promised_ids < 2):
                return
            yield request
            promised_cells += request.prefix.pending
            promised_ids += 1

    def startable(self, requests: Sequence[Request]) -> Iterator[Branch]:
        """Yield branches that may fork their computed prefix now; the caller starts each before asking for the next.

        Requests with the fewest running branches come first, so that a large one leaves room for others. The last
        sequence ids are kept for requests that have not begun.
        """
        opened = [request for request in requests if request.prefix.node is not None]
        if not any(branch.state is BranchState.WAITING for request in opened for branch in request.branches):
            return
        running = {request.request_id: len(request.in_state(BranchState.RUNNING)) for request in opened}
        waiting = {request.request_id: request.in_state(BranchState.WAITING) for request in opened}
        for_beginners = 2 if any(request.is_queued for request in requests) else 0
        ready = [request for request in opened if request.prefix.is_complete]
        while candidates := [request for request in ready if waiting[request.request_id]]:
            request = min(candidates, key=lambda request: running[request.request_id])
            branch = waiting[request.request_id].pop(0)
            total = sum(running.values())
            needed = branch.pending + (HEADROOM * (total + 1) if total else 1)
            kept_back = for_beginners + _without_branch(running) if running[request.request_id] else 0
            if self._residency.available_ids <= kept_back or self._residency.available_cells < needed:
                return
            running[request.request_id] += 1
            yield branch

    def _relieve(self, plan: StepPlan, requests: Sequence[Request], running: list[Branch]) -> int:
        """Pause the youngest until every running branch can take a step; return the free cells after that."""
        free = self._residency.available_cells
        if running and free >= len(running):
            return free
        for request in reversed(requests):
            is_oldest = request is requests[0]
            own = [branch for branch in running if branch.request is request]
            while own and free < len(running) and not (is_oldest and len(own) == 1):
                branch = own.pop()
                running.remove(branch)
                plan.pauses.append(branch)
                free += branch.own_cells
            needed = len(running) or _next_need(requests[0])
            if free < needed and not own and not is_oldest and (node := request.prefix.node) is not None:
                plan.drops.append(request)
                free += node.cells if node.pins == 1 and not node.has_live_children else 0
        return free


def _to_prefill(requests: Iterable[Request], running: list[Branch]) -> Iterator[Prefix | Branch]:
    """Yield resumed branches that catch up, then prompts in the order of arrival."""
    yield from (branch for branch in running if branch.pending > 1)
    yield from (request.prefix for request in requests if request.prefix.node and not request.prefix.is_complete)


def _running(requests: Iterable[Request]) -> Iterator[Branch]:
    return (branch for request in requests for branch in request.in_state(BranchState.RUNNING))


def _without_branch(running: dict[str, int]) -> int:
    return sum(count == 0 for count in running.values())


def _next_need(request: Request) -> int:
    """Cells that a request with no running branch needs to get one."""
    waiting = request.in_state(BranchState.WAITING)
    return request.prefix.pending + (waiting[0].pending if waiting else 0) + 1
