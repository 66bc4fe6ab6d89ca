"""Stories in tests: nodes in a word, a store in a folder, and what a story's nodes say when they are spelled out."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from srb.stories.database import Place
from srb.stories.files import read_file
from srb.stories.media import Medium, medium_of
from srb.stories.parts import Post, read_post
from srb.stories.store import Imported, Store

ID = "lighthouse"


def person(text: str, parent: str | None = None, keep: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a person's node."""
    return _node("person", text, parent, keep, more)


def model(text: str, parent: str | None = None, keep: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a model's node."""
    return _node("model", text, parent, keep, more)


def _node(by: str, text: str, parent: str | None, keep: int | None, more: Mapping[str, Any]) -> dict[str, Any]:
    place = {} if parent is None else {"parent": parent, "keep": keep}
    return {"text": text, "by": by, **place, **more}


def at(value: Any, changed: int) -> dict[str, Any]:
    """Return an entry: a value with its time."""
    return {"value": value, "changed": changed}


class Stories:
    """A store whose posts and answers are Python objects."""

    def __init__(self, place: Place, **options: Any) -> None:
        self.place = place
        self.store = Store(place, **options)

    @property
    def path(self) -> Path:
        assert isinstance(self.place, Path)
        return self.place

    def change(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Change rows as no program should, whatever belongs to them."""
        with self.store.writing() as connection:
            connection.execute(statement, values)

    @staticmethod
    def read_post(**parts: Any) -> Post:
        return read_post(orjson.dumps(parts))

    def post(self, story: str = ID, **parts: Any) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(self.store.post(story, self.read_post(**parts)))
        return answer

    def save(self, nodes: Mapping[str, Any], story: str = ID) -> int:
        """Post nodes that must not be refused; return the story's sequence number."""
        answer = self.post(story, nodes=dict(nodes))
        assert answer["refused"] == []
        return int(answer["seq"])

    def refusal(self, name: str, node: Mapping[str, Any], story: str = ID) -> str:
        """Post one node that must be refused; return the reason."""
        [refused] = self.post(story, nodes={name: node})["refused"]
        assert refused["node"] == name
        assert refused["message"]
        return str(refused["reason"])

    def read(self, story: str = ID, since: int = 0, server: str | None = None) -> dict[str, Any] | None:
        data = self.store.read(story, since, server)
        return None if data is None else dict(orjson.loads(data))

    def nodes(self, story: str = ID) -> dict[str, Any]:
        parts = self.read(story)
        assert parts is not None
        return dict(parts["nodes"])

    def overview(self, *, binned: bool = False) -> dict[str, Any]:
        return dict(orjson.loads(self.store.overview(binned=binned)))

    def ids(self, *, binned: bool = False) -> list[str]:
        return [story["id"] for story in self.overview(binned=binned)["stories"]]

    def export(self, story: str = ID) -> dict[str, Any]:
        return dict(orjson.loads(self.store.export(story)))

    def add_medium(self, text: str, story: str = ID) -> Medium:
        """Store a picture or sound, given as base64."""
        medium = medium_of(text, "data")
        self.store.add_medium(story, medium)
        return medium

    def bring_in(self, file: Mapping[str, Any]) -> Imported:
        return self.store.bring_in(read_file(orjson.dumps(file)))


def make_older(path: Path, version: int) -> None:
    """Make a closed file of stories one of an older version: without what later steps have added."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE share")
        connection.execute("DROP INDEX story_owner")
        connection.execute("DROP INDEX story_room")
        connection.execute("ALTER TABLE story DROP COLUMN owner")
        if version < 2:
            connection.execute("DROP TABLE medium")
        connection.execute(f"PRAGMA user_version = {version}")


def texts(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the whole text of every node, by slicing plain strings of UTF-16 units."""
    found: dict[str, bytes] = {}
    waiting = list(nodes)
    while waiting:
        name = waiting.pop()
        node = nodes[name]
        parent = node.get("parent")
        if parent is not None and parent not in found:
            waiting += [name, parent]
            continue
        own = node["text"].encode("utf-16-le")
        whole = found[parent] if parent is not None else b""
        rest = whole[2 * node["tail"] :] if node.get("tail") is not None else b""
        found[name] = whole[: 2 * node.get("keep", 0)] + own + rest
    return {name: text.decode("utf-16-le") for name, text in found.items()}
