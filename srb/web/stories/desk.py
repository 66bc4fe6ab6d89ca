"""The stories' file in a web worker: one connection, used by one call at a time in a thread, and its troubles logged once.

SQLite blocks while it waits for the disk, and a greenlet that blocks would hold up all other calls of the worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import gevent
from gevent.lock import BoundedSemaphore

from srb.errors import SRBError, StoriesFull, StoriesOff, StoriesUnavailable
from srb.stories.store import Store
from srb.web.calls.outcome import in_thread

log = logging.getLogger("srb.web")

T = TypeVar("T")

_CLOSE_SECONDS = 1.0  # that the end of a worker waits for a call


class Desk:
    """The stories of one worker; `path` is None if the server keeps none."""

    def __init__(self, path: Path | None) -> None:
        """Open nothing yet: no connection crosses a fork, and a server that nobody writes with makes no file."""
        self._store = Store(path) if path else None
        self._turn = BoundedSemaphore()
        self._trouble: type[SRBError] | None = None  # the last one that was logged

    def start(self) -> None:
        """Check the file in the background, so that the log tells of damage before a writer meets it."""
        if self._store is not None and self._store.path.exists():
            gevent.spawn(self._check)

    def _check(self) -> None:
        try:
            self.use(Store.open)
        except SRBError:
            pass  # it is logged, and every call will be answered with it

    def use(self, act: Callable[[Store], T]) -> T:
        """Return what `act` returns, which runs in a thread. Raise its errors, or StoriesOff."""
        if self._store is None:
            raise StoriesOff("This server keeps no stories: its setting `stories` is empty")
        with self._turn:
            value, error = in_thread(_attempt, act, self._store)
        self._note(error)
        if error is not None:
            raise error
        assert value is not None
        return value[0]

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
            log.info("stories: %s is used again", self._store and self._store.path)
            self._trouble = None


def _attempt(act: Callable[[Store], T], store: Store) -> tuple[tuple[T] | None, Exception | None]:
    """Return what `act` returns, or its exception: the thread pool would print the exceptions that it passes on."""
    try:
        return (act(store),), None
    except Exception as error:  # raised again by `use`
        return None, error
