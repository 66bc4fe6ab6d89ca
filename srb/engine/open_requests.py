"""The registry of requests that have not ended: waiting, running or idle. It knows whose time is up.

A step asks it for little: it remembers which requests explore, and when the first deadline is.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from srb.engine.request import Request, RequestState
from srb.errors import NotFound
from srb.wire.commands import client_of

MAX_IDLE = 256  # requests that linger after their end; each keeps its texts and samplers, so the oldest go
MAX_KEPT = 16  # … of them those that have nothing but probabilities left to tell, which take megabytes


class Overdue(Enum):
    """The deadline of a request that is over."""

    UNREAD = auto()  # for `linger` seconds nobody has read it or given it more to write
    WAITING = auto()  # it has waited too long
    RUNNING = auto()  # it has waited and run too long
    RESTED = auto()  # it has rested for `linger` seconds, and nobody has come or left since


# What may be over in each state of a request; UNREAD counts only while nobody reads it.
#   UNREAD            `linger` seconds after its last reader left, or a control gave it more to write, whichever was later
#   WAITING, RUNNING  `queue_timeout` and `request_timeout` seconds after it came or went on
#   RESTED            `linger` seconds after its last branch ended, or its last reader came or left, whichever was later
_MAY_BE_OVER = {
    RequestState.WAITING: (Overdue.RUNNING, Overdue.WAITING, Overdue.UNREAD),
    RequestState.RUNNING: (Overdue.RUNNING, Overdue.UNREAD),
    RequestState.RESTING: (Overdue.RESTED,),
}


class OpenRequests:
    """Requests by request_id. This class alone writes when they came, became idle, and lost their last reader."""

    def __init__(self, queue_timeout: float, request_timeout: float) -> None:
        """A request may wait for `queue_timeout` seconds, and take `request_timeout`; 0: no limit."""
        self.queue_timeout = queue_timeout or math.inf
        self._request_timeout = request_timeout or math.inf
        self.active: dict[str, Request] = {}  # waiting and running requests, in the order of arrival
        self.idle: dict[str, Request] = {}  # they linger, and all branches have ended; the first that became so first
        self.exploring: dict[str, Request] = {}  # active requests that explore
        self._next_deadline = math.inf  # no active request has an earlier one

    def __repr__(self) -> str:
        return f"<registry {len(self.active)} active, {len(self.idle)} idle>"

    def __contains__(self, request_id: str) -> bool:
        return request_id in self.active or request_id in self.idle

    def __iter__(self) -> Iterator[Request]:
        return iter((*self.active.values(), *self.idle.values()))

    def get(self, request_id: str) -> Request | None:
        return self.active.get(request_id) or self.idle.get(request_id)

    def find(self, request_id: str, owner: str) -> Request:
        """Return a request; an empty `owner` may be anybody. Raise NotFound. Safe from any thread."""
        request = self.get(request_id)
        if request is None or (owner and request.owner != owner):
            raise NotFound("no request with this id is running")
        return request

    @property
    def num_waiting(self) -> int:
        return sum(request.is_waiting for request in self.active.values())

    def count_waiting(self, owner: str) -> int:
        """Return how many requests of an owner's client wait."""
        client = client_of(owner)
        return sum(each.is_waiting and client_of(each.owner) == client for each in self.active.values())

    def newest_of_most(self, least: int) -> Request | None:
        """Return the newest waiting request of the client who has most of them, if those are more than `least`."""
        waiting = [each for each in self.active.values() if each.is_waiting]
        [(client, count)] = Counter(client_of(each.owner) for each in waiting).most_common(1) or [("", 0)]
        return next(each for each in reversed(waiting) if client_of(each.owner) == client) if count > least else None

    def count_unread(self, owner: str, requests: Iterable[Request] | None = None) -> int:
        """Return how many requests of a client linger without a reader, of all or of those given."""
        among = self if requests is None else requests
        unread = (each for each in among if each.alone_since is not None and not each.keep_probs)
        return sum(each.owner == owner for each in unread)

    def lingering(self, owner: str | None = None) -> list[Request]:
        """Return a client's active requests without a reader, or everybody's; the one that has been so longest first."""
        found = [each for each in self.active.values() if each.is_unread and owner in (None, each.owner)]
        return sorted(found, key=lambda request: request.alone_since or 0.0)

    # ---- requests come, become idle and go

    def add(self, request: Request, now: float) -> None:
        """Add a new request."""
        request.arrived_at = now
        self._activate(request, now)

    def finish(self, request: Request, now: float) -> None:
        """Make an active request idle if it lingers, else remove it; its branches have all ended."""
        self._forget(request)
        request.cease(now)
        if request.linger:
            self.idle[request.request_id] = request

    def resume(self, request: Request, now: float) -> None:
        """Let a request go on if it is idle; nothing otherwise."""
        if self.idle.pop(request.request_id, None):
            request.move(RequestState.WAITING)
            self._activate(request, now)

    def remove(self, request: Request) -> None:
        """Remove a request for good: the caller emits its terminal event."""
        self._forget(request)
        request.move(RequestState.ENDED)

    def _forget(self, request: Request) -> None:
        for known in (self.active, self.idle, self.exploring):
            known.pop(request.request_id, None)

    def clear(self) -> None:
        for known in (self.active, self.idle, self.exploring):
            known.clear()

    def _activate(self, request: Request, now: float) -> None:
        request.since = now
        self.active[request.request_id] = request
        if request.exploration is not None:
            self.exploring[request.request_id] = request
        self._note_deadline(request)

    # ---- readers

    def note_unread(self, request: Request, now: float) -> None:
        """Note that the last reader has left."""
        request.alone_since = now
        self._note_deadline(request)

    def note_reader(self, request: Request, now: float) -> None:
        """Note that somebody reads a request: one that rests lingers anew, or its rest might be over at once."""
        request.alone_since = None
        if request.state is RequestState.RESTING:
            request.since = now

    def note_wanted(self, request: Request, now: float) -> None:
        """Note that somebody has given a request more to write: without a reader it lingers anew."""
        if request.alone_since is not None:
            request.alone_since = now

    # ---- deadlines

    def overdue(self, now: float) -> list[tuple[Request, Overdue]]:
        """Return the active requests whose time is up, oldest first; the caller ends them."""
        if now <= self._next_deadline:  # which may be too early, never too late: most steps look at no request
            return []
        self._next_deadline = math.inf
        found = []
        for request in self.active.values():
            deadline, reason = self._deadline(request)
            if now > deadline:
                found.append((request, reason))
            else:
                self._next_deadline = min(self._next_deadline, deadline)
        return found

    def idle_too_long(self, now: float) -> list[Request]:
        """Remove and return the requests that have been idle for long enough, and the first ones if too many are."""
        found: list[Request] = []
        kept = [request for request in self.idle.values() if request.keep_probs][:-MAX_KEPT]
        for request in tuple(self.idle.values()) if self.idle else ():
            if now >= self._time_of(Overdue.RESTED, request) or len(self.idle) > MAX_IDLE or request in kept:
                self.remove(request)
                found.append(request)
        return found

    def seconds_to_rest(self, now: float) -> float | None:
        """Return the seconds until the first idle request ends; None if none is idle."""
        if not self.idle:
            return None
        return max(0.0, min(self._time_of(Overdue.RESTED, request) for request in self.idle.values()) - now)

    def _deadline(self, request: Request) -> tuple[float, Overdue]:
        """Return the time of an active request's first deadline. It becomes earlier only where `_note_deadline` says so."""
        kinds = _MAY_BE_OVER[request.state]
        times = ((self._time_of(kind, request), kind) for kind in kinds)
        return min(times, key=lambda deadline: deadline[0])

    def _time_of(self, kind: Overdue, request: Request) -> float:
        """Return the time at which a deadline of a request is over."""
        alone_since = request.alone_since
        match kind:
            case Overdue.RUNNING:
                return request.since + self._request_timeout
            case Overdue.WAITING:
                return request.since + self.queue_timeout
            case Overdue.UNREAD:
                return math.inf if alone_since is None else alone_since + request.linger
            case Overdue.RESTED:
                return max(request.since, alone_since or 0.0) + request.linger

    def _note_deadline(self, request: Request) -> None:
        self._next_deadline = min(self._next_deadline, self._deadline(request)[0])

    # ---- self-check

    def check_invariants(self) -> None:
        """Assert that each request is in its place, and that no deadline is overlooked."""
        for request in self.active.values():
            assert not request.is_over, f"{request!r} is over and was not finished"
            assert request.state in (RequestState.WAITING, RequestState.RUNNING), repr(request)
            assert (request.exploration is not None) == (request.request_id in self.exploring), repr(request)
            assert self._next_deadline <= self._deadline(request)[0], f"{request!r} would miss its deadline"
        assert self.exploring.keys() <= self.active.keys(), "a request that is not active explores"
        for request in self.idle.values():
            assert request.is_over, f"{request!r} is idle and not over"
            assert request.state is RequestState.RESTING, repr(request)
            assert request.linger, repr(request)
            assert request.request_id not in self.active, repr(request)
            assert request.prefix.node is None, f"{request!r} is idle and holds a prompt"
            assert not any(branch.lease for branch in request.branches), f"{request!r} is idle and holds a sequence"
