"""The registry of requests that have not ended: waiting, running or idle. It knows whose time is up.

A step asks it for little: it remembers which requests explore, and when the first deadline is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from srb.engine.request import Request
from srb.errors import NotFound

MAX_IDLE = 256  # requests that linger after their end; each keeps its texts and samplers, so the oldest go


class Overdue(Enum):
    """The deadline of a running or waiting request that is over."""

    UNREAD = auto()  # nobody has read it for `linger` seconds
    WAITING = auto()  # it has waited too long
    RUNNING = auto()  # it runs too long


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

    def count_unread(self, owner: str, requests: Iterable[Request] | None = None) -> int:
        """Return how many requests of a client linger without a reader, of all or of those given."""
        among = self if requests is None else requests
        return sum(request.owner == owner and request.is_unread for request in among)

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
        self.remove(request)
        request.idle_since = now
        request.cease(now)
        if request.linger:
            self.idle[request.request_id] = request

    def resume(self, request: Request, now: float) -> None:
        """Let a request go on if it is idle; nothing otherwise."""
        if self.idle.pop(request.request_id, None):
            request.idle_since = None
            self._activate(request, now)

    def remove(self, request: Request) -> None:
        for known in (self.active, self.idle, self.exploring):
            known.pop(request.request_id, None)

    def clear(self) -> None:
        for known in (self.active, self.idle, self.exploring):
            known.clear()

    def _activate(self, request: Request, now: float) -> None:
        request.resumed_at = now
        self.active[request.request_id] = request
        if request.exploration is not None:
            self.exploring[request.request_id] = request
        self._note_deadline(request)

    # ---- readers

    def note_unread(self, request: Request, now: float) -> None:
        """Note that the last reader has left."""
        request.alone_since = now
        self._note_deadline(request)

    def note_reader(self, request: Request) -> None:
        request.alone_since = None

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
        for request in tuple(self.idle.values()) if self.idle else ():
            if now >= _end_of_idle(request) or len(self.idle) > MAX_IDLE:
                del self.idle[request.request_id]
                found.append(request)
        return found

    def seconds_to_rest(self, now: float) -> float | None:
        """Return the seconds until the first idle request ends; None if none is idle."""
        if not self.idle:
            return None
        return max(0.0, min(map(_end_of_idle, self.idle.values())) - now)

    def _deadline(self, request: Request) -> tuple[float, Overdue]:
        """Return the time of an active request's first deadline. It becomes earlier only where `_note_deadline` says so."""
        deadlines = [(request.resumed_at + self._request_timeout, Overdue.RUNNING)]
        if request.is_waiting:
            deadlines.append((request.resumed_at + self.queue_timeout, Overdue.WAITING))
        if request.alone_since is not None:
            deadlines.append((request.alone_since + request.linger, Overdue.UNREAD))
        return min(deadlines, key=lambda deadline: deadline[0])

    def _note_deadline(self, request: Request) -> None:
        self._next_deadline = min(self._next_deadline, self._deadline(request)[0])

    # ---- self-check

    def check_invariants(self) -> None:
        """Assert that each request is in its place, and that no deadline is overlooked."""
        for request in self.active.values():
            assert not request.is_over, f"{request!r} is over and was not finished"
            assert request.idle_since is None, f"{request!r} is not idle"
            assert (request.exploration is not None) == (request.request_id in self.exploring), repr(request)
            assert self._next_deadline <= self._deadline(request)[0], f"{request!r} would miss its deadline"
        assert self.exploring.keys() <= self.active.keys(), "a request that is not active explores"
        for request in self.idle.values():
            assert request.is_over, f"{request!r} is idle and not over"
            assert request.idle_since is not None, repr(request)
            assert request.linger, repr(request)
            assert request.request_id not in self.active, repr(request)
            assert request.prefix.node is None, f"{request!r} is idle and holds a prompt"
            assert not any(branch.lease for branch in request.branches), f"{request!r} is idle and holds a sequence"


def _end_of_idle(request: Request) -> float:
    """Return the time at which an idle request ends: `linger` seconds after its last branch and its last reader."""
    assert request.idle_since is not None
    return max(request.idle_since, request.alone_since or 0.0) + request.linger
