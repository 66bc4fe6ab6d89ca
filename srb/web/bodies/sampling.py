"""The sampling fields of request bodies: every sampling parameter, checked by its declaration."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, create_model, model_validator

from srb.config.sampling_params import (
    PARAMETERS,
    SamplingParams,
    known_samplers,
    with_penalties,
    with_temperature_bounds,
)
from srb.config.settings import Settings
from srb.config.values import strings_of
from srb.errors import InvalidRequest, bad_field, in_field
from srb.web.bodies.directions import Direction
from srb.web.bodies.fields import (
    INT64_MAX,
    UINT64_MAX,
    Banned,
    BannedPatterns,
    BannedRegexes,
    BannedTokens,
    Content,
    DescribedBody,
    Integer,
    Milliseconds,
    Natural,
    NaturalOrMinusOne,
    NotNegative,
    Stop,
    Vectors,
    at_most,
    between,
    sampling_field,
    schema_text,
    short_json,
)
from srb.wire.commands import MAX_BRANCHES, MAX_STOP_AFTER, Boundary, BranchSpec


@lru_cache(maxsize=64)  # settings: one for each listed model
def default_sampling(settings: Settings) -> SamplingParams:
    given = {name: getattr(settings, name) for name, parameter in PARAMETERS.items() if parameter.is_setting}
    parsed = {name: _PARSERS[name](value) if name in _PARSERS else value for name, value in given.items()}
    return with_penalties(SamplingParams(**parsed))


@lru_cache(maxsize=64)
def default_stop(settings: Settings) -> tuple[str, ...]:
    return tuple(strings_of(settings.stop))


def _biases(text: str) -> tuple[tuple[int | str, float | None], ...]:
    return tuple(_bias(part) for part in text.split(",") if part.strip())


def _bias(text: str) -> tuple[int | str, float | None]:
    token, bias = re.split(r"(?=[+-])", text.strip(), maxsplit=1)
    return int(token), None if bias == "-inf" else float(bias)


# Parsers of the settings that are written as text.
_PARSERS: dict[str, Callable[[str], Any]] = {
    "samplers": lambda text: known_samplers(text.split(";")),
    "dry_sequence_breakers": lambda text: tuple(strings_of(text)),
    "logit_bias": _biases,
    "json_schema": lambda text: schema_text(orjson.loads(text)) if text else "",
}


# The names of a branch's length, in their precedence.
MAX_N_PROBS = 256  # probabilities of a token; each is a dict of 512 bytes for every token of every branch

Shape = TypeVar("Shape", bound=BaseModel)
ProbCount = Annotated[Integer, between(0, MAX_N_PROBS)]


class FieldsBody(DescribedBody):
    """The base of bodies that have sampling parameters. Its checks are built when they are first used, or by a worker
    that has started (`Application.build_bodies`), and those of base classes never: a sixth of the application's import.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=(), defer_build=True
    )

    _schema_place: str = PrivateAttr("json_schema")
    _grammar_place: str = PrivateAttr("grammar")

    @property
    def schema_place(self) -> str:
        """Where in the request the schema stands that json_schema has."""
        return self._schema_place

    @property
    def grammar_place(self) -> str:
        """Where in the request the text stands that grammar has."""
        return self._grammar_place

    def placed(self, schema: str, grammar: str = "grammar") -> Self:
        """Return the body with a json_schema and a grammar that the client has sent at other places."""
        made = self.model_copy()
        made._schema_place, made._grammar_place = schema, grammar
        return made


if TYPE_CHECKING:

    class _ParametersBody(FieldsBody):
        """The sampling parameters that code reads by their names."""

        grammar: str | None = None
        json_schema: str | None = None
else:
    _ParametersBody = create_model(
        "_ParametersBody",
        __base__=FieldsBody,
        **{name: sampling_field(each) for name, each in PARAMETERS.items() if each.is_field},
    )


class BranchFields(_ParametersBody):
    """The fields that describe a branch: its sampling parameters, seed, length and ends."""

    n_predict: NaturalOrMinusOne | None = None
    stop: Stop | None = None
    banned_strings: Banned | None = None
    banned_tokens: BannedTokens | None = None
    custom_token_bans: BannedTokens = ()
    banned_patterns: BannedPatterns | None = None
    banned_regex: BannedRegexes | None = None
    banned_regex_case_insensitive: BannedPatterns | None = None
    seed: Annotated[Integer, between(-INT64_MAX - 1, UINT64_MAX)] | None = None
    t_max_predict_ms: Milliseconds | None = None
    n_indent: Natural | None = None
    stop_at: Boundary | None = None
    stop_after: Annotated[Integer, between(1, MAX_STOP_AFTER)] | None = None
    min_tokens: Natural | None = None
    include_stop_str_in_output: bool | None = None
    token_healing: bool | None = None

    # The bounds of a temperature that varies, by the names of text-generation-webui and its clients.
    dynamic_temperature: bool = True

    dynatemp_low: NotNegative | None = None
    dynatemp_high: NotNegative | None = None

    @property
    def _bans(self) -> tuple[str | int, ...]:
        """The strings and token ids that `banned_tokens` and its like name."""
        return (*(self.banned_tokens or ()), *self.custom_token_bans)

    def sampling_changes(self) -> dict[str, Any]:
        """Return the sampling parameters that this body has. Raise InvalidRequest."""
        fields = (name for name, parameter in PARAMETERS.items() if parameter.is_field)
        given = {name: value for name in fields if (value := getattr(self, name)) is not None}
        if self.grammar:
            given |= {"json_schema": "", "grammar_place": self.grammar_place}
        elif self.json_schema:
            given |= {"grammar": "", "schema_place": self.schema_place}
        if bans := tuple((token, None) for token in self._bans if isinstance(token, int)):
            given["logit_bias"] = (*given.get("logit_bias", ()), *bans)
        if self.dynamic_temperature:
            with in_field("dynatemp_low"):
                given = with_temperature_bounds(given, self.dynatemp_low, self.dynatemp_high)
        return given

    def sampling_from(self, base: SamplingParams) -> SamplingParams:
        """Return `base` with the parameters that this body has."""
        return with_penalties(replace(base, **self.sampling_changes()))

    def changes(self) -> dict[str, Any]:
        """Return the lengths and ends that this body has, as fields of BranchSpec."""
        words = tuple(entry for entry in self._bans if isinstance(entry, str))
        lists = (self.banned_patterns, self.banned_regex, self.banned_regex_case_insensitive)
        patterns = [of_list for of_list in lists if of_list is not None]
        given: dict[str, Any] = {
            "max_tokens": self.n_predict,
            "stop": self.stop or None,
            "banned_strings": (words or None) if self.banned_strings is None else self.banned_strings,
            "banned_patterns": tuple(chain(*patterns)) if patterns else None,
            "t_max_predict_ms": self.t_max_predict_ms,
            "min_tokens": self.min_tokens,
            "include_stop": self.include_stop_str_in_output,
            "n_indent": self.n_indent,
            "stop_at": self.stop_at,
            "stop_after": self.stop_after,
            "token_healing": self.token_healing,
        }
        return {name: value for name, value in given.items() if value is not None}

    def spec_from(self, base: BranchSpec) -> BranchSpec:
        """Return `base` with the lengths and ends that this body has; seed and sampling stay. Raise InvalidRequest."""
        if self.stop_after is not None and not (self.stop_at or base.stop_at):
            raise bad_field("stop_after", f"needs stop_at, which is one of {', '.join(get_args(Boundary))}")
        return replace(base, **self.changes())


class BranchBody(BranchFields):
    """An entry of `branches`: one branch, with the fields in which it differs from the request."""

    model_config = ConfigDict(extra="forbid")

    append: Content = ()
    direction: Direction | None = None
    control_vectors: Vectors | None = None

    def changes(self) -> dict[str, Any]:
        own = {"direction": self.direction, "control_vectors": self.control_vectors}
        return super().changes() | {name: value for name, value in own.items() if value is not None}

    def numbered(self, number: int) -> Self:
        """Return the entry with its place in `branches`."""
        return self.placed(f"branches[{number}].json_schema", f"branches[{number}].grammar")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, entry: Any) -> Any:
        return {name: value for name, value in entry.items() if value is not None} if isinstance(entry, dict) else entry

    post_sampling_probs: None = None  # the answer's probabilities have one form for all branches


# More are in no request, whatever max_n says. Of several bad entries the first is told of: each costs a kilobyte.
BranchList = Annotated[list[BranchBody], Field(fail_fast=True), at_most(MAX_BRANCHES)]


class SamplingBody(BranchFields):
    """The fields of branches, and the number of probabilities in the answer."""

    n_probs: ProbCount | None = None
    logprobs: ProbCount | bool | None = None
    top_logprobs: ProbCount | None = None

    @property
    def wanted_probs(self) -> int:
        """The value of SamplingParams.n_probs. `n_probs` 0 means none, as in llama-server; `logprobs` 0 means the chosen
        token's own, as in OpenAI's API.
        """
        if self.n_probs:
            return self.n_probs
        if self.logprobs is None or self.logprobs is False:
            return -1
        return self.top_logprobs or 0 if self.logprobs is True else self.logprobs

    def sampling(self, settings: Settings) -> SamplingParams:
        return replace(self.sampling_from(default_sampling(settings)), n_probs=self.wanted_probs)


def validated(shape: type[Shape], body: Any) -> Shape:
    """Return a body in a shape of its own. Raise InvalidRequest, which names the first field at fault."""
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise explain(error) from None


def explain(error: ValidationError) -> InvalidRequest:
    """Return pydantic's first error as InvalidRequest; it names the field as the client did (pydantic's `loc`)."""
    problem = error.errors(include_url=False)[0]
    name, words = _field_name(problem["loc"]), problem["msg"]
    if problem["type"] == "model_type":  # pydantic's message names our class
        words = "Input should be an object"
    if problem["type"] == "value_error":
        return bad_field(name, words.removeprefix("Value error, "))
    return bad_field(name, f"{words}, but got {short_json(problem['input'])}")


_LISTS = ("branches", "directions")  # fields whose entries are named by their place
_OBJECTS = (
    "explore",
    "direction_place",
    "reasoning",
    "text",
    "thinking",
    "output_config",
)  # fields that have fields of their own


def _field_name(loc: tuple[int | str, ...]) -> str:
    """Return the name of the field at fault: that of the body, or one inside it such as branches[1].seed, explore.depth."""
    if loc[0] in _OBJECTS and len(loc) > 1:
        return f"{loc[0]}.{loc[1]}"
    if loc[0] not in _LISTS or len(loc) < 2:
        return str(loc[0])
    return f"{loc[0]}[{loc[1]}]" + (f".{loc[2]}" if len(loc) > 2 else "")
