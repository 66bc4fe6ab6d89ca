"""The types of request fields, where a field has more than one form: each has a function from JSON to one form.

They raise ValueError with words that fit behind "Field 'x': ". Numbers are checked, not converted: a bool is not an
int and "3" is not a number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1
FLOAT32_MAX = 3.4e38  # llama.cpp's floats; more would become infinite on the way there

MAX_STOPS = 256
MAX_STOP_TEXT = 8192  # characters of all of them; each token of each branch is compared with them
MAX_BIASES = 1024
MAX_BREAKERS = 128
MAX_GRAMMAR = 64 * 1024  # bytes, also of a JSON schema
MAX_ADAPTERS = 64
MAX_RESPONSE_FIELDS = 256

Prompt = tuple[str | int, ...]

# llama.cpp's names, by every spelling that it or a client uses; the letters are those of --sampler-seq.
SAMPLERS = {
    "penalties": "penalties", "e": "penalties",
    "dry": "dry", "d": "dry",
    "top_n_sigma": "top_n_sigma", "top-n-sigma": "top_n_sigma", "s": "top_n_sigma",
    "top_k": "top_k", "top-k": "top_k", "k": "top_k",
    "typ_p": "typ_p", "typ-p": "typ_p", "typ": "typ_p", "typical": "typ_p", "typical_p": "typ_p", "typical-p": "typ_p",
    "y": "typ_p",
    "top_p": "top_p", "top-p": "top_p", "nucleus": "top_p", "p": "top_p",
    "min_p": "min_p", "min-p": "min_p", "m": "min_p",
    "xtc": "xtc", "x": "xtc",
    "temperature": "temperature", "temp": "temperature", "t": "temperature",
    "infill": "infill", "i": "infill",
    "adaptive_p": "adaptive_p", "adaptive-p": "adaptive_p", "a": "adaptive_p",
}  # fmt: skip


def known_as(*names: str) -> Any:
    """Declare an optional field known by `names` (the first present one counts)."""
    return Field(None, validation_alias=AliasChoices(*names))


def between(least: float, most: float) -> Any:
    """Refuse a number outside [least, most] in llama-server's words."""
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


def clamped(least: float, most: float) -> AfterValidator:
    """Move a number into [least, most], where llama-server does so silently."""
    return AfterValidator(lambda value: min(max(value, least), most))


def _whole(value: Any) -> Any:
    """JSON does not tell 2.0 from 2, and some clients' languages write the one for the other."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < 2**53 else value


Integer = Annotated[int, BeforeValidator(_whole)]
Natural = Annotated[Integer, between(0, INT32_MAX)]
NaturalOrMinusOne = Annotated[Integer, between(-1, INT32_MAX)]
Milliseconds = Annotated[Integer, between(-1, INT64_MAX)]
Real = Annotated[float, between(-FLOAT32_MAX, FLOAT32_MAX)]
NotNegative = Annotated[Real, clamped(0.0, FLOAT32_MAX)]
Fraction = Annotated[Real, clamped(0.0, 1.0)]


def parse_prompts(value: Any) -> list[Prompt]:
    """Return the prompts of a body's `prompt`: a string, an array of token ids and strings, or a list of those.

    A list of strings alone is several prompts; a list that holds a number is one prompt. Where a string may stand, so
    may llama-server's `{"prompt_string": …}`.
    """
    if isinstance(value, (str, dict)):
        prompts = [one_prompt([value])]
    elif not isinstance(value, list):
        raise ValueError("must be a string, an array of token ids and strings, or a list of those")
    elif any(isinstance(item, list) for item in value) or all(isinstance(item, (str, dict)) for item in value):
        prompts = [one_prompt(item if isinstance(item, list) else [item]) for item in value]
    else:
        prompts = [one_prompt(value)]
    if not prompts:
        raise ValueError("must not be empty")
    return prompts


def one_prompt(parts: list[Any]) -> Prompt:
    """Return strings and token ids as one prompt; empty strings are left out, an empty prompt is refused."""
    parts = [_text_of(part) if isinstance(part, dict) else part for part in parts]
    for part in parts:
        if type(part) is not str and not is_token(part):
            raise ValueError(f"a prompt holds strings and token ids, but got {shown(part)}")
    kept = tuple(part for part in parts if part != "")
    if not kept:
        raise ValueError("must not be empty")
    return kept


def _text_of(value: dict[str, Any]) -> str:
    if value.get("multimodal_data"):
        raise ValueError("has multimodal_data, and this model takes only text")
    text = value.get("prompt_string")
    if not isinstance(text, str):
        raise ValueError('an object as a prompt must have a string "prompt_string"')
    return text


def parse_content(value: Any) -> Prompt:
    """Return one text, which may be empty, from the forms that a prompt has."""
    if isinstance(value, (str, dict)):
        value = [value]
    if not isinstance(value, list):
        raise ValueError("must be a string or a list of strings and token ids")
    return one_prompt(value) if any(part != "" for part in value) else ()


def is_token(value: Any) -> bool:
    """Whether `value` may be a token id; only the engine knows the vocabulary's size."""
    return type(value) is int and 0 <= value <= INT32_MAX


def shown(value: Any) -> str:
    """Return a short form of a JSON value for an error message."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else text[:37] + "…"


def _strings(value: Any, most: int) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    if len(value) > most:
        raise ValueError(f"has {len(value)} entries; at most {most} are taken")
    return tuple(value)


def _parse_stop(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (str, list)):
        raise ValueError("must be a string or a list of strings")
    strings = [value] if isinstance(value, str) else value
    stops = tuple(dict.fromkeys(stop for stop in _strings(strings, MAX_STOPS) if stop))
    if sum(map(len, stops)) > MAX_STOP_TEXT:
        raise ValueError(f"has more than {MAX_STOP_TEXT} characters")
    return stops


def _parse_breakers(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise ValueError("must be a list of strings, or one written as JSON") from None
    breakers = _strings(value, MAX_BREAKERS)
    if not breakers:
        raise ValueError("must not be empty")
    return breakers


def _parse_samplers(value: Any) -> tuple[str, ...]:
    names: Iterable[Any]
    if isinstance(value, str):
        names = value
    elif isinstance(value, list):
        names = (name for name in value if isinstance(name, str) and len(name) > 1)
    else:
        raise ValueError("must be a list of names or a string of letters")
    return tuple(dict.fromkeys(SAMPLERS[name] for name in names if name in SAMPLERS))


def _parse_logit_bias(value: Any) -> tuple[tuple[int | str, float | None], ...]:
    pairs: list[Any]
    if isinstance(value, dict):
        pairs = [(int(key) if key.isascii() and key.isdigit() else key, bias) for key, bias in value.items()]
    elif isinstance(value, list):
        pairs = [tuple(pair) if isinstance(pair, list) else () for pair in value]
    else:
        raise ValueError("must be an object or a list of [token, bias] pairs")
    if len(pairs) > MAX_BIASES:
        raise ValueError(f"has {len(pairs)} entries; at most {MAX_BIASES} are taken")
    return tuple(_bias(*pair) for pair in pairs if len(pair) == 2 and _is_bias(*pair))


def _is_bias(token: Any, bias: Any) -> bool:
    """Whether an entry has the right types; llama-server skips those that have not."""
    return type(token) in (int, str) and token != "" and (bias is False or type(bias) in (int, float))


def _bias(token: int | str, bias: float) -> tuple[int | str, float | None]:
    if isinstance(token, int) and not is_token(token):
        raise ValueError(f"{shown(token)} is not a token id")
    check_between(bias, -FLOAT32_MAX, FLOAT32_MAX)
    return token, None if bias is False else float(bias)


def _check_grammar(value: str) -> str:
    if len(value.encode()) > MAX_GRAMMAR:
        raise ValueError(f"is longer than {MAX_GRAMMAR} bytes")
    return value


def schema_text(value: Any) -> str:
    """Return a JSON schema as SamplingParams wants it: as JSON text; `{}` means any object."""
    if not isinstance(value, dict):
        raise ValueError(f"must be an object, but got {shown(value)}")
    try:
        text = orjson.dumps(value or {"type": "object"}).decode()
    except orjson.JSONEncodeError:
        raise ValueError("is nested too deeply") from None
    return _check_grammar(text)


def parse_scales(value: Any) -> tuple[tuple[int, float], ...]:
    """Return the (adapter, scale) pairs of `[{"id", "scale"}, …]`."""
    if not isinstance(value, list):
        raise ValueError("must be a list of objects with 'id' and 'scale'")
    if len(value) > MAX_ADAPTERS:
        raise ValueError(f"has {len(value)} entries; at most {MAX_ADAPTERS} are taken")
    pairs = []
    for entry in value:
        adapter, scale = (entry.get("id"), entry.get("scale")) if isinstance(entry, dict) else (None, None)
        if type(adapter) is not int or type(scale) not in (int, float):
            raise ValueError("must be a list of objects with an integer 'id' and a number 'scale'")
        check_between(adapter, 0, INT32_MAX)
        assert scale is not None  # its type was looked at
        check_between(scale, -FLOAT32_MAX, FLOAT32_MAX)
        pairs.append((adapter, float(scale)))
    return tuple(dict(pairs).items())


_STRING: dict[str, Any] = {"type": "string"}
_STRINGS: dict[str, Any] = {"type": "array", "items": _STRING}
_TOKEN: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_BIAS: dict[str, Any] = {"anyOf": [{"type": "number"}, {"const": False}]}

# What a field takes, as JSON Schema; what it becomes is the type beside it.
PROMPT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _STRING,
        {
            "type": "array",
            "items": {"anyOf": [_STRING, _TOKEN, {"type": "array", "items": {"anyOf": [_STRING, _TOKEN]}}]},
        },
        {"type": "object", "properties": {"prompt_string": _STRING}, "required": ["prompt_string"]},
    ],
    "description": "a string, a list of token ids and strings, or a list of those; several prompts make several requests",
}
_LOGIT_BIAS = {
    "anyOf": [
        {"type": "object", "additionalProperties": _BIAS},
        {"type": "array", "items": {"type": "array", "prefixItems": [{"anyOf": [_TOKEN, _STRING]}, _BIAS]}},
    ],
    "description": "{token: bias} or [[token, bias], …]; a token is an id or a string, false forbids it",
}
_SCALES = {
    "type": "array",
    "maxItems": MAX_ADAPTERS,
    "items": {
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 0}, "scale": {"type": "number"}},
        "required": ["id", "scale"],
    },
}

Content = Annotated[
    Prompt,
    BeforeValidator(parse_content),
    WithJsonSchema({"anyOf": [_STRING, {"type": "array", "items": {"anyOf": [_STRING, _TOKEN]}}]}),
]
Stop = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_stop),
    WithJsonSchema({"anyOf": [_STRING, {**_STRINGS, "maxItems": MAX_STOPS}]}),
]
Breakers = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_breakers),
    WithJsonSchema({"anyOf": [{**_STRINGS, "minItems": 1, "maxItems": MAX_BREAKERS}, _STRING]}),
]
Samplers = Annotated[tuple[str, ...], BeforeValidator(_parse_samplers), WithJsonSchema({"anyOf": [_STRINGS, _STRING]})]
LogitBias = Annotated[
    tuple[tuple[int | str, float | None], ...], BeforeValidator(_parse_logit_bias), WithJsonSchema(_LOGIT_BIAS)
]
Grammar = Annotated[
    str, AfterValidator(_check_grammar), WithJsonSchema({**_STRING, "maxLength": MAX_GRAMMAR, "description": "GBNF"})
]
Schema = Annotated[str, BeforeValidator(schema_text), WithJsonSchema({"type": "object", "description": "JSON Schema"})]
Scales = Annotated[tuple[tuple[int, float], ...], BeforeValidator(parse_scales), WithJsonSchema(_SCALES)]
ResponseFields = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: _strings(value, MAX_RESPONSE_FIELDS)),
    WithJsonSchema({**_STRINGS, "maxItems": MAX_RESPONSE_FIELDS}),
]
