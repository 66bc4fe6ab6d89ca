"""Posts of stories: what a client sends, and what it knows."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from srb.stories.forms import EntryShape, Id, Key, PostShape
from srb.stories.json_body import read_object
from srb.stories.merge import Entry
from srb.stories.parts import (
    STRICT,
    Part,
    Pause,
    check_marks,
    check_meta,
    no_pause,
    nodes_of,
    runs_of,
    validated,
    validated_entries,
    value_text,
)

_PARTS = ("meta", "nodes", "runs", "marks")
_META = TypeAdapter(dict[Key, EntryShape], config=STRICT)
_MARKS = TypeAdapter(dict[Id, dict[Key, EntryShape]], config=STRICT)


@dataclass(frozen=True, slots=True)
class Post:
    """A post: its part of the story, and what the sender knows (`since`, of the file `server`)."""

    part: Part
    since: int | None = None
    server: str | None = None


def read_post(data: bytes, pause: Pause = no_pause) -> Post:
    """Return the post of a body; raise InvalidRequest, which names the first field at fault."""
    given = read_object(data)
    parts = {name: given[name] for name in _PARTS if isinstance(given.get(name), dict)}
    frame = validated(PostShape, given | {name: {} for name in parts})

    def of(part: str) -> list[dict[str, Any]]:
        return [parts[part]] if part in parts else []

    meta: dict[str, EntryShape] = {}
    for _, entries in validated_entries(_META, of("meta"), "meta", pause):
        meta |= entries
    check_meta({key: entry.value for key, entry in meta.items()}, "meta.")
    marks: dict[tuple[str, str], Entry] = {}
    for _, nodes in validated_entries(_MARKS, of("marks"), "marks", pause):
        check_marks(nodes)
        for node, values in nodes.items():
            for key, entry in values.items():
                marks[node, key] = Entry(value_text(f"marks.{node}.{key}", entry.value), entry.changed)
    values_of_meta = {key: Entry(value_text(f"meta.{key}", entry.value), entry.changed) for key, entry in meta.items()}
    part = Part(values_of_meta, nodes_of(of("nodes"), pause), runs_of(of("runs"), pause), marks)
    return Post(part, frame.since, frame.server)
