"""The folder of texts that outlive the server: a file for each record of KV, and an index with the tokens.

`FOLDER/MODEL/` belongs to one engine at a time, which holds its lock; MODEL is a hash of all that KV depends on. A thread
writes, and removes, one file after the other: first the file, then its line of the index, so that the index names whole
files alone. Another thread reads. A process that is killed may leave files without a line and a line cut short, which
are removed at the next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import re
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np
import orjson

from srb.atomic import private
from srb.engine.model import Blob, Record, Scope
from srb.engine.tokens import Tokens, tokens_of

log = logging.getLogger("srb.texts")

MIN_FREE = 5 * 1024**3  # bytes that stay free on the disk, for everything else
MAX_BUDGET = 16 * 1024**3
SHARE = 10  # of the free space: texts take 1/10 of it by themselves
LEAST_SHARE = (
    8  # where other models' engines, which run, fill the room: one has 1/8 of it, and so not all are forgotten
)
_HEAD = b"SRBTEXTS 1\n"  # of the index, with the version of its form
_FRAME = 8  # bytes before each entry: its length and its checksum
_MAX_ENTRY = 64 * 1024 * 1024  # bytes; a longer length is that of a damaged entry
_PIECE = 8 * 1024 * 1024  # bytes written at once: a process that ends waits for one
_NAME = re.compile(r"[0-9a-f]{32}")


class TextFolder:
    """A `TextStore` in a folder. Nothing here raises once it is open: what cannot be written or read is told in the log."""

    def __init__(self, folder: Path, model: str, max_bytes: int) -> None:
        """Use `folder`/`model`, created with mode 0700 if necessary; negative `max_bytes`: a share of the free space.

        Files of other models are removed where they would leave too little, the ones used longest ago first. Raise OSError;
        BlockingIOError if another engine uses this model's.
        """
        self.folder = folder / model
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = open(self.folder / "lock", "wb", opener=private)  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise
        self._checksums: dict[str, int] = {}
        self._is_full = self._is_closing = False
        others, own = _others(folder, model), _size(self.folder)
        total = max_bytes if max_bytes >= 0 else _share(folder, sum(size for _, size, _ in others) + own)
        left = _shrink(others, total - min(own, total))
        self.budget = max(total // LEAST_SHARE, total - left)
        self._index: BinaryIO | None = None
        self._writes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._came = threading.Event()  # something was done
        self._threads = [
            threading.Thread(target=self._work, args=(work,), name=name, daemon=True)
            for name, work in (("texts", self._writes), ("texts read", self._reads))
        ]
        for thread in self._threads:
            thread.start()

    # ---- the beginning

    def load(self) -> Iterator[tuple[Record, Tokens]]:
        """Yield the records whose files are there, the least recently used first."""
        path = self.folder / "index"
        found: dict[str, tuple[Record, Tokens, int]] = {}
        try:
            found = _read_index(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s cannot be read: %s; the texts of earlier runs are computed again", path, error.strerror)
        files = {entry.name: entry.stat() for entry in os.scandir(self.folder)}
        sizes = {name: file.st_size for name, file in files.items()}
        kept = {id_: each for id_, each in found.items() if sizes.get(id_) == each[0].nbytes}
        for name in files.keys() - kept.keys():
            if _NAME.fullmatch(name):
                self._unlink(name)
        try:
            self._index = self._rewrite(path, kept)
        except OSError as error:
            log.warning("%s cannot be written: %s; no text is kept beyond this run", path, error.strerror)
        self._checksums = {id_: checksum for id_, (_, _, checksum) in kept.items()}
        for record, tokens, _ in sorted(kept.values(), key=lambda each: files[each[0].id].st_mtime_ns):
            yield record, tokens

    def _rewrite(self, path: Path, kept: dict[str, tuple[Record, Tokens, int]]) -> BinaryIO:
        """Write the index anew, without what is gone; return it, open at its end."""
        scratch = path.with_suffix(".partial")
        with open(scratch, "wb", opener=private) as file:
            file.write(_HEAD)
            for record, tokens, checksum in kept.values():
                file.write(_entry(record, tokens, checksum))
            file.flush()
            os.fdatasync(file.fileno())  # else a power cut may leave a name without a content
        scratch.replace(path)
        return open(path, "ab", buffering=0)

    # ---- what the tree asks for

    def write(self, record: Record, tokens: Tokens, blob: Blob, done: Callable[[bool], None]) -> None:
        """Write a record, and tell whether it is on the disk."""
        self._writes.put(lambda: done(self._write(record, tokens, blob)))

    def fetch(self, record: Record, done: Callable[[Blob | None], None]) -> None:
        """Read a record in another thread."""
        self._reads.put(lambda: done(self.read(record)))

    def read(self, record: Record) -> Blob | None:
        """Return a record's KV; None if its file is gone or damaged."""
        try:
            with open(self.folder / record.id, "rb", buffering=0) as file:
                blob = np.empty(record.nbytes, np.uint8)
                view, at = blob.data, 0
                while at < record.nbytes and (count := file.readinto(view[at:])):
                    at += count
                is_whole = at == record.nbytes and not file.read(1)
        except OSError as error:
            log.warning("%s cannot be read: %s; its text is computed again", self.folder / record.id, error.strerror)
            return None
        if is_whole and zlib.crc32(view) == self._checksums.get(record.id):
            return blob
        log.warning("%s is damaged; its text is computed again", self.folder / record.id)
        return None

    def remove(self, record: Record) -> None:
        """Remove a record's file, after all that was asked for before."""
        self._writes.put(lambda: self._remove(record.id))

    def use(self, record: Record) -> None:
        """Note a use, for the order of the next run."""
        self._writes.put(lambda: self._touch(record.id))

    def close(self, seconds: float) -> None:
        """End the threads when they have done what was asked for, or after so many seconds; then the folder is free."""
        deadline = time.monotonic() + seconds
        for work in (self._writes, self._reads):
            work.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._is_closing = True
        if self._index is not None and not self._threads[0].is_alive():
            self._index.close()
        self._lock.close()

    def new_id(self) -> str:
        return uuid4().hex

    def wait(self, seconds: float) -> None:
        """Wait until something is done, so many seconds at most."""
        self._came.wait(seconds)
        self._came.clear()

    def _work(self, asked: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        """Do what is asked for, in its order, until None comes."""
        while (do := asked.get()) is not None:
            try:
                do()
            except Exception:
                log.exception("a text could not be kept or read")
            self._came.set()

    # ---- the thread that writes

    def _write(self, record: Record, tokens: Tokens, blob: Blob) -> bool:
        path = self.folder / record.id
        if self._index is None or self._is_closing:
            return False
        try:
            if shutil.disk_usage(self.folder).free - record.nbytes < MIN_FREE:
                raise OSError(0, f"less than {MIN_FREE // 1024**3} GiB would be free on the disk")
            checksum = self._write_file(path, np.ascontiguousarray(blob))
            self._append(self._index, _entry(record, tokens, checksum))
            self._checksums[record.id] = checksum
            os.fdatasync(self._index.fileno())
        except OSError as error:
            if not self._is_full:
                log.warning("texts are not kept in %s: %s", self.folder, error.strerror)
            self._is_full = True
            self._unlink(record.id)
            return False
        if self._is_full:
            log.info("texts are kept in %s again", self.folder)
            self._is_full = False
        return True

    def _write_file(self, path: Path, blob: Blob) -> int:
        """Write and sync a file, which then leaves the system's memory: it would push the model's weights out."""
        view, checksum = blob.data, 0
        with open(path, "wb", buffering=0, opener=private) as file:
            for at in range(0, len(blob), _PIECE):
                piece = view[at : at + _PIECE]
                while piece:
                    count = file.write(piece)
                    checksum = zlib.crc32(piece[:count], checksum)
                    piece = piece[count:]
            os.fdatasync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return checksum

    def _remove(self, id_: str) -> None:
        self._checksums.pop(id_, None)
        self._unlink(id_)
        if self._index is not None:
            with contextlib.suppress(OSError):  # then the next start finds no file
                self._append(self._index, _frame(b"-" + id_.encode()))

    @staticmethod
    def _append(index: BinaryIO, entry: bytes) -> None:
        """Append an entry to the index, whole or not at all: behind a part nothing would be read. Raise OSError."""
        size, rest = os.fstat(index.fileno()).st_size, memoryview(entry)
        try:
            while rest:
                rest = rest[index.write(rest) :]
        except OSError:
            os.ftruncate(index.fileno(), size)
            raise

    def _touch(self, id_: str) -> None:
        with contextlib.suppress(OSError):  # then it counts as used before
            os.utime(self.folder / id_)

    def _unlink(self, id_: str) -> None:
        try:
            (self.folder / id_).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self.folder / id_, error.strerror)


# ---- the index


def _entry(record: Record, tokens: Tokens, checksum: int) -> bytes:
    head = [record.id, record.parent, record.start, record.nbytes, checksum, record.scope.lora, record.scope.salt]
    return _frame(b"+" + orjson.dumps(head) + b"\n" + np.asarray(tokens, np.int32).tobytes())


def _frame(entry: bytes) -> bytes:
    return len(entry).to_bytes(4, "little") + zlib.crc32(entry).to_bytes(4, "little") + entry


def _read_index(path: Path) -> dict[str, tuple[Record, Tokens, int]]:
    """Return the records of an index, with their tokens and the checksums of their files, up to an entry that is damaged.

    Raise OSError.
    """
    data = path.read_bytes()
    found: dict[str, tuple[Record, Tokens, int]] = {}
    at = len(_HEAD)
    if data[:at] != _HEAD:
        return {}
    while at + _FRAME <= len(data):
        length, checksum = (int.from_bytes(data[place : place + 4], "little") for place in (at, at + 4))
        entry = data[at + _FRAME : at + _FRAME + length]
        if length > _MAX_ENTRY or len(entry) != length or zlib.crc32(entry) != checksum:
            break
        at += _FRAME + length
        if entry[:1] == b"-":
            found.pop(entry[1:].decode("ascii", "replace"), None)
        elif (each := _read_entry(entry)) is not None:
            found[each[0].id] = each
    return found


def _read_entry(entry: bytes) -> tuple[Record, Tokens, int] | None:
    """Return the record of an entry; None for one that no engine of ours has written."""
    head, _, tokens = entry[1:].partition(b"\n")
    try:
        id_, parent, start, nbytes, checksum, lora, salt = orjson.loads(head)
        scope = Scope(tuple(map(float, lora)), salt)
    except (ValueError, TypeError):
        return None
    are_names = isinstance(id_, str) and _NAME.fullmatch(id_) and isinstance(parent, str) and isinstance(salt, str)
    if (
        not (are_names and all(type(each) is int and each >= 0 for each in (start, nbytes, checksum)))
        or len(tokens) % 4
    ):
        return None
    count = len(tokens) // 4
    record = Record(id_, parent, start, start + count, nbytes, scope)
    return record, tokens_of(np.frombuffer(tokens, np.int32).tolist()), checksum


# ---- the room of all models


def _size(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())


def _share(folder: Path, used: int) -> int:
    """Return how many bytes texts may have where nothing is set: a share of what is free without them."""
    free = shutil.disk_usage(folder).free + used
    return max(0, min(free // SHARE, MAX_BUDGET, free - MIN_FREE))


def _others(folder: Path, model: str) -> list[tuple[Path, int, float]]:
    """Return the folders of other models, with their sizes; the one that was used longest ago comes first."""
    found = []
    for path in folder.iterdir():
        index = path / "index"
        if path.name != model and _NAME.fullmatch(path.name) and index.is_file():
            found.append((path, _size(path), index.stat().st_mtime))
    return sorted(found, key=lambda each: each[2])


def _shrink(others: list[tuple[Path, int, float]], most: int) -> int:
    """Remove folders of other models, from the first on, until they have `most` bytes; return what is left of them.

    Those that an engine uses stay.
    """
    left = sum(size for _, size, _ in others)
    for path, size, _ in others:
        if left <= most:
            break
        with contextlib.suppress(OSError), open(path / "lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
            left -= size
            log.info("the texts of another model are removed to make room: %s", path)
    return left
