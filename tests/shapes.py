"""Answers read as they must be formed: JSON with every key of its shape and no other, and chunks of HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter


def read(shape: Any, data: bytes | str) -> Any:
    """Return the JSON value of `data`; raise pydantic's ValidationError for another shape."""
    return TypeAdapter(shape).validate_json(data, strict=True)


def chunks_of(data: bytes) -> list[bytes]:
    """Return the chunks of a part of a chunked body; it has to end where a chunk ends."""
    found = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16)
        assert rest[length : length + 2] == b"\r\n"
        found.append(rest[:length])
        data = rest[length + 2 :]
    return found
