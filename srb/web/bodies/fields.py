"""Types of request fields that have several forms in JSON; each type has a function that parses every form into one.

The functions raise ValueError with a message that fits after "Field 'x': ". Numbers are checked, not converted: a bool is
not an int, and "3" is not a number.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from srb.config.sampling_params import (
    MAX_ALLOWED,
    MAX_BIASES,
    MAX_BREAKERS,
    MAX_GRAMMAR,
    MAX_SAMPLERS,
    MAX_STOP_TOKENS,
    SAMPLERS,
    Outside,
    Parameter,
    known_samplers,
)
from srb.web.loop.yielding import batches
from srb.wire.commands import MAX_VECTOR_SCALE, BannedPattern, ControlVectors

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
FLOAT32_MAX = 3.4e38  # larger numbers become infinite in llama.cpp's floats

MAX_STOPS = 256  # of one request: MAX_STOP_TEXT alone would allow 8192 of one character
MAX_STOP_TEXT = 8192  # characters of all stop strings together; each token of each branch is compared with them
MAX_BANNED = 1024  # as the engine takes, so that a longer list is refused before it travels
MAX_BANNED_LENGTH = 256  # characters of one banned string or pattern, as the engine takes
MAX_VECTORS = 8  # entries of `control_vectors`, which are added up
MAX_ADAPTERS = 64  # entries of `lora`; a server has fewer files
MAX_RESPONSE_FIELDS = 256  # names; an answer has fewer fields

FORM, DEFAULT = "x-srb-form", "x-srb-default"  # keywords of a schema, for words; see `described`

Prompt = tuple[str | int, ...]
_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")  # as strtol reads it
EMPTY_PROMPT: Prompt = ("",)  # an empty text, before which the engine puts the model's `blank_page`


def described(default: Any, description: str, *names: str, form: str = "", by_default: str = "") -> Any:
    """Declare a field of a body (`...` as its default: it is required) in the words of docs/api.md and /openapi.json.

    `names` are all of its names if it has several; the first one that a body has counts. `form` says the type and range, and
    `by_default` the default, where the schema does not.
    """
    marks: dict[str, Any] = {name: words for name, words in ((FORM, form), (DEFAULT, by_default)) if words}
    alias = AliasChoices(*names) if names else None
    return Field(default, description=description, validation_alias=alias, json_schema_extra=marks or None)


@cache
def _words(module: str) -> dict[str, Any]:
    """Return what fields.toml beside a module says of the fields of bodies, by class; {} if there is none."""
    found = getattr(sys.modules.get(module), "__file__", None)
    file = Path(found).with_name("fields.toml") if found else None
    return tomllib.loads(file.read_text("utf-8")) if file is not None and file.exists() else {}


class DescribedBody(BaseModel):
    """The base of bodies whose fields have their words, and further names, in fields.toml beside the module."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give each field of the class its words, before pydantic collects the fields."""
        super().__init_subclass__(**options)
        for name, row in _words(cls.__module__).get(cls.__name__, {}).items():
            words = {key: value for key, value in row.items() if key in ("form", "by_default")}
            default = cls.__dict__.get(name, ...)
            setattr(cls, name, described(default, row["description"], *row.get("names", ()), **words))


class ObjectFields(BaseModel):
    """The base of fields that are objects with fields of their own: a null in one counts as absent, as in a body."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


def between(least: float, most: float) -> Any:
    """Return a validator that refuses numbers outside [least, most], with llama-server's message."""
    return _Between(least, most)


@dataclass(frozen=True, slots=True)
class _Between:
    least: float
    most: float

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "minimum": self.least, "maximum": self.most}

    def _check(self, value: float) -> float:
        check_between(value, self.least, self.most)
        return value


def check_between(value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"Value must be between {least} <= value <= {most}, but got {value}")


def at_most(entries: int) -> Any:
    """Return a validator that refuses a longer list before any of its entries is looked at."""
    return _AtMost(entries)


@dataclass(frozen=True, slots=True)
class _AtMost:
    entries: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "maxItems": self.entries}

    def _check(self, value: Any) -> Any:
        if isinstance(value, list):
            check_length(value, self.entries)
        return value


def check_length(value: Sized, most: int) -> None:
    if len(value) > most:
        raise ValueError(f"has {len(value)} entries; at most {most} are allowed")


def clamped(least: float, most: float) -> AfterValidator:
    """Return a validator that clamps a number to [least, most], as llama-server silently does."""
    return AfterValidator(lambda value: min(max(value, least), most))


def _float_to_int(value: Any) -> Any:
    """Convert 2.0 to 2: some languages write integers so in JSON."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 2**53 else value


Integer = Annotated[int, BeforeValidator(_float_to_int)]
Natural = Annotated[Integer, between(0, INT32_MAX)]
NaturalOrMinusOne = Annotated[Integer, between(-1, INT32_MAX)]
Milliseconds = Annotated[Integer, between(-1, INT64_MAX)]
Real = Annotated[float, between(-FLOAT32_MAX, FLOAT32_MAX)]
NotNegative = Annotated[Real, clamped(0.0, FLOAT32_MAX)]


Marked = Callable[[str, Any], list[str | int]]  # the parts of a text with marks, and its files


def parse_prompts(value: Any, marked: Marked | None = None) -> list[Prompt]:
    """Return the prompts of a body's `prompt`: a string, a list of token ids and strings, or a list of such prompts.

    A list of only strings is several prompts; a list that contains a number is one prompt. llama-server's object
    `{"prompt_string": …}` counts as a string; `marked` returns its parts if it has media. Raise ValueError for anything
    else.
    """
    if isinstance(value, (str, dict)):
        prompts = [one_prompt([value], marked)]
    elif not isinstance(value, list):
        raise ValueError("must be a string, a list of token ids and strings, or a list of such prompts")
    elif list in (kinds := kinds_of(value)) or kinds <= {str, dict}:
        prompts = [one_prompt(item if isinstance(item, list) else [item], marked) for item in value]
    else:
        prompts = [one_prompt(value, marked)]
    if not prompts:
        raise ValueError("must not be empty")
    return prompts


def kinds_of(values: Sequence[Any]) -> set[type]:
    """Return the types of some values."""
    return {kind for batch in batches(values) for kind in set(map(type, batch))}


def one_prompt(parts: list[Any], marked: Marked | None = None) -> Prompt:
    """Return strings and token ids as one prompt, without empty strings, unless all are empty; raise ValueError."""
    if not parts:
        raise ValueError("must not be empty")
    pieces: list[str | int] = []
    for batch in batches(parts):
        if are_tokens(batch):
            pieces += batch
        else:
            pieces += [piece for part in batch for piece in _pieces(part, marked) if piece != ""]
    return tuple(pieces) or EMPTY_PROMPT


def _pieces(part: Any, marked: Marked | None) -> list[str | int]:
    if isinstance(part, dict):
        return _prompt_string(part, marked)
    if type(part) is not str and not is_token(part):
        raise ValueError(f"a prompt consists of strings and token ids, but got {short_json(part)}")
    return [part]


def _prompt_string(value: dict[str, Any], marked: Marked | None) -> list[str | int]:
    text, data = value.get("prompt_string"), value.get("multimodal_data")
    if not isinstance(text, str):
        raise ValueError('an object as a prompt must have a string "prompt_string"')
    if not data:
        return [text]
    if marked is None:
        raise ValueError("multimodal_data is not supported here, only text")
    return marked(text, data)


def parse_content(value: Any) -> Prompt:
    """Return one text, possibly empty, from any of the forms of a prompt."""
    if isinstance(value, (str, dict)):
        value = [value]
    if not isinstance(value, list):
        raise ValueError("must be a string or a list of strings and token ids")
    return one_prompt(value) if any(part != "" for part in value) else ()


def are_tokens(values: Sequence[Any]) -> bool:
    """Whether all values, at least one, can be token ids; in C, as a long text may be sent as ids."""
    return set(map(type, values)) == {int} and 0 <= min(values) <= max(values) <= INT32_MAX


def is_token(value: Any) -> bool:
    """Whether `value` can be a token id; the engine checks it against the vocabulary's size."""
    return type(value) is int and 0 <= value <= INT32_MAX


def short_json(value: Any) -> str:
    """Return a JSON value for an error message, abbreviated to 40 characters."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else text[:37] + "…"


def _string_list(value: Any, limit: int) -> tuple[str, ...]:
    if isinstance(value, list):
        check_length(value, limit)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _parse_stop(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (str, list)):
        raise ValueError("must be a string or a list of strings")
    strings = [value] if isinstance(value, str) else value
    stops = tuple(dict.fromkeys(stop for stop in _string_list(strings, MAX_STOPS) if stop))
    if sum(map(len, stops)) > MAX_STOP_TEXT:
        raise ValueError(f"has more than {MAX_STOP_TEXT} characters")
    return stops


def _check_rank(value: Any) -> Any:
    if value is not True and value is not False and value not in ("near", "fresh", "meaning"):
        raise ValueError(f'must be true, false, "near", "fresh" or "meaning", but got {short_json(value)}')
    return value


def _parse_banned(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (str, list)):
        raise ValueError("must be a string or a list of strings")
    entries = [value] if isinstance(value, str) else value
    strings = tuple(dict.fromkeys(string for string in _string_list(entries, MAX_BANNED) if string))
    if any(len(string) > MAX_BANNED_LENGTH for string in strings):
        raise ValueError(f"has a string of more than {MAX_BANNED_LENGTH} characters")
    return strings


def _parse_patterns(value: Any) -> tuple[BannedPattern, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of objects with a pattern")
    check_length(value, MAX_BANNED)
    return tuple(dict.fromkeys(_pattern_of(number, entry) for number, entry in enumerate(value)))


def _pattern_of(number: int, entry: Any) -> BannedPattern:
    given = {"pattern": entry} if isinstance(entry, str) else entry
    if not isinstance(given, dict) or not given.keys() <= {"pattern", "weight", "match_case"}:
        raise ValueError(f"entry {number} must be an object with pattern, weight and match_case, or a pattern")
    pattern, weight, is_cased = given.get("pattern"), given.get("weight", 0.0), given.get("match_case", False)
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_BANNED_LENGTH:
        raise ValueError(f"pattern of entry {number} must be a string of 1 to {MAX_BANNED_LENGTH} characters")
    if type(weight) not in (int, float) or not 0 <= weight <= 1:
        raise ValueError(f"weight of entry {number} must be a number from 0 to 1, but got {short_json(weight)}")
    if type(is_cased) is not bool:
        raise ValueError(f"match_case of entry {number} must be true or false, but got {short_json(is_cased)}")
    return pattern, float(weight), is_cased


def _parse_regexes(value: Any) -> tuple[BannedPattern, ...]:
    """Return ik_llama.cpp's list, in which case counts."""
    strings = _string_list([value] if isinstance(value, str) else value, MAX_BANNED)
    return _parse_patterns([{"pattern": string, "match_case": True} for string in strings if string])


def _ids_of(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= len(str(INT32_MAX)) for part in parts):
        raise ValueError("must be token ids separated by commas, or a list")
    return [int(part) for part in parts]


def _parse_banned_tokens(value: Any) -> tuple[str | int, ...]:
    """Return the strings of KoboldCpp's list, and the token ids of others', which may be a text: "7, 8"."""
    if isinstance(value, str):
        value = _ids_of(value)
    if not isinstance(value, list):
        raise ValueError("must be a list of strings and token ids")
    check_length(value, MAX_BANNED)
    ids = [entry for entry in value if is_token(entry)]
    return (*ids, *_parse_banned([entry for entry in value if not is_token(entry)]))


def _parse_token_ids(value: Any, most: int) -> tuple[int, ...]:
    if isinstance(value, str):
        value = _ids_of(value)
    if not isinstance(value, list):
        raise ValueError("must be a list of token ids")
    check_length(value, most)
    for entry in value:
        if not is_token(entry):
            raise ValueError(f"must be a list of token ids, but has {short_json(entry)}")
    return tuple(dict.fromkeys(value))


def _parse_breakers(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value if value.lstrip().startswith("[") else f"[{value}]"  # text-generation-webui's has no brackets
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ValueError("must be a list of strings, or a string with such a list as JSON") from None
    breakers = _string_list(value, MAX_BREAKERS)
    if not breakers:
        raise ValueError("must not be empty")
    return breakers


def _parse_samplers(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        samplers = tuple(SAMPLERS[letter] for letter in value if letter in SAMPLERS)
    elif isinstance(value, list) and all(isinstance(name, str) for name in value):
        samplers = known_samplers(name for name in value if len(name) > 1)
    else:
        raise ValueError("must be a list of names or a string of letters")
    check_length(samplers, MAX_SAMPLERS)
    return samplers


def _parse_logit_bias(value: Any) -> tuple[tuple[int | str, float | None], ...]:
    pairs: list[Any]
    if isinstance(value, (dict, list)):
        check_length(value, MAX_BIASES)
    if isinstance(value, dict):
        pairs = [(_token_of(key), bias) for key, bias in value.items()]
    elif isinstance(value, list):
        pairs = [tuple(pair) if isinstance(pair, list) else () for pair in value]
    else:
        raise ValueError("must be an object or a list of [token, bias] pairs")
    return tuple(_bias(*pair) for pair in pairs if len(pair) == 2 and _is_bias(*pair))


def _token_of(key: str) -> int | str:
    """Return a key as a token id if it is written as a number, else as the text that it is."""
    if not _NUMBER.fullmatch(key):
        return key
    return int(key) if len(key) < len(str(INT64_MAX)) else INT64_MAX  # beyond every vocabulary


def _is_bias(token: Any, bias: Any) -> bool:
    """Whether an entry can apply; others are skipped, as llama-server does, and by the engine ids that are too large."""
    is_token_or_text = token >= 0 if type(token) is int else type(token) is str and token != ""
    return is_token_or_text and (bias is False or type(bias) in (int, float))


def _bias(token: int | str, bias: float) -> tuple[int | str, float | None]:
    check_between(bias, -FLOAT32_MAX, FLOAT32_MAX)
    return token, None if bias is False else float(bias)


def _check_grammar(value: str) -> str:
    if len(value.encode()) > MAX_GRAMMAR:
        raise ValueError(f"is longer than {MAX_GRAMMAR} bytes")
    return value


def schema_text(value: Any) -> str:
    """Return a JSON schema as JSON text, the form of SamplingParams; `{}` means any object. Raise ValueError."""
    if value is False:
        raise ValueError("is the schema of no value; send another one, or true for any JSON")
    if value is not True and not isinstance(value, dict):
        raise ValueError(f"must be a JSON schema, an object or true, but got {short_json(value)}")
    try:
        text = orjson.dumps({"type": "object"} if value == {} else value).decode()
    except orjson.JSONEncodeError:
        raise ValueError("is nested too deeply") from None
    return _check_grammar(text)


def parse_scales(value: Any) -> tuple[tuple[int, float], ...]:
    """Return the (adapter, scale) pairs of `[{"id", "scale"}, …]`; raise ValueError for any other value."""
    if not isinstance(value, list):
        raise ValueError("must be a list of objects with 'id' and 'scale'")
    check_length(value, MAX_ADAPTERS)
    pairs = []
    for entry in value:
        adapter, scale = (entry.get("id"), entry.get("scale")) if isinstance(entry, dict) else (None, None)
        if type(adapter) is not int or type(scale) not in (int, float):
            raise ValueError("must be a list of objects with an integer 'id' and a number 'scale'")
        check_between(adapter, 0, INT32_MAX)
        assert scale is not None  # its type was checked
        check_between(scale, -FLOAT32_MAX, FLOAT32_MAX)
        pairs.append((adapter, float(scale)))
    return tuple(dict(pairs).items())


def _parse_vectors(value: Any) -> ControlVectors:
    """Return the (name, scale) pairs of `[{"name", "scale"}, …]`; raise ValueError for any other value."""
    if not isinstance(value, list):
        raise ValueError("must be a list of objects with 'name' and 'scale'")
    check_length(value, MAX_VECTORS)
    pairs = {}
    for entry in value:
        name, scale = (entry.get("name"), entry.get("scale", 1)) if isinstance(entry, dict) else (None, None)
        if type(name) is not str or type(scale) not in (int, float) or entry.keys() - {"name", "scale"}:
            raise ValueError("must be a list of objects with a string 'name' and a number 'scale'")
        assert scale is not None  # its type was checked
        check_between(scale, -MAX_VECTOR_SCALE, MAX_VECTOR_SCALE)
        if name in pairs:
            raise ValueError(f"has {name[:64]!r} twice")
        pairs[name] = float(scale)
    return tuple(pairs.items())


# The words of JSON Schemas in code.
TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object"}


def array(items: Any, **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def either(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def one_of(*words: Any) -> dict[str, Any]:
    return {"enum": list(words)}


_BANNED = {**TEXT, "maxLength": MAX_BANNED_LENGTH}
_BANNED_LIST = either(TEXT, array(_BANNED, maxItems=MAX_BANNED))
_PATTERN = {
    **object_of(
        {
            "pattern": {**TEXT, "minLength": 1, "maxLength": MAX_BANNED_LENGTH},
            "weight": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
            "match_case": {"type": "boolean", "default": False},
        },
        "pattern",
    ),
    "additionalProperties": False,
}
_TOKEN: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_BIAS = either({"type": "number"}, {"const": False})

# JSON Schemas of the forms that fields accept; the Python types are those of the Annotated types below.
PROMPT_SCHEMA = either(
    TEXT,
    array(either(TEXT, _TOKEN, array(either(TEXT, _TOKEN)))),
    object_of({"prompt_string": TEXT, "multimodal_data": array(TEXT)}, "prompt_string"),
)
_LOGIT_BIAS = either(
    {"type": "object", "additionalProperties": _BIAS},
    {"type": "array", "items": {"type": "array", "prefixItems": [either(_TOKEN, TEXT), _BIAS]}},
)
_SCALES = array(
    object_of({"id": {"type": "integer", "minimum": 0}, "scale": {"type": "number"}}, "id", "scale"),
    maxItems=MAX_ADAPTERS,
)
_VECTORS = array(
    {
        **object_of(
            {
                "name": TEXT,
                "scale": {"type": "number", "minimum": -MAX_VECTOR_SCALE, "maximum": MAX_VECTOR_SCALE, "default": 1},
            },
            "name",
        ),
        "additionalProperties": False,
    },
    maxItems=MAX_VECTORS,
)

Content = Annotated[Prompt, BeforeValidator(parse_content), WithJsonSchema(either(TEXT, array(either(TEXT, _TOKEN))))]
Stop = Annotated[
    tuple[str, ...], BeforeValidator(_parse_stop), WithJsonSchema(either(TEXT, array(TEXT, maxItems=MAX_STOPS)))
]
Banned = Annotated[tuple[str, ...], BeforeValidator(_parse_banned), WithJsonSchema(_BANNED_LIST)]
BannedPatterns = Annotated[
    tuple[BannedPattern, ...],
    BeforeValidator(_parse_patterns),
    WithJsonSchema(array(either(_PATTERN, _BANNED), maxItems=MAX_BANNED)),
]
BannedRegexes = Annotated[tuple[BannedPattern, ...], BeforeValidator(_parse_regexes), WithJsonSchema(_BANNED_LIST)]
BannedTokens = Annotated[
    tuple[str | int, ...],
    BeforeValidator(_parse_banned_tokens),
    WithJsonSchema(either(TEXT, array(either(_BANNED, _TOKEN), maxItems=MAX_BANNED))),
]
Breakers = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_breakers),
    WithJsonSchema(either(array(TEXT, minItems=1, maxItems=MAX_BREAKERS), TEXT)),
]
AllowedTokens, StopTokens = (
    Annotated[
        tuple[int, ...],
        BeforeValidator(partial(_parse_token_ids, most=most)),
        WithJsonSchema(either(array(_TOKEN, maxItems=most), TEXT)),
    ]
    for most in (MAX_ALLOWED, MAX_STOP_TOKENS)
)
Samplers = Annotated[tuple[str, ...], BeforeValidator(_parse_samplers), WithJsonSchema(either(array(TEXT), TEXT))]
LogitBias = Annotated[
    tuple[tuple[int | str, float | None], ...], BeforeValidator(_parse_logit_bias), WithJsonSchema(_LOGIT_BIAS)
]
Grammar = Annotated[str, AfterValidator(_check_grammar), WithJsonSchema({**TEXT, "maxLength": MAX_GRAMMAR})]
SCHEMA_SCHEMA = either({"type": "object", "description": "JSON Schema"}, {"const": True})
Schema = Annotated[str, BeforeValidator(schema_text), WithJsonSchema(SCHEMA_SCHEMA)]
LoraScales = Annotated[tuple[tuple[int, float], ...], BeforeValidator(parse_scales), WithJsonSchema(_SCALES)]
Vectors = Annotated[ControlVectors, BeforeValidator(_parse_vectors), WithJsonSchema(_VECTORS)]
Rank = Annotated[
    bool | Literal["near", "fresh", "meaning"],
    BeforeValidator(_check_rank),
    WithJsonSchema(either({"type": "boolean"}, one_of("near", "fresh", "meaning"))),
]
ResponseFields = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: _string_list(value, MAX_RESPONSE_FIELDS)),
    WithJsonSchema(array(TEXT, maxItems=MAX_RESPONSE_FIELDS)),
]


# The request fields of parameters that are neither numbers nor switches.
_FORMS: dict[str, Any] = {
    "allowed_token_ids": AllowedTokens,
    "dry_sequence_breakers": Breakers,
    "grammar": Grammar,
    "json_schema": Schema,
    "logit_bias": LogitBias,
    "penalty_prompt": Content,
    "samplers": Samplers,
    "stop_token_ids": StopTokens,
}


def sampling_field(parameter: Parameter) -> tuple[Any, Any]:
    """Return the type and the pydantic field of a sampling parameter in a body; its value None means absent."""
    if parameter.is_plain:
        kind = bool if parameter.type is bool else Annotated[parameter.type, *_number_rules(parameter)]
    else:
        kind = _FORMS[parameter.name]
    meaning = "; ".join(filter(None, (parameter.description, parameter.note)))
    return kind | None, described(None, meaning, *((parameter.name, *parameter.aliases) if parameter.aliases else ()))


def _number_rules(parameter: Parameter) -> list[Any]:
    """Return the validators of a request's number: conversion of integers, then its range, refused or clamped."""
    is_float = parameter.type is float
    lowest, highest = (-FLOAT32_MAX, FLOAT32_MAX) if is_float else (-INT32_MAX - 1, INT32_MAX)
    least = lowest if parameter.least is None else parameter.least
    most = highest if parameter.most is None else parameter.most
    form = [] if is_float else [BeforeValidator(_float_to_int)]
    anything = [*form, between(lowest, highest)]
    match parameter.outside:
        case Outside.TAKEN:
            return anything
        case Outside.CLAMPED:
            return [*(anything if is_float else form), clamped(parameter.type(least), parameter.type(most))]
        case Outside.DEFAULT:
            return [*anything, AfterValidator(lambda value: value if least <= value <= most else parameter.default)]
        case Outside.REFUSED:
            above = [] if parameter.above is None else [AfterValidator(partial(_check_above, parameter.above))]
            return [*form, between(least, most), *above]


def _check_above(bound: float, value: float) -> float:
    if value <= bound:
        raise ValueError(f"must be more than {bound}, but got {value}")
    return value
