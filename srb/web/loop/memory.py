"""Memory of large bodies: how much of it a worker takes at once, and its way back to the system."""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent

from srb.errors import BodiesFull

FREE = 65536  # bytes of a body that have room in any case: the others of 2,000 clients take 128 MiB
LARGE = 2**20  # bytes of a body whose memory goes back
_M_MMAP_THRESHOLD = -3  # malloc.h
PAUSE = 1.0  # seconds until it goes, once for all bodies of that time


class BodyBudget:
    """The bytes of bodies that a worker receives at the same time: at most `most`, or one body alone.

    Bytes count when they have arrived, not when they are announced: a client that only announces keeps nobody out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextmanager
    def receiving(self, announced: int) -> Iterator[Callable[[int], None]]:
        """Hold room for a body of `announced` bytes (0: unknown), which the yielded function makes larger.

        Raise BodiesFull if there is no room, at first or for what arrives later.
        """
        arrived = held = 0

        def arrive(size: int) -> None:
            nonlocal arrived, held
            arrived += size
            more = max(0, arrived - FREE) - held
            self._held, held = self._held + more, held + more
            if self._held > max(self._most, held):
                raise self._full()

        if announced > FREE and self._held and self._held + announced > self._most:
            raise self._full()
        try:
            yield arrive
        finally:
            self._held -= held

    def _full(self) -> BodiesFull:
        return BodiesFull(f"The server receives other large bodies, of {self._most} bytes in all (8 × max_body_bytes)")


class Trimmer:
    """Gives the memory of large bodies back: C's allocator keeps what was freed, and a worker may never need it again."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or _trim
        self._is_due = False

    def note(self, size: int) -> None:
        """Trim soon if a body of this many bytes, which has been answered, was large."""
        if size > LARGE and not self._is_due:
            self._is_due = True
            gevent.spawn_later(PAUSE, self._run)

    def _run(self) -> None:
        self._is_due = False
        gc.collect()  # of errors whose tracebacks have the body; what a worker has at its start is not visited
        self._trim()


def keep_large_blocks_apart() -> None:
    """Let C's allocator ask the system for each large block, so that it goes back when it is freed.

    glibc otherwise raises the limit to 32 MiB with the blocks that it has seen, and threads keep what they have freed.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE)


def _trim() -> None:
    """Return the free memory of C's allocator to the system, where that is possible: glibc keeps most of it."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
