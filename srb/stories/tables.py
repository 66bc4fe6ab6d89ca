"""The stories' tables: parts merged into a story's rows, so that a post costs what it brings, and rows read as JSON."""

from collections.abc import Iterable
from typing import Any

import orjson

from srb.errors import NotFound, StoryTooLarge
from srb.stories.database import Connection
from srb.stories.files import StoredStory
from srb.stories.limits import MAX_MEDIA
from srb.stories.media import Medium
from srb.stories.merge import Entry, Keep, Write, decide
from srb.stories.nodes import Node
from srb.stories.parts import Part, Pause, no_pause
from srb.stories.people import Person, Right, check_right
from srb.stories.places import Place, Refusal
from srb.stories.rows import PAUSE_ROWS, Keys, Refused, Rows, StoryRow

FULL = "full"  # reason of a node's refusal
_ROW_BYTES = 150  # counted for each stored node, value, run and mark besides its texts: keys and times in a file


# Rows -----------------------------------------------------------------------------------------------------------------


def find_story(connection: Connection, story: str, person: Person, needed: Right = Right.READ) -> StoryRow:
    """Return a story's row, if this person has the right to it. Raise NotFound or Forbidden."""
    query = "SELECT number, id, seq, changed, bytes, nodes, has_pairs, deleted, owner FROM story WHERE id = ?"
    found = connection.execute(query + connection.for_update, (story,)).fetchone()
    if found is None:
        raise NotFound("There is no such story")
    row = StoryRow(*found)
    row.access = check_right(connection, row.number, row.owner, person, needed).access
    return row


def find_or_make(connection: Connection, story: str, person: Person, now: int, owner: str = "") -> StoryRow:
    """Return the row of a story that this person may write. Raise NotFound or Forbidden.

    A new one is this person's; the command line makes it the `owner`'s.
    """
    made = connection.execute(
        "INSERT INTO story (id, seq, changed, bytes, nodes, has_pairs, owner) VALUES (?, 0, ?, 0, 0, FALSE, ?) "
        "ON CONFLICT DO NOTHING",
        (story, now, owner if person is None else person),
    )
    row = find_story(connection, story, person, Right.WRITE)
    row.is_new = made.rowcount == 1
    return row


def merge(rows: Rows, row: StoryRow, part: Part, pause: Pause = no_pause) -> None:
    """Store a part of a story. Nodes that cannot be stored are `refused`: also those that a full story has no room for."""
    beyond: set[str] = set()  # nodes for which there is no room, and those that stand on them
    for number, (name, node) in enumerate(part.nodes.items()):
        if number % PAUSE_ROWS == 0:
            pause()
        decided = decide(name, node, rows)
        is_new = row.nodes >= row.most_nodes and isinstance(decided, Write) and rows.place(name) is None
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
                _put_node(rows, row, name, node, place)
    pause()
    for key, entry in part.meta.items():
        if not _put_entry(rows, row, "meta", (key,), entry):
            row.meta_differ.append(key)
    for name, entry in part.runs.items():
        if not _put_entry(rows, row, "run", (name,), entry):
            row.runs_differ.append(name)
    for keys, entry in part.marks.items():
        if not _put_entry(rows, row, "mark", keys, entry):
            row.marks_differ.append(keys)
    for medium in part.media.values():
        pause()
        put_medium(rows, row, medium)


def _put_node(rows: Rows, row: StoryRow, name: str, node: Node, place: Place) -> None:
    """Store a node; the time of a closed one stays that of its last open version, to know late ones by."""
    old = rows.old_node(name)
    times = [changed for changed in (node.changed, old and old[1]) if changed is not None]
    rows.put_node(name, node, place, max(times, default=None))
    row.note(len(node.json.encode()) - (len(old[0].encode()) if old else -_ROW_BYTES))
    row.nodes += old is None
    row.has_pairs = row.has_pairs or place.units != len(node.text)


def _put_entry(rows: Rows, row: StoryRow, table: str, keys: Keys, entry: Entry) -> bool:
    """Store an entry unless a stored one stays; return whether what is stored is now equal to it."""
    old = rows.entry(table, keys)
    if not entry.replaces(old):
        return entry == old
    rows.put_entry(table, keys, entry)
    row.note(len(entry.json.encode()) - (len(old.json.encode()) if old else -_ROW_BYTES))
    return True


def put_medium(rows: Rows, row: StoryRow, medium: Medium) -> None:
    """Store a medium unless the story has it. Raise StoryTooLarge if its media would exceed their limit."""
    size = _base64_length(len(medium.data))
    total = rows.put_medium(medium, size)
    if total is None:
        return
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
