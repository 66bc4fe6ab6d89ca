"""Parts of a story: values, nodes, runs and marks, checked one by one before anything is stored."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from srb.errors import bad_field
from srb.stories.forms import NOT_MARK, NOT_META, EntryShape, Id, Key, KnownMeta, NodeShape, PostShape, RunShape
from srb.stories.json_body import read_object, shown
from srb.stories.limits import MAX_TEXT, MAX_TITLE, MAX_VALUE
from srb.stories.media import Medium
from srb.stories.merge import Entry
from srb.stories.nodes import Node, stored_json, units

Shaped = TypeVar("Shaped", bound=BaseModel)
T = TypeVar("T")
Pause = Callable[[], None]  # called every few milliseconds of a long work; what it raises ends the work

STRICT = ConfigDict(strict=True, defer_build=True)
_NODES = TypeAdapter(dict[Id, NodeShape], config=STRICT)
_RUNS = TypeAdapter(dict[Id, RunShape], config=STRICT)
_SLICE = 500  # values that pydantic checks in one call, in which the worker answers nobody else


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a story, or all of it. Parents come before their children in `nodes`."""

    meta: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    runs: dict[str, Entry] = field(default_factory=dict)
    marks: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by node and key
    media: dict[str, Medium] = field(default_factory=dict)


def no_pause() -> None:
    """The pause of a work that nobody else waits for."""


def validated(shape: type[Shaped], given: Any, before: str = "") -> Shaped:
    """Return the checked value. Raise InvalidRequest, which names the first field at fault, after `before`."""
    return _validated(shape.model_validate, given, before)


def validated_entries(
    adapter: TypeAdapter[dict[str, T]], pieces: Iterable[Mapping[str, Any]], part: str, pause: Pause
) -> Iterator[tuple[Mapping[str, Any], dict[str, T]]]:
    """Yield the entries of a part, as they came and checked, in small slices.

    pydantic keeps all other threads from running until it has gone through what it was given and gathered all faults of it.
    """
    for piece in pieces:
        for entries in _slices(piece):
            pause()
            yield entries, _validated(adapter.validate_python, entries, f"{part}.")


def _slices(entries: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut a mapping; an entry counts as many as it has."""
    slice_: dict[str, Any] = {}
    weight = 0
    for name, entry in entries.items():
        slice_[name] = entry
        weight += 1 + len(entry) if isinstance(entry, dict) else 1
        if weight >= _SLICE:
            yield slice_
            slice_, weight = {}, 0
    if slice_:
        yield slice_


def _validated(check: Callable[[Any], T], given: Any, before: str) -> T:
    try:
        return check(given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in problem["loc"] if part != "[key]")
        kind = problem["type"]
        if kind == "missing":
            text = "is required"
        elif kind == "extra_forbidden":
            text = "is no field of a story's post"
        elif kind == "string_pattern_mismatch":
            text = "should be an id: 1 to 64 letters, digits, - and _"
        else:
            text = str(problem["msg"]).removeprefix("Value error, ")
        raise bad_field(shown(before + name), text) from None


def value_text(name: str, value: Any) -> str:
    """Return the stored text of a value; raise InvalidRequest for one that is too large."""
    text = stored_json(value)
    if len(text) > MAX_VALUE:
        raise bad_field(shown(name), f"takes {len(text)} bytes; one value may take {MAX_VALUE}")
    return text


def check_meta(values: Mapping[str, Any], before: str) -> None:
    if taken := NOT_META & values.keys():
        raise bad_field(f"meta.{min(taken)}", "is a name of the file's own; choose another for the value")
    known = validated(KnownMeta, dict(values), before)
    if known.title is not None and units(known.title) > MAX_TITLE:
        raise bad_field(f"{before}title", f"has {units(known.title)} UTF-16 units; a title may have {MAX_TITLE}")


def check_marks(marks: Mapping[str, Mapping[str, Any]]) -> None:
    for node, entries in marks.items():
        if NOT_MARK in entries:
            raise bad_field(
                f"marks.{node}.{NOT_MARK}", "is the time of a file's marks; choose another name for the mark"
            )


def runs_of(pieces: Iterable[Mapping[str, Any]], pause: Pause) -> dict[str, Entry]:
    """Return runs as values: the one that was made last stays."""
    return {
        name: Entry(value_text(f"runs.{name}", run), run.get("made") or 0)
        for given, _ in validated_entries(_RUNS, pieces, "runs", pause)
        for name, run in given.items()
    }


def nodes_of(pieces: Iterable[Mapping[str, Any]], pause: Pause) -> dict[str, Node]:
    """Return the nodes, parents before children. Raise InvalidRequest for one that is too large, and for circles."""
    nodes = {}
    for given, _ in validated_entries(_NODES, pieces, "nodes", pause):
        for name, raw in given.items():
            if (size := units(raw["text"])) > MAX_TEXT:
                raise bad_field(f"nodes.{name}.text", f"has {size} UTF-16 units; one node may have {MAX_TEXT}")
            node = Node.of(raw)
            if len(node.json) - len(stored_json(node.text)) > MAX_VALUE:
                raise bad_field(f"nodes.{name}", f"may take {MAX_VALUE} bytes beside its text")
            nodes[name] = node
    return _in_order(nodes)


def _in_order(nodes: Mapping[str, Node]) -> dict[str, Node]:
    ordered: dict[str, Node] = {}
    for first in nodes:
        path: dict[str, None] = {}
        name: str | None = first
        while name is not None and name in nodes and name not in ordered:
            if name in path:
                raise bad_field(f"nodes.{name}.parent", "the parents form a circle, so none of them has a text")
            path[name] = None
            name = nodes[name].parent
        ordered |= {each: nodes[each] for each in reversed(path)}
    return ordered


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
