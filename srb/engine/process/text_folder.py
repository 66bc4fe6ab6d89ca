"""The folder of texts that outlive the server: a file for each record of KV, and an index with the tokens.

`FOLDER/MODEL/` belongs to one engine at a time, which holds its lock; MODEL is a hash of all that KV depends on. A thread
writes, and removes, one file after the other: first the file, then its line of the index, so that the index names whole
files alone (`text_index`). Another thread reads. A process that is killed may leave files without a line and a line cut
short, which are removed at the next start.
"""

import contextlib
import errno
import fcntl
import logging
import os
import queue
import re
import shutil
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

import numpy as np

from srb.atomic import private, sync_data, write_atomically
from srb.engine.model import Blob, Record, with_beginnings
from srb.engine.process.text_index import TextIndex, entry_of
from srb.engine.process.texts_elsewhere import Giver, Offered, Refused, needed
from srb.engine.tokens import Tokens
from srb.errors import ProtocolError
from srb.files.text_entry import framed
from srb.forgotten import NAME as FORGOTTEN
from srb.forgotten import since
from srb.host.memory import size_text
from srb.host.page_cache import drop_cached
from srb.wire.commands import Door

log = logging.getLogger("srb.texts")

MIN_FREE = 5 * 1024**3  # bytes that stay free on the disk, for everything else
MAX_BUDGET = 16 * 1024**3
SHARE = 10  # of the free space: texts take 1/10 of it by themselves
LEAST_SHARE = (
    8  # where other models' engines, which run, fill the room: one has 1/8 of it, and so not all are forgotten
)
_PIECE = 8 * 1024 * 1024  # bytes written at once: a process that ends waits for one
_CACHED = 256 * 1024  # bytes that are summed, written and copied while a processor's cache has them
_NAME = re.compile(r"[0-9a-f]{32}")  # of a record
_FOLDER = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
MAX_TAKERS = 2  # stories that are looked for at other engines at a time
MAX_ENGINES = 64  # of one model that keep texts in one folder


class Source(Protocol):
    """A file, or what comes from another replica."""

    def read(self, most: int, /) -> bytes: ...
    def seek(self, count: int, whence: int, /) -> object: ...


class TextFolder:
    """A `TextStore` in a folder. Nothing here raises once it is open: what cannot be written or read is told in the log."""

    def __init__(self, folder: Path, model: str, max_bytes: int, *, keeps_all: bool = True) -> None:
        """Use `folder`/`model`, created with mode 0700 if necessary; negative `max_bytes`: a share of the free space.

        Without `keeps_all` it has the texts that are given a name, and no others, and none of an earlier run. Where another
        engine uses it, `folder`/`model`-2 and so on. Files of other models are removed where they would leave too little,
        the ones used longest ago first. Raise OSError; BlockingIOError if MAX_ENGINES use the model's.
        """
        self._model = model
        self.keeps_all = keeps_all
        self.is_asked = False
        self.error: OSError | None = None
        for number in range(1, MAX_ENGINES + 1):
            self.folder = folder / (model if number == 1 else f"{model}-{number}")
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = open(self.folder / "lock", "wb", opener=private)  # noqa: SIM115
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                self._lock.close()
                if number == MAX_ENGINES or not isinstance(error, BlockingIOError):
                    raise
        self._linked: dict[str, int] = {}  # checksums of files that were or are being taken, until the index has them
        self._leaving = set[str]()  # ids of files that are to be removed
        self._is_full = self._is_closing = False
        if not keeps_all:
            (self.folder / "index").unlink(missing_ok=True)
        self._index = TextIndex(self.folder / "index")
        others, own = _others(folder, self.folder.name), sum(record.nbytes for record, _ in self._index.found)
        total = max_bytes if max_bytes >= 0 else _share(folder, sum(size for _, size, _ in others) + own)
        left = _shrink(others, total - min(own, total) if keeps_all else 0)
        self.budget = max(total // LEAST_SHARE, total - left)
        self._writes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._takes: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = queue.PriorityQueue()
        self._num_takes = 0
        self._came = threading.Event()  # something was done
        self._threads = [self._started("texts", self._writes.get), self._started("texts read", self._reads.get)]
        # They wait for other machines, so nobody waits for them.
        self._takers: list[threading.Thread] = []

    def forgotten(self) -> tuple[list[str], list[str], int]:
        """Return stories and keys that are to be forgotten since `note_forgotten`, and what that takes."""
        try:
            mark = self.folder / FORGOTTEN
            return since(self.folder.parent, int(mark.read_text()) if mark.exists() else 0)
        except (OSError, ValueError) as error:
            log.warning("%s: texts that are to be forgotten may stay: %s", self.folder, error)
            return [], [], 0

    def note_forgotten(self, place: int) -> None:
        """Note, after all that was asked for before, that those are forgotten."""
        self._writes.put(lambda: write_atomically(self.folder / FORGOTTEN, str(place).encode()))

    # ---- what the tree asks for

    def load(self) -> list[tuple[Record, Tokens]]:
        """Return the records of the index, the least recently used first. A file that is gone is noticed when it is read."""
        found, self._index.found = self._index.found, []
        self._writes.put(self._remove_strays)
        return found

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
        if is_whole and zlib.crc32(view) == self._checksum(record.id):
            return blob
        log.warning("%s is damaged; its text is computed again", self.folder / record.id)
        return None

    def remove(self, record: Record) -> None:
        """Remove a record's file, after all that was asked for before."""
        self._leaving.add(record.id)
        self._writes.put(lambda: self._remove(record.id))

    def take(
        self, story: str, door: Door | None, tokens: Tokens, done: Callable[[list[tuple[Record, Tokens]]], None]
    ) -> None:
        """Let this folder have the files of a story's records that other engines of the model have, which may run.

        Those of a replica whose door is given, and for a prompt of `tokens` the needed ones alone; where it gives none, and
        without a door, those in the folders beside this one are linked.
        """

        def do() -> None:
            taken: list[tuple[Record, Tokens]] = []
            try:
                given = None if door is None else self._given(story, door, tokens)
                taken = self._take(story) if given is None else given
            finally:
                done(taken)

        self._num_takes += 1
        self._takes.put((0 if tokens else 1, self._num_takes, do))  # first for those that wait
        if len(self._takers) < MAX_TAKERS:
            self._takers.append(self._started("texts taken", lambda: self._takes.get()[2]))

    @property
    def place(self) -> dict[str, str]:
        """The hash of all that KV depends on, and the folder's path."""
        return {"model": self._model, "folder": str(self.folder)}

    def entry(self, record: Record, tokens: Tokens) -> bytes | None:
        """Return a record's entry with its frame; None if its file is gone. Safe from any thread."""
        checksum = self._checksum(record.id)
        return None if checksum is None else framed(entry_of(record, tokens, checksum))

    def keep(self, record: Record, tokens: Tokens) -> None:
        """Note a record whose file was linked, perhaps with another parent."""
        self._writes.put(lambda: self._keep(record, tokens))

    def wipe(self) -> None:
        """Write the index anew, since it has the tokens of records that were removed."""
        self._writes.put(self._wipe)

    def use(self, record: Record) -> None:
        """Note a use, for the order of the next run."""
        self._writes.put(lambda: self._touch(record.id))

    def wait_for_writes(self) -> None:
        """Wait until the thread that writes has done all that it was asked for."""
        done = threading.Event()
        self.ask(done.set)
        while self._threads[0].is_alive() and not done.wait(1.0):
            pass

    def ask(self, do: Callable[[], None]) -> None:
        """Let the thread that writes do something after all that was asked for before."""
        self._writes.put(do)

    def close(self, seconds: float) -> None:
        """End the threads when they have done what was asked for, or after so many seconds; then the folder is free."""
        deadline = time.monotonic() + seconds
        for work in (self._writes, self._reads):
            work.put(None)
        for number, _ in enumerate(self._takers):
            self._takes.put((-1, number, None))
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._is_closing = True
        if not self._threads[0].is_alive():
            self._index.close()
        self._lock.close()

    def new_id(self) -> str:
        return uuid4().hex

    def wait(self, seconds: float) -> None:
        """Wait until something is done, so many seconds at most."""
        self._came.wait(seconds)
        self._came.clear()

    def _started(self, name: str, next_: Callable[[], Callable[[], None] | None]) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(next_, name == "texts"), name=name, daemon=True)
        thread.start()
        return thread

    def _work(self, next_: Callable[[], Callable[[], None] | None], writes: bool) -> None:
        """Do what is asked for, in its order, until None comes."""
        while (do := next_()) is not None:
            try:
                do()
                if writes:
                    self._index.compact()
            except Exception:
                log.exception("a text could not be kept or read")
            self._came.set()

    # ---- the thread that writes

    def _write(self, record: Record, tokens: Tokens, blob: Blob) -> bool:
        path = self.folder / record.id
        self.error = None
        if not self._index.is_open or self._is_closing:
            return False
        try:
            self._check_room(record.nbytes)
            checksum = self._write_file(path, np.ascontiguousarray(blob))
            self._index.add(record, tokens, checksum)
        except OSError as error:
            if not self._is_full:
                log.warning("texts are not kept in %s: %s", self.folder, error.strerror)
            self._is_full, self.error = True, error
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
            sync_data(file.fileno())
            drop_cached(file.fileno())
        return checksum

    # ---- files of texts that are elsewhere, too

    def size(self, record: Record) -> int:
        """Return how many bytes `export` writes, as far as the record is there. For the thread that writes."""
        return len(self._index.entry(record.id) or b"") + record.nbytes

    def export(self, id_: str, file: BinaryIO) -> None:
        """Write a record with its entry into another file. For the thread that writes. Raise OSError."""
        entry = self._index.entry(id_)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "a part of its text is gone")
        file.write(entry)
        with open(self.folder / id_, "rb") as own:
            shutil.copyfileobj(own, file, _PIECE)

    def install(self, id_: str, nbytes: int, checksum: int, file: Source, into: Blob | None = None) -> int | None:
        """Take the KV of a record from another file, unless it is here; return how many bytes were, None: it is damaged.

        They are copied `into` a blob, too. Not for the thread that writes. Raise OSError.
        """
        path, scratch, found, at = self.folder / id_, self.folder / self.new_id(), 0, 0
        if id_ in self._leaving:
            self.wait_for_writes()
        if self._has(id_):
            file.seek(nbytes, os.SEEK_CUR)
            return 0
        self._linked[scratch.name] = 0  # first: files that nobody knows of are removed
        try:
            with open(scratch, "wb", opener=private) as own:
                while at < nbytes and (piece := file.read(min(nbytes - at, _CACHED))):
                    found = zlib.crc32(piece, found)
                    own.write(piece)
                    if into is not None:
                        into.data[at : at + len(piece)] = piece
                    at += len(piece)
            if at < nbytes or found != checksum:
                return None
            self._linked[id_] = checksum
            scratch.replace(path)
        finally:
            self._unlink(scratch.name)
            del self._linked[scratch.name]
        return at

    def _has(self, id_: str) -> bool:
        return id_ not in self._leaving and self._checksum(id_) is not None and (self.folder / id_).exists()

    def _given(self, story: str, door: Door, tokens: Tokens) -> list[tuple[Record, Tokens]] | None:
        """Return the records that a replica gives, whose files are here now; None if it gives none.

        Records that were whole before a failure are kept: each stands behind its parent.
        """
        taken: list[tuple[Record, Tokens]] = []
        linked: list[str] = []
        began, nbytes, where = time.monotonic(), 0, f"{door[0]}:{door[1]}"
        try:
            with Giver(door) as giver:
                there, offered = giver.offered(story, self._model)
                offered = needed(offered, tokens)
                others = [each for each in offered if not self._has(each.record.id)]
                linked += [each.record.id for each in others if self._link(Path(there), each)]
                coming = {each.record.id for each in others}.difference(linked)
                giver.want([each.record.id for each in others if each.record.id in coming])
                for record, own, checksum in offered:
                    if record.id in coming:
                        self._check_room(record.nbytes)
                        if self.install(record.id, record.nbytes, checksum, giver) is None:
                            raise ProtocolError("a part of a text is damaged")
                        nbytes += record.nbytes
                    taken.append((record, own))
        except (OSError, EOFError, ProtocolError, Refused) as error:
            log.info("no more of a story's texts is taken over from the replica at %s: %s", where, error)
            for id_ in {*linked}.difference(record.id for record, _ in taken):  # nobody would keep or remove them
                self._linked.pop(id_, None)
                with contextlib.suppress(OSError):
                    (self.folder / id_).unlink()
            return taken or None
        said = "%d parts of a story are taken over from the replica at %s, %s of them by the network, in %.2f s"
        log.info(said, len(taken), where, size_text(nbytes), time.monotonic() - began)
        return taken

    def _link(self, there: Path, each: Offered) -> bool:
        """Link a record's file from a folder beside this one; return whether it is there."""
        if there.parent != self.folder.parent or not _FOLDER.fullmatch(there.name):
            return False
        id_ = each.record.id
        is_new = id_ not in self._linked
        self._linked[id_] = each.checksum
        try:
            os.link(there / id_, self.folder / id_)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            if is_new:
                self._linked.pop(id_, None)
            return not is_new and isinstance(error, FileExistsError)  # for a story that has the same beginning
        return True

    def _check_room(self, nbytes: int) -> None:
        """Raise OSError if the disk would be too full with so many bytes more."""
        if not self.is_asked and shutil.disk_usage(self.folder).free - nbytes < MIN_FREE:
            raise OSError(errno.ENOSPC, f"less than {MIN_FREE // 1024**3} GiB would be free on the disk")

    def _checksum(self, id_: str) -> int | None:
        known = self._index.checksum(id_)
        return self._linked.get(id_) if known is None else known

    def _take(self, story: str) -> list[tuple[Record, Tokens]]:
        """Return a story's records in other folders and those before them, whose files are here now."""
        taken: list[tuple[Record, Tokens]] = []
        for folder in self.folder.parent.glob(f"{self._model}*"):
            if folder == self.folder or not _FOLDER.fullmatch(folder.name):
                continue
            try:
                index = TextIndex(folder / "index", writes=False)
                there = {record.id: (record, tokens) for record, tokens in index.found}
                records = {id_: record for id_, (record, _) in there.items()}
                own = with_beginnings((each for each in records.values() if each.story == story), records)
                states = {id_: each for id_, each in records.items() if each.is_state and each.parent in own}
                for id_ in own | states:
                    if (checksum := index.checksum(id_)) is not None:
                        self._linked[id_] = checksum
                        with contextlib.suppress(FileExistsError):
                            os.link(folder / id_, self.folder / id_)
                        taken.append(there[id_])
            except OSError as error:  # it was removed just now, or the file system has no links
                log.info("%s: texts are not taken over: %s", folder, error.strerror)
        return taken

    def _keep(self, record: Record, tokens: Tokens) -> None:
        checksum = self._checksum(record.id)
        if self._index.is_open and not self._is_closing and checksum is not None:
            with contextlib.suppress(OSError):  # the next start does without it
                self._index.add(record, tokens, checksum)
                self._linked.pop(record.id, None)

    def _wipe(self) -> None:
        try:
            self._index.wipe()
        except OSError as error:  # it is tried again with the next change
            path = self.folder / "index"
            log.warning(
                "%s cannot be written anew, and has tokens of texts that were removed: %s", path, error.strerror
            )

    def _remove(self, id_: str) -> None:
        self._linked.pop(id_, None)
        self._unlink(id_)
        self._leaving.discard(id_)
        with contextlib.suppress(OSError):  # then the next start has it, and notices when it is read
            self._index.remove(id_)

    def _touch(self, id_: str) -> None:
        with contextlib.suppress(OSError):  # then it counts as used before
            self._index.use(id_)

    def _remove_strays(self) -> None:
        """Remove files without an entry, which a killed process has left."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name) and self._checksum(entry.name) is None:
                    self._unlink(entry.name)

    def _unlink(self, id_: str) -> None:
        try:
            (self.folder / id_).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self.folder / id_, error.strerror)


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
        if path.name != model and _FOLDER.fullmatch(path.name) and index.is_file():
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
