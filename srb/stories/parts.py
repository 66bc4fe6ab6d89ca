"""Parts of a story: values, nodes, runs and marks, checked one by one before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from srb.errors import bad_field
from srb.stories.json_body import shown
from srb.stories.limits import MAX_TEXT, MAX_TITLE, MAX_VALUE
from srb.stories.media import Medium
from srb.stories.merge import Entry
from srb.stories.nodes import Node, stored_json, units
from srb.stories.shapes import NOT_MARK, NOT_META, KnownMeta

Shaped = TypeVar("Shaped", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a story, or all of it. Parents come before their children in `nodes`."""

    meta: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    runs: dict[str, Entry] = field(default_factory=dict)
    marks: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by node and key
    media: dict[str, Medium] = field(default_factory=dict)


def validated(shape: type[Shaped], given: Any, before: str = "") -> Shaped:
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


def runs_of(given: Mapping[str, Any]) -> dict[str, Entry]:
    """Return runs as values: the one that was made last stays."""
    return {name: Entry(value_text(f"runs.{name}", run), run.get("made") or 0) for name, run in given.items()}


def nodes_of(given: Mapping[str, Any]) -> dict[str, Node]:
    """Return the nodes, parents before children. Raise InvalidRequest for one that is too large, and for circles."""
    nodes = {}
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
