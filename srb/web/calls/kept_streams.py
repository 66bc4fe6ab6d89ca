"""Kept streams: streams of conversations that go on without their clients, and can be read from any byte, in any worker.

A stream is a folder in the folder that the workers share, with the stream's bytes in segments, of which the last two stay.
It is forgotten some minutes after its end, or when its conversation begins another stream.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import orjson

from srb.errors import SRBError
from srb.web.calls.calls import Call
from srb.web.calls.renderer import Renderer
from srb.web.calls.streaming import EventStream, Write

log = logging.getLogger("srb.web")

SEGMENT = 4 * 1024 * 1024  # bytes
KEPT_SECONDS = 300  # after a stream's end
MAX_KEPT = 256  # streams; those that ended first go
POLL = 0.05  # seconds between two looks of a reader

_ABOUT, _DONE = "about", "done"  # files of a stream beside its segments
_MODEL = re.compile("(?=::)")


@dataclass(frozen=True)
class KeptStream:
    """A stream as it is found: its folder, and what was known of it at its beginning."""

    folder: Path
    conversation: str
    request_id: str
    started_at: int  # seconds since 1970
    worker: int  # process id

    @classmethod
    def of(cls, folder: Path) -> KeptStream | None:
        """Return the stream of a folder; None if it is just being made or removed."""
        try:
            return cls(folder, **orjson.loads((folder / _ABOUT).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def completed_at(self) -> int:
        """Seconds since 1970; 0 of a stream that has not ended."""
        try:
            return int((self.folder / _DONE).stat().st_mtime)
        except OSError:
            return 0

    @property
    def is_past(self) -> bool:
        """Whether it ended so long ago that it is forgotten."""
        completed = self.completed_at
        return bool(completed) and time.time() - completed >= KEPT_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether no more bytes follow: it has ended, was removed, or its worker has died."""
        return bool(self.completed_at) or not self.folder.exists() or not _lives(self.worker)

    @property
    def total(self) -> int:
        """The number of bytes so far, with those that are not kept any more."""
        newest = max(self._segments, default=0)
        try:
            return newest * SEGMENT + (self.folder / str(newest)).stat().st_size
        except OSError:
            return newest * SEGMENT

    @property
    def first(self) -> int:
        """The place of the first byte that is kept."""
        return min(self._segments, default=0) * SEGMENT

    @property
    def _segments(self) -> list[int]:
        return [int(path.name) for path in self.folder.glob("[0-9]*")]

    def read(self, start: int, is_wanted: Callable[[], bool]) -> Iterator[bytes]:
        """Yield the bytes from `start` on as they come, until the stream is over or not wanted any more."""
        place = start
        while is_wanted():
            is_over = self.is_over  # before the look: bytes may come between the two
            try:
                with open(self.folder / str(place // SEGMENT), "rb") as file:
                    file.seek(place % SEGMENT)
                    data = file.read(SEGMENT - place % SEGMENT)
            except FileNotFoundError:  # the place is at the beginning of a segment, or the reader too slow
                data = b""
                is_over = is_over or place < self.first
            if data:
                place += len(data)
                yield data
            elif is_over:
                return
            else:
                gevent.sleep(POLL)


class Recording:
    """The writing end of a stream; `finish` is idempotent. A stream whose folder was removed is written no more."""

    def __init__(self, folder: Path | None, about: dict[str, Any]) -> None:
        """Make the folder; None: the stream is not kept."""
        self._folder = folder
        self._total = 0
        try:
            if folder is not None:
                folder.mkdir()
                (folder / _ABOUT).write_bytes(orjson.dumps(about))
        except OSError as error:
            self._give_up(error)

    @property
    def is_kept(self) -> bool:
        """Whether others can read the stream: it was not removed, and its disk has room. False at the end, too."""
        return self._folder is not None

    def append(self, data: bytes) -> None:
        while data and self._folder is not None:
            segment, room = self._total // SEGMENT, SEGMENT - self._total % SEGMENT
            try:
                with open(self._folder / str(segment), "ab") as file:
                    file.write(data[:room])
                if segment > 1:
                    (self._folder / str(segment - 2)).unlink(missing_ok=True)
            except OSError as error:
                self._give_up(error)
                return
            self._total += len(data[:room])
            data = data[room:]

    def finish(self) -> None:
        if self._folder is None:
            return
        try:
            (self._folder / _DONE).touch()
        except OSError as error:
            self._give_up(error)
        self._folder = None

    def _give_up(self, error: OSError) -> None:
        assert self._folder is not None
        if not isinstance(error, FileNotFoundError):
            log.warning("a stream is not kept: %s", error)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None


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
        folder = None
        try:
            self._sweep()
            folder = self._root / f"{_digest(owner, conversation)}.{request_id}"
        except OSError as error:
            log.warning("a stream is not kept: %s", error)
        about: dict[str, Any] = {
            "conversation": conversation,
            "request_id": request_id,
            "started_at": int(time.time()),
            "worker": os.getpid(),
        }
        return Recording(folder, about)

    def find(self, owner: str, conversation: str) -> KeptStream | None:
        """Return the newest stream of a conversation, if there is one."""
        found = (each for each in self.matching(owner, [conversation]) if each.conversation == conversation)
        return max(found, key=lambda each: each.started_at, default=None)

    def matching(self, owner: str, conversations: Iterable[str]) -> list[KeptStream]:
        """Return the streams of these conversations, and of those whose names go on with `::` and a model."""
        names = frozenset(conversations)
        digests = {_digest(owner, name) for name in names}
        try:
            folders = [each for each in self._root.iterdir() if each.name.partition(".")[0] in digests]
        except OSError:
            return []  # no folder, and none can be made
        found = [each for each in map(KeptStream.of, folders) if each is not None and not each.is_past]
        return [each for each in found if not names.isdisjoint(_names(each.conversation))]

    def remove(self, stream: KeptStream) -> None:
        """Remove a stream; its writer does not find its folder any more, and writes no further."""
        gone = stream.folder.with_name(f".{stream.folder.name}")
        try:
            stream.folder.rename(gone)
        except OSError:
            return  # another worker has removed it
        shutil.rmtree(gone, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove the streams that ended some minutes ago, or whose worker has died, and the oldest of too many."""
        ended: list[tuple[int, KeptStream]] = []
        for folder in self._root.iterdir():
            stream = KeptStream.of(folder)
            if stream is None:
                _remove_if_old(folder)
            elif (completed := stream.completed_at) and not stream.is_past:
                ended.append((completed, stream))
            elif stream.is_over:
                self.remove(stream)
        ended.sort(key=lambda pair: pair[0])
        for _, stream in ended[: max(0, len(ended) - MAX_KEPT)]:
            self.remove(stream)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _remove_if_old(folder: Path) -> None:
    """Remove what a worker has left that died while it made or removed a stream."""
    try:
        if time.time() - folder.stat().st_mtime >= KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
    except FileNotFoundError:
        pass  # it is removed by now


def _names(conversation: str) -> list[str]:
    """Return the names by which a conversation is found: its own, and its beginnings before `::`."""
    return [conversation, *(conversation[: each.start()] for each in _MODEL.finditer(conversation))]


def _digest(owner: str, conversation: str) -> str:
    """Return the name of all streams of a conversation, whatever their models."""
    text = f"{owner}\0{conversation.partition('::')[0]}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Reader:
    """A client that reads a stream, until it leaves or the worker stops."""

    def __init__(self) -> None:
        self.is_reading = True

    def lose_client(self) -> None:
        self.is_reading = False

    def abandon(self, reason: SRBError) -> None:
        self.is_reading = False
