"""The write-ahead log of the stories' file: whose turn it is to write into it, and its way to the disk.

Of several processes that write, each waits in a queue and is woken when it is the first: in a lock of the system (`flock`)
on the log, which SQLite does not lock so, and which ends with its process, however that ends. SQLite's own waiting looks
again after longer and longer sleeps, so that of 16 processes some had their turn after seconds.

A turn ends before what it wrote is on the disk, so one sync of the log is that of all who have written before it.
"""

import _thread
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from srb.atomic import NO_LOCKS, sync_data

_NO_TURNS = (*NO_LOCKS, errno.EBADF)  # NFS locks no file that is open for reading alone


class Threads(NamedTuple):
    """The system's threads and their locks: in a web worker, gevent has put its own in their modules' places."""

    start: Callable[[Callable[[], None], tuple[()]], object] = _thread.start_new_thread
    lock: Callable[[], Any] = _thread.allocate_lock


THREADS = Threads()


class WriteAheadLog:
    """The log at `path`, for one thread at a time. Another one waits in the queue, since that has no limit of time."""

    def __init__(self, path: str | Path, threads: Threads) -> None:
        """Open a log that is there. Raise OSError."""
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._threads = threads
        self._mutex = threads.lock()
        self._came = threads.lock()
        self._is_queued = False  # a thread waits in the queue
        self._is_wanted = False  # and another one waits for it
        self._is_closed = False

    def take(self, seconds: float) -> bool:
        """Wait for this process's turn to write; return whether it came in time.

        On a file system without locks it comes at once, and SQLite's own lock is waited for.
        """
        with self._mutex:
            if not self._is_queued:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except BlockingIOError:
                    pass
                except OSError as error:
                    if error.errno not in _NO_TURNS:
                        raise
                    return True
                self._came = self._threads.lock()
                self._came.acquire()
                try:
                    self._threads.start(self._queue, ())
                except RuntimeError:  # the system gives no thread now: SQLite's own lock is waited for
                    return True
                self._is_queued = True
            self._is_wanted = True
        if self._came.acquire(timeout=seconds):
            return True
        with self._mutex:
            self._is_wanted = False
            return not self._is_queued  # it came just now

    def leave(self) -> None:
        """Let the next process have its turn."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            if error.errno not in _NO_TURNS:
                raise

    def sync(self) -> None:
        """Return when all that was written before is on the disk. Raise OSError."""
        sync_data(self._file)

    def close(self) -> None:
        """Close the log, which a thread that still waits in the queue does later."""
        with self._mutex:
            self._is_closed = True
            if not self._is_queued:
                os.close(self._file)

    def _queue(self) -> None:
        with suppress(OSError):  # SQLite's own lock is waited for
            fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._mutex:
            self._is_queued = False
            if self._is_closed:
                os.close(self._file)
            elif self._is_wanted:
                self._came.release()
            else:
                self.leave()
