"""Posts of stories: what a client sends, and what it knows."""

from __future__ import annotations

from dataclasses import dataclass

from srb.stories.json_body import read_object
from srb.stories.merge import Entry
from srb.stories.parts import Part, check_marks, check_meta, nodes_of, runs_of, validated, value_text
from srb.stories.shapes import PostShape


@dataclass(frozen=True, slots=True)
class Post:
    """A post: its part of the story, and what the sender knows (`since`, of the file `server`)."""

    part: Part
    since: int | None = None
    server: str | None = None


def read_post(data: bytes) -> Post:
    """Return the post of a body; raise InvalidRequest, which names the first field at fault."""
    given = read_object(data)
    shape = validated(PostShape, given)
    check_meta({key: entry.value for key, entry in shape.meta.items()}, "meta.")
    check_marks(shape.marks)
    meta = {key: Entry(value_text(f"meta.{key}", entry.value), entry.changed) for key, entry in shape.meta.items()}
    marks = {
        (node, key): Entry(value_text(f"marks.{node}.{key}", entry.value), entry.changed)
        for node, entries in shape.marks.items()
        for key, entry in entries.items()
    }
    part = Part(meta, nodes_of(given.get("nodes", {})), runs_of(given.get("runs", {})), marks)
    return Post(part, shape.since, shape.server)
