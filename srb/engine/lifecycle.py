"""The life of requests in the engine: they come, wait, are read and controlled, rest and end. The decode thread calls it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from srb.engine.branches import Branches
from srb.engine.embedding import EmbeddingJob, EmbeddingQueue
from srb.engine.open_requests import OpenRequests, Overdue
from srb.engine.prompts import Prompts
from srb.engine.request import Branch, BranchState, Request, RequestState
from srb.engine.scheduler import Scheduler
from srb.engine.slots import Slots
from srb.engine.state_actions import StateActions, StateJob
from srb.engine.steering import Growth, Steering, branch_of, describe_branch
from srb.errors import Cancelled, Conflict, InvalidRequest, QueueFull, QueueTimeout, RateLimited, SRBError
from srb.wire.commands import ChangeBranch, EndReasoning, StopBranches, client_of
from srb.wire.events import Accepted, BranchAdded, Done, Event, Failed, FinishReason, Rejected, Reply, Resting

Prepared = Request | EmbeddingJob | StateJob | Growth  # by `Engine.prepare`; submitted or closed
_FEW = (
    4  # waiting requests of a client that may take the last places of the queue: a page asks for one or two at a time
)
_LONGEST = 60  # seconds after which a client that was refused may come again, however long the queue is


@dataclass(slots=True, kw_only=True, eq=False)
class Lifecycle:
    """Requests and embedding jobs, from their arrival to their last event; the step computes between."""

    requests: OpenRequests
    embeddings: EmbeddingQueue
    branches: Branches
    prompts: Prompts
    steering: Steering
    scheduler: Scheduler
    slots: Slots
    state_actions: StateActions
    max_queue: int  # requests that may wait besides those that have room
    clock: Callable[[], float]  # returns seconds
    saves: deque[tuple[str, int, SRBError | None]] = field(default_factory=deque)  # of `end_save`, by other threads
    num_requests: int = 0  # since the start
    begun: deque[float] = field(default_factory=lambda: deque(maxlen=32))  # when the latest requests left the queue

    # ---- requests come

    def submit(self, request: Prepared) -> list[Event]:
        """Queue a request; return Accepted, or Rejected if the queue is full or the id is in use.

        An accepted job has no event here: `step` returns the Reply of an EmbeddingJob. The Reply of a StateJob is
        returned at once, or by `collect` when its file is written.
        """
        if isinstance(request, StateJob):
            return self.state_actions.act(request)
        if isinstance(request, Growth):
            return self._grow(request)
        events: list[Event] = []  # of a request that has to leave the queue
        try:
            self._check_new(request)
            self._queue_up(events, request.owner if isinstance(request, Request) else "", request.request_id)
        except SRBError as error:
            request.close()
            return [Rejected.of(request.request_id, error)]
        self.num_requests += 1
        if isinstance(request, EmbeddingJob):
            self.embeddings.add(request)
            return events
        self.requests.add(request, self.clock())
        return [*events, Accepted(request.request_id, request.num_sent)]

    def _check_new(self, request: Request | EmbeddingJob) -> None:
        """Raise InvalidRequest or RateLimited if a new request may not come."""
        if request.request_id in self.requests or request.request_id in self.embeddings:
            raise InvalidRequest("request_id is in use")
        if isinstance(request, Request) and 0 < request.max_unread <= self.requests.count_unread(request.owner):
            raise RateLimited(f"{request.max_unread} requests linger without a reader; stop one, or read it")

    def collect(self) -> list[Event]:
        """Return the replies to saves of states that other threads have ended, and the ends of rests that are over."""
        events: list[Event] = []
        self._end_idle(self.clock(), events)
        while self.saves:
            events += self.state_actions.end_save(*self.saves.popleft())
        return events

    # ---- readers and controls

    def cancel(self, request_id: str, index: int | None = None) -> list[Event]:
        """Cancel a request, or the branch `index` of it. Unknown ids are ignored: those requests have ended."""
        request = self.requests.get(request_id)
        if request is None:
            return self.embeddings.end(request_id, Cancelled("the request was cancelled"))
        events: list[Event] = []
        if index is None:
            if request.request_id in self.requests.idle:
                self.requests.remove(request)
                return [_closed(request)]
            _stop_exploring(request)
            request.linger = 0.0  # or it would rest, and stay
        for branch in request.branches:
            if branch.state is not BranchState.ENDED and index in (None, branch.index):
                self.branches.end(branch, FinishReason.CANCELLED, events)
        self.finish_ended(events)
        return events

    def leave(self, request_id: str) -> list[Event]:
        """Note that nobody reads a request any more: it lingers, or is cancelled.

        If more of its owner's requests run without a reader than may, the one that has done so longest ends by the limit:
        it rests with its texts, and may go on for a reader that comes back.
        """
        request = self.requests.get(request_id)
        if request is None or not request.linger:
            return self.cancel(request_id)
        self.requests.note_unread(request, self.clock())
        lingering, events = self.requests.lingering(request.owner), list[Event]()
        if 0 < request.max_lingering < len(lingering):
            self._end_by_limit(lingering[0], events)
        return events

    def attach(self, request_id: str, owner: str) -> dict[str, Any]:
        """Note that a request has a reader; return its description with all texts. Raise NotFound."""
        request = self.requests.find(request_id, owner)
        self.requests.note_reader(request, self.clock())
        return self.steering.describe(request)

    def control(self, command: StopBranches | EndReasoning | ChangeBranch) -> list[Event]:
        """Stop or change branches, or end their reasoning; return their events and the Reply to the command.

        Raise NotFound, Conflict, InvalidRequest, QueueFull or RateLimited.
        """
        request = self.requests.find(command.target, command.owner)
        if isinstance(command, EndReasoning):
            return [Reply(command.request_id, {"branches": self.steering.end_reasoning(request, command.index)})]
        if isinstance(command, StopBranches) and command.index is None:
            return [*self.cancel(command.target), Reply(command.request_id, {"id": command.target, "state": "ended"})]
        assert command.index is not None
        branch = branch_of(request, command.index)
        events: list[Event] = []
        if isinstance(command, ChangeBranch):
            if branch.can_resume:
                self._check_resume(request)
            self.steering.change(branch, command)
            self.requests.note_wanted(request, self.clock())
            if branch.state is BranchState.ENDED:
                self._leave_rest(request, events)
                self.branches.resume(branch)
                events.append(BranchAdded(request.request_id, branch.index, branch.spec.seed, resumed=True))
                self.branches.jump_ahead(branch, events)
        elif branch.state is BranchState.ENDED:
            raise Conflict(f"branch {branch.index} has ended", state="ended")
        else:
            self.branches.end(branch, FinishReason.CANCELLED, events)
            self.finish_ended(events)
        return [*events, Reply(command.request_id, describe_branch(branch, text=False))]

    def _grow(self, growth: Growth) -> list[Event]:
        """Add prepared branches to their request; return BranchAdded for each, and the Reply."""
        command, events = growth.command, list[Event]()
        try:
            request = self.requests.find(command.target, command.owner)
            self._check_resume(request)
            added = self.steering.grow(request, growth)
        except SRBError as error:
            growth.close()
            return [Rejected.of(command.request_id, error)]
        self.requests.note_wanted(request, self.clock())
        self._leave_rest(request, events)
        if growth.point:
            self.branches.share(growth.point.origin)
        self.slots.assign_added(added, self.requests.active.values())
        now = self.clock() if request.ceased_at is None else request.ceased_at  # neither a rest nor the queue counts
        events += [_added(branch, request.predicted_ms(now)) for branch in added]
        said = {"indices": [each.index for each in added], "seeds": [each.spec.seed for each in added]}
        return [*events, Reply(command.request_id, said)]

    def _count_waiting(self, least: int) -> int:
        """Return how many requests wait, or 0 if fewer than `least` do."""
        if self.requests.num_waiting + len(self.embeddings) < least:
            return 0  # nearly always, and cheap
        # Those that came since the last step and have room wait for nobody: a burst finds an idle engine idle.
        waiting = self.requests.num_waiting - self.scheduler.num_to_begin(self.runnable())
        return waiting + self.embeddings.num_waiting

    def _queue_up(self, events: list[Event], owner: str, request_id: str) -> None:
        """Make room in the queue for one request: another one leaves it, and rests if nobody reads it. Raise QueueFull."""
        leaving = self._to_leave_queue(owner, request_id)
        if leaving is not None and leaving.is_unread:
            self._end_by_limit(leaving, events)
        elif leaving is not None:
            own = self.requests.count_waiting(leaving.owner)
            words = f"the queue is full, and {own} of your requests wait: the newest gives way to another client's"
            self._end_wait(leaving, QueueFull(words, self._queue_seconds(leaving.request_id)), events)

    def _to_leave_queue(self, owner: str, request_id: str) -> Request | None:
        """Return the request that has to leave the queue for one more; None: there is room. Raise QueueFull.

        The last quarter of the queue is for clients who have few requests in it: one alone does not fill it for all. And
        what is filled is shared: the newest request of the client who has most in it gives way to one who would have fewer.
        Jobs of embeddings are those of one client.
        """
        shared = self.max_queue - self.max_queue // 4
        waiting = self._count_waiting(shared)
        if waiting < shared:
            return None
        own = self.requests.count_waiting(owner) + (0 if owner else self.embeddings.num_waiting)
        if waiting < self.max_queue and own < _FEW:
            return None
        for request in self.requests.lingering():
            if request.is_waiting and (waiting >= self.max_queue or client_of(request.owner) == client_of(owner)):
                return request
        if (newest := self.requests.newest_of_most(own + 1)) is not None:
            return newest
        seconds = self._queue_seconds(request_id)
        if waiting >= self.max_queue:
            raise QueueFull(f"{self.max_queue} requests are waiting already; try again in a moment", seconds)
        kept = f"the last {self.max_queue - shared} of the {self.max_queue} places (max_queue) are for other clients"
        raise QueueFull(f"{own} of your requests are waiting already, and {kept}; try again in a moment", seconds)

    def note_begun(self) -> None:
        """Note that a request leaves the queue, since it begins."""
        self.begun.append(self.clock())

    def _queue_seconds(self, request_id: str) -> int | None:
        """Return how long the queue is, by the latest requests that have left it; None: too few have.

        It is spread by a fifth, so that clients who were refused at once do not come again at once.
        """
        if len(self.begun) < 2:
            return None
        seconds = self.requests.num_waiting * (self.clock() - self.begun[0]) / len(self.begun)
        spread = 0.8 + 0.4 * crc32(request_id.encode()) / 2**32
        return max(1, min(_LONGEST, round(spread * seconds)))

    def _check_resume(self, request: Request) -> None:
        """Raise QueueFull or RateLimited if a request that rests may not go on now; change nothing."""
        if request.state is not RequestState.RESTING:
            return
        unread = len(self.requests.lingering(request.owner))
        limit = min((limit for limit in (request.max_unread, request.max_lingering) if limit), default=0)
        if request.is_unread and 0 < limit <= unread:
            raise RateLimited(f"{unread} requests run without a reader; stop one, or read it")
        self._to_leave_queue(request.owner, request.request_id)

    def _leave_rest(self, request: Request, events: list[Event]) -> None:
        """Let a request that rests go on: it has to wait, as new ones do. `_check_resume` has found that it may."""
        if request.state is RequestState.RESTING:
            self._queue_up(events, request.owner, request.request_id)
            self.requests.resume(request, self.clock())

    # ---- deadlines and ends

    def expire(self, now: float, events: list[Event]) -> None:
        """Fail requests that have waited too long, and end those that run too long with the text they have."""
        for request, reason in self.requests.overdue(now):
            match reason:
                case Overdue.UNREAD:
                    events += self.cancel(request.request_id)
                case Overdue.WAITING:
                    seconds = self.requests.queue_timeout
                    self._end_wait(request, QueueTimeout(f"the request did not start within {seconds:.0f} s"), events)
                case Overdue.RUNNING:
                    self._end_by_limit(request, events)
                case Overdue.RESTED:
                    raise AssertionError(f"{request!r} is active and rests")
        self._end_idle(now, events)

    def _end_wait(self, request: Request, error: SRBError, events: list[Event]) -> None:
        """Fail a request that waits; one that has rested keeps its texts, and its new branches fail."""
        if request.started_at is None:
            events += self.fail(request, error)
            return
        for branch in request.branches:
            if branch.is_active:
                self.branches.end(branch, FinishReason.ERROR, events, error=error)
        self.finish_ended(events)

    def _end_by_limit(self, request: Request, events: list[Event]) -> None:
        """End all branches of an active request with what they have; it rests if it lingers."""
        _stop_exploring(request)
        for branch in request.branches:
            if branch.is_active:
                self.branches.end(branch, FinishReason.LIMIT, events)
        self.finish_ended(events)

    def explore(self, events: list[Event]) -> bool:
        """Begin the forks that explored branches have led to; return whether there was one."""
        grown = False
        for request in self.requests.exploring.values():
            while request.exploration is not None and (forks := request.exploration.take(request.branches)):
                grown = True
                added = [request.branches[fork.origin.index].fork(fork) for fork in forks]
                self.slots.assign_added(added, self.requests.active.values())
                for branch, fork in zip(added, forks, strict=True):
                    self.branches.begin_fork(branch, fork, events)
        return grown

    def finish_ended(self, events: list[Event]) -> None:
        """Finish each request whose branches have all ended: release its prompt, and emit Done or let it rest."""
        self.explore(events)  # an end may leave room for forks that waited
        for request in [request for request in self.requests.active.values() if request.is_over]:
            self.prompts.release(request.prefix)
            request.linger = request.linger or request.keep_probs
            self.requests.finish(request, self.clock())
            if request.linger:
                events.append(Resting.of(_done(request), request.linger))
            else:
                events.append(_closed(request))

    def _end_idle(self, now: float, events: list[Event]) -> None:
        """Finish the requests whose rest is over."""
        events += [_closed(request) for request in self.requests.idle_too_long(now)]

    def fail(self, request: Request, error: SRBError) -> list[Event]:
        for branch in request.branches:
            self.branches.abandon(branch)
        self.prompts.release(request.prefix)
        request.close()
        self.requests.remove(request)
        return [Failed(request.request_id, error.code, error.message)]

    def fail_by_id(self, request_id: str, error: SRBError) -> list[Event]:
        """Fail a request or job with `error`; nothing happens if it has ended."""
        request = self.requests.get(request_id)
        return self.embeddings.end(request_id, error) if request is None else self.fail(request, error)

    def fail_all(self, error: SRBError) -> list[Event]:
        """Fail every request and job with `error`."""
        events = [event for request in self.requests for event in self.fail(request, error)]
        return events + self.embeddings.end_all(error)

    def runnable(self) -> list[Request]:
        """Return the requests that run or may begin now, those with a reader first, each kind oldest first."""
        return self.scheduler.runnable(list(self.requests.active.values()))


def _stop_exploring(request: Request) -> None:
    if request.exploration is not None:
        request.exploration.stop()


def _added(branch: Branch, predicted_ms: float) -> BranchAdded:
    origin, token = branch.origin or (None, None)
    text = "".join(branch.shown)
    said = (False, origin, token, text)
    spec, request_id = branch.spec, branch.request.request_id
    return BranchAdded(request_id, branch.index, spec.seed, *said, predicted_ms=predicted_ms, direction=spec.direction)


def _closed(request: Request) -> Done:
    """Return the end of a request that is over, and free what it holds."""
    done = _done(request)
    request.close()
    return done


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
