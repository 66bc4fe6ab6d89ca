"""JSON schemas before llguidance reads them: what clients write and it does not take, and llama-server's habits.

A keyword that cannot hold, as `not` or a pattern that looks around, is left out where it stands, with a remark; all else
of the schema holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from llguidance import LLMatcher

from srb.engine.grammar.limits import LIMITS, MAX_DEPTH_OF_SCHEMAS, MAX_PATTERN, MAX_TOGETHER
from srb.engine.grammar.patterns import in_rust
from srb.errors import bad_field
from srb.sampling_params import MAX_GRAMMAR

MAX_INTEGER = (
    10**16 - 1
)  # where a schema has no bounds: without any a model may write digits for ever; llama.cpp's limit
INTEGER = "whole number"  # the definition of such a number; one for all, since llguidance takes 2 ms to make it
# Space as models write it: one space, or line breaks with an indentation; llama.cpp's converter takes the same.
SPACE = r" |\n{1,2}[ \t]{0,20}"
MAX_REMARK = 500  # characters
OPTIONS = {"whitespace_pattern": SPACE, "coerce_one_of": True}

# Keywords, by what their values are.
_OF_DATA = ("const", "default", "examples", "example")
_OF_NAMES = ("properties", "patternProperties", "dependentSchemas")
_OF_VALUES = ("items", "prefixItems", "additionalItems", "additionalProperties", "contains")
_OF_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_OF_OBJECTS = ("properties", "required", "patternProperties")
_OF_FURTHER = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties")
_OF_PARTS = ("allOf", "if", "not", "dependentSchemas")
_IN_PLACE = ("anyOf", "oneOf", "allOf", "if", "then", "else", "not")  # schemas of the same value
_BESIDE = frozenset({"$ref", "$defs", "definitions", "$schema", "$id", "title", "description", "default", "examples"})
# That llguidance does not know; what they mean is not held.
LOOSENED = (
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "minContains",
    "maxContains", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "uniqueItems", "$dynamicRef",
    "$recursiveRef",
)  # fmt: skip
_DEFINITIONS = ("$defs", "definitions")
_ABOUT_VALUE = frozenset({"type", "title", "description", "default", "examples", "example", *_DEFINITIONS})
_IN_REFERENCES = "#/%~!$&'()*+,;=:@?-._"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema as llguidance takes it, and a remark for each keyword that does not hold."""

    text: str
    remarks: tuple[str, ...] = ()


def prepared(text: str, field: str, place: str = "") -> Prepared:
    """Return a JSON schema with llguidance's options; `place` is where it stands in the request, `field` if "".

    Raise InvalidRequest, which names `field`, for text that is none.
    """
    place = place or field
    if (size := len(text.encode())) > MAX_GRAMMAR:
        raise bad_field(field, _at(field, place, f"has {size} bytes; at most {MAX_GRAMMAR} are taken"))
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_field(field, _at(field, place, "is not valid JSON, or nested too deeply")) from None
    if not isinstance(schema, dict):
        raise bad_field(field, _at(field, place, "should be an object"))
    if _depth(schema) > MAX_DEPTH_OF_SCHEMAS:
        raise bad_field(field, _at(field, place, f"is nested deeper than {MAX_DEPTH_OF_SCHEMAS}"))

    def refuse(where: str, problem: str) -> None:
        raise bad_field(field, _at(field, where, problem))

    preparation = _Preparation(schema, refuse)
    made = preparation.schema(schema, place, is_whole=True)
    if preparation.has_integers:
        made["$defs"] = {**made.get("$defs", {}), INTEGER: _INTEGER}
    made["x-guidance"] = OPTIONS
    return Prepared(json.dumps(made, separators=(",", ":")), tuple(map(_one_line, preparation.remarks)))


def _one_line(remark: str) -> str:
    """Return a remark, which quotes names and patterns, as a line of the log takes it."""
    return "".join(sign if sign.isprintable() else "?" for sign in remark[:MAX_REMARK])


def checked_regex(text: str) -> str:
    """Return a regular expression between slashes, which the whole text has to match, as a grammar takes it.

    Raise InvalidRequest, which names `grammar`.
    """
    if len(text) < 3 or not text.endswith("/"):
        raise bad_field("grammar", "that begins with a slash is a regular expression, and ends with one")
    pattern = text[1:-1]
    if len(pattern) > MAX_PATTERN:
        raise bad_field("grammar", f"has a pattern of {len(pattern)} characters; at most {MAX_PATTERN} are taken")
    if not re.search(r"(?<!\\)\|", pattern):  # anchors of the whole, as clients write them, say nothing new
        pattern = re.sub(r"(?<!\\)\$$", "", pattern.removeprefix("^"))
    written = in_rust(pattern)
    if problem := _problem({"type": "string", "pattern": written}):
        raise bad_field("grammar", f"has a pattern that is not supported: {_one_line(problem)}")
    return "/" + written.replace("/", "\\/").replace("\n", "\\n").replace("\r", "\\r") + "/"


_INTEGER = {"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}


def _at(field: str, place: str, problem: str) -> str:
    return problem if place == field else f"{place}: {problem}"


def _depth(value: Any) -> int:
    """Return how deep a value is nested, without recursion."""
    depth, level = 0, [value]
    while level := [
        inner
        for each in level
        if isinstance(each, dict | list)
        for inner in (each.values() if isinstance(each, dict) else each)
    ]:
        depth += 1
    return depth


class _Preparation:
    """One schema on its way. An object that is the whole of a value has no more properties than the schema names."""

    def __init__(self, schema: dict[str, Any], refuse: Callable[[str, str], None]) -> None:
        self._whole = schema
        self._refuse = refuse
        self._shared: set[str] = set()  # references to schemas that are only a part of what holds for a value
        self._find_shared(schema, is_shared=False)
        self.remarks: list[str] = []
        self.has_integers = False

    def _find_shared(self, schema: Any, is_shared: bool) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._find_shared(each, is_shared)
        if not isinstance(schema, dict):
            return
        is_shared = is_shared or any(key in schema for key in _OF_PARTS)
        if isinstance(reference := schema.get("$ref"), str) and (is_shared or schema.keys() - _BESIDE):
            self._shared.add(reference)
        for key, value in schema.items():
            self._find_shared(value, is_shared and key in _IN_PLACE)

    def schema(self, schema: Any, place: str, is_whole: bool) -> Any:
        """Return the schema that stands at a place; `is_whole`: no other one says anything of the same value."""
        if isinstance(schema, list):
            return [self.schema(each, f"{place}[{number}]", is_whole) for number, each in enumerate(schema)]
        if not isinstance(schema, dict):
            return schema
        made: dict[str, Any] = {}
        is_union = is_whole and schema.keys().isdisjoint((*_OF_OBJECTS, *_OF_PARTS))
        for key, value in self._with_names(schema).items():
            where = f"{place}.{key}"
            if key in _OF_DATA:
                made[key] = value
            elif value is None:  # as if it were not there
                continue
            elif key in LOOSENED or (value == [] and key in ("enum", "type")):
                self.remarks.append(f"{where} is not supported and does not hold")
            elif key == "enum":
                made[key] = value
            elif key == "pattern" and isinstance(value, str):
                made |= self._pattern(value, where)
            elif key == "format" and isinstance(value, str) and _problem({"type": "string", "format": value}):
                if schema.get("type") == "string":
                    self.remarks.append(f"{where}: {value!r} is not supported and does not hold")
            elif key in _DEFINITIONS and isinstance(value, dict):
                made[key] = {
                    name: self.schema(inner, f"{where}.{name}", f"#/{key}/{name}" not in self._shared)
                    for name, inner in value.items()
                }
            elif key in _OF_NAMES and isinstance(value, dict):
                made[key] = {name: self.schema(inner, f"{where}.{name}", True) for name, inner in value.items()}
            elif key == "$ref" and isinstance(value, str):
                made[key] = quote(value, safe=_IN_REFERENCES)
            elif key in _OF_COUNTS and isinstance(value, float) and value.is_integer():
                made[key] = int(value)
            elif isinstance(value, dict | list):
                made[key] = self.schema(value, where, is_union if key in ("anyOf", "oneOf") else key in _OF_VALUES)
            else:
                made[key] = value
        self._check_together(made, place)
        if is_whole and made.get("type") == "integer" and made.keys() <= _ABOUT_VALUE:
            self.has_integers = True
            definitions = {key: made[key] for key in _DEFINITIONS if key in made}
            return {"$ref": f"#/$defs/{quote(INTEGER)}", **definitions}
        return self._closed(made) if is_whole else made

    def _with_names(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema whose `propertyNames` are properties or patterns of their own, if they can be."""
        names = schema.get("propertyNames")
        if not isinstance(names, dict) or not schema.keys().isdisjoint(_OF_OBJECTS):
            return schema
        value = schema.get("additionalProperties", {})
        rest = {key: each for key, each in schema.items() if key != "propertyNames"} | {"additionalProperties": False}
        if names.keys() == {"enum"} and all(isinstance(name, str) for name in names["enum"]):
            return rest | {"type": "object", "properties": dict.fromkeys(names["enum"], value)}
        if names.keys() <= {"type", "pattern"} and isinstance(names.get("pattern"), str):
            return rest | {"type": "object", "patternProperties": {names["pattern"]: value}}
        return schema

    def _pattern(self, pattern: str, place: str) -> dict[str, str]:
        if len(pattern) > MAX_PATTERN:
            self._refuse(place, f"has {len(pattern)} characters; at most {MAX_PATTERN} are taken")
        written = in_rust(pattern)
        if not (problem := _problem({"type": "string", "pattern": written})):
            return {"pattern": written}
        try:
            re.compile(written)
        except (re.error, OverflowError, RecursionError):
            self._refuse(place, f"is no regular expression: {problem}")
        self.remarks.append(f"{place} is not supported and does not hold: {problem}")
        return {}

    def _check_together(self, schema: dict[str, Any], place: str) -> None:
        """Refuse a schema that has too many patterns hold for one string: llguidance's time doubles with each."""
        if "allOf" in schema and (count := self._patterns(schema, set())) > MAX_TOGETHER:
            self._refuse(place, f"has {count} patterns and formats for one text; at most {MAX_TOGETHER} are taken")

    def _patterns(self, schema: Any, seen: set[str]) -> int:
        if isinstance(schema, list):
            return sum(self._patterns(each, seen) for each in schema)
        if not isinstance(schema, dict):
            return 0
        count = ("pattern" in schema) + ("format" in schema)
        target = schema.get("$ref")
        if isinstance(target, str) and target not in seen:
            seen.add(target)
            where, _, name = target.removeprefix("#/").rpartition("/")
            found = self._whole.get(where)
            count += self._patterns(found.get(name), seen) if isinstance(found, dict) else 0
        return count + sum(self._patterns(schema.get(key), seen) for key in _IN_PLACE)

    @staticmethod
    def _closed(schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a whole value, of the type that its keywords speak of and without further properties."""
        if schema.keys().isdisjoint(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")):
            if isinstance(schema.get("properties"), dict):
                schema["type"] = "object"
            elif "items" in schema:
                schema["type"] = "array"
        if schema.get("properties") and schema.keys().isdisjoint((*_OF_FURTHER, *_OF_PARTS, *_IN_PLACE, "$ref")):
            schema["additionalProperties"] = False
        return schema


def _problem(schema: dict[str, str]) -> str:
    return _problem_of(json.dumps(schema))


@lru_cache(1024)
def _problem_of(schema: str) -> str:
    """Return why llguidance does not take the schema of a string; "" if it does."""
    error = LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema), limits=LIMITS)
    if not error or error.startswith("WARNING"):
        return ""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return next((line.removeprefix("error: ") for line in lines if line.startswith("error:")), lines[0][:200])
