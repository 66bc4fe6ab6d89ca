"""The check of all stories: what the database itself finds, and every node by the rules that posts are checked by."""

from collections.abc import Iterator

import orjson

from srb.errors import SRBError
from srb.stories.database import Connection
from srb.stories.files import read_file
from srb.stories.nodes import Node
from srb.stories.places import Place, Refusal, fit
from srb.stories.store import Store

_NODES = "SELECT id, parent, keep, tail, units, length, open, json FROM node WHERE story = ? ORDER BY rowid"


def problems(store: Store) -> Iterator[str]:
    """Yield a sentence for everything that is wrong with the file; nothing for a sound one. Raise errors of `database`."""
    with store.connection() as connection:
        yield from connection.faults()
        query = "SELECT number, id, seq, nodes FROM story ORDER BY id"
        for number, story, seq, nodes in connection.execute(query).fetchall():
            for problem in _problems_of(connection, number, seq, nodes):
                yield f"story {story}: {problem}"
    for story in (*store.ids(), *store.ids(binned=True)):
        try:
            read_file(store.export(story), is_limited=False)
        except SRBError as error:
            yield f"story {story}: its export could not be imported: {error.message}"


class _Loaded:
    """The nodes of one story in memory."""

    has_pairs = True

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.places: dict[str, Place] = {}

    def place(self, name: str) -> Place | None:
        return self.places.get(name)

    def node(self, name: str) -> Node:
        return self.nodes[name]


def _problems_of(connection: Connection, number: int, seq: int, count: int) -> Iterator[str]:
    loaded = _Loaded()
    for name, parent, keep, tail, units, length, is_open, text in connection.execute(_NODES, (number,)):
        try:
            node = Node.of(orjson.loads(text))
        except (orjson.JSONDecodeError, KeyError) as error:
            yield f"node {name} cannot be read: {error!r}"
            continue
        found, noted = fit(node, loaded), Place(parent, keep, tail, units, length, bool(is_open))
        if isinstance(found, Refusal):
            yield f"node {name}: {found.message}"
        elif found != noted:
            yield f"node {name}: its splice is {found}, but {noted} was noted"
        loaded.nodes[name], loaded.places[name] = node, noted
    if len(loaded.nodes) != count:
        yield f"it has {len(loaded.nodes)} nodes, but {count} were counted"
    for table in ("node", "meta", "run", "mark"):
        (last,) = connection.execute(f"SELECT max(seq) FROM {table} WHERE story = ?", (number,)).fetchone()
        if last is not None and last > seq:
            yield f"a row of the table {table} has the number {last}, above the story's {seq}"
