"""The tables of the stories' file, and the steps from each version of them to the next.

The version is SQLite's `user_version`: the number of steps that the file has been through.
"""

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from sqlite3 import Connection

APPLICATION = 0x53524273  # SQLite's `application_id` of a file of stories: "SRBs"


def _first(connection: Connection) -> None:
    """Make the tables. Every change of a story gets its next sequence number, and copies ask for what is above one.

    A node's JSON is stored once, with the numbers that checks of other nodes need, so that no check reads texts.
    """
    for statement in (
        "CREATE TABLE file (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE story (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, changed INTEGER NOT NULL,
            bytes INTEGER NOT NULL, nodes INTEGER NOT NULL, has_pairs INTEGER NOT NULL, deleted INTEGER)""",
        """CREATE TABLE node (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, id TEXT NOT NULL, seq INTEGER NOT NULL,
            parent TEXT, keep INTEGER NOT NULL, tail INTEGER, units INTEGER NOT NULL, length INTEGER NOT NULL,
            open INTEGER NOT NULL, changed INTEGER, json TEXT NOT NULL, UNIQUE (story, id),
            FOREIGN KEY (story, parent) REFERENCES node (story, id) DEFERRABLE INITIALLY DEFERRED)""",
        "CREATE INDEX node_seq ON node (story, seq)",
        "CREATE INDEX node_parent ON node (story, parent, keep, tail)",
        """CREATE TABLE meta (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, key TEXT NOT NULL, seq INTEGER NOT NULL,
            changed INTEGER NOT NULL, json TEXT NOT NULL, PRIMARY KEY (story, key)) WITHOUT ROWID""",
        """CREATE TABLE run (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, id TEXT NOT NULL, seq INTEGER NOT NULL,
            changed INTEGER NOT NULL, json TEXT NOT NULL, UNIQUE (story, id))""",
        "CREATE INDEX run_seq ON run (story, seq)",
        """CREATE TABLE mark (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, node TEXT NOT NULL, key TEXT NOT NULL,
            seq INTEGER NOT NULL, changed INTEGER NOT NULL, json TEXT NOT NULL, UNIQUE (story, node, key))""",
        "CREATE INDEX mark_seq ON mark (story, seq)",
    ):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    name_anew(connection)


def _second(connection: Connection) -> None:
    """Make the table of pictures and sounds. They never change, and a story's text names them, so they have no number."""
    connection.execute(
        """CREATE TABLE medium (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, id TEXT NOT NULL, type TEXT NOT NULL,
            bytes INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (story, id))"""
    )


def _third(connection: Connection) -> None:
    """Give each story the name of its owner, "" for those who have no name, and the names that it is shared with."""
    connection.execute("ALTER TABLE story ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
    connection.execute(
        """CREATE TABLE share (
            story INTEGER NOT NULL REFERENCES story ON DELETE CASCADE, name TEXT NOT NULL, writes INTEGER NOT NULL,
            PRIMARY KEY (story, name)) WITHOUT ROWID"""
    )


STEPS: tuple[Callable[[Connection], None], ...] = (_first, _second, _third)
OLDEST_READ = 1  # version of a file that is read without a step forward, since it may not be written


# They change nothing that a version says: a release before them uses the file as it is.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS story_owner ON story (owner, deleted)",
    "CREATE INDEX IF NOT EXISTS story_room ON story (owner, bytes, number)",
    "CREATE INDEX IF NOT EXISTS story_deleted ON story (deleted) WHERE deleted IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS share_name ON share (name, story, writes)",
)


def version(connection: Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def step_forward(connection: Connection) -> None:
    """Bring a file to the newest version, each step in a transaction of its own; another process may do the same."""
    while version(connection) < len(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            at = version(connection)
            if at < len(STEPS):
                STEPS[at](connection)
                connection.execute(f"PRAGMA user_version = {at + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    for index in INDEXES:
        connection.execute(index)


def difference(connection: Connection, at: int) -> str:
    """Return in what a file's tables are not those of the version that it names; empty if they are the same.

    Its `user_version` says only which steps a file has been through, by whatever program and release.
    """
    expected, found = _columns_of(STEPS[:at]), _columns(connection)
    for table, columns in expected.items():
        if table not in found:
            return f"it has no table {table}"
        for column, declared in columns.items():
            if column not in found[table]:
                return f"its table {table} has no column {column}"
            if found[table][column] != declared:
                return f"the column {column} of its table {table} is {found[table][column]}, not {declared}"
        if unknown := min(found[table].keys() - columns.keys(), default=None):
            return f"its table {table} has an unknown column {unknown}"
    return ""


@cache
def _columns_of(steps: tuple[Callable[[Connection], None], ...]) -> dict[str, dict[str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for step in steps:
            step(made)
        return _columns(made)


def _columns(connection: Connection) -> dict[str, dict[str, str]]:
    """Return the declared type of each column, by table."""
    query = """
        SELECT entry.name, info.name, info.type || iif(info."notnull", ' NOT NULL', '')
        FROM sqlite_schema AS entry, pragma_table_info(entry.name) AS info WHERE entry.type = 'table'
    """
    columns: dict[str, dict[str, str]] = {}
    for table, column, declared in connection.execute(query):
        columns.setdefault(table, {})[column] = declared
    return columns


def stand_in(connection: Connection) -> None:
    """Give a connection that reads an older file the tables that the file lacks: empty, in memory, its own."""
    at = version(connection)
    if at < len(STEPS):
        connection.execute("PRAGMA temp_store = MEMORY")
    if at < 2:
        connection.execute("CREATE TEMP TABLE medium (story, id, type, bytes, data)")
    if at < 3:
        connection.execute("CREATE TEMP VIEW story AS SELECT *, '' AS owner FROM main.story")
        connection.execute("CREATE TEMP TABLE share (story, name, writes)")


def name_anew(connection: Connection) -> None:
    """Give the file an id of its own, by which clients see that their sequence numbers are of another file."""
    connection.execute("REPLACE INTO file VALUES ('id', ?)", (secrets.token_hex(8),))
    connection.execute("DELETE FROM file WHERE key = 'copy_of'")  # what is restored goes its own way


def name(connection: Connection) -> str:
    (found,) = connection.execute("SELECT value FROM file WHERE key = 'id'").fetchone()
    return str(found)
