"""Progress of the threads that prepare requests, whose work ends where nobody waits for it; and who of them works next."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from srb.errors import Cancelled

IsWanted = Callable[[], bool]  # whether the result of a long work is still wanted; any thread may ask

LOOK_SECONDS = 0.5  # between two looks of a thread that waits whether its work is still wanted


def always() -> bool:
    return True


def check_wanted(is_wanted: IsWanted) -> None:
    """Raise Cancelled if a work `is_wanted` no more."""
    if not is_wanted():
        raise Cancelled("the request was cancelled")


# Asked between the pieces of the calling thread's work. Preparing is many calls deep, and each may take a turn.
_is_wanted: ContextVar[IsWanted] = ContextVar("is_wanted", default=always)


def work_while(is_wanted: IsWanted) -> None:
    """Let the work of the calling thread go on while it `is_wanted`; each question is a sign of its progress."""
    _is_wanted.set(is_wanted)


def go_on() -> None:
    """Note the progress of the calling thread's work. Raise Cancelled if it is wanted no more."""
    check_wanted(_is_wanted.get())


@contextlib.contextmanager
def taken(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock within the block. To wait for it is progress; raise Cancelled if the work is wanted no more."""
    while not lock.acquire(timeout=LOOK_SECONDS):
        go_on()
    try:
        go_on()
        yield
    finally:
        lock.release()


class FairSemaphore:
    """A semaphore for threads, of which a few work at once, in the order in which they came.

    A lock may be taken again by the thread that releases it, so a thread with much work would have all turns in a row.
    To wait is progress: those before a thread are bounded, and where one hangs, it alone is to blame. Entering raises
    Cancelled if the work of the calling thread is wanted no more.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        mine = threading.Lock()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine.acquire()
            self._waiting.append(mine)
        try:
            while not mine.acquire(timeout=LOOK_SECONDS):
                go_on()
            go_on()
        except BaseException:
            self._leave(mine)
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._pass_on()

    def _leave(self, mine: threading.Lock) -> None:
        """Leave the queue, or let the next thread have a turn that has just come."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._free += 1
