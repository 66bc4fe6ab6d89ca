"""The JSON schemas of tools' parameters, and of single arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

MAX_REFERENCES = 8  # one after another

Tool = Mapping[str, Any]  # a function: name, description, parameters


def parameters_of(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON schema of a function's parameters."""
    return tool.get("parameters") or {"type": "object"}


def properties_of(schema: Any) -> Mapping[str, Any]:
    """Return the schemas of an object's properties, each with what it refers to in the object's definitions."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return {name: _resolved(each, schema) for name, each in found.items()} if isinstance(found, Mapping) else {}


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Any:
    for _ in range(MAX_REFERENCES):
        target = schema.get("$ref") if isinstance(schema, Mapping) else None
        where, _, name = target.rpartition("/") if isinstance(target, str) else ("", "", "")
        if where not in ("#/$defs", "#/definitions") or not isinstance(whole.get(where[2:]), Mapping):
            break
        others = {key: value for key, value in schema.items() if key != "$ref"}
        found = whole[where[2:]].get(name)
        if not isinstance(found, Mapping):
            break
        schema = {**found, **others}
    return schema


def required_of(schema: Mapping[str, Any]) -> set[str]:
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def words_of(schema: Any) -> list[str]:
    """Return the only values of a schema of strings; none if there may be any."""
    found = schema.get("enum") if isinstance(schema, Mapping) else None
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def with_definitions(schema: Any, whole: Mapping[str, Any]) -> Any:
    """Return the schema of a part, with the definitions that its references name."""
    kept = {name: whole[name] for name in ("$defs", "definitions") if name in whole}
    return {**schema, **kept} if kept and isinstance(schema, Mapping) else schema


def type_of(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, Mapping) else None


def is_string(schema: Any) -> bool:
    """Whether a schema's values are all strings, which tags hold as they are."""
    if not isinstance(schema, Mapping):
        return False
    if isinstance(values := schema.get("enum"), list) and "type" not in schema:
        return bool(values) and all(isinstance(value, str) for value in values)
    return schema.get("type") == "string"


def json_or_text(text: str) -> str:
    """Return a value's text if it is JSON, else the JSON string of it."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()
    return text.strip()
