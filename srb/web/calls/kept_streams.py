"""Kept streams: streams of conversations that go on without their clients, and can be read from any byte, in any worker.

Each is a file in the folder that the workers share: a head, and the last bytes of the stream as a ring. The bytes of an
answer follow from how its tokens came together into events, so they cannot be made again from the request's texts, which a
reader that attaches to the request gets. All that may wait for a disk is done in threads.

A stream is forgotten some minutes after its end, or when its conversation begins another stream.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import shutil
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import gevent
import orjson

from srb.errors import SRBError
from srb.web.calls.calls import Call, Calls
from srb.web.calls.renderer import Renderer
from srb.web.calls.streaming import MAX_WRITE, EventStream, Write
from srb.web.loop.threads import in_thread

log = logging.getLogger("srb.web")

RING = 4 * 1024 * 1024  # bytes of a stream that can be read, the latest; the file has room for one more write
KEPT_SECONDS = 300  # after a stream's end: a phone that wakes up, or a page loaded again, finds it
MAX_KEPT = 256  # streams of 4 MiB, so 1 GiB of the disk at most; those that ended first go
POLL = 0.05  # seconds between two looks of a reader, a wait that nobody sees; shorter ones cost each reader a wake-up

_STATE = struct.Struct("<QQ")  # bytes so far, and the time of the end in seconds since 1970, 0 before it
_HEAD = 8192  # bytes: the state, and what was known at the beginning, as JSON; a whole number of pages
_SIZE = RING + MAX_WRITE  # of the ring in the file
_MODEL = re.compile("(?=::)")


@dataclass(frozen=True)
class KeptStream:
    """A stream as it was found: what was known of it at its beginning, and how far it was."""

    path: Path
    conversation: str
    request_id: str
    started_at: int  # seconds since 1970
    total: int  # bytes so far, with those that are not kept any more
    completed_at: int  # seconds since 1970; 0 of a stream that has not ended
    is_over: bool  # no more bytes follow: it has ended, was removed, or its worker has died

    @classmethod
    def of(cls, path: Path) -> KeptStream | None:
        """Return the stream of a file; None if it has just been removed."""
        try:
            with path.open("rb", buffering=0) as file:
                head = os.pread(file.fileno(), _HEAD, 0)
                is_over = _is_over(file.fileno())
            total, completed = _STATE.unpack_from(head)
            about = orjson.loads(head[_STATE.size :].rstrip(b"\0"))
            return cls(path, **about, total=total, completed_at=completed, is_over=is_over)
        except (OSError, ValueError, TypeError, struct.error):
            return None

    @property
    def is_past(self) -> bool:
        """Whether it ended so long ago that it is forgotten."""
        return bool(self.completed_at) and time.time() - self.completed_at >= KEPT_SECONDS

    @property
    def first(self) -> int:
        """The place of the first byte that is kept."""
        return max(0, self.total - RING)

    def read(self, start: int, is_wanted: Callable[[], bool]) -> Generator[bytes, None, None]:
        """Yield the bytes from `start` on as they come, until the stream is over or not wanted any more."""
        try:
            file = in_thread(_opened, self.path)
        except FileNotFoundError:
            return
        place = start
        with file:
            while is_wanted():
                data, is_over = in_thread(_next_bytes, file.fileno(), place)
                if data:
                    place += len(data)
                    yield data
                elif is_over:
                    return
                else:
                    gevent.sleep(POLL)


def _state(fd: int) -> tuple[int, int]:
    total, completed = _STATE.unpack(os.pread(fd, _STATE.size, 0))
    return total, completed


def _is_over(fd: int) -> bool:
    if _state(fd)[1] or not os.fstat(fd).st_nlink:
        return True
    try:  # the writer holds a lock as long as it lives
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return not _state(fd)[1]  # else it has ended between the two looks, and its last bytes are to be read


def _next_bytes(fd: int, place: int) -> tuple[bytes, bool]:
    """Return the bytes from `place` on, if there are any, and whether no more follow."""
    is_over = _is_over(fd)  # before the look: bytes may come between the two
    total, _ = _state(fd)
    at = place % _SIZE
    data = os.pread(fd, max(0, min(total - place, _SIZE - at)), _HEAD + at)
    if _state(fd)[0] - RING > place:  # the reader was too slow, and others may have been written over these
        return b"", True
    return data, is_over


class Recording:
    """The writing end of a stream; `finish` is idempotent. A stream whose file was removed is written no more."""

    def __init__(self, file: BinaryIO | None, path: Path) -> None:
        """Without a file, the stream is not kept."""
        self._file = file
        self._path = path
        self._total = 0

    @property
    def is_kept(self) -> bool:
        """Whether others can read the stream: it was not removed, and its disk has room. False at the end, too."""
        return self._file is not None

    def append(self, data: bytes) -> None:
        if data and self._file is not None:
            in_thread(self._write, data)

    def finish(self) -> None:
        if self._file is not None:
            in_thread(self._end)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        fd = self._file.fileno()
        try:
            if not os.fstat(fd).st_nlink:
                return self._close()
            for start in range(0, len(data), MAX_WRITE):
                part = data[start : start + MAX_WRITE]
                at = self._total % _SIZE
                _write_all(fd, part[: _SIZE - at], _HEAD + at)
                _write_all(fd, part[_SIZE - at :], _HEAD)
                self._total += len(part)
                _write_all(fd, _STATE.pack(self._total, 0), 0)  # after the bytes, since readers trust it
        except OSError as error:
            self._give_up(error)

    def _end(self) -> None:
        assert self._file is not None
        try:
            _write_all(self._file.fileno(), _STATE.pack(self._total, int(time.time())), 0)
        except OSError as error:
            return self._give_up(error)
        self._close()

    def _give_up(self, error: OSError) -> None:
        log.warning("a stream is not kept: %s", error)
        self._path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None


def _opened(path: Path) -> BinaryIO:
    return path.open("rb", buffering=0)


def _write_all(fd: int, data: bytes, at: int) -> None:
    if os.pwrite(fd, data, at) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class KeptEventStream(EventStream):
    """An EventStream that is kept, and goes on when its client leaves."""

    def __init__(self, call: Call, renderer: Renderer, ping_interval: float | None, recording: Recording) -> None:
        super().__init__(call, renderer, ping_interval)
        self._recording = recording
        self._is_over = self._has_left = False
        call.outlive_client()

    def __next__(self) -> Write:
        try:
            write = super().__next__()
        except StopIteration:
            self._is_over = True
            self._recording.finish()
            raise
        self._recording.append(bytes(write))
        return write

    def close(self) -> None:
        """End the call if its stream is over, or nobody can read it again; otherwise it goes on without its client."""
        if self._is_over or (not self._recording.is_kept and not self._has_left):
            self._end()
        elif not self._has_left:
            self._has_left = True
            self._call.let_client_go()
            gevent.spawn(self._go_on)

    def _go_on(self) -> None:
        try:
            while self._recording.is_kept:
                next(self, None)
        finally:
            self._end()

    def _end(self) -> None:
        super().close()
        self._recording.finish()


class KeptStreams:
    """The kept streams of all workers with the same folder."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder, keep the streams of this process alone."""
        self._given = folder
        self._own: Path | None = None

    @property
    def _root(self) -> Path:
        if self._given is None:
            if self._own is None:
                self._own = Path(tempfile.mkdtemp(prefix="srb-streams-"))
                weakref.finalize(self, shutil.rmtree, self._own, ignore_errors=True)
            return self._own
        root = self._given / "streams"
        root.mkdir(mode=0o700, exist_ok=True)
        return root

    def begin(self, owner: str, conversation: str, request_id: str) -> Recording:
        """Begin the stream of a conversation of a client. If the disk has no room for it, it is not kept."""
        return in_thread(self._begin, _digest(owner, conversation), conversation, request_id)

    def _begin(self, digest: str, conversation: str, request_id: str) -> Recording:
        about = {"conversation": conversation, "request_id": request_id, "started_at": int(time.time())}
        path, file = Path(), None
        try:
            self._sweep()
            path = self._root / f"{digest}.{request_id}"
            made = path.with_name(f".{path.name}")
            file = made.open("xb", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX)
            _write_all(file.fileno(), _STATE.pack(0, 0) + orjson.dumps(about), 0)
            made.rename(path)  # locked and whole before anybody finds it
        except OSError as error:
            log.warning("a stream is not kept: %s", error)
            if file is not None:
                file.close()
                made.unlink(missing_ok=True)
            file = None
        return Recording(file, path)

    def find(self, owner: str, conversation: str) -> KeptStream | None:
        """Return the newest stream of a conversation, if there is one."""
        found = (each for each in self.matching(owner, [conversation]) if each.conversation == conversation)
        return max(found, key=lambda each: each.started_at, default=None)

    def matching(self, owner: str, conversations: Iterable[str]) -> list[KeptStream]:
        """Return the streams of these conversations, and of those whose names go on with `::` and a model."""
        names = frozenset(conversations)
        found = in_thread(self._of_digests, {_digest(owner, name) for name in names})
        return [each for each in found if not each.is_past and not names.isdisjoint(_names(each.conversation))]

    def _of_digests(self, digests: set[str]) -> list[KeptStream]:
        try:
            paths = [each for each in self._root.iterdir() if each.name.partition(".")[0] in digests]
        except OSError:
            return []  # no folder, and none can be made
        return [each for each in map(KeptStream.of, paths) if each is not None]

    def remove(self, stream: KeptStream) -> None:
        """Remove a stream; its writer sees that its file has no name any more, and writes no further."""
        in_thread(stream.path.unlink, missing_ok=True)

    def _sweep(self) -> None:
        """Remove the streams that ended some minutes ago, or whose worker has died, and the oldest of too many."""
        found = [each for each in map(KeptStream.of, self._root.iterdir()) if each is not None and each.is_over]
        kept = sorted(
            (each for each in found if each.completed_at and not each.is_past), key=lambda each: each.completed_at
        )
        for stream in {*found}.difference(kept[-MAX_KEPT:]):
            stream.path.unlink(missing_ok=True)


def _names(conversation: str) -> list[str]:
    """Return the names by which a conversation is found: its own, and its beginnings before `::`."""
    return [conversation, *(conversation[: each.start()] for each in _MODEL.finditer(conversation))]


def _digest(owner: str, conversation: str) -> str:
    """Return the name of all streams of a conversation, whatever their models."""
    text = f"{owner}\0{conversation.partition('::')[0]}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class StreamReader:
    """A WSGI iterable over a kept stream, until its client leaves or the worker stops.

    It counts as an open request of its client; `close()` is idempotent.
    """

    def __init__(self, stream: KeptStream, start: int, calls: Calls, environ: dict[str, Any]) -> None:
        """Raise RateLimited, or ShuttingDown."""
        self._is_reading = True
        self._bytes = stream.read(start, lambda: self._is_reading)
        self._held = ExitStack()
        self._held.enter_context(calls.reading(self, environ))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._bytes)

    def close(self) -> None:
        """Count no more. The WSGI server always calls this."""
        self._bytes.close()
        self._held.close()

    def lose_client(self) -> None:
        self._is_reading = False

    def abandon(self, reason: SRBError) -> None:
        self._is_reading = False
