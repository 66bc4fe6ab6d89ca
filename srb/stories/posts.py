"""Posts and files as they arrive: bytes become a Part of a story, or an error that names the field at fault."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from srb.errors import InvalidRequest, bad_field
from srb.stories.limits import MAX_DEPTH, MAX_KEY, MAX_NODES, MAX_NUMBER, MAX_TEXT, MAX_VALUE
from srb.stories.merge import Entry
from srb.stories.nodes import Node, canonical, units
from srb.stories.shapes import NOT_MARK, NOT_META, FileShape, KnownMeta, PostShape

Shaped = TypeVar("Shaped", bound=BaseModel)

_PARTS = {"meta", "nodes", "runs", "marks", "changes", "changed", "since", "server"}  # null counts as absent
_MAX_SHOWN = 120  # characters of a field's name in a message


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a story, or all of it. Parents come before their children in `nodes`."""

    meta: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    runs: dict[str, Entry] = field(default_factory=dict)
    marks: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by node and key


@dataclass(frozen=True, slots=True)
class Post:
    """A post: its part of the story, and what the sender knows (`since`, of the file `server`)."""

    part: Part
    since: int | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True)
class StoryFile:
    """A story that was read from a file, with its own id and time."""

    id: str
    changed: int
    part: Part


def read_post(data: bytes) -> Post:
    """Return the post of a body; raise InvalidRequest, which names the first field at fault."""
    given = _read_object(data)
    shape = _validated(PostShape, given)
    meta = {key: Entry(_value(f"meta.{key}", entry.value), entry.changed) for key, entry in shape.meta.items()}
    marks = {
        (node, key): Entry(_value(f"marks.{node}.{key}", entry.value), entry.changed)
        for node, entries in shape.marks.items()
        for key, entry in entries.items()
    }
    _check_meta({key: entry.value for key, entry in shape.meta.items()}, "meta.")
    _check_marks(shape.marks)
    part = Part(meta, _nodes(given.get("nodes", {})), _runs(given.get("runs", {})), marks)
    return Post(part, shape.since, shape.server)


def read_file(data: bytes) -> StoryFile:
    """Return the story of a file of the format srb-story, checked as a whole; raise InvalidRequest."""
    given = _read_object(data)
    if given.get("format") != "srb-story":
        raise bad_field("format", "should be 'srb-story': this is no story in SRB's format")
    if isinstance(given.get("version"), int) and given["version"] > 1:
        raise bad_field("version", f"is {given['version']}, and this server knows 1: it was written by a newer SRB")
    shape = _validated(FileShape, given)
    values = {key: value for key, value in given.items() if key not in NOT_META}
    if bad := next((key for key in values if not 0 < len(key) <= MAX_KEY), None):
        raise bad_field(_shown(bad), f"a key may have {MAX_KEY} characters")
    _check_meta(values, "")
    _check_marks(shape.changes.marks)
    times = shape.changes
    meta = {key: Entry(_value(key, value), times.meta.get(key, shape.changed)) for key, value in values.items()}
    marks: dict[tuple[str, str], Entry] = {}
    for node, entries in shape.marks.items():
        for_all, own = _time(node, entries), times.marks.get(node, {})
        for key in entries.keys() - {NOT_MARK}:
            marks[node, key] = Entry(_value(f"marks.{node}.{key}", entries[key]), own.get(key, for_all))
    return StoryFile(shape.id, shape.changed, Part(meta, _nodes(given["nodes"]), _runs(given.get("runs", {})), marks))


def _time(node: str, entries: Mapping[str, Any]) -> int:
    """Return the time of a node's marks in a file, where they have one together."""
    changed = entries.get(NOT_MARK, 0)
    if type(changed) is not int or not 0 <= changed <= MAX_NUMBER:
        raise bad_field(f"marks.{node}.{NOT_MARK}", "should be a time in milliseconds")
    return changed


# JSON ------------------------------------------------------------------------------------------------------------------


def _read_object(data: bytes) -> dict[str, Any]:
    value = _read_json(data)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object")
    _check_values(value)
    return {key: part for key, part in value.items() if part is not None or key not in _PARTS}


def _read_json(data: bytes) -> Any:
    """Return the JSON value; raise InvalidRequest.

    orjson says at which byte the error is. For what another parser lets pass (NaN, halves of surrogate pairs) the field is
    named as well.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            _check_values(json.loads(data))
        except (ValueError, RecursionError):
            pass  # no parser reads it
        raise InvalidRequest(f"The body is not valid JSON: {error}") from None


def _check_values(body: Any) -> None:
    """Raise InvalidRequest for a key or a value, at any depth, that would not survive its way to another program."""
    for name, key, value in _walk(body):
        if key == "__proto__":
            raise bad_field(_shown(name), "no key may have this name")
        for text in (key, value):
            if isinstance(text, str) and not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
                raise bad_field(_shown(name), "has half of a surrogate pair, which is no character")
        if isinstance(value, float) and not math.isfinite(value):
            raise bad_field(_shown(name), "is not a finite number")


def _walk(body: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the full name, the key (empty in a list) and the value of everything in a JSON value."""
    left: list[tuple[str, str, Any, int]] = [("", "", body, 0)]
    while left:
        name, key, value, depth = left.pop()
        yield name, key, value
        if isinstance(value, dict | list) and depth > MAX_DEPTH:
            raise bad_field(_shown(name), f"is nested more than {MAX_DEPTH} levels deep")
        dot = f"{name}." if name else ""
        if isinstance(value, dict):
            left += [(dot + inner, inner, child, depth + 1) for inner, child in value.items()]
        elif isinstance(value, list):
            left += [(f"{dot}{place}", "", child, depth + 1) for place, child in enumerate(value)]


def _shown(name: str) -> str:
    """Return a field's name as a message may show it: short, and without halves of surrogate pairs."""
    shown = name.encode("utf-16", "replace").decode("utf-16")
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"


# Shapes ----------------------------------------------------------------------------------------------------------------


def _validated(shape: type[Shaped], given: Any, before: str = "") -> Shaped:
    try:
        return shape.model_validate(given)
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
        raise bad_field(_shown(before + name), text) from None


def _value(name: str, value: Any) -> str:
    """Return the canonical text of a value; raise InvalidRequest for one that is too large."""
    text = canonical(value)
    if len(text) > MAX_VALUE:
        raise bad_field(_shown(name), f"takes {len(text)} bytes; one value may take {MAX_VALUE}")
    return text


def _check_meta(values: Mapping[str, Any], before: str) -> None:
    if taken := NOT_META & values.keys():
        raise bad_field(f"meta.{min(taken)}", "is a name of the file's own; choose another for the value")
    _validated(KnownMeta, dict(values), before)


def _check_marks(marks: Mapping[str, Mapping[str, Any]]) -> None:
    for node, entries in marks.items():
        if NOT_MARK in entries:
            raise bad_field(
                f"marks.{node}.{NOT_MARK}", "is the time of a file's marks; choose another name for the mark"
            )


def _runs(given: Mapping[str, Any]) -> dict[str, Entry]:
    """Return runs as values: the last version stays, by `changed` or, without it, by `made`."""
    return {
        name: Entry(_value(f"runs.{name}", run), run.get("changed") or run.get("made") or 0)
        for name, run in given.items()
    }


def _nodes(given: Mapping[str, Any]) -> dict[str, Node]:
    """Return the nodes, parents before children. Raise InvalidRequest for one that is too large, and for circles."""
    if len(given) > MAX_NODES:
        raise bad_field("nodes", f"has {len(given)} nodes; a story may have {MAX_NODES}")
    nodes = {}
    for name, raw in given.items():
        if (size := units(raw["text"])) > MAX_TEXT:
            raise bad_field(f"nodes.{name}.text", f"has {size} UTF-16 units; one node may have {MAX_TEXT}")
        node = Node.of(raw)
        if len(node.json) - len(canonical(node.text)) > MAX_VALUE:
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
