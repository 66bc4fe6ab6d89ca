"""The stories in a web worker: one connection, used by one call at a time in a thread, and its troubles logged once.

A database blocks while it waits for the disk, and a greenlet that blocks would hold up all other calls of the worker.
Bodies are read and checked in threads as well, but not in the connection's turn: other stories are saved meanwhile.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import gevent
from gevent.lock import BoundedSemaphore
from gevent.monkey import get_original

from srb.errors import Cancelled, SRBError, StoriesFull, StoriesOff, StoriesReadOnly, StoriesUnavailable
from srb.reasons import whose
from srb.stories.database import Place
from srb.stories.files import read_file
from srb.stories.imports import Plan
from srb.stories.store import Imported, Store
from srb.stories.write_ahead import Threads
from srb.web.loop.yielding import in_thread

log = logging.getLogger("srb.web")

# gevent's own threads and locks would not be those of the pool's threads.
_THREADS = Threads(get_original("_thread", "start_new_thread"), get_original("_thread", "allocate_lock"))
_sleep: Callable[[float], object] = get_original("time", "sleep")  # gevent's would make a loop for the thread

S = TypeVar("S")
T = TypeVar("T")

_PAUSE_SECONDS = 0.0005  # for which a thread that computes sleeps: else it takes the interpreter back at once
_LOOK_SECONDS = 10.0  # between two looks at a file that is watched
STATES = ("ok", "checking", "read_only", "full", "locked", "damaged", "newer", "unavailable")
_CLOSE_SECONDS = 1.0  # that the end of a worker waits for a call


@dataclass(frozen=True, slots=True)
class Watched:
    """The stories' state in one of STATES, and the Unix time of the last backup: 0 without one, None if not known."""

    state: str
    last_backup: float | None


class Wish:
    """A client that waits for a long work: its `pause` ends the work when the client has left, or the worker stops."""

    def __init__(self) -> None:
        self._reason: SRBError | None = None

    def lose_client(self) -> None:
        self.abandon(Cancelled("The client has disconnected"))

    def abandon(self, reason: SRBError) -> None:
        self._reason = self._reason or reason

    def check(self) -> None:
        """Raise the reason why nobody waits any more, if there is one."""
        if self._reason is not None:
            raise self._reason

    def pause(self) -> None:
        """Check, and let the worker's other threads run; called by the thread that works."""
        self.check()
        _sleep(_PAUSE_SECONDS)


class StoriesFile:
    """The stories of one worker; `place` is None if the server keeps none."""

    def __init__(self, place: Place | None, rooms: Mapping[str, int] = MappingProxyType({})) -> None:
        """Open nothing yet: no connection crosses a fork, and a server that nobody writes with makes no file.

        `rooms`: see Store.
        """
        self._store = Store(place, checks_later=True, rooms=rooms, threads=_THREADS) if place else None
        self._turn = BoundedSemaphore()
        self._imports = BoundedSemaphore()  # one at a time: each takes a thread, a core and much memory
        self._trouble: type[SRBError] | None = None  # the last one that was logged
        self._looked_at = -_LOOK_SECONDS
        self._is_examined = False  # at the moment, or its check has failed: the next worker tries

    def start(self) -> None:
        """Check the file in the background, so that the log tells of damage before a writer meets it."""
        if self._store is None:
            return
        if _may_be_there(path := self._store.place):
            gevent.spawn(self._check)
        elif not os.access(folder := next(each for each in Path(path).absolute().parents if each.exists()), os.W_OK):
            self._note(StoriesReadOnly(f"{path} cannot be made, and no story will be saved{whose(folder)}"))
        else:
            self._note(None)

    def watched(self) -> Watched | None:
        """Return what is known of the file without waiting for it, and look at it in the background now and then."""
        if self._store is None:
            return None
        if (now := time.monotonic()) - self._looked_at >= _LOOK_SECONDS and not self._turn.locked():
            self._looked_at = now
            self.start()
        state = self._trouble.type.removeprefix("stories_") if self._trouble else self._store.state
        return Watched(state, self._store.last_backup if _may_be_there(self._store.place) else None)

    def _check(self) -> None:
        try:
            self.use(Store.open)
        except SRBError:
            pass  # it is logged, and every call will be answered with it

    def _examine(self, store: Store) -> None:
        """Check the pages behind the first calls; if any is damaged, all later ones are answered so."""
        _, error = in_thread(_attempt, Store.examine, store)
        if error is not None:
            self._note(error)
            if not isinstance(error, SRBError):
                log.error("stories: the pages of %s could not be checked: %s", store.shown, error)
                return  # no second reading of a whole file from a disk that fails
        self._is_examined = False

    def use(self, act: Callable[[Store], T]) -> T:
        """Return what `act` returns, which runs in a thread. Raise its errors, or StoriesOff."""
        if self._store is None:
            raise StoriesOff("This server keeps no stories: its setting `stories` is empty")
        with self._turn:
            value, error = in_thread(_attempt, act, self._store)
        self._note(error)
        if self._store.state == "checking" and not self._is_examined:
            self._is_examined = True
            gevent.spawn(self._examine, self._store)
        return _outcome(value, error)

    def bring_in(self, data: bytes, wish: Wish, person: str) -> Imported:
        """Import a person's file. Raise the errors of Store.bring_in, or that of the wish; then nothing was imported."""
        if self._store is None:
            raise StoriesOff("This server keeps no stories: its setting `stories` is empty")
        place = self._store.place

        def planned(_: None) -> Plan:
            file = read_file(data, pause=wish.pause)
            with closing(Store(place, checks_later=True)) as reader:  # a connection of its own, so it needs no turn
                return reader.of(person).plan(file, pause=wish.pause)

        with self._imports:
            value, error = in_thread(_attempt, planned, None)
        self._note(error)
        plan = _outcome(value, error)
        wish.check()
        return self.use(lambda store: store.of(person).carry_out(plan))

    def close(self) -> None:
        """Close the file at the worker's end; a call that is still writing keeps it, and its commit stands."""
        if self._store is not None and self._turn.acquire(timeout=_CLOSE_SECONDS):
            self._store.close()

    def _note(self, error: Exception | None) -> None:
        """Log a trouble with the file when it begins, changes or ends, not at every call."""
        if isinstance(error, StoriesUnavailable | StoriesFull):
            if self._trouble is not type(error):
                log.error("stories: %s", error.message)
            self._trouble = type(error)
        elif error is None and self._trouble is not None:
            log.info("stories: %s is used again", self._store and self._store.shown)
            self._trouble = None


def _may_be_there(place: Place) -> bool:
    """Whether a file exists, or lies in a folder that is closed to this process. A database is asked."""
    if isinstance(place, str):
        return True
    try:
        place.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def checked(read: Callable[[bytes], T], data: bytes) -> T:
    """Return what `read` makes of a body, in a thread and outside of the file's turn. Raise its errors."""
    return _outcome(*in_thread(_attempt, read, data))


def _attempt(act: Callable[[S], T], given: S) -> tuple[tuple[T] | None, Exception | None]:
    """Return what `act` returns, or its exception: the thread pool would print the exceptions that it passes on."""
    try:
        return (act(given),), None
    except Exception as error:  # raised again by `_outcome`
        return None, error


def _outcome(value: tuple[T] | None, error: Exception | None) -> T:
    if error is not None:
        raise error
    assert value is not None
    return value[0]
