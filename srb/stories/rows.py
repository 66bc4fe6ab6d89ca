"""The rows of one story as a merge reads and writes them: in the file one by one, or all of them in memory."""

import sys
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import orjson

from srb.errors import StoryTooLarge
from srb.stories.database import Connection
from srb.stories.limits import MAX_NODES, MAX_STORY, NEARLY_FULL
from srb.stories.media import Medium
from srb.stories.merge import Entry
from srb.stories.nodes import Node
from srb.stories.parts import Pause
from srb.stories.places import Children, Place, Shelf

PAUSE_ROWS = 500  # rows between two pauses: fewer cost a switch each, more keep others waiting

Keys = tuple[str, ...]
KEYS = {"meta": ("key",), "run": ("id",), "mark": ("node", "key")}  # columns by table, besides that of the story

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
_PUT_MEDIUM = "INSERT INTO medium (story, id, type, bytes, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


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
    owner: str = ""
    access: Literal["read", "write"] | None = None  # of a person with whom the owner shares it
    is_new: bool = False
    is_limited: bool = True  # an import by the command may exceed the limits of a story
    room: int = 0  # bytes that all stories of the owner may take; 0: any number
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

    @property
    def most_nodes(self) -> int:
        return MAX_NODES if self.is_limited else sys.maxsize

    def head(self, server: str) -> dict[str, Any]:
        """Return the keys with which every answer about a story begins."""
        head: dict[str, Any] = {"id": self.id, "server": server, "seq": self.seq}
        if self.deleted is not None:
            head["deleted"] = self.deleted
        if self.access is not None:
            head |= {"owner": self.owner, "access": self.access}
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

    def check_size(self) -> None:
        """Raise StoryTooLarge if it has grown beyond the limit. One that the command has brought in may be beyond it."""
        if self.is_limited and self.grown > 0 and self.bytes > MAX_STORY:
            message = f"The story would take {self.bytes} bytes; a story may take {MAX_STORY}"
            raise StoryTooLarge(message, param="nodes")

    def save(self, connection: Connection, changed: int) -> None:
        """Write the row with its next sequence number, after all that has that number. Raise StoryTooLarge."""
        self.check_size()
        self._check_room(connection)
        self.seq, self.changed = self.next_seq, changed
        connection.execute(
            "UPDATE story SET seq = ?, changed = ?, bytes = ?, nodes = ?, has_pairs = ?, deleted = ? WHERE number = ?",
            (self.seq, self.changed, self.bytes, self.nodes, self.has_pairs, self.deleted, self.number),
        )

    def _check_room(self, connection: Connection) -> None:
        """Raise StoryTooLarge if it has grown, and its owner's stories, those in the bin too, take more than they may."""
        if not self.room or self.grown <= 0:
            return
        connection.hold(f"room of {self.owner}")
        query = "SELECT coalesce(sum(bytes), 0) FROM story WHERE owner = ? AND number != ?"
        (others,) = connection.execute(query, (self.owner, self.number)).fetchone()
        if (total := int(others) + self.bytes) > self.room:
            raise StoryTooLarge(
                f"The stories of {self.owner or 'this key'} would take {total} bytes, those in the bin included; they may "
                f"take {self.room}",
                param="nodes",
            )

    def discard(self, connection: Connection) -> None:
        """Remove the row of a new story that nothing was stored of."""
        connection.execute("DELETE FROM story WHERE number = ?", (self.number,))


class Rows(Shelf, Protocol):
    """The rows of one story, as a merge reads and writes them. Their keys are a row's columns after that of the story."""

    def old_node(self, name: str) -> tuple[str, int | None] | None:
        """Return the JSON and the time of a stored node."""

    def put_node(self, name: str, node: Node, place: Place, changed: int | None) -> None: ...

    def entry(self, table: str, keys: Keys) -> Entry | None:
        """Return a stored value, run or mark."""

    def put_entry(self, table: str, keys: Keys, entry: Entry) -> None: ...

    def put_medium(self, medium: Medium, size: int) -> int | None:
        """Store a medium; return the bytes of all media of the story, or None if it has this one."""


class StoredRows:
    """The rows in the file, read and written one by one."""

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

    def old_node(self, name: str) -> tuple[str, int | None] | None:
        found: tuple[str, int | None] | None = self._connection.execute(_GET_NODE, (self._story, name)).fetchone()
        return found

    def put_node(self, name: str, node: Node, place: Place, changed: int | None) -> None:
        self._connection.execute(_PUT_NODE, node_row(self._row, name, node, place, changed))

    def entry(self, table: str, keys: Keys) -> Entry | None:
        where = " AND ".join(f"{column} = ?" for column in KEYS[table])
        query = f"SELECT json, changed FROM {table} WHERE story = ? AND {where}"
        found = self._connection.execute(query, (self._story, *keys)).fetchone()
        return found and Entry(*found)

    def put_entry(self, table: str, keys: Keys, entry: Entry) -> None:
        self._connection.execute(put_entry_statement(table), entry_row(self._row, keys, entry))

    def put_medium(self, medium: Medium, size: int) -> int | None:
        values = (self._story, medium.id, medium.type, size, medium.data)
        if not self._connection.execute(_PUT_MEDIUM, values).rowcount:
            return None
        (total,) = self._connection.execute("SELECT sum(bytes) FROM medium WHERE story = ?", (self._story,)).fetchone()
        return int(total)


@dataclass(frozen=True, slots=True)
class _LoadedNode:
    place: Place
    json: str
    changed: int | None


class LoadedRows:
    """All rows of one story in memory, and those that a merge changes: read at once, and written at once by `write`.

    An import of 100,000 nodes asks the file thrice for each; this keeps the file for a tenth of that time.
    """

    def __init__(self, row: StoryRow) -> None:
        """Begin with no rows, as a new story has."""
        self._row = row
        self._nodes: dict[str, _LoadedNode] = {}
        self._entries: dict[tuple[str, Keys], Entry] = {}
        self._media: dict[str, int] = {}  # bytes by id
        self._media_bytes = 0
        self._new_nodes: dict[str, Node] = {}
        self._new_entries: dict[tuple[str, Keys], Entry] = {}
        self._new_media: dict[str, Medium] = {}
        self._children: dict[str, Children] | None = None  # by parent; made when it is first asked for

    def load(self, connection: Connection, pause: Pause) -> None:
        """Read the story's rows."""
        query = "SELECT id, parent, keep, tail, units, length, open, json, changed FROM node WHERE story = ?"
        for number, found in enumerate(connection.execute(query, (self._row.number,))):
            name, parent, keep, tail, units, length, is_open, text, changed = found
            self._nodes[name] = _LoadedNode(Place(parent, keep, tail, units, length, bool(is_open)), text, changed)
            if number % PAUSE_ROWS == 0:
                pause()
        for table, columns in KEYS.items():
            query = f"SELECT json, changed, {', '.join(columns)} FROM {table} WHERE story = ?"
            for text, changed, *keys in connection.execute(query, (self._row.number,)):
                self._entries[table, tuple(keys)] = Entry(text, changed)
            pause()
        self._media = dict(connection.execute("SELECT id, bytes FROM medium WHERE story = ?", (self._row.number,)))
        self._media_bytes = sum(self._media.values())

    def write(self, connection: Connection) -> None:
        """Write what was changed, under the number that the row has by now."""
        row = self._row
        connection.executemany(
            _PUT_NODE,
            (
                node_row(row, name, node, self._nodes[name].place, self._nodes[name].changed)
                for name, node in self._new_nodes.items()
            ),
        )
        for table in KEYS:
            rows = (entry_row(row, keys, entry) for (of, keys), entry in self._new_entries.items() if of == table)
            connection.executemany(put_entry_statement(table), rows)
        connection.executemany(
            _PUT_MEDIUM,
            (
                (row.number, name, medium.type, self._media[name], medium.data)
                for name, medium in self._new_media.items()
            ),
        )

    @property
    def has_pairs(self) -> bool:
        return self._row.has_pairs

    def place(self, name: str) -> Place | None:
        found = self._nodes.get(name)
        return None if found is None else found.place

    def node(self, name: str) -> Node:
        if name in self._new_nodes:
            return self._new_nodes[name]
        return replace(Node.of(orjson.loads(self._nodes[name].json)), changed=self._nodes[name].changed)

    def children(self, name: str) -> Children | None:
        if self._children is None:
            self._children = {}
            for node in self._nodes.values():
                self._note_child(node.place)
        return self._children.get(name)

    def _note_child(self, place: Place) -> None:
        if self._children is None or place.parent is None:
            return
        others = self._children.get(place.parent, Children(0, has_tails=False))
        self._children[place.parent] = Children(
            max(others.most_kept, place.keep), others.has_tails or place.tail is not None
        )

    def old_node(self, name: str) -> tuple[str, int | None] | None:
        found = self._nodes.get(name)
        return None if found is None else (found.json, found.changed)

    def put_node(self, name: str, node: Node, place: Place, changed: int | None) -> None:
        self._nodes[name] = _LoadedNode(place, node.json, changed)
        self._new_nodes[name] = node
        self._note_child(place)

    def entry(self, table: str, keys: Keys) -> Entry | None:
        return self._entries.get((table, keys))

    def put_entry(self, table: str, keys: Keys, entry: Entry) -> None:
        self._entries[table, keys] = self._new_entries[table, keys] = entry

    def put_medium(self, medium: Medium, size: int) -> int | None:
        name = medium.id
        if name in self._media:
            return None
        self._media[name], self._new_media[name] = size, medium
        self._media_bytes += size
        return self._media_bytes


def node_row(row: StoryRow, name: str, node: Node, place: Place, changed: int | None) -> tuple[object, ...]:
    return (
        row.number, name, row.next_seq, place.parent, place.keep, place.tail, place.units, place.length, node.open,
        changed, node.json,
    )  # fmt: skip


def entry_row(row: StoryRow, keys: Keys, entry: Entry) -> tuple[object, ...]:
    return (row.number, *keys, row.next_seq, entry.changed, entry.json)


def put_entry_statement(table: str) -> str:
    keys = ", ".join(("story", *KEYS[table]))
    return (
        f"INSERT INTO {table} ({keys}, seq, changed, json) VALUES ({'?, ' * len(KEYS[table])}?, ?, ?, ?) "
        f"ON CONFLICT ({keys}) DO UPDATE SET seq = excluded.seq, changed = excluded.changed, json = excluded.json"
    )
