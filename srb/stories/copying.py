"""Copies of all stories from one database to another, such as from a file to PostgreSQL and back: row by row, and at once.

The copy has the same stories, people and media, and the same sequence numbers under another name: pages that know the first
database read their stories anew from the second.
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


def copy_stories(source: Place, target: Place) -> int:
    """Copy all stories, or after an error none; return their number. Raise InvalidRequest for a target that has stories."""
    with (
        closing(Store(source)) as old,
        closing(Store(target)) as new,
        old.connection() as reader,
        new.writing() as writer,
    ):
        writer.begin_copy()
        if writer.execute("SELECT 1 FROM story LIMIT 1").fetchone():
            raise InvalidRequest(f"{new.shown} has stories already; a copy is made where there are none")
        for table in _TABLES:
            _copy(table, reader, writer)
        writer.end_copy()
        (copied,) = writer.execute("SELECT count(*) FROM story").fetchone()
        return int(copied)


def _copy(table: _Table, reader: Connection, writer: Connection) -> None:
    columns = ", ".join(table.columns)
    insert = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.columns))})"
    switches = [at for at, column in enumerate(table.columns) if column in _SWITCHES]
    for rows in _batches(reader.stream(f"SELECT {columns} FROM {table.name} ORDER BY {table.order}", table.at_once)):
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
