"""Yielding: work on one long request lets the worker's other calls run: it pauses, takes turns, or goes to a thread.

A worker has one thread. Whatever takes it for seconds keeps all its streams, and `/livez`, without a byte for as long.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ParamSpec, TypeVar

import gevent
from gevent.hub import Waiter, get_hub
from gevent.lock import BoundedSemaphore

SLICE = 0.003  # seconds of work between two yields
_BATCH = 4096  # entries that a check in C takes at a time, some tens of microseconds

PIECE_BYTES = 2**20  # of a body that are looked through at a time, a millisecond or two

T = TypeVar("T")


def yielding(items: Iterable[T]) -> Iterator[T]:
    """Return the items one by one; others run while they take long."""
    began = time.perf_counter()
    for item in items:
        yield item
        if time.perf_counter() - began > SLICE:
            gevent.sleep(0)
            began = time.perf_counter()


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the items in short slices, for checks in C; others run while they take long."""
    return yielding(items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def count_in_pieces(data: bytes, marks: Iterable[bytes]) -> int:
    """Return how often bytes are in a body; others run while it takes long."""
    marks = tuple(marks)
    return sum(
        data.count(mark, at, at + PIECE_BYTES) for at in yielding(range(0, len(data), PIECE_BYTES)) for mark in marks
    )


class Turnstile:
    """Lets one greenlet pass in a round of the event loop: without it, ten large bodies that are there at the same time
    are worked on one after the other before any connection is looked at again.
    """

    def __init__(self) -> None:
        self._turn = BoundedSemaphore(1)

    def wait(self) -> None:
        with self._turn:
            gevent.sleep(0)


class RoundRobin:
    """Lets one call at a time begin: the next when the one before it first waits for something, or has ended.

    Of the calls that are there at one time, those of each client begin one after the other. A thousand calls of one client
    take a worker for a second, one behind the other. Another client's is the next one here.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Waiter]] = {}  # by client, the one whose turn is next first
        self._is_taken = False

    def __repr__(self) -> str:
        return f"<RoundRobin {sum(map(len, self._waiting.values()))} calls of {len(self._waiting)} clients wait>"

    def wait(self, client: str) -> None:
        """Wait for the client's turn."""
        if self._is_taken:
            waiter = Waiter()
            self._waiting.setdefault(client, deque()).append(waiter)
            waiter.get()
        else:
            self._is_taken = True
            get_hub().loop.run_callback(self._pass_on)

    def _pass_on(self) -> None:
        if not self._waiting:
            self._is_taken = False
            return
        get_hub().loop.run_callback(self._pass_on)  # first: the call may take this greenlet's place for long
        client = next(iter(self._waiting))
        calls = self._waiting.pop(client)
        waiter = calls.popleft()
        if calls:
            self._waiting[client] = calls  # behind all others
        waiter.switch(None)


P = ParamSpec("P")


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the function's value, computed in a thread: the worker's other calls continue meanwhile."""
    value: T = gevent.get_hub().threadpool.apply(function, args, kwargs)
    return value
