"""The database of the stories as the store sees it: an SQLite file, or a PostgreSQL database that several machines share.

Statements are written once, in what both understand: `?` or `:name` stands for a value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from srb.errors import ConfigError
from srb.stories.sqlite import SQLite
from srb.stories.write_ahead import THREADS, Threads

if TYPE_CHECKING:
    from srb.stories.postgresql import PostgreSQL

Place = Path | str  # of all stories: a file, or the address of a PostgreSQL database


class Cursor(Protocol):
    """The rows that a statement has found."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement has changed."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One transaction."""

    @property
    def for_update(self) -> str:
        """The end of a query for a row that this transaction may change: others that may do so wait for it there."""

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> Cursor: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...

    def stream(self, query: str, at_once: int, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, of which about `at_once` are in memory."""

    def hold(self, name: str) -> None:
        """Keep other transactions that hold this name waiting until the end of this one."""

    def begin_copy(self) -> None:
        """Take the rows of another database, however long that takes; other copies wait."""

    def end_copy(self) -> None:
        """Let the next story have a number above those that came with theirs."""

    def name(self) -> str:
        """Return the id by which clients see whose sequence numbers they know; a copy and a restored backup have another."""

    def faults(self) -> Iterator[str]:
        """Yield a sentence for everything that the database itself finds wrong."""


class Database(Protocol):
    """All stories of one place. One thread at a time may use it; no connection survives a fork."""

    @property
    def place(self) -> Place: ...

    @property
    def shown(self) -> str:
        """The place, as messages tell it: without a password."""

    @property
    def state(self) -> str:
        """One word: `ok`, `full` if the last write failed for lack of room, `read_only`, or `checking`: see `examine`."""

    @property
    def last_backup(self) -> float | None:
        """The Unix time of the last backup; 0 if there was none, None if others make them, or there is nothing yet."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Give a connection that sees one state of the stories. Raise errors of `srb.errors`."""

    def writing(self) -> AbstractContextManager[Connection]:
        """Give a connection whose changes are on the disk at the end, all of them or, after an exception, none.

        After the disk's own failure it is not known whether they are.
        """

    def backup(self, target: Path) -> None:
        """Write a copy of all stories, while others may write; raise FileExistsError if `target` exists."""

    def examine(self) -> None:
        """Look for damage while the stories are used, in a thread of its own; it may take a minute. Raise StoriesDamaged."""

    def close(self) -> None: ...


def database_of(
    place: Place, *, checks: bool = True, checks_later: bool = False, threads: Threads = THREADS
) -> Database:
    """Return the database at a place, which opens nothing yet. Raise the errors of `postgresql_of`.

    Without `checks` a file is only read, also if it is damaged. With `checks_later` it is used before its pages are checked.
    One of `threads` waits for other processes that write.
    """
    if isinstance(place, Path):
        return SQLite(place, checks=checks, checks_later=checks_later, threads=threads)
    return postgresql_of(place)


def postgresql_of(address: str) -> "PostgreSQL":
    """Return the database at an address. Raise ConfigError if the address cannot be read, or a package is missing."""
    try:
        from srb.stories.postgresql import PostgreSQL  # a tenth of a second, and the package of an extra
    except ImportError as error:
        message = f"stories: PostgreSQL needs a package: pip install 'llama-srb[postgresql]' ({error})"
        raise ConfigError(message) from error
    return PostgreSQL(address)
