"""Limits per client: tokens of a request, open requests, requests per minute. All are off by default.

A client is a person with a name, an API key without one, or an address if there are no keys. All workers of a server count
together, in SQLite files in their shared folder; the files contain digests of clients only. If a file cannot be written,
requests pass and the log says so: limits fail open.
"""

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
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore

from srb.config.api_keys import ApiKey
from srb.errors import RateLimited, bad_field
from srb.web.loop.yielding import in_thread
from srb.wire.commands import KEY, Generate

log = logging.getLogger("srb.web")

CLIENT = "srb.client"  # key of a WSGI environ: the client, set by Access
PERSON = "srb.person"  # key of a WSGI environ: the name of the key that was sent, "" without one, set by Access
SENT_KEY = "srb.api_key"  # key of a WSGI environ: that key, an ApiKey, or NO_KEY; set by Access
NO_KEY = ApiKey("")

_SECOND = 10**9  # nanoseconds
_MINUTE = 60 * _SECOND
_MAX_BUCKETS = 10_000  # a few hundred KB on the disk, and more clients in a minute than a server of writers has
_LOCK_TIMEOUT = 1.0  # seconds to wait for another worker's statement, which takes µs
_CALLS_FILE = "calls.sqlite"


def cap_max_tokens(commands: Sequence[Generate], limit: int) -> list[Generate]:
    """Return the commands of one call, with at most `limit` tokens in all branches together; 0: no limit.

    A branch without max_tokens gets an equal share. Raise InvalidRequest if all branches together exceed the limit.
    """
    branches = [branch for command in commands for branch in command.branches]
    if not limit:
        return list(commands)
    if command := next((command for command in commands if command.explore), None):
        assert command.explore is not None
        most = command.explore.max_branches * max(branch.max_tokens for branch in branches)
        if most > limit:
            problem = f"may lead to {most} tokens (max_branches times depth); a request may have {limit}"
            raise bad_field("explore", problem)
        return list(commands)
    share = limit // len(branches)
    asked = sum(branch.max_tokens if branch.max_tokens >= 0 else share for branch in branches)
    if asked > limit or share == 0:
        problem = f"the branches of a request may have {limit} tokens together, but {len(branches)} have {asked}"
        raise bad_field("max_tokens", problem)
    return [
        replace(
            command,
            branches=tuple(replace(b, max_tokens=share) if b.max_tokens < 0 else b for b in command.branches),
        )
        for command in commands
    ]


class RateLimit:
    """A token bucket for each client, of `per_minute` requests, refilled at that rate.

    A bucket is stored as the time at which it will be full again. Beyond _MAX_BUCKETS clients the oldest buckets are
    deleted, so that addresses cannot fill the disk.
    """

    _SCHEMA = f"""
        CREATE TABLE IF NOT EXISTS bucket (client BLOB NOT NULL UNIQUE, full_at INTEGER NOT NULL);
        CREATE TRIGGER IF NOT EXISTS few AFTER INSERT ON bucket BEGIN
            DELETE FROM bucket WHERE rowid <= new.rowid - {_MAX_BUCKETS};
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
        """Share the counts with all processes that have the same `folder`; `clock`, in ns, is the same in all of them."""
        self._per_minute = per_minute
        self._step = _MINUTE // per_minute
        self._clock = clock
        self._table = Table(folder and folder / "rates.sqlite", self._SCHEMA)

    def take(self, client: str) -> None:
        """Count a request. Raise RateLimited, with the seconds until the next is allowed, if the bucket is empty."""
        now, name = self._clock(), _digest(client)
        if self._table.change(self._TAKE, client=name, now=now, step=self._step, minute=_MINUTE) == 0:
            full = [
                at for (at,) in self._table.select("SELECT full_at FROM bucket WHERE client = :client", client=name)
            ]
            wait = max(full, default=now) + self._step - now - _MINUTE
            raise RateLimited(f"More than {self._per_minute} requests per minute", max(1, -(-wait // _SECOND)))


class OpenLimit:
    """The number of open requests of each client: at most `limit`."""

    _SCHEMA = """
        CREATE TABLE IF NOT EXISTS call (id BLOB PRIMARY KEY, client BLOB NOT NULL, worker INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS call_client ON call (client);
    """
    _TAKE = """
        INSERT INTO call SELECT :id, :client, :worker WHERE (SELECT count(*) FROM call WHERE client = :client) < :limit
    """

    def __init__(self, limit: int = 0, folder: Path | None = None) -> None:
        """Share the counts with all processes that have the same `folder`; `limit` 0: none but those of keys."""
        self._limit = limit
        self._table = Table(folder and folder / _CALLS_FILE, self._SCHEMA)
        self._ended: list[bytes] = []  # ended calls that are still counted, since deleting their rows failed

    def of(self, key: ApiKey) -> int:
        """Return how many requests a key may have open: its own number or the server's, the smaller one; 0: any."""
        return min(filter(None, (self._limit, key.max_requests)), default=0)

    def take(self, client: str, key: ApiKey = NO_KEY) -> bytes | None:
        """Count a request; return its id for `give_back`, or None if it has no limit or could not be counted.

        Raise RateLimited if the client has as many requests open already as the key may have.
        """
        if not (limit := self.of(key)):
            return None
        self._give_back_ended()
        call = os.urandom(16)
        done = self._table.change(self._TAKE, id=call, client=_digest(client), worker=os.getpid(), limit=limit)
        if done == 0:
            raise RateLimited(f"More than {limit} requests open at once")
        return call if done else None

    def give_back(self, call: bytes) -> None:
        """Stop counting the request that `take` returned; if that fails, the next call tries again."""
        self._ended.append(call)
        self._give_back_ended()

    def _give_back_ended(self) -> None:
        while self._ended:
            call = self._ended.pop()  # before the wait, in which other calls end
            if self._table.change("DELETE FROM call WHERE id = :id", id=call) is None:
                self._ended.append(call)
                return


def give_back_calls(folder: Path, workers: Collection[int]) -> None:
    """Delete the open requests of all processes but `workers`: a killed worker could not give them back.

    Raise sqlite3.Error if that fails; the next call deletes them as well.
    """
    path = folder / _CALLS_FILE
    if path.exists():
        alive = ", ".join(str(int(pid)) for pid in workers)
        with closing(_connect(path)) as connection:
            connection.execute(f"DELETE FROM call WHERE worker NOT IN ({alive})")


def _digest(client: str) -> bytes:
    return hashlib.sha256(client.encode()).digest()


class Table:
    """An SQLite table in the file `path`, or in memory without one. Each statement is a transaction of its own.

    The first statement opens it: no connection crosses a fork, and limits that are off cost nothing. A file is used in
    a thread, by one statement after the other: it may wait for another worker and for the disk.
    """

    def __init__(self, path: Path | None, schema: str, *, is_durable: bool = False) -> None:
        """Keep the rows of a file; a crash of the machine may damage it unless it `is_durable`, which waits for the disk."""
        self._path = path
        self._schema = schema
        self._is_durable = is_durable
        self._connection: sqlite3.Connection | None = None
        self._fails = False
        self._turn = BoundedSemaphore(1)

    def change(self, statement: str, **values: object) -> int | None:
        """Execute a statement; return the number of changed rows, or None if it failed."""
        return self._in_turn(statement, values)[0]

    def select(self, query: str, **values: object) -> list[Any]:
        """Return the rows of a query, or none if it failed."""
        return self._in_turn(query, values)[1]

    def _in_turn(self, statement: str, values: dict[str, object]) -> tuple[int | None, list[Any]]:
        if self._path is None or gevent.getcurrent() is gevent.get_hub():  # the loop itself waits for no thread
            return self._execute(statement, values)
        with self._turn:
            return in_thread(self._execute, statement, values)

    def _execute(self, statement: str, values: dict[str, object]) -> tuple[int | None, list[Any]]:
        """Log an error when statements begin to fail, not at every request."""
        try:
            if self._connection is None:
                self._connection = _connect(self._path or ":memory:", self._schema, self._is_durable)
                weakref.finalize(self, self._connection.close)
            cursor = self._connection.execute(statement, values)
            done = cursor.rowcount, cursor.fetchall()
        except sqlite3.Error as error:
            if not self._fails:
                log.error("limits per client are suspended, since requests cannot be counted: %s", error)
            self._fails = True
            return None, []
        self._fails = False
        return done


def _connect(path: Path | str, schema: str = "", is_durable: bool = False) -> sqlite3.Connection:
    """Open a database that survives the kill of any process, and a crash of the machine if it `is_durable`.

    A write-ahead log would be faster (12 µs instead of 40), but processes that create one at the same time find it locked.
    """
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    synchronous = "FULL" if is_durable else "OFF"
    try:
        connection.executescript(f"PRAGMA synchronous = {synchronous}; PRAGMA journal_mode = PERSIST; {schema}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def client_of_key(key: ApiKey) -> str:
    """Return the client that a key makes: a name's, or its own by a digest.

    The key's place in the settings would be another key's after a reload, and with it the requests that still run.
    """
    return f"{KEY}@{key.name}" if key.name else f"{KEY}#{hashlib.sha256(key.key.encode()).hexdigest()[:32]}"
