"""The files of a folder of named states, which several engines may share, also on several machines.

A file is written beside the one of its name, and replaces it in one step while the folder's lock is held; a text that was
saved later is never replaced by an earlier one. The lock's file counts the changes, so that an engine notices
those of others: the folder's time is too coarse for that. File systems that have no locks are used without.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from srb.atomic import NO_LOCKS, private
from srb.files.text_entry import StateError, read_header

log = logging.getLogger("srb.states")

SUFFIX = ".srbstate"
_PARTIAL = ".partial"
_PARTIAL_NAME = re.compile(r".+\.[0-9a-f]{12}\.partial")  # of `_create_partial`, and of nobody else
_LOCK = ".lock"
_DIGITS = 20  # of the number of changes: as many as 64 bits have
_OLD_SECONDS = 3600.0  # a partial file unwritten for so long is nobody's, where there are no locks
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)  # fsync of a folder, on some network file systems


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A state's file: its size, the number of its save, and whether no client asked for it."""

    size: int
    saved: int
    is_automatic: bool
    inode: int = 0  # of the file when it was read; 0: not known


def entry_of(path: Path) -> StateEntry | None:
    """Return the facts of a file; None if there is none. A file that is not a state of ours is never removed."""
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            try:
                header = read_header(file)
            except StateError:
                return StateEntry(facts.st_size, 0, is_automatic=False, inode=facts.st_ino)
    except FileNotFoundError:
        return None
    return StateEntry(facts.st_size, header["saved"], header["automatic"], facts.st_ino)


def scan(folder: Path, known: Mapping[str, StateEntry] | None = None) -> dict[str, StateEntry]:
    """Return the states of a folder by name, least recently used first.

    Of the files that are `known`, those are not read again whose inode and size are the same.
    """
    known = known or {}
    found: list[tuple[float, str, StateEntry]] = []
    for path in folder.glob(f"*{SUFFIX}"):
        name = path.name.removesuffix(SUFFIX)
        try:
            facts, entry = path.stat(), known.get(name)
            if entry is None or (entry.inode, entry.size) != (facts.st_ino, facts.st_size):
                entry = entry_of(path)
        except OSError as error:
            log.warning("state %s is not counted: %s", path, error)
            continue
        if entry is not None:
            found.append((facts.st_mtime, name, entry))
    return {name: entry for _, name, entry in sorted(found, key=lambda each: each[:2])}


def remove_partial_files(folder: Path) -> None:
    """Remove what interrupted writes have left, and nothing that another engine or another program is writing.

    A partial file that cannot be opened stays, and the log says so: the folder can be used all the same.
    """
    for path in folder.glob(f"*{_PARTIAL}"):
        if not _PARTIAL_NAME.fullmatch(path.name) or not path.is_file():
            continue
        try:
            with path.open("r+b") as file:
                is_free = _try_lock(file)
                if is_free is None:
                    is_free = time.time() - path.stat().st_mtime > _OLD_SECONDS
                if is_free:
                    remove(path)
        except FileNotFoundError:
            continue  # another engine has removed it
        except OSError as error:
            log.warning("%s cannot be removed: %s", path, error)


def install(path: Path, data: bytes, saved: int) -> bool:
    """Write a state's file that another engine has made; return whether it is the latest."""
    return replace(path, saved, lambda file: file.write(data)) is not None


def replace(path: Path, saved: int, fill: Callable[[BinaryIO], object]) -> int | None:
    """Write a state's file with `fill` and fsync it; return the number of changes of the folder before this one.

    If a later save was there first, nothing is changed, and None is returned. Raise OSError; then an older file is
    unchanged.
    """
    partial, file = _create_partial(path)
    try:
        with file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())  # before the name, which must not lead to half a file, and before the lock
            with _locked(path.parent) as lock:
                entry = entry_of(path)
                if entry is not None and entry.saved > saved:
                    remove(partial)
                    return None
                os.replace(partial, path)
                changes = _count_change(lock)
    except BaseException:
        remove(partial)
        raise
    _sync(path.parent)
    return changes


def remove_automatic(path: Path) -> int | StateEntry:
    """Remove a state that no client has asked for; return the number of changes of the folder before this one.

    If a client has asked for it meanwhile, it stays, and its facts are returned. Raise OSError.
    """
    with _locked(path.parent) as lock:
        entry = entry_of(path)
        if entry is not None and not entry.is_automatic:
            return entry
        remove(path)
        return _count_change(lock)


def changes_of(folder: Path) -> int:
    """Return how often files of a folder were replaced or removed, by whichever engine."""
    try:
        with (folder / _LOCK).open("rb") as lock:
            return _changes(lock)
    except FileNotFoundError:
        return 0


def _changes(lock: BinaryIO) -> int:
    text = lock.read(_DIGITS)
    return int(text) if text.isdigit() else 0


def _count_change(lock: BinaryIO) -> int:
    """Count a change; return how many there were before."""
    changes = _changes(lock)
    lock.seek(0)
    lock.write(b"%d" % (changes + 1))
    lock.flush()
    return changes


def remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)


def _create_partial(path: Path) -> tuple[Path, BinaryIO]:
    """Create the file that becomes `path`, under a name of its own and locked as long as it is open."""
    while True:
        partial = path.with_name(f"{path.name.removesuffix(SUFFIX)}.{uuid4().hex[:12]}{_PARTIAL}")
        file = open(partial, "xb", opener=private)  # noqa: SIM115 the caller closes it
        if _try_lock(file) is not False and partial.exists():  # else an engine that has just started removes it
            return partial, file
        file.close()


def _try_lock(file: BinaryIO) -> bool | None:
    """Lock a file without waiting; return False if another has it, None if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return None
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[BinaryIO]:
    """Hold the folder's lock, and give its file; replacing a file takes no longer than a moment."""
    with open(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield file  # closing the file frees the lock


def _sync(folder: Path) -> None:
    """Let a new name reach the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)
