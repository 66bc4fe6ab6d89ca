"""Checks of a JSON schema before it becomes a grammar: the converter recurses and expands without limit."""

from __future__ import annotations

import json
import re
from typing import Any

from srb.errors import bad_field
from srb.sampling_params import MAX_GRAMMAR

MAX_DEPTH = 64
MAX_PROPERTIES = 100  # of one object; optional ones take quadratic time
MAX_REPEATS = 2000
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength")


def check_schema(text: str) -> None:
    """Raise InvalidRequest, which names json_schema, for text that is no schema, too large, deep or repetitive."""
    if len(text.encode()) > MAX_GRAMMAR:
        raise bad_field("json_schema", f"has {len(text.encode())} bytes; at most {MAX_GRAMMAR} are taken")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_field("json_schema", "is not valid JSON, or nested too deeply") from None
    if not isinstance(schema, dict):
        raise bad_field("json_schema", "should be an object")
    _check(schema, depth=0)


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise bad_field("json_schema", f"is nested deeper than {MAX_DEPTH}")
    if isinstance(value, list):
        for each in value:
            _check(each, depth + 1)
    if not isinstance(value, dict):
        return
    if isinstance(properties := value.get("properties"), dict) and len(properties) > MAX_PROPERTIES:
        raise bad_field("json_schema", f"has an object with more than {MAX_PROPERTIES} properties")
    for name in _COUNTS:
        count = value.get(name, 0)
        if isinstance(count, int | float) and not 0 <= count <= MAX_REPEATS:
            raise bad_field("json_schema", f"{name} should be from 0 to {MAX_REPEATS}")
    if isinstance(pattern := value.get("pattern"), str) and any(
        int(digits[:9]) > MAX_REPEATS for digits in re.findall(r"\d+", "".join(re.findall(r"\{[^}]*\}", pattern)))
    ):
        raise bad_field("json_schema", f"a pattern repeats something more than {MAX_REPEATS} times")
    for each in value.values():
        _check(each, depth + 1)
