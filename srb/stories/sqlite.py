"""The SQLite file of the stories: opened, checked, and opened again when another file is in its place.

Every commit is on the disk when it returns, and so is what a process that may write reads: `write_ahead.py` syncs the log.
SQLite's errors become those of `srb.errors`, which say what happened to the file and what to do. A commit that could not be
synced is refused, and may be found later.
"""

import errno
import fcntl
import logging
import os
import resource
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from srb.atomic import write_atomically
from srb.errors import (
    SRBError,
    StoriesDamaged,
    StoriesFull,
    StoriesLocked,
    StoriesNewer,
    StoriesReadOnly,
    StoriesUnavailable,
)
from srb.reasons import reason_of, whose
from srb.stories import schema
from srb.stories.soundness import Soundness
from srb.stories.write_ahead import THREADS, Threads, WriteAheadLog

log = logging.getLogger("srb.stories")

BUSY_SECONDS = 5.0  # for the turn to write, and for a program that writes without one; then the post is refused
_STEP_MS = 3  # of these, for which SQLite sleeps at a time
_LOG_BYTES = 8 * 1024 * 1024  # of the write-ahead log that stay after a large transaction: none grows it anew
_CHECKED_AT_ONCE = 32 * 1024 * 1024  # bytes of a file: from a cold disk some 60 MB are read in a second
_BACKUP = "-backup"  # of an empty file beside the stories, whose time is that of their last backup
_NO_ROOM = 1024 * 1024  # bytes: with less on the disk, a failed write means that it is full

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_LACKS = ("no such table", "no such column", "table ")  # begin SQLite's errors about tables that are other ones
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class _Identity:
    """A file on the disk, apart from its name."""

    device: int
    inode: int


@contextmanager
def _one_state(connection: Connection) -> Iterator[None]:
    """Let all reads of the block see one state of the file, also while another process makes its tables."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


class FileConnection(Connection):
    """A connection to the file, where whoever writes is alone."""

    for_update = ""

    def stream(self, query: str, at_once: int, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        yield from self.execute(query, values)

    def hold(self, name: str) -> None:
        """Do nothing: no other transaction writes now."""

    def begin_copy(self) -> None:
        """Do nothing: SQLite has all the time."""

    def end_copy(self) -> None:
        """Do nothing: SQLite looks for the greatest number."""

    def name(self) -> str:
        return schema.name(self)

    def faults(self) -> Iterator[str]:
        for (line,) in self.execute("PRAGMA integrity_check(20)").fetchall():
            if line != "ok":
                yield str(line)
        for table, *_ in self.execute("PRAGMA foreign_key_check").fetchall():
            yield f"a row of the table {table} belongs to nothing"


class SQLite:
    """The file at `path`. One connection, so one thread at a time may use it; no connection survives a fork."""

    def __init__(
        self,
        path: Path,
        *,
        checks: bool = True,
        checks_later: bool = False,
        threads: Threads = THREADS,
    ) -> None:
        """Open nothing yet: the file is opened, and made if it is missing, at its first use.

        Without `checks` it is only read, also if it is damaged. With `checks_later` it is used at once, also if it is not
        known to be sound, and somebody calls `examine`. One of `threads` waits for other processes.
        """
        self._threads = threads
        self.path = self.place = path
        self.shown = str(path)
        self._checks = checks
        self._checks_later = checks_later
        self._is_unchecked = False  # the file is used, and is not known to be sound
        self._examining: FileConnection | None = None
        self._connection: FileConnection | None = None
        self._log: WriteAheadLog | None = None  # of a file that is written
        self._synced = -1  # SQLite's number of the state that is on the disk
        self._identity: _Identity | None = None
        self._writable = False
        self._is_full = False  # the last write failed for lack of room
        self._refused: tuple[tuple[_Identity | None, int], SRBError] | None = None  # a damaged file, and its time
        self._soundness = Soundness(path)

    def close(self) -> None:
        if self._connection is None:
            return
        if self._examining is not None:
            self._examining.interrupt()
        was_sound = self._writable and self._refused is None and not self._is_unchecked
        self._connection.close()
        self._connection = None
        if self._log is not None:
            self._log.close()
            self._log = None
        # SQLite's last close removes the log.
        is_last = self._on_disk() == self._identity and not self._path_of("-wal").exists()
        if was_sound and is_last:
            self._soundness.note_closed()

    @property
    def state(self) -> str:
        is_read_only = self._connection is not None and not self._writable
        if is_read_only or self._is_full:
            return "read_only" if is_read_only else "full"
        return "checking" if self._connection is not None and self._is_unchecked else "ok"

    @property
    def last_backup(self) -> float:
        """The Unix time of the last backup of this file; 0 if there was none."""
        try:
            return self._path_of(_BACKUP).stat().st_mtime
        except OSError:
            return 0.0

    @contextmanager
    def reading(self) -> Iterator[FileConnection]:
        """Give a connection that sees one state of the file. Raise the errors of this module."""
        with self._translated():
            connection = self._opened()
            connection.execute("BEGIN")
            try:
                (state,) = connection.execute("PRAGMA data_version").fetchone()  # grows with others' commits
                if state != self._synced:  # else a loss of power could take back what somebody has read
                    self._sync(connection)
                    self._synced = state
                yield connection
            finally:
                if self._connection is connection and connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[FileConnection]:
        """Give a connection whose changes are on the disk at the end, all of them or, after an exception, none."""
        with self._translated():
            if not self._writable and self._may_write():
                self.close()  # it has become writable since it was opened
            connection = self._opened()
            if not self._writable:
                closed = self.path.parent if os.access(self.path, os.W_OK) else self.path
                raise StoriesReadOnly(
                    f"{self.path} may only be read; stories can be read, and nothing is saved{whose(closed)}"
                )
            until = time.monotonic() + BUSY_SECONDS
            with self._turn():
                self._begin_writing(connection, until)
                try:
                    yield connection
                    (state,) = connection.execute("PRAGMA data_version").fetchone()  # which the sync below has, too
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            self._sync(connection)
            self._synced = state
            self._is_full = False
            if not self._is_unchecked:
                self._soundness.note_open()

    @staticmethod
    def _begin_writing(connection: Connection, until: float) -> None:
        """Wait for programs that write without a turn; one that reads first could not wait for another that writes.

        SQLite's own waiting sleeps for longer each time, so one that writes without a pause would always be first.
        """
        connection.execute(f"PRAGMA busy_timeout = {_STEP_MS}")
        try:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                        raise
        finally:
            connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS:.0f}")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        log = self._log
        if log is not None and not log.take(BUSY_SECONDS):
            raise self._locked()
        try:
            yield
        finally:
            if log is not None:
                log.leave()

    def _sync(self, connection: Connection) -> None:
        """Let all that is in the log be on the disk. Raise OSError."""
        if self._log is None:
            return
        try:
            self._log.sync()
        except OSError:
            # The system may take for written what it could not write; a checkpoint writes it anew, from memory. Each file
            # that is open is told of the failure once, so SQLite's own is, too.
            for _ in range(2):
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    break
            self.close()
            self._soundness.forget()
            raise

    def backup(self, target: Path) -> None:
        """Write a copy of the file as it is now, while others may write; raise FileExistsError if `target` exists."""
        with self._translated():
            connection = self._opened()
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with self._translated():
                connection.execute("VACUUM INTO ?", (str(target),))
            with closing(sqlite3.connect(target, isolation_level=None)) as copy:
                schema.name_anew(copy)  # clients that knew later numbers than the copy has must not trust theirs
        except BaseException:
            target.unlink()
            raise
        if self._checks:
            with suppress(OSError):  # the file may only be read: then its last backup is not known
                write_atomically(self._path_of(_BACKUP), b"")

    # Opening -----------------------------------------------------------------------------------------------------------

    def _opened(self) -> FileConnection:
        identity = self._on_disk()
        is_found_damaged = self._connection is not None and self._refused is not None  # by `examine`
        if self._connection is not None and identity == self._identity and not is_found_damaged:
            return self._connection
        self.close()  # the file was moved or replaced, or is damaged
        if is_found_damaged and self._refused is not None:
            self._refused = (identity, self._time()), self._refused[1]  # SQLite's last close has written it
        if self._refused is not None and self._checks:
            if self._refused[0] == (identity, self._time()):
                raise self._refused[1]
            self._refused = None
        try:
            self._open(new=identity is None)
        except (StoriesDamaged, StoriesNewer) as error:
            self._refused = (self._on_disk(), self._time()), error
            raise
        assert self._connection is not None
        return self._connection

    def _open(self, new: bool) -> None:
        if new:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        writable = self._may_write()
        log = None
        connection = self._connect("rw" if writable else "ro")
        try:
            self._check(connection, writable)
            connection.execute("PRAGMA foreign_keys = ON")
            if writable:
                log = self._prepare(connection)
                if not self._is_unchecked:
                    self._soundness.note_open()
            else:
                schema.stand_in(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity, self._writable = connection, self._on_disk(), writable
        self._log, self._synced = log, -1

    def _connect(self, mode: str) -> FileConnection:
        """Connect; in a folder that cannot be written, a file that was closed properly needs the mode `immutable`."""
        uri = self.path.absolute().as_uri() + f"?mode={mode}"
        connection = self._connect_uri(uri)
        if mode == "ro":
            try:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            except sqlite3.OperationalError:
                connection.close()
                log = self._path_of("-wal")
                if log.exists() and log.stat().st_size:
                    raise
                return self._connect_uri(uri + "&immutable=1")
        return connection

    @staticmethod
    def _connect_uri(uri: str) -> FileConnection:
        return sqlite3.connect(
            uri, BUSY_SECONDS, uri=True, isolation_level=None, check_same_thread=False, factory=FileConnection
        )

    def _check(self, connection: Connection, writable: bool) -> None:
        """Raise an error for a file that is damaged, of another program, or of a newer version than this one."""
        try:
            with _one_state(connection):
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                (application,) = connection.execute("PRAGMA application_id").fetchone()
                version = schema.version(connection)
                # With the version: another process that steps the file forward in between would make it look damaged.
                is_ours = tables and application == schema.APPLICATION and version <= len(schema.STEPS)
                difference = schema.difference(connection, version) if is_ours and self._checks else ""
            is_unknown = tables and writable and not self._soundness.is_known()
            self._is_unchecked = bool(is_unknown) and self._may_check_later(version)
            found = self._quick_check(connection) if is_unknown and not self._is_unchecked else "ok"
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            raise self._damaged(str(error)) from None
        if found != "ok":
            raise self._damaged(found)
        if tables and application != schema.APPLICATION:
            raise StoriesDamaged(
                f"{self.path} is a file of another program, not of SRB's stories; it was not changed. "
                "Name another file in the setting `stories`"
            )
        if version > len(schema.STEPS):
            raise StoriesNewer(
                f"{self.path} was written by a newer version of SRB (its stories have version {version}, this server "
                f"knows {len(schema.STEPS)}); it was neither read nor changed. Install that version, or name another "
                "file in the setting `stories`"
            )
        if version < schema.OLDEST_READ and not writable:
            raise StoriesReadOnly(f"{self.path} has stories of an older version, and may not be written")
        if difference:
            raise self._damaged(difference)

    def _may_check_later(self, version: int) -> bool:
        """Whether the file is used before its check: not if that takes no second, nor if the tables are stepped forward."""
        return self._checks_later and self._size("") > _CHECKED_AT_ONCE and version == len(schema.STEPS)

    def _quick_check(self, connection: Connection) -> str:
        """Return SQLite's word on all pages. Of several processes that start at once, the first one reads them."""
        with self._folder_locked():
            if self._soundness.is_known():
                return "ok"
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found == "ok":
                self._soundness.note_open()
            return str(found)

    def examine(self) -> None:
        """Read all pages of a file that is not known to be sound, in another thread than those that use it meanwhile.

        Raise StoriesDamaged, as all calls do after that.
        """
        if not self._is_unchecked or self._examining is not None:
            return
        identity = self._on_disk()
        with closing(self._connect("ro")) as connection:
            self._examining = connection
            try:
                found = self._quick_check(connection)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    return  # the file was closed
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                    raise
                found = str(error)
            finally:
                self._examining = None
        if identity != self._on_disk():
            return  # another file is in its place, which is opened by the next call
        self._is_unchecked = False
        if found != "ok":
            self._checks_later = False
            damaged = self._damaged(found)
            self._soundness.forget()
            self._refused = (identity, self._time()), damaged
            raise damaged

    def _prepare(self, connection: Connection) -> WriteAheadLog | None:
        """Make the tables, switch to the write-ahead log and return it; processes at once would find the file locked."""
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        is_ready = mode == "wal" and schema.version(connection) == len(schema.STEPS)
        with nullcontext() if is_ready else self._folder_locked():  # which a check holds for long
            before = schema.version(connection)
            schema.step_forward(connection)
            if 0 < before < len(schema.STEPS):
                log.info(
                    "stories: %s was brought from version %d to %d, and an older SRB refuses it from now on",
                    *(self.path, before, len(schema.STEPS)),
                )
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        if mode != "wal":
            return None  # a file system on which SQLite has none: it waits for others, and syncs, by itself
        connection.execute("PRAGMA synchronous = NORMAL")  # but its log is synced here, after the turn
        schema.version(connection)  # the first read makes the log
        return WriteAheadLog(os.path.realpath(self.path) + "-wal", self._threads)

    @contextmanager
    def _folder_locked(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _may_write(self) -> bool:
        return self._checks and os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _on_disk(self) -> _Identity | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return _Identity(found.st_dev, found.st_ino)

    def _time(self) -> int:
        try:
            return os.stat(self.path).st_mtime_ns
        except FileNotFoundError:
            return 0

    # Errors ------------------------------------------------------------------------------------------------------------

    def _damaged(self, problem: str) -> StoriesDamaged:
        return StoriesDamaged(
            f"{self.path} is damaged ({problem}); it is kept as it is, and nothing is read or saved. "
            "Move it away; then `srb stories import` reads what is whole in it, or in a backup, into a new file"
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors and the system's into those of srb.errors."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from error
        except OSError as error:
            raise self._system_error(error) from error

    def _error(self, error: sqlite3.Error) -> Exception:
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # SQLITE_ERROR is any fault of a statement. Ours are fixed, so the file's tables are not those they were written for.
        lacks = kind == sqlite3.SQLITE_ERROR and str(error).startswith(_LACKS)
        if lacks or kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            damaged = self._damaged(str(error))
            self._refused = (self._on_disk(), self._time()), damaged
            self.close()
            self._soundness.forget()
            return damaged
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._locked()
        if kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and self._has_no_room()):
            return self._full()
        if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            self.close()
            if kind == sqlite3.SQLITE_IOERR:
                self._soundness.forget()  # a disk that fails may have lost what it had taken
            if os.access(self.path, os.R_OK) and not os.access(self.path.parent, os.W_OK):
                return StoriesReadOnly(
                    f"{self.path} may only be read: its folder cannot be written{whose(self.path.parent)}"
                )
            denied = "" if os.access(self.path, os.R_OK) else whose(self.path)
            return StoriesUnavailable(f"{self.path} cannot be used: {error}{denied}")
        return error

    def _locked(self) -> StoriesLocked:
        return StoriesLocked(f"Another process has been writing into {self.path} for {BUSY_SECONDS:.0f} seconds")

    def _system_error(self, error: OSError) -> SRBError:
        reason = reason_of(error, self.path)
        if error.errno in _READ_ONLY:
            return StoriesReadOnly(f"{self.path} cannot be made or written: {reason}")
        if error.errno in _FULL:
            return self._full()
        return StoriesUnavailable(f"{self.path} cannot be used: {reason}")

    def _full(self) -> StoriesFull:
        self._is_full = True
        return StoriesFull(f"There is no room to save: the disk with {self.path} is full, or its quota is used up")

    def _has_no_room(self) -> bool:
        """Whether a write failed for lack of room: on the disk, or by the limit of a file's size."""
        try:
            disk = os.statvfs(self.path.parent)
            size = max(self._size(""), self._size("-wal"))
        except OSError:
            return False
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        beyond = limit != resource.RLIM_INFINITY and size + _NO_ROOM > limit
        return beyond or disk.f_bavail * disk.f_frsize < _NO_ROOM

    def _path_of(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _size(self, suffix: str) -> int:
        path = self._path_of(suffix)
        return path.stat().st_size if path.exists() else 0
