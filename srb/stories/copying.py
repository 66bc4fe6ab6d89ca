"""Copies of all stories from one database to another, such as from a file to PostgreSQL and back: row by row, and at once.

The copy has the same stories, people and media, and the same sequence numbers under another name: pages that know the first
database read their stories anew from the second. A copy knows of what it is one, so that it can be brought up to date.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from srb.errors import InvalidRequest
from srb.stories.database import Connection, Place
from srb.stories.store import Store

_BYTES = 1024 * 1024  # of texts that are written at a time
_SWITCHES = ("has_pairs", "open", "writes")  # columns that are 0 and 1 in SQLite


@dataclass(frozen=True, slots=True)
class _Table:
    """A table's columns, the order of its rows, and how many of them are read at a time."""

    name: str
    columns: tuple[str, ...]
    order: str
    at_once: int = 200


# Each behind those that its rows belong to.
_TABLES = (
    _Table(
        "story",
        ("number", "id", "seq", "changed", "bytes", "nodes", "has_pairs", "deleted", "owner"),
        "number",
    ),
    _Table(
        "node",
        ("story", "id", "seq", "parent", "keep", "tail", "units", "length", "open", "changed", "json"),
        "rowid",
    ),
    _Table("meta", ("story", "key", "seq", "changed", "json"), "story, key"),
    _Table("run", ("story", "id", "seq", "changed", "json"), "rowid"),
    _Table("mark", ("story", "node", "key", "seq", "changed", "json"), "story, node, key"),
    _Table("medium", ("story", "id", "type", "bytes", "data"), "rowid", at_once=1),
    _Table("share", ("story", "name", "writes"), "story, name"),
)


_FACTS = (
    "SELECT number, id, seq, changed, deleted, owner FROM story ORDER BY number"  # one of them changes with the story
)
_PUT_ORIGIN = """
    INSERT INTO file (key, value) VALUES ('copy_of', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


@dataclass(frozen=True, slots=True)
class Copied:
    """How many stories a copy has written, and how many it has removed, since the source has them no more."""

    written: int
    removed: int


def copy_stories(source: Place, target: Place, *, update: bool = False) -> Copied:
    """Copy all stories or, with `update`, what has changed since the last copy; after an error, nothing is written.

    Raise InvalidRequest for a target that has stories, unless it is a copy of this source that may be updated.
    """
    with closing(Store(source)) as old, closing(Store(target)) as new, old.connection() as connection:
        reader = _Reader(connection)
        try:
            return _copy_into(new, reader, old.shown, update=update)
        except _CannotRead as failed:
            raise failed.error from None


class _CannotRead(Exception):
    """The source could not be read. The target must not take its error for one of its own, and tell that it is damaged."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Reader:
    """The source's rows."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name()
        self._connection = connection

    def stream(self, query: str, at_once: int, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.stream(query, at_once, values)
        except Exception as error:
            raise _CannotRead(error) from error


def _copy_into(new: Store, reader: _Reader, shown: str, *, update: bool) -> Copied:
    with new.writing() as writer:
        writer.begin_copy()
        if not writer.execute("SELECT 1 FROM story LIMIT 1").fetchone():
            copied = _copy_all(reader, writer)
        elif not update:
            raise InvalidRequest(f"{new.shown} has stories already; a copy is made where there are none, or updated")
        elif writer.execute("SELECT value FROM file WHERE key = 'copy_of'").fetchone() != (reader.name,):
            raise InvalidRequest(f"{new.shown} is no copy of {shown} as it is now; copy it to a new place")
        else:
            copied = _copy_changes(reader, writer)
        writer.execute(_PUT_ORIGIN, (reader.name,))
        writer.end_copy()
        return copied


def _copy_all(reader: _Reader, writer: Connection) -> Copied:
    for table in _TABLES:
        _copy(table, reader, writer)
    (written,) = writer.execute("SELECT count(*) FROM story").fetchone()
    return Copied(int(written), 0)


def _copy_changes(reader: _Reader, writer: Connection) -> Copied:
    theirs, ours = reader.stream(_FACTS, 1000), writer.stream(_FACTS, 1000)
    changed, gone = [], []
    new, old = next(theirs, None), next(ours, None)
    while new is not None or old is not None:
        if old is None or (new is not None and new[0] < old[0]):
            assert new is not None
            changed.append(new[0])
            new = next(theirs, None)
        elif new is None or old[0] < new[0]:
            gone.append(old[0])
            old = next(ours, None)
        else:
            if new != old:
                changed.append(new[0])
                gone.append(old[0])
            new, old = next(theirs, None), next(ours, None)
    writer.executemany("DELETE FROM story WHERE number = ?", [(number,) for number in gone])
    for number in changed:
        for table in _TABLES:
            _copy(table, reader, writer, number)
    return Copied(len(changed), len(set(gone) - set(changed)))


def _copy(table: _Table, reader: _Reader, writer: Connection, story: int | None = None) -> None:
    """Copy a table's rows, or those of one story."""
    columns = ", ".join(table.columns)
    of_one = "" if story is None else f"WHERE {table.columns[0]} = ?"  # the first column is the story's number
    query = f"SELECT {columns} FROM {table.name} {of_one} ORDER BY {table.order}"
    insert = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.columns))})"
    switches = [at for at, column in enumerate(table.columns) if column in _SWITCHES]
    for rows in _batches(reader.stream(query, table.at_once, () if story is None else (story,))):
        for row in rows:
            for at in switches:
                row[at] = bool(row[at])
        writer.executemany(insert, rows)


def _batches(rows: Iterable[Sequence[Any]]) -> Iterator[list[list[Any]]]:
    """Yield the rows in lists that have about _BYTES."""
    batch: list[list[Any]] = []
    size = 0
    for row in rows:
        batch.append(list(row))
        size += 100 + sum(len(value) for value in row if isinstance(value, str | bytes))
        if size > _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
