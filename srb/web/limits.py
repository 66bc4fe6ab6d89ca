"""How much one client may ask for: tokens of a request, requests at once, requests a minute. All of it is off by default.

A client is a key, or where there are none an address. All workers of a server count together, in SQLite files of the
folder that they share; only digests of clients are in them. What cannot be counted (the disk is full) is let pass and
said in the log: limits keep a server fair, and one that refuses everybody is not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from srb.errors import RateLimited, bad_field
from srb.protocol import Generate

log = logging.getLogger("srb.web")

CLIENT = "srb.client"  # key of a WSGI environ: who asks, as Access found

_SECOND = 10**9  # nanoseconds
_MINUTE = 60 * _SECOND
_MOST_BUCKETS = 10_000
_PATIENCE = 1.0  # seconds to wait for another worker's statement, which takes microseconds; all of this worker waits
_CALLS_FILE = "calls.sqlite"


def within(commands: Sequence[Generate], most: int) -> list[Generate]:
    """Return the commands of one call, whose branches together may have `most` tokens; 0: any number.

    Branches without a limit get an equal share. Raise InvalidRequest where those with one have more than there is.
    """
    branches = [branch for command in commands for branch in command.branches]
    if not most:
        return list(commands)
    share = most // len(branches)
    asked = sum(branch.max_tokens if branch.max_tokens >= 0 else share for branch in branches)
    if asked > most or share == 0:
        limit = f"all branches of a request may have {most} tokens together, but got {len(branches)} with {asked}"
        raise bad_field("max_tokens", limit)
    return [
        replace(
            command,
            branches=tuple(replace(b, max_tokens=share) if b.max_tokens < 0 else b for b in command.branches),
        )
        for command in commands
    ]


class RateLimit:
    """A token bucket for each client: `per_minute` requests at once, and as many more each minute.

    What is kept of a bucket is the time at which it will be full again. Of more than _MOST_BUCKETS clients the first are
    forgotten: nobody may fill the disk with addresses.
    """

    _SCHEMA = f"""
        CREATE TABLE IF NOT EXISTS bucket (client BLOB NOT NULL UNIQUE, full_at INTEGER NOT NULL);
        CREATE TRIGGER IF NOT EXISTS few AFTER INSERT ON bucket BEGIN
            DELETE FROM bucket WHERE rowid <= new.rowid - {_MOST_BUCKETS};
        END;
    """
    _TAKE = """
        INSERT INTO bucket VALUES (:client, :now + :step)
        ON CONFLICT (client) DO UPDATE SET full_at = max(full_at, :now) + :step
        WHERE max(full_at, :now) + :step <= :now + :minute
    """

    def __init__(
        self, per_minute: int, folder: Path | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Count together with all who have the same `folder`, on whose machine `clock` (in ns) is the same for all."""
        self._most = per_minute
        self._step = _MINUTE // per_minute
        self._clock = clock
        self._table = _Table(folder and folder / "rates.sqlite", self._SCHEMA)

    def take(self, client: str) -> None:
        """Count a request. Raise RateLimited, with the seconds until the next one, where there were too many."""
        now, name = self._clock(), _digest(client)
        if self._table.change(self._TAKE, client=name, now=now, step=self._step, minute=_MINUTE) == 0:
            full = [at for (at,) in self._table.look("SELECT full_at FROM bucket WHERE client = :client", client=name)]
            wait = max(full, default=now) + self._step - now - _MINUTE
            raise RateLimited(f"More than {self._most} requests a minute", max(1, -(-wait // _SECOND)))


class OpenLimit:
    """How many requests each client has open at once: at most `most`."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS call (id BLOB PRIMARY KEY, client BLOB NOT NULL, worker INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS call_client ON call (client);
    """
    _TAKE = """
        INSERT INTO call SELECT :id, :client, :worker WHERE (SELECT count(*) FROM call WHERE client = :client) < :most
    """

    def __init__(self, most: int, folder: Path | None = None) -> None:
        """Count together with all who have the same `folder`."""
        self._most = most
        self._table = _Table(folder and folder / _CALLS_FILE, self._SCHEMA)
        self._ended: list[bytes] = []  # calls that are still counted: giving them back has failed so far

    def take(self, client: str) -> bytes | None:
        """Count a request and return what to give back at its end, None where it could not be counted.

        Raise RateLimited where there are too many.
        """
        self._give_back_ended()
        call = os.urandom(16)
        done = self._table.change(self._TAKE, id=call, client=_digest(client), worker=os.getpid(), most=self._most)
        if done == 0:
            raise RateLimited(f"More than {self._most} requests at once")
        return call if done else None

    def give_back(self, call: bytes) -> None:
        """Count no more what `take` returned; where that fails, the next call tries again."""
        self._ended.append(call)
        self._give_back_ended()

    def _give_back_ended(self) -> None:
        while self._ended and self._table.change("DELETE FROM call WHERE id = :id", id=self._ended[-1]) is not None:
            self._ended.pop()


def give_back_calls(folder: Path, workers: Collection[int]) -> None:
    """Forget the open requests of all processes but `workers`: a worker that was killed gives nothing back.

    Raise sqlite3.Error where that fails; the next time forgets them too.
    """
    path = folder / _CALLS_FILE
    if path.exists():
        alive = ", ".join(str(int(pid)) for pid in workers)
        with closing(_connect(path)) as connection:
            connection.execute(f"DELETE FROM call WHERE worker NOT IN ({alive})")


def _digest(client: str) -> bytes:
    return hashlib.sha256(client.encode()).digest()


class _Table:
    """A table in a file, or without a `path` in this process's memory. Each statement is a transaction of its own.

    It is opened by the first statement: no connection crosses a fork, and limits that are off cost nothing.
    """

    def __init__(self, path: Path | None, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._connection: sqlite3.Connection | None = None
        self._fails = False

    def change(self, statement: str, **values: object) -> int | None:
        """Return how many rows a statement has changed, or None where it failed."""
        return self._execute(statement, values)[0]

    def look(self, query: str, **values: object) -> list[tuple[int]]:
        """Return the rows that a query finds, or none where it failed."""
        return self._execute(query, values)[1]

    def _execute(self, statement: str, values: dict[str, object]) -> tuple[int | None, list[tuple[int]]]:
        """Say in the log when it begins to fail, not at every request."""
        try:
            if self._connection is None:
                self._connection = _connect(self._path or ":memory:", self._schema)
                weakref.finalize(self, self._connection.close)
            cursor = self._connection.execute(statement, values)
            done = cursor.rowcount, cursor.fetchall()
        except sqlite3.Error as error:
            if not self._fails:
                log.error("requests cannot be counted, and so pass the limits for one client: %s", error)
            self._fails = True
            return None, []
        self._fails = False
        return done


def _connect(path: Path | str, schema: str = "") -> sqlite3.Connection:
    """Open a database that outlives the kill of any process, but need not outlive the machine.

    A write-ahead log is faster (12 µs for 40), but of processes that begin one at the same time some find it locked.
    """
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.executescript(f"PRAGMA synchronous = OFF; PRAGMA journal_mode = PERSIST; {schema}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
