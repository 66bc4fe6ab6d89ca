"""JSON schemas before llguidance reads them: what clients write and it does not take, and llama-server's habits.

A keyword that cannot hold, as `not` or a pattern that looks around, is left out where it stands, with a remark; all else
of the schema holds. A value that is no schema is refused where it stands.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import quote

from llguidance import LLMatcher

from srb.config.sampling_params import MARKS, MAX_GRAMMAR, PLACE, TOOL
from srb.engine.grammar import limits
from srb.engine.grammar.apart import are_apart, nested_alternatives
from srb.engine.grammar.patterns import in_rust
from srb.engine.grammar.references import IN_PLACE, References
from srb.errors import bad_field

MAX_INTEGER = 10**16 - 1  # where a schema has no bounds: without any a model may write digits for ever; llama.cpp's
# The address of such a number's definition; one for all, since each takes some of what a lexer may have. It is absolute,
# so it holds also below an id.
INTEGER = "urn:srb:whole-number"
# Space as models write it: one space, or line breaks with an indentation; llama.cpp's converter takes the same.
SPACE = r" |\n{1,2}[ \t]{0,20}"
MAX_REMARK = 500  # characters of what the log tells of a schema, which a client wrote
OPTIONS = {"whitespace_pattern": SPACE, "coerce_one_of": True}

# Keywords, by what their values are.
_OF_DATA = ("const", "default", "examples", "example", "discriminator", "enumNames", "xml", "externalDocs")
_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_OF_VALUES = ("items", "prefixItems", "additionalItems", "additionalProperties", "contains")
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_OF_SIZE = ("minProperties", "maxProperties")
_OF_OBJECTS = ("properties", "required", "patternProperties")
_OF_FURTHER = ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties")
# That llguidance does not know; what they mean is not held.
LOOSENED = (
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "minContains",
    "maxContains", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "uniqueItems", "$dynamicRef",
    "$recursiveRef", "$recursiveAnchor",
)  # fmt: skip
# Numbers within this and its inverse, and without more digits, never make an expression that is too large.
PLAIN_NUMBER, PLAIN_DIGITS = 10**8, 8
_DRAFTS = re.compile(
    r"http://json-schema\.org/draft-0[3467]/schema#?|https://json-schema\.org/draft/20(19-09|20-12)/schema#?"
)
_DEFINITIONS = ("$defs", "definitions")
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_FORMS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (_OF_NAMES, dict, "an object"),
    (("enum", "anyOf", "oneOf", "allOf", "prefixItems"), list, "a list"),
    (("required",), list | bool, "a list of names"),
    (("pattern", "format", "$ref", "$schema", "$id", "$anchor", "$dynamicAnchor"), str, "a string"),
)
_ABOUT_VALUE = frozenset({"type", "title", "description", "default", "examples", "example", *_DEFINITIONS})
_IN_REFERENCES = "#/%~!$&'()*+,;=:@?-._"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema as llguidance takes it, where in the request and of which tool it is, and a remark for each keyword that
    does not hold.
    """

    text: str
    place: str
    tool: str = ""
    remarks: tuple[str, ...] = ()


def prepared(text: str, place: str) -> Prepared:
    """Return a JSON schema with llguidance's options; its keyword PLACE, or else `place`, says where it stands.

    Raise InvalidRequest, which names the place of what is no schema.
    """
    if (size := len(text.encode())) > MAX_GRAMMAR + MAX_REMARK:  # with its place
        raise bad_field(place, f"has {size} bytes; at most {MAX_GRAMMAR} are taken")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_field(place, "is not valid JSON, or nested too deeply") from None
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise bad_field(place, "should be an object, or true")
    place = str(schema.get(PLACE, place))
    if _depth(schema) > limits.MAX_DEPTH_OF_SCHEMAS:
        raise bad_field(place, f"is nested deeper than {limits.MAX_DEPTH_OF_SCHEMAS}")
    preparation = _Preparation(schema, _free(INTEGER, json.dumps(schema)))
    preparation.check_nesting(schema, place)
    made = preparation.schema(schema, place)
    if made is False:
        raise bad_field(place, "allows no value")
    if preparation.has_integers:
        address = preparation.integer
        # In `definitions`, where every draft looks for ids, which draft 4 calls `id`.
        made["definitions"] = {**made.get("definitions", {}), address: {"$id": address, "id": address, **_INTEGER}}
    made["x-guidance"] = OPTIONS
    remarks = tuple(map(_one_line, preparation.remarks))
    return Prepared(json.dumps(made, separators=(",", ":")), _one_line(place), tool_of(schema), remarks)


def _free(name: str, text: str) -> str:
    """Return a name that is nowhere in a text: this one, or one that goes on with a number."""
    return next(free for number in range(len(text) + 1) if (free := f"{name}{number or ''}") not in text)


def tool_of(schema: Any) -> str:
    """Return the name of the tool whose schema this is, as a line of the log takes it; "" for none's."""
    return _one_line(str(schema.get(TOOL, ""))) if isinstance(schema, dict) else ""


def _refuse(place: str, problem: str) -> NoReturn:
    raise bad_field(_one_line(place), problem)


def _one_line(remark: str) -> str:
    """Return a remark, which quotes names and patterns, as a line of the log takes it."""
    return "".join(sign if sign.isprintable() else "?" for sign in remark[:MAX_REMARK])


def checked_regex(text: str, field: str) -> str:
    """Return a regular expression between slashes, which the whole text has to match, as a grammar takes it.

    Raise InvalidRequest, which names `field`.
    """
    if len(text) < 3 or not text.endswith("/"):
        raise bad_field(field, "that begins with a slash is a regular expression, and ends with one")
    pattern = text[1:-1]
    if len(pattern) > limits.MAX_PATTERN:
        raise bad_field(field, f"has a pattern of {len(pattern)} characters; at most {limits.MAX_PATTERN} are taken")
    if not re.search(r"(?<!\\)\|", pattern):  # anchors of the whole, as clients write them, say nothing new
        pattern = re.sub(r"(?<!\\)\$$", "", pattern.removeprefix("^"))
    written = in_rust(pattern)
    if problem := _problem({"type": "string", "pattern": written}):
        raise bad_field(field, f"has a pattern that is not supported: {_one_line(problem)}")
    return "/" + written.replace("/", "\\/").replace("\n", "\\n").replace("\r", "\\r") + "/"


_INTEGER = {"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}


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
    """One schema on its way. An object that no other schema speaks of has no more properties than its own names."""

    def __init__(self, schema: dict[str, Any], integer: str) -> None:
        """`integer` is the address of a whole number without bounds of its own."""
        self.integer = integer
        self._references = References(schema)
        self.remarks: list[str] = []
        self.has_integers = False
        self._multiples = 0  # digits of all `multipleOf` that hold, as numbers
        self._num_together = 0  # schemas that were looked at for what holds together

    def check_nesting(self, whole: dict[str, Any], place: str) -> None:
        """Refuse a schema whose alternatives lead to too many others."""
        if (count := nested_alternatives(whole, self._references)) > limits.MAX_NESTED:
            what = "lists and objects that are alternatives and lead to further ones"
            _refuse(place, f"has {count} {what}; at most {limits.MAX_NESTED} are taken")

    def schema(self, schema: Any, place: str) -> Any:
        """Return the schema that stands at a place."""
        if isinstance(schema, list):
            return [self.schema(each, f"{place}[{number}]") for number, each in enumerate(schema)]
        if not isinstance(schema, dict):
            if not isinstance(schema, bool):
                _refuse(place, "should be a schema: an object, true or false")
            return schema
        place = str(schema.get(PLACE, place))
        if schema.get("not") is True or schema.get("not") == {}:  # nothing is not anything
            return False
        made: dict[str, Any] = {}
        for key, value in self._rewritten(schema, place).items():
            where = f"{place}.{key}"
            if key in MARKS:
                continue
            if key in ("const", "enum"):
                _check_constants([value] if key == "const" else value, where)
            if key in _OF_DATA or key.startswith("x-"):
                made[key] = value
            elif value is None or (key == "not" and value is False):  # as if it were not there
                continue
            elif problem := _misuse(key, value):
                _refuse(where, problem)
            elif (loosened := self._loosened(key, value, schema)) is not None:
                self._remark(where, loosened)
            elif key == "pattern":
                made |= self._pattern(value, where)
            elif key == "$ref":
                made[key] = self._reference(value, where)
            elif key in _OF_NAMES:
                made[key] = {name: self.schema(inner, f"{where}.{name}") for name, inner in value.items()}
            elif key in _OF_COUNTS:
                made[key] = int(value)
            elif key in _OF_VALUES or key in IN_PLACE or (isinstance(value, dict) and key in self._references.heads):
                made[key] = self.schema(value, where)
            elif key not in ("format", "$schema") or not _is_unknown(key, value):
                made[key] = value
        self._check_together(made, place)
        if "oneOf" in made and not are_apart(list(map(self._resolved, schema["oneOf"]))):
            self.remarks.append(f"{place}.oneOf holds as anyOf: its schemas may have values in common")
        if self._references.is_shared(schema):
            return made
        if made.get("type") == "integer" and made.keys() <= _ABOUT_VALUE:
            self.has_integers = True
            definitions = {key: made[key] for key in _DEFINITIONS if key in made}
            return {"$ref": self.integer, **definitions}
        return _closed(made)

    def _remark(self, where: str, problem: str = "") -> None:
        self.remarks.append(f"{where} is not supported and does not hold{problem and ': '}{problem}")

    def _rewritten(self, schema: dict[str, Any], place: str) -> dict[str, Any]:
        """Return a schema in the keywords that llguidance knows, where others mean the same."""
        made = _with_names(_with_rest(schema))
        for bound in ("minimum", "maximum"):  # as draft 4 has it
            exclusive = f"exclusive{bound.title()}"
            if isinstance(is_exclusive := made.get(exclusive), bool):
                made = {key: value for key, value in made.items() if key != exclusive}
                if is_exclusive and bound in made:
                    made[exclusive] = made.pop(bound)
        if "$dynamicAnchor" in made:
            made = {"$anchor" if key == "$dynamicAnchor" else key: value for key, value in made.items()}
        patterns = made.get("patternProperties")
        if isinstance(patterns, dict):
            written: dict[str, Any] = {in_rust(pattern): value for pattern, value in patterns.items()}
            if problem := _problem({"type": "object", "patternProperties": dict.fromkeys(written, True)}):
                self._remark(f"{place}.patternProperties", problem)
                rest = {key: value for key, value in made.items() if key != "patternProperties"}
                return rest | {"additionalProperties": True}
            return made | {"patternProperties": written}
        return made

    def _reference(self, reference: str, place: str) -> str:
        """Return a reference as an address. Raise InvalidRequest for one that leads nowhere."""
        if not self._references.has_ids and not _DRAFTS.fullmatch(reference):
            if not reference.startswith("#"):
                _refuse(place, "names a schema elsewhere; only those within the schema are read")
            if self._references.target(reference) is None:
                _refuse(place, f"{reference} is not in the schema")
        return quote(reference, safe=_IN_REFERENCES)

    def _resolved(self, schema: Any) -> Any:
        """Return what a schema refers to, if it does so and says nothing else, as it is made."""
        seen: set[str] = set()
        while isinstance(schema, dict) and schema.keys() == {"$ref"}:
            reference = str(schema["$ref"])
            if reference in seen or len(seen) >= limits.MAX_DEPTH_OF_SCHEMAS:
                return {}
            seen.add(reference)
            schema = self._references.target(reference) or {}
        if not isinstance(schema, dict) or self._references.is_shared(schema):
            return schema
        return _closed(dict(schema))

    def _loosened(self, key: str, value: Any, schema: dict[str, Any]) -> str | None:
        """Return why a keyword does not hold, "" if there is no more to say; None if it holds, or has no meaning here."""
        if (
            key in LOOSENED
            or (value == [] and key in ("enum", "type"))
            or (key == "required" and isinstance(value, bool))
        ):
            return ""
        if key == "multipleOf":
            digits = int(repr(value).partition("e")[0].replace(".", "").rstrip("0") or 0)
            if self._multiples + digits > limits.MAX_MULTIPLE:
                return f"the digits of {value} and of those before it are more than {limits.MAX_MULTIPLE} together"
            self._multiples += digits
        if key in _OF_NUMBERS and not _is_plain(value):
            kind = "integer" if schema.get("type") == "integer" else "number"
            return _problem({"type": kind, key: value}) or None
        if key in _OF_SIZE:
            object_ = _skeleton(schema) | {key: int(value)}
            if self._references.is_shared(schema):  # with one that may name properties which are not required
                object_["properties"] = {"": {}}
            return _problem(object_) or None
        if key == "format" and _is_unknown(key, value):
            types = schema.get("type", "string")
            return f"{value!r} is not known" if "string" in (types if isinstance(types, list) else [types]) else None
        if key == "$schema" and _is_unknown(key, value):
            return f"{value!r} is not known; the schema is read as of 2020-12"
        return None

    def _pattern(self, pattern: str, place: str) -> dict[str, str]:
        if len(pattern) > limits.MAX_PATTERN:
            _refuse(place, f"has {len(pattern)} characters; at most {limits.MAX_PATTERN} are taken")
        written = in_rust(pattern)
        if not (problem := _problem({"type": "string", "pattern": written})):
            return {"pattern": written}
        try:
            re.compile(written)
        except (re.error, OverflowError, RecursionError):
            _refuse(place, f"is no regular expression: {problem}")
        self._remark(place, problem)
        return {}

    def _check_together(self, schema: dict[str, Any], place: str) -> None:
        """Refuse a schema that has too many patterns hold for one string: llguidance's time doubles with each."""
        if "allOf" in schema and (count := self._patterns(schema, place)) > limits.MAX_TOGETHER:
            _refuse(place, f"has {count} patterns and formats for one text; at most {limits.MAX_TOGETHER} are taken")

    def _patterns(self, schema: dict[str, Any], place: str) -> int:
        count, seen, waiting = 0, set[str](), list[Any]([schema])
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting += part
            if not isinstance(part, dict):
                continue
            self._num_together += 1
            if self._num_together > limits.MAX_PARTS:
                _refuse(place, f"has, with those before it, more than {limits.MAX_PARTS} schemas that hold together")
            count += ("pattern" in part) + ("format" in part)
            target = part.get("$ref")
            if isinstance(target, str) and target not in seen:
                seen.add(target)
                waiting.append(self._references.target(target))
            waiting += [part.get(key) for key in IN_PLACE]
        return count


def _with_names(schema: dict[str, Any]) -> dict[str, Any]:
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


def _with_rest(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose `unevaluated…` are those that follow what it names, if no other schema names any."""
    made = schema
    for keyword, others in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if keyword in made and made.keys().isdisjoint(("$ref", "contains", "dependentSchemas", *IN_PLACE)):
            rest = {key: value for key, value in made.items() if key != keyword}
            made = {others: made[keyword], **rest}
    return made


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a whole value, of the type that its keywords speak of and without further properties."""
    if schema.keys().isdisjoint(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")):
        if isinstance(schema.get("properties"), dict):
            schema["type"] = "object"
        elif "items" in schema:
            schema["type"] = "array"
    named, required = schema.get("properties"), schema.get("required")
    if isinstance(named, dict) and schema.keys().isdisjoint((*_OF_FURTHER, *IN_PLACE, "$ref")):
        others = [each for each in required if isinstance(each, str)] if isinstance(required, list) else []
        return {
            **schema,
            "properties": named | {name: {} for name in others if name not in named},
            "additionalProperties": False,
        }
    return schema


def _misuse(key: str, value: Any) -> str:
    """Return what the value of a keyword should be; "" if it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "type":
        names = value if isinstance(value, list) else [value]
        return "" if all(name in _TYPES for name in names) else f"should be of {', '.join(_TYPES)}"
    if key in _OF_COUNTS:
        return "" if is_number and value >= 0 and value == int(value) else "should be a whole number, 0 or more"
    if key in _OF_NUMBERS:
        is_right = is_number and (key != "multipleOf" or value > 0)
        return "" if is_right else f"should be a number{' above 0' if key == 'multipleOf' else ''}"
    for keys, kind, name in _FORMS:
        if key in keys:
            return "" if isinstance(value, kind) else f"should be {name}"
    return ""


def _skeleton(schema: dict[str, Any]) -> dict[str, Any]:
    """Return which properties an object has to have and may have."""
    rest = {
        key: value for key in ("required", "additionalProperties") if isinstance(value := schema.get(key), list | bool)
    }
    named = schema.get("properties")
    return {"type": "object", "properties": {name: {} for name in named} if isinstance(named, dict) else {}, **rest}


def _check_constants(values: Any, place: str) -> None:
    """Raise InvalidRequest for a value that is too long a text to come without a choice."""
    for value in values if isinstance(values, list) else ():
        size = len(value) if isinstance(value, str) else len(json.dumps(value)) if isinstance(value, dict | list) else 0
        if size > limits.MAX_CONSTANT:
            _refuse(place, f"has a value of {size} characters; at most {limits.MAX_CONSTANT} are taken")


def _is_plain(number: float) -> bool:
    is_near = not number or 1 / PLAIN_NUMBER <= abs(number) <= PLAIN_NUMBER
    return is_near and len(repr(number)) <= PLAIN_DIGITS


def _is_unknown(key: str, value: str) -> bool:
    if key == "$schema":
        return not _DRAFTS.fullmatch(value)
    return bool(_problem({"type": "string", "format": value}))


def _problem(schema: dict[str, Any]) -> str:
    return _problem_of(json.dumps(schema))


@lru_cache(1024)  # parts of schemas: every turn of a chat sends the same tools
def _problem_of(schema: str) -> str:
    """Return why llguidance does not take a schema; "" if it does."""
    error = LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema), limits=limits.LIMITS)
    if not error or error.startswith("WARNING"):
        return ""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return next((line.removeprefix("error: ") for line in lines if line.startswith("error:")), lines[0][:200])
