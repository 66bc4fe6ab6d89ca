"""Yielding: work on one long request lets the worker's other greenlets run every few milliseconds.

A worker has one thread. Whatever takes it for seconds keeps all its streams, and `/livez`, without a byte for as long.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import gevent
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
