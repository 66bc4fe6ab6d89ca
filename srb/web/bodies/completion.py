"""Request bodies: their bytes become commands for the engine, or a 400 that names the field at fault.

Unknown fields are ignored (clients send up to ninety), known fields are checked strictly. A null field counts as absent.
Sampling defaults come from the settings; a field with the value None is absent here.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import uuid4

import gevent
import orjson
from flask import Request, current_app
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from srb.errors import BodyTooSlow, InvalidRequest, bad_field
from srb.protocol import BranchSpec, ContextShift, Generate, SamplingParams
from srb.sampling_params import PARAMETERS, with_penalties, with_temperature_bounds
from srb.settings import Settings
from srb.web.bodies.defaults import default_sampling, default_stop
from srb.web.bodies.fields import (
    PROMPT_SCHEMA,
    UINT32_MAX,
    Integer,
    LoraScales,
    Milliseconds,
    Natural,
    NaturalOrMinusOne,
    NotNegative,
    Prompt,
    Stop,
    between,
    check_between,
    field_alias,
    parse_prompts,
    sampling_field,
    short_json,
)

MAX_N_PROBS = 256

ProbCount = Annotated[Integer, between(0, MAX_N_PROBS)]


def read_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object without its null fields; raise the errors of read_object."""
    return without_nulls(read_object(request))


def read_object(request: Request) -> dict[str, Any]:
    """Return the request's JSON object; its Content-Type is ignored.

    Raise InvalidRequest unless the body is one JSON object, BodyTooSlow after read_timeout, and Werkzeug's 413 beyond
    max_body_bytes.
    """
    body = read_json(request)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return body


def without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def read_json(request: Request) -> Any:
    """Return the request's JSON value; raise the errors of read_object."""
    try:
        return orjson.loads(_read(request))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}") from None


def _read(request: Request) -> bytes:
    """Read the body. Werkzeug reads at most max_content_length bytes, and raises 413 only for an announced length."""
    seconds = current_app.config["READ_TIMEOUT"]
    try:
        with gevent.Timeout(seconds, BodyTooSlow(f"The body did not arrive within {seconds} seconds")):
            data = request.get_data(cache=False)
    except (HTTPException, BodyTooSlow):
        raise
    except Exception as error:  # from the WSGI server, for malformed chunks
        raise InvalidRequest(f"The body could not be read: {error}") from None
    if request.max_content_length is not None and len(data) >= request.max_content_length:
        raise RequestEntityTooLarge
    return data


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())


if TYPE_CHECKING:

    class _ParametersBody(_Body):
        """The sampling parameters that code reads by their names."""

        grammar: str | None = None
        json_schema: str | None = None
else:
    _ParametersBody = create_model(
        "_ParametersBody",
        __base__=_Body,
        **{name: sampling_field(each) for name, each in PARAMETERS.items() if each.is_field},
    )


class SamplingBody(_ParametersBody):
    """The sampling fields: every sampling parameter, and the number of probabilities in the answer."""

    n_probs: ProbCount | None = None
    logprobs: ProbCount | bool | None = None
    top_logprobs: ProbCount | None = None

    # The bounds of a temperature that varies, by the names of text-generation-webui and its clients.
    dynamic_temperature: bool = True
    dynatemp_low: NotNegative | None = None
    dynatemp_high: NotNegative | None = None

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
        fields = (name for name, parameter in PARAMETERS.items() if parameter.is_field)
        given = {name: value for name in fields if (value := getattr(self, name)) is not None}
        if self.grammar:
            given["json_schema"] = ""
        elif self.json_schema:
            given["grammar"] = ""
        if self.dynamic_temperature:
            try:
                given = with_temperature_bounds(given, self.dynatemp_low, self.dynatemp_high)
            except ValueError as error:
                raise bad_field("dynatemp_low", str(error)) from None
        return with_penalties(replace(default_sampling(settings), n_probs=self.wanted_probs, **given))


class CompletionBody(SamplingBody):
    """The fields that the bodies of all dialects share: prompt, number and length of branches, and their sampling."""

    model_config = ConfigDict(json_schema_extra={"required": ["prompt"]})

    # Filled by `parse`, from every form of a prompt.
    prompt: Annotated[list[Prompt], WithJsonSchema(PROMPT_SCHEMA)] = Field(default_factory=list)
    n: Integer | None = field_alias("n_cmpl", "n")
    n_predict: NaturalOrMinusOne | None = field_alias(
        "n_predict", "max_completion_tokens", "max_tokens", "max_new_tokens", "num_predict", "max_length"
    )
    stop: Stop | None = field_alias("stop", "stopping_strings", "stop_sequence", "stop_sequences")
    seed: Annotated[Integer, between(-1, UINT32_MAX)] | None = field_alias("seed", "sampler_seed")
    cache_prompt: bool | None = None
    state: Annotated[str, Field(max_length=64, pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$")] = ""
    stream: bool | None = None
    stream_options: StreamOptions = StreamOptions()
    return_tokens: bool = False

    t_max_predict_ms: Milliseconds = -1
    n_indent: Natural = 0
    min_tokens: Natural = 0
    n_keep: NaturalOrMinusOne | None = None
    n_discard: Natural = 0
    lora: LoraScales | None = None
    return_progress: bool = False
    sse_ping_interval: NaturalOrMinusOne | None = None

    # Checked, but without effect: the prefix tree finds all reusable text, and all sequences are equivalent.
    n_cache_reuse: Natural | None = None
    id_slot: Integer | None = None
    backend_sampling: bool = False

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest, which names the first field at fault."""
        if "prompt" not in body:
            raise bad_field("prompt", "is required")
        try:
            prompts = parse_prompts(body["prompt"])
        except ValueError as error:
            raise bad_field("prompt", str(error)) from None
        try:
            parsed = cls.model_validate({**body, "prompt": []})
        except ValidationError as error:
            raise explain(error) from None
        return parsed.model_copy(update={"prompt": prompts})

    def commands(self, settings: Settings, n: int, max_tokens: int) -> list[Generate]:
        """Return one Generate per prompt; `n` and `max_tokens` (-1: no limit) are the dialect's defaults.

        Raise InvalidRequest for values beyond the settings' limits, NotSupported for features that are not implemented.
        """
        n = n if self.n is None else self.n
        try:
            check_between(n, 1, settings.max_n)
        except ValueError as error:
            raise bad_field("n", str(error)) from None
        if len(self.prompt) > settings.max_queue:  # more could never be queued together
            raise bad_field("prompt", f"has {len(self.prompt)} prompts; at most {settings.max_queue} are allowed")
        if self.state and (len(self.prompt) > 1 or self.cache_prompt is False):
            raise bad_field("state", "needs a single prompt and cache_prompt true")
        alike = BranchSpec(
            seed=0,
            max_tokens=max_tokens if self.n_predict is None else self.n_predict,
            stop=self.stop or default_stop(settings),
            sampling=self.sampling(settings),
            t_max_predict_ms=self.t_max_predict_ms,
            min_tokens=self.min_tokens,
            n_indent=self.n_indent,
        )
        return [
            Generate(
                request_id=uuid4().hex,
                prompt=prompt,
                branches=tuple(replace(alike, seed=seed) for seed in self.seeds(n, settings.seed)),
                cache_prompt=settings.cache_prompt if self.cache_prompt is None else self.cache_prompt,
                state=self.state,
                lora=self.lora,
                report_progress=self.return_progress and bool(self.stream),
                shift=ContextShift(self.kept(settings), self.n_discard) if settings.context_shift else None,
            )
            for prompt in self.prompt
        ]

    def kept(self, settings: Settings) -> int:
        """Return the number of tokens at a text's beginning that a context shift keeps; -1: the whole prompt."""
        return settings.n_keep if self.n_keep is None else self.n_keep

    def ping_interval(self, settings: Settings) -> float | None:
        """Return the seconds without an event after which a stream sends a keep-alive comment, or None for never."""
        seconds = settings.sse_ping_interval if self.sse_ping_interval is None else self.sse_ping_interval
        return seconds if seconds > 0 else None

    def seeds(self, n: int, default: int) -> list[int]:
        """Return the seeds of n branches: seed + i, never llama.cpp's value for random; -1 draws a random first seed."""
        seed = default if self.seed is None else self.seed
        seed = secrets.randbelow(UINT32_MAX) if seed in (-1, UINT32_MAX) else seed
        return [(seed + i) % UINT32_MAX for i in range(n)]


def explain(error: ValidationError) -> InvalidRequest:
    """Return pydantic's first error as InvalidRequest; it names the field as the client did (pydantic's `loc`)."""
    problem = error.errors(include_url=False)[0]
    name, words = str(problem["loc"][0]), problem["msg"]
    if problem["type"] == "model_type":  # pydantic's message names our class
        words = "Input should be an object"
    if problem["type"] == "value_error":
        return bad_field(name, words.removeprefix("Value error, "))
    return bad_field(name, f"{words}, but got {short_json(problem['input'])}")
