"""The rows of a story: read and written one by one, so that a post costs what it brings and not what the story has."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from sqlite3 import Connection
from typing import Any

import orjson

from srb.errors import NotFound, StoryTooLarge
from srb.stories.files import StoredStory
from srb.stories.limits import MAX_MEDIA, MAX_NODES, MAX_STORY, NEARLY_FULL
from srb.stories.media import Medium
from srb.stories.merge import Entry, Keep, Write, decide
from srb.stories.nodes import Node
from srb.stories.parts import Part
from srb.stories.places import Children, Place, Refusal

FULL = "full"  # reason of a node's refusal
_ROW_BYTES = 150  # counted for each stored node, value, run and mark besides its texts: keys and times in a file

_GET_NODE = "SELECT json, changed FROM node WHERE story = ? AND id = ?"
_GET_PLACE = "SELECT parent, keep, tail, units, length, open FROM node WHERE story = ? AND id = ?"
_CHILDREN = "SELECT max(keep), count(tail) FROM node WHERE story = ? AND parent = ?"
_PUT_NODE = """
    INSERT INTO node (story, id, seq, parent, keep, tail, units, length, open, changed, json)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (story, id) DO UPDATE SET seq = excluded.seq, keep = excluded.keep, tail = excluded.tail,
        units = excluded.units, length = excluded.length, open = excluded.open, changed = excluded.changed,
        json = excluded.json
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """A node of a post that was not stored, and why."""

    node: str
    reason: str
    message: str


@dataclass(slots=True)
class StoryRow:
    """A story's row, and what a post has changed of it."""

    number: int
    id: str
    seq: int
    changed: int
    bytes: int
    nodes: int
    has_pairs: bool
    deleted: int | None
    is_new: bool = False
    is_limited: bool = True  # an import by the command may exceed the limits of a story
    touched: bool = False
    grown: int = 0  # bytes since it was read
    refused: list[Refused] = field(default_factory=list)
    # Names of what is stored otherwise than it was posted.
    nodes_differ: list[str] = field(default_factory=list)
    meta_differ: list[str] = field(default_factory=list)
    runs_differ: list[str] = field(default_factory=list)
    marks_differ: list[tuple[str, str]] = field(default_factory=list)

    @property
    def next_seq(self) -> int:
        """The sequence number of everything that a post changes."""
        return self.seq + 1

    def head(self, server: str) -> dict[str, Any]:
        """Return the keys with which every answer about a story begins."""
        head: dict[str, Any] = {"id": self.id, "server": server, "seq": self.seq}
        if self.deleted is not None:
            head["deleted"] = self.deleted
        used = max(100 * self.nodes // MAX_NODES, 100 * self.bytes // MAX_STORY)
        if used >= NEARLY_FULL:
            left = {"nodes": max(0, MAX_NODES - self.nodes), "bytes": max(0, MAX_STORY - self.bytes)}
            head["room"] = {"used": used, **left}
        return head

    def note(self, grown: int) -> None:
        """Note a change that makes the story `grown` bytes larger."""
        self.touched = True
        self.bytes += grown
        self.grown += grown

    def save(self, connection: Connection, changed: int) -> None:
        """Write the row with its next sequence number, after all that has that number.

        Raise StoryTooLarge if it has grown beyond the limit. One that the command has brought in may be beyond it.
        """
        if self.is_limited and self.grown > 0 and self.bytes > MAX_STORY:
            message = f"The story would take {self.bytes} bytes; a story may take {MAX_STORY}"
            raise StoryTooLarge(message, param="nodes")
        self.seq, self.changed = self.next_seq, changed
        connection.execute(
            "UPDATE story SET seq = ?, changed = ?, bytes = ?, nodes = ?, has_pairs = ?, deleted = ? WHERE number = ?",
            (self.seq, self.changed, self.bytes, self.nodes, self.has_pairs, self.deleted, self.number),
        )

    def discard(self, connection: Connection) -> None:
        """Remove the row of a new story that nothing was stored of."""
        connection.execute("DELETE FROM story WHERE number = ?", (self.number,))


class _StoredNodes:
    """The stored nodes of one story, read one by one."""

    def __init__(self, connection: Connection, row: StoryRow) -> None:
        self._connection = connection
        self._row = row
        self._story = row.number

    @property
    def has_pairs(self) -> bool:
        return self._row.has_pairs

    def place(self, name: str) -> Place | None:
        found = self._connection.execute(_GET_PLACE, (self._story, name)).fetchone()
        if found is None:
            return None
        parent, keep, tail, units, length, is_open = found
        return Place(parent, keep, tail, units, length, bool(is_open))

    def node(self, name: str) -> Node:
        text, changed = self._connection.execute(_GET_NODE, (self._story, name)).fetchone()
        return replace(Node.of(orjson.loads(text)), changed=changed)

    def children(self, name: str) -> Children | None:
        most_kept, tails = self._connection.execute(_CHILDREN, (self._story, name)).fetchone()
        return None if most_kept is None else Children(most_kept, tails > 0)


# Rows -----------------------------------------------------------------------------------------------------------------


def find_story(connection: Connection, story: str) -> StoryRow:
    query = "SELECT number, id, seq, changed, bytes, nodes, has_pairs, deleted FROM story WHERE id = ?"
    found = connection.execute(query, (story,)).fetchone()
    if found is None:
        raise NotFound("There is no such story")
    return StoryRow(*found)


def find_or_make(connection: Connection, story: str, now: int) -> StoryRow:
    made = connection.execute(
        "INSERT INTO story (id, seq, changed, bytes, nodes, has_pairs) VALUES (?, 0, ?, 0, 0, 0) ON CONFLICT DO NOTHING",
        (story, now),
    )
    row = find_story(connection, story)
    row.is_new = made.rowcount == 1
    return row


def merge(connection: Connection, row: StoryRow, part: Part) -> None:
    """Store a part of a story. Nodes that cannot be stored are `refused`: also those that a full story has no room for."""
    shelf = _StoredNodes(connection, row)
    most = MAX_NODES if row.is_limited else sys.maxsize
    beyond: set[str] = set()  # nodes for which there is no room, and those that stand on them
    for name, node in part.nodes.items():
        decided = decide(name, node, shelf)
        is_new = row.nodes >= most and isinstance(decided, Write) and shelf.place(name) is None
        if is_new or node.parent in beyond:
            beyond.add(name)
            decided = Refusal(
                FULL, f"the story has {row.nodes:,} nodes, the most that one may have; go on in a new story"
            )
        match decided:
            case Refusal(reason, message):
                row.refused.append(Refused(name, reason, message))
                row.nodes_differ.append(name)
            case Keep(differs):
                if differs:
                    row.nodes_differ.append(name)
            case Write(node, place):
                _put_node(connection, row, name, node, place)
    for key, entry in part.meta.items():
        if not _put_entry(connection, row, "meta", {"key": key}, entry):
            row.meta_differ.append(key)
    for name, entry in part.runs.items():
        if not _put_entry(connection, row, "run", {"id": name}, entry):
            row.runs_differ.append(name)
    for (node_name, key), entry in part.marks.items():
        if not _put_entry(connection, row, "mark", {"node": node_name, "key": key}, entry):
            row.marks_differ.append((node_name, key))
    for medium in part.media.values():
        put_medium(connection, row, medium)


def _put_node(connection: Connection, row: StoryRow, name: str, node: Node, place: Place) -> None:
    """Store a node; the time of a closed one stays that of its last open version, to know late ones by."""
    old = connection.execute(_GET_NODE, (row.number, name)).fetchone()
    times = [changed for changed in (node.changed, old and old[1]) if changed is not None]
    connection.execute(
        _PUT_NODE,
        (row.number, name, row.next_seq, place.parent, place.keep, place.tail, place.units, place.length, node.open,
         max(times, default=None), node.json),
    )  # fmt: skip
    row.note(len(node.json.encode()) - (len(old[0].encode()) if old else -_ROW_BYTES))
    row.nodes += old is None
    row.has_pairs = row.has_pairs or place.units != len(node.text)


def _put_entry(connection: Connection, row: StoryRow, table: str, names: dict[str, str], entry: Entry) -> bool:
    """Store an entry unless a stored one stays; return whether what is stored is now equal to it."""
    where = " AND ".join(f"{column} = ?" for column in names)
    keys = (row.number, *names.values())
    found = connection.execute(f"SELECT json, changed FROM {table} WHERE story = ? AND {where}", keys).fetchone()
    old = found and Entry(*found)
    if not entry.replaces(old):
        return entry == old
    columns = ", ".join(("story", *names))
    connection.execute(
        f"REPLACE INTO {table} ({columns}, seq, changed, json) VALUES ({'?, ' * len(keys)}?, ?, ?)",
        (*keys, row.next_seq, entry.changed, entry.json),
    )
    row.note(len(entry.json.encode()) - (len(old.json.encode()) if old else -_ROW_BYTES))
    return True


def put_medium(connection: Connection, row: StoryRow, medium: Medium) -> None:
    """Store a medium unless the story has it. Raise StoryTooLarge if its media would exceed their limit."""
    size = _base64_length(len(medium.data))
    made = connection.execute(
        "INSERT INTO medium (story, id, type, bytes, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (row.number, medium.id, medium.type, size, medium.data),
    )
    if not made.rowcount:
        return
    (total,) = connection.execute("SELECT sum(bytes) FROM medium WHERE story = ?", (row.number,)).fetchone()
    if row.is_limited and total > MAX_MEDIA:
        message = f"The story's pictures and sounds would take {total} bytes as base64; they may take {MAX_MEDIA}"
        raise StoryTooLarge(message, param="media")
    row.note(size + _ROW_BYTES)


def find_medium(connection: Connection, row: StoryRow, name: str) -> Medium:
    found = connection.execute(
        "SELECT type, data FROM medium WHERE story = ? AND id = ?", (row.number, name)
    ).fetchone()
    if found is None:
        raise NotFound("The story has no such picture or sound")
    return Medium(*found)


def _base64_length(size: int) -> int:
    return (size + 2) // 3 * 4


# JSON -----------------------------------------------------------------------------------------------------------------


def raw(text: str) -> Any:
    """Return a stored JSON text as a value for orjson, which writes it as it is."""
    return orjson.Fragment(text)


def above(connection: Connection, row: StoryRow, since: int, until: int) -> dict[str, dict[str, Any]]:
    """Return all that has a sequence number above `since` and up to `until`."""
    where = "WHERE story = ? AND seq > ? AND seq <= ?"
    span = (row.number, since, until)
    values = connection.execute(f"SELECT key, changed, json FROM meta {where} ORDER BY key", span)
    nodes = connection.execute(f"SELECT id, json FROM node {where} ORDER BY rowid", span)
    runs = connection.execute(f"SELECT id, json FROM run {where} ORDER BY rowid", span)
    marks = connection.execute(f"SELECT node, key, changed, json FROM mark {where} ORDER BY node, key", span)
    return {
        "meta": {key: _entry(changed, text) for key, changed, text in values},
        "nodes": {name: raw(text) for name, text in nodes},
        "runs": {name: raw(text) for name, text in runs},
        "marks": _by_node(marks),
    }


def stored_story(connection: Connection, row: StoryRow) -> StoredStory:
    """Return all of a story, to be written to a file."""

    def rows(columns: str, table: str, order: str = "rowid") -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE story = ? ORDER BY {order}"
        return connection.execute(query, (row.number,)).fetchall()

    return StoredStory(
        row.id,
        row.changed,
        {key: Entry(text, changed) for key, text, changed in rows("key, json, changed", "meta", "key")},
        {name: (text, length) for name, text, length in rows("id, json, length", "node")},
        dict(rows("id, json", "run")),
        {
            (node, key): Entry(text, changed)
            for node, key, text, changed in rows("node, key, json, changed", "mark", "node, key")
        },
        {name: Medium(kind, data) for name, kind, data in rows("id, type, data", "medium")},
    )


def with_differing(
    connection: Connection, row: StoryRow, parts: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Add to `parts` what is stored otherwise than it was posted, whatever its sequence number."""

    def stored(table: str, where: str, *names: str) -> tuple[Any, ...] | None:
        query = f"SELECT changed, json FROM {table} WHERE story = ? AND {where}"
        found: tuple[Any, ...] | None = connection.execute(query, (row.number, *names)).fetchone()
        return found

    for name in row.nodes_differ:
        if found := stored("node", "id = ?", name):
            parts["nodes"][name] = raw(found[1])
    for key in row.meta_differ:
        if found := stored("meta", "key = ?", key):
            parts["meta"][key] = _entry(*found)
    for name in row.runs_differ:
        if found := stored("run", "id = ?", name):
            parts["runs"][name] = raw(found[1])
    for node, key in row.marks_differ:
        if found := stored("mark", "node = ? AND key = ?", node, key):
            parts["marks"].setdefault(node, {})[key] = _entry(*found)
    return parts


def _entry(changed: int, text: str) -> dict[str, Any]:
    return {"value": raw(text), "changed": changed}


def _by_node(rows: Iterable[tuple[str, str, int, str]]) -> dict[str, dict[str, Any]]:
    marks: dict[str, dict[str, Any]] = {}
    for node, key, changed, text in rows:
        marks.setdefault(node, {})[key] = _entry(changed, text)
    return marks
