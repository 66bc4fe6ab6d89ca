"""The JSON schemas of tools' parameters, and of single arguments."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from srb.config.sampling_params import MARKS, PLACE, TOOL

MAX_REFERENCES = 8  # one after another; `$ref`s may form a ring
MAX_VARIANTS = 64  # of one schema: alternatives of alternatives multiply

ANY_VALUE = {"type": ["string", "number", "boolean", "null", "array", "object"]}
_TO_ITSELF = re.compile(rb'"\$ref":"(?!#/(\$defs|definitions)/)')
NULLS = ("null", "None")  # of JSON, and of templates that print a value as Python does
_PYTHON = re.compile(r"\s*(True|False|None|[\[{].*)\s*", re.DOTALL)  # such values, and lists and objects of them
_OF_STRINGS = ("pattern", "format", "minLength", "maxLength")  # what schemas without a type say of strings

Tool = Mapping[str, Any]  # a function: name, description, parameters


def parameters_of(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON schema of a function's parameters: of none, if it has no schema, or one that says nothing."""
    return tool.get("parameters") or {"type": "object", "properties": {}}


def properties_of(schema: Any) -> Mapping[str, Any]:
    """Return the schemas of the properties that an object may have, each with what it refers to and the definitions."""
    found: dict[str, list[Any]] = {}
    for each in _objects(schema):
        for name, inner in _properties(each).items():
            others = found.setdefault(name, [])
            if inner not in others:
                others.append(inner)
    return {
        name: _part(ones[0] if len(ones) == 1 else {"anyOf": ones}, schema, f"properties.{name}")
        for name, ones in found.items()
    }


def required_of(schema: Any) -> set[str]:
    """Return the properties that an object must have, whichever of its schema's variants it follows."""
    required = [_required(each) for each in _objects(schema)]
    return set.intersection(*required) if required else set()


def has_any_properties(schema: Any) -> bool:
    """Whether an object may have properties of any name, and its schema knows none."""
    return any(
        not isinstance(each.get("properties"), Mapping) and each.get("additionalProperties") is not False
        for each in _objects(schema)
    ) and not properties_of(schema)


def items_of(schema: Mapping[str, Any]) -> Any:
    """Return the schema of a list's items, with what it refers to and the definitions; None for any."""
    found = schema.get("items")
    return _part(found, schema, "items") if isinstance(found, Mapping) else None


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of the values of a schema without branches; [] if they are not known."""
    if kinds := _kinds(schema):
        return sorted(kinds)
    return ["object"] if _properties(schema) else ["array"] if isinstance(schema.get("items"), Mapping) else []


def own_text(schema: Any) -> str:
    """Return a schema as text, without the definitions, its place and its tool."""
    own = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", *MARKS)}
    return orjson.dumps(own).decode()


def with_place(tool: Tool, place: str) -> Tool:
    """Return a tool whose schema says where in the request it stands and whose it is, and so does each part of it."""
    parameters = tool.get("parameters")
    return {**tool, "parameters": {PLACE: place, TOOL: tool["name"], **parameters}} if parameters else tool


def _part(schema: Any, whole: Mapping[str, Any], where: str) -> Any:
    """Return a part of a schema with what it refers to, the definitions, and its place."""
    made = with_definitions(_resolved(schema, whole), whole)
    if PLACE not in whole or not isinstance(made, Mapping):
        return made
    return {**made, PLACE: f"{whole[PLACE]}.{where}", TOOL: whole.get(TOOL, "")}


def _objects(schema: Any) -> list[Mapping[str, Any]]:
    return [each for each in variants_of(schema) if _kinds(each) <= {"object"} or "object" in _kinds(each)]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _required(schema: Mapping[str, Any]) -> set[str]:
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def variants_of(schema: Any) -> list[Mapping[str, Any]]:
    """Return the schemas of which a value follows one: `anyOf` and `oneOf` are taken apart, `allOf` is put together.

    A definition is looked up once, so those that refer to themselves end.
    """
    found: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    waiting = [_resolved(schema, schema, seen)]
    while waiting and len(found) < MAX_VARIANTS:
        each = waiting.pop()
        if not isinstance(each, Mapping):
            continue
        name = next((name for name in ("allOf", "anyOf", "oneOf") if isinstance(each.get(name), list)), "")
        if not name:
            found.append(each)
            continue
        rest: Mapping[str, Any] = {key: value for key, value in each.items() if key != name}
        branches = [_resolved(branch, schema, seen) for branch in each[name][:MAX_VARIANTS]]
        if name == "allOf":
            for branch in branches:
                rest = _merged(rest, branch)
            waiting.append(rest)
        else:
            waiting += [_merged(rest, branch) for branch in reversed(branches) if branch is not None]
    return found


def _merged(one: Mapping[str, Any], other: Any) -> Mapping[str, Any]:
    """Return the schema of values that follow both; where they contradict, the other's word counts."""
    if not isinstance(other, Mapping):
        return one
    merged = {**one, **other}
    if properties := {**_properties(one), **_properties(other)}:
        merged["properties"] = properties
    if required := _required(one) | _required(other):
        merged["required"] = sorted(required)
    return merged


def _resolved(schema: Any, whole: Any, seen: set[str] | None = None) -> Any:
    """Return a schema with what it refers to in the definitions of `whole`; None for what was `seen` before."""
    for _ in range(MAX_REFERENCES):
        target = schema.get("$ref") if isinstance(schema, Mapping) else None
        where, _, name = target.rpartition("/") if isinstance(target, str) else ("", "", "")
        if where not in ("#/$defs", "#/definitions") or not isinstance(whole.get(where[2:]), Mapping):
            break
        if seen is not None:
            if name in seen:
                return None
            seen.add(name)
        others = {key: value for key, value in schema.items() if key != "$ref"}
        found = whole[where[2:]].get(name)
        if not isinstance(found, Mapping):
            break
        schema = {**found, **others}
    return schema


def values_of(schema: Any) -> list[Any]:
    """Return the only values of a schema; none if there may be others."""
    values: list[Any] = []
    for each in variants_of(schema):
        only = _only(each)
        if only is None:
            return []
        values += [value for value in only if value not in values]
    return values


def text_of(value: Any) -> str:
    """Return a value as tags hold it: a string as it is, another as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def with_definitions(schema: Any, whole: Mapping[str, Any]) -> Any:
    """Return the schema of a part, with the definitions that its references name."""
    kept = {name: whole[name] for name in ("$defs", "definitions") if name in whole}
    return {**schema, **kept} if kept and isinstance(schema, Mapping) else schema


def refers_to_itself(schema: Any) -> bool:
    """Whether a schema has references to other places than definitions, so that it cannot become part of another."""
    return _TO_ITSELF.search(orjson.dumps(schema)) is not None


def type_of(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, Mapping) else None


def may_be_string(schema: Any) -> bool:
    """Whether a schema has strings among its values; tags hold such a value as it is."""
    return any("string" in _kinds(each) for each in variants_of(schema))


def may_be_null(schema: Any) -> bool:
    return any("null" in _kinds(each) for each in variants_of(schema))


def is_string(schema: Any) -> bool:
    """Whether all values of a schema are strings."""
    kinds = [_kinds(each) for each in variants_of(schema)]
    return bool(kinds) and all(each == {"string"} for each in kinds)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types of a schema's values, as far as they are known."""
    values = _only(schema)
    if values is not None:
        return {"null" if value is None else "string" if isinstance(value, str) else "other" for value in values}
    types = schema.get("type")
    if types is None:
        return {"string"} if any(name in schema for name in _OF_STRINGS) else set()
    return {each for each in (types if isinstance(types, list) else [types]) if isinstance(each, str)}


def _only(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the only values of a schema without branches; None if there may be others."""
    if "const" in schema:
        return [schema["const"]]
    if isinstance(values := schema.get("enum"), list):
        return values
    return [None] if schema.get("type") == "null" else None


def json_or_text(text: str) -> str:
    """Return a value's text if it is JSON, its JSON if it is written as in Python, else the JSON string of it."""
    try:
        orjson.loads(text)
        return text.strip()
    except orjson.JSONDecodeError:
        pass
    if _PYTHON.fullmatch(text):
        try:
            return json_of_python(text.strip())
        except ValueError:
            pass
    return orjson.dumps(text).decode()


def json_of_python(text: str) -> str:
    """Return the JSON of a literal in Python. Raise ValueError for other texts, and for values that JSON has not."""
    try:
        return json.dumps(ast.literal_eval(text), ensure_ascii=False, allow_nan=False)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from None
