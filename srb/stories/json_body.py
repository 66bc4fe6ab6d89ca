"""JSON as it arrives: bytes become a value that every other program can read, or an error that names the field at fault."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import orjson

from srb.errors import InvalidRequest, bad_field
from srb.stories.limits import MAX_DEPTH

_PARTS = {"meta", "nodes", "runs", "marks", "media", "changes", "changed", "since", "server"}  # null counts as absent
_HALF = re.compile("[\ud800-\udfff]")
_MAX_SHOWN = 120  # characters of a field's name in a message: clients send keys of any length


def read_object(data: bytes) -> dict[str, Any]:
    value = _read_json(data)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object")
    _check_values(value)
    return {key: part for key, part in value.items() if part is not None or key not in _PARTS}


def read_entries(data: bytes, part: str) -> dict[str, Any]:
    """Return the entries of a piece of a file's part (`pieces`), such as its `nodes`."""
    value = _read_json(data, part)
    _check_values(value, part)
    assert isinstance(value, dict), "a piece begins and ends with braces"
    return value


def _read_json(data: bytes, part: str = "") -> Any:
    """Return the JSON value; raise InvalidRequest.

    orjson says at which byte the error is. For what another parser lets pass (NaN, halves of surrogate pairs) the field is
    named as well.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            _check_values(json.loads(data), part)
        except (ValueError, RecursionError):
            pass  # no parser reads it
        within = f" within a part of its {part}" if part else ""
        raise InvalidRequest(f"The body is not valid JSON{within}: {error}") from None


def _check_values(body: Any, part: str = "") -> None:
    """Raise InvalidRequest for a key or a value, at any depth, that would not survive its way to another program."""
    for name, key, value in _walk(body, part):
        if key == "__proto__":
            raise bad_field(shown(name), "no key may have this name")
        for text in (key, value):
            if isinstance(text, str) and not text.isascii() and _HALF.search(text):
                raise bad_field(shown(name), "has half of a surrogate pair, which is no character")
        if isinstance(value, float) and not math.isfinite(value):
            raise bad_field(shown(name), "is not a finite number")


def _walk(body: Any, part: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the full name, the key (empty in a list) and the value of everything in a JSON value, which `part` names."""
    left: list[tuple[str, str, Any, int]] = [(part, "", body, 1 if part else 0)]
    while left:
        name, key, value, depth = left.pop()
        yield name, key, value
        if isinstance(value, dict | list) and depth > MAX_DEPTH:
            raise bad_field(shown(name), f"is nested more than {MAX_DEPTH} levels deep")
        dot = f"{name}." if name else ""
        if isinstance(value, dict):
            left += [(dot + inner, inner, child, depth + 1) for inner, child in value.items()]
        elif isinstance(value, list):
            left += [(f"{dot}{place}", "", child, depth + 1) for place, child in enumerate(value)]


def shown(name: str) -> str:
    """Return a field's name as a message may show it: short, and without halves of surrogate pairs."""
    shown = name.encode("utf-16", "replace").decode("utf-16")
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"
