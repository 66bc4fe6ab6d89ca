"""A backup in the place of the stories' file, which is kept beside it. Pages that are open meet another file, and say so."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from srb.errors import SRBError, StoriesDamaged, StoriesLocked
from srb.stories import audit
from srb.stories.soundness import SUFFIX
from srb.stories.store import Store

_BESIDE = ("-wal", "-shm", SUFFIX)  # files that belong to one of stories, after its name


def restore(path: Path, backup: Path) -> Path | None:
    """Check a backup and put it in the place of `path`; return the name that the file from there has now, None without one.

    Raise SRBError, or OSError, and change nothing if the backup is not sound, or a process has the file at `path` open.
    """
    scratch = path.with_name(f"{path.name}.{os.getpid()}.partial")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        Store(backup, checks=False).backup(scratch)
        _check(scratch, backup)
        if os.geteuid() == 0:  # root restores for the user of the service
            owner = (path if path.exists() else path.parent).stat()
            os.chown(scratch, owner.st_uid, owner.st_gid)
        with _nobody_has(path):
            kept = _set_aside(path)
            scratch.replace(path)
        return kept
    finally:
        for name in (scratch, *(_beside(scratch, suffix) for suffix in _BESIDE)):
            name.unlink(missing_ok=True)


def _check(copy: Path, backup: Path) -> None:
    """Raise StoriesDamaged for a copy of a backup in which anything is wrong, and bring it to this version's form."""
    with closing(Store(copy)) as store:
        try:
            found = next(audit.problems(store), "")
        except SRBError as error:
            found = error.message
    if found:
        raise StoriesDamaged(f"{backup} is damaged, and nothing was changed: {found}")


@contextlib.contextmanager
def _nobody_has(path: Path) -> Iterator[None]:
    """Leave the file at `path` complete in itself, and keep others from opening it within the block. Raise StoriesLocked."""
    if not path.exists():
        yield
        return
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")  # which SQLite refuses while another connection is open
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoriesLocked(f"a server has {path} open; stop it first, then restore") from None
            # Damaged, or of another program: no server has it open, and it is kept as it is.
        yield


def _set_aside(path: Path) -> Path | None:
    """Give the file a second name, and what SQLite left beside it that name alone; return it, None without a file."""
    kept = path.with_name(f"{path.stem}-before-{time.strftime('%Y-%m-%d-%H%M%S')}{path.suffix}")
    for suffix in _BESIDE:  # first: a log beside another file would be taken for its own
        if (found := _beside(path, suffix)).exists():
            found.replace(_beside(kept, suffix))
    if not path.exists():
        return None
    try:
        os.link(path, kept)  # so that there is a file at each moment: a server would make an empty one
    except OSError:  # a file system without links
        path.replace(kept)
    return kept


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
