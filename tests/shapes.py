"""Answers checked against their shapes: every key that must be there is, of its type, and no other."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter


def read(shape: Any, data: bytes | str) -> Any:
    """Return the JSON value of `data`; raise pydantic's ValidationError for another shape."""
    return TypeAdapter(shape).validate_json(data, strict=True)
