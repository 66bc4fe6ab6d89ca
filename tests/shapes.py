"""Answers read as they must be formed: JSON with every key of its shape and no other, and chunks of HTTP."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import orjson
from pydantic import TypeAdapter

from srb.web.openapi import schemas_of


def read(shape: Any, data: bytes | str) -> Any:
    """Return the JSON value of `data`; raise pydantic's ValidationError, or jsonschema's, for another shape.

    The shape is a type, the name of a recorded answer, or a list with such a name: a list of these.
    """
    if not isinstance(shape, str | list):
        return TypeAdapter(shape).validate_json(data, strict=True)
    [name] = shape if isinstance(shape, list) else [shape]
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{name}"}
    if isinstance(shape, list):
        schema = {"type": "array", "items": schema}
    value = orjson.loads(data)
    jsonschema_rs.validate({**schema, "components": {"schemas": schemas_of(name)}}, value)
    return value


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
