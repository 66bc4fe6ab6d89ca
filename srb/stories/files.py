"""Stories as files of the format srb-story: the flat form that programs read, and every time for an exact merge.

A file has the values of a story beside its nodes, and settings and marks as plain objects. Under `changes` are the times at
which each was set; a time without a value is that of a value that was taken away.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter

from srb.errors import bad_field
from srb.stories import parts
from srb.stories.forms import NOT_MARK, NOT_META, FileShape, Id, Key, MediumShape
from srb.stories.json_body import read_entries, read_object, shown
from srb.stories.limits import MAX_KEY, MAX_NUMBER
from srb.stories.media import Medium, media_of
from srb.stories.merge import Entry
from srb.stories.nodes import stored_json
from srb.stories.pieces import Limits, pieces_of

_MARKS = TypeAdapter(dict[Id, dict[Key, Any]], config=parts.STRICT)
_MEDIA = TypeAdapter(dict[Id, MediumShape], config=parts.STRICT)
SETTING = "settings."  # begins the keys of single settings, which a file has in one object
_NULL = "null"


@dataclass(frozen=True, slots=True)
class StoryFile:
    """A story that was read from a file, with its own id and time."""

    id: str
    changed: int
    part: parts.Part


@dataclass(frozen=True, slots=True)
class StoredStory:
    """A story as it is stored, to be written to a file: texts are JSON; a node has the length of its whole text as well."""

    id: str
    changed: int
    meta: dict[str, Entry]
    nodes: dict[str, tuple[str, int]]
    runs: dict[str, str]
    marks: dict[tuple[str, str], Entry]
    media: dict[str, Medium]


# Reading --------------------------------------------------------------------------------------------------------------


def read_file(data: bytes, *, is_limited: bool = True, pause: parts.Pause = parts.no_pause) -> StoryFile:
    """Return the story of a file, checked as a whole; raise InvalidRequest, which names the first field at fault.

    Raise StoryTooLarge for more than a story may have, if it `is_limited`, before any of it is read. Nodes, runs, marks and
    media are read in pieces, with a pause between two.
    """
    pieces = pieces_of(data, Limits() if is_limited else None, pause)
    given = read_object(pieces.frame)
    if given.get("format") != "srb-story":
        raise bad_field("format", "should be 'srb-story': this is no story in SRB's format")
    if isinstance(given.get("version"), int) and given["version"] > 1:
        raise bad_field("version", f"is {given['version']}, and this server knows 1: it was written by a newer SRB")
    shape = parts.validated(FileShape, given)
    parts.check_marks(shape.changes.marks)

    def entries(part: str) -> Iterator[Mapping[str, Any]]:
        yield given.get(part, {})  # empty, unless the part's name was written with escapes
        for piece in pieces.parts.get(part, ()):
            pause()
            yield read_entries(piece, part)

    meta, nodes, runs = (
        _meta(given, shape),
        parts.nodes_of(entries("nodes"), pause),
        parts.runs_of(entries("runs"), pause),
    )
    media: dict[str, Medium] = {}
    for _, some in parts.validated_entries(_MEDIA, entries("media"), "media", pause):
        media |= media_of(some)
    return StoryFile(
        shape.id, shape.changed, parts.Part(meta, nodes, runs, _marks(entries("marks"), shape, pause), media)
    )


def _meta(given: Mapping[str, Any], shape: FileShape) -> dict[str, Entry]:
    values = {key: value for key, value in given.items() if key not in NOT_META}
    parts.check_meta(dict.fromkeys(shape.changes.meta) | values, "")
    for name, value in (values.pop("settings", None) or {}).items():
        values[SETTING + name] = value
    if bad := next((key for key in values if not 0 < len(key) <= MAX_KEY), None):
        raise bad_field(shown(bad), f"a key may have {MAX_KEY} characters")
    times = dict(shape.changes.meta)
    for_settings = times.pop("settings", shape.changed)
    meta = {key: Entry(_NULL, time) for key, time in times.items()}
    for key, value in values.items():
        otherwise = for_settings if key.startswith(SETTING) else shape.changed
        meta[key] = Entry(parts.value_text(key, value), times.get(key, otherwise))
    return meta


def _marks(pieces: Iterable[Mapping[str, Any]], shape: FileShape, pause: parts.Pause) -> dict[tuple[str, str], Entry]:
    times = shape.changes.marks
    marks = {(node, key): Entry(_NULL, time) for node, keys in times.items() for key, time in keys.items()}
    given = (each for _, some in parts.validated_entries(_MARKS, pieces, "marks", pause) for each in some.items())
    for node, entries in given:
        for_all = entries.get(NOT_MARK, 0)
        if type(for_all) is not int or not 0 <= for_all <= MAX_NUMBER:
            raise bad_field(f"marks.{node}.{NOT_MARK}", "should be a time in milliseconds")
        for key in entries.keys() - {NOT_MARK}:
            text = parts.value_text(f"marks.{node}.{key}", entries[key])
            marks[node, key] = Entry(text, times.get(node, {}).get(key, for_all))
    return marks


# Writing --------------------------------------------------------------------------------------------------------------


def file_of(story: StoredStory) -> bytes:
    """Return a story as a file. Places and marks of nodes that are not stored are left out: no reader could use them."""
    meta = _with_settings_apart(story.meta)
    if (head := meta.get("head")) is not None and not _is_place(orjson.loads(head.json), story):
        del meta["head"]
    set_ = {key: orjson.Fragment(entry.json) for key, entry in meta.items() if entry.json != _NULL}
    settings = {key.removeprefix(SETTING): value for key, value in set_.items() if key.startswith(SETTING)}
    marks: dict[str, dict[str, Any]] = {}
    times: dict[str, dict[str, int]] = {}
    for (node, key), entry in story.marks.items():
        if node not in story.nodes:
            continue
        times.setdefault(node, {})[key] = entry.changed
        if entry.json != _NULL:
            mark = marks.setdefault(node, {NOT_MARK: 0})
            mark[key], mark[NOT_MARK] = orjson.Fragment(entry.json), max(mark[NOT_MARK], entry.changed)
    runs = {name: text for name, text in story.runs.items() if _is_place(orjson.loads(text), story)}
    frame: dict[str, Any] = {
        "format": "srb-story",
        "version": 1,
        "id": story.id,
        **{key: value for key, value in set_.items() if not key.startswith(SETTING)},
        "changed": story.changed,
        "settings": settings,
        "nodes": _raw((name, text) for name, (text, _) in story.nodes.items()),
        "runs": _raw(runs.items()),
        "marks": marks,
        "changes": {"meta": {key: entry.changed for key, entry in meta.items()}, "marks": times},
    }
    if story.media:
        frame["media"] = {
            name: {"type": medium.type, "data": b64encode(medium.data).decode()} for name, medium in story.media.items()
        }
    return orjson.dumps(frame)


def _raw(texts: Iterable[tuple[str, str]]) -> dict[str, orjson.Fragment]:
    return {name: orjson.Fragment(text) for name, text in texts}


def _with_settings_apart(meta: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return values with an entry for each setting; of all settings posted as one, those stay that were not set later."""
    apart = dict(meta)
    whole = apart.pop("settings", None)
    values = orjson.loads(whole.json) if whole is not None else None
    for name, value in (values or {}).items():
        entry = Entry(stored_json(value), whole.changed if whole is not None else 0)
        if entry.replaces(apart.get(SETTING + name)):
            apart[SETTING + name] = entry
    return dict(sorted(apart.items()))


def _is_place(value: Any, story: StoredStory) -> bool:
    """Whether a head or a run stands in a stored text; one that names no node stands before all texts."""
    if value is None or value.get("node") in (None, ""):
        return True
    node = story.nodes.get(value["node"])
    return node is not None and (value.get("at") or 0) <= node[1]
