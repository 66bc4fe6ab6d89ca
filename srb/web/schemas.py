"""Request bodies: from the bytes of a body to the commands that the engine gets, or a 400 that names the field.

Bodies are lenient about what they do not know (clients send up to ninety fields) and strict about what they do. A
field that is null is a field that is absent. Defaults of sampling live in SamplingParams; None here means "not given".
"""

from __future__ import annotations

import secrets
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Annotated, Any, Self
from uuid import uuid4

import gevent
import orjson
from flask import Request, current_app
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from srb.errors import BodyTooSlow, InvalidRequest, bad_field
from srb.protocol import BranchSpec, ContextShift, Generate, SamplingParams
from srb.settings import Settings
from srb.web.defaults import default_sampling, default_stop
from srb.web.fields import (
    FLOAT32_MAX,
    INT32_MAX,
    PROMPT_SCHEMA,
    UINT32_MAX,
    Breakers,
    Content,
    Fraction,
    Grammar,
    Integer,
    LogitBias,
    Milliseconds,
    Natural,
    NaturalOrMinusOne,
    NotNegative,
    Prompt,
    Real,
    Samplers,
    Scales,
    Schema,
    Stop,
    between,
    check_between,
    clamped,
    known_as,
    parse_prompts,
    shown,
)

MAX_N_PROBS = 256

ProbCount = Annotated[Integer, between(0, MAX_N_PROBS)]


def read_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object without its null fields, whatever its Content-Type says.

    Raise InvalidRequest for anything else than one JSON object, and Werkzeug's 413 beyond max_body_bytes.
    """
    body = read_json(request)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return {name: value for name, value in body.items() if value is not None}


def read_json(request: Request) -> Any:
    """Return the request's JSON value; raise as read_body does."""
    try:
        return orjson.loads(_read(request))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}") from None


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError(f"must be more than 0, but got {value}")
    return value


def _read(request: Request) -> bytes:
    """Werkzeug reads at most max_content_length bytes, and says 413 only where the length was announced."""
    seconds = current_app.config["READ_TIMEOUT"]
    try:
        with gevent.Timeout(seconds, BodyTooSlow(f"The body did not arrive within {seconds} seconds")):
            data = request.get_data(cache=False)
    except (HTTPException, BodyTooSlow):
        raise
    except Exception as error:  # the WSGI server's own, about chunks that are none
        raise InvalidRequest(f"The body could not be read: {error}") from None
    if request.max_content_length is not None and len(data) >= request.max_content_length:
        raise RequestEntityTooLarge
    return data


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class SamplingBody(BaseModel):
    """The fields that say how to choose tokens, by SamplingParams' names and their aliases."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())

    temperature: NotNegative | None = None
    dynatemp_range: Real | None = None
    dynatemp_exponent: Real | None = None
    top_k: Annotated[Integer, clamped(0, INT32_MAX)] | None = None
    top_p: Fraction | None = None
    min_p: Fraction | None = None
    typical_p: Real | None = known_as("typical_p", "typical")
    top_n_sigma: Real | None = known_as("top_n_sigma", "nsigma")
    xtc_probability: Fraction | None = None
    xtc_threshold: Fraction | None = None
    repeat_last_n: Natural | None = None
    repeat_penalty: Annotated[Real, AfterValidator(_positive)] | None = known_as(
        "repeat_penalty", "repetition_penalty", "rep_pen"
    )
    frequency_penalty: Real | None = None
    presence_penalty: Real | None = None
    dry_multiplier: Real | None = None
    dry_base: Annotated[Real, AfterValidator(lambda v: v if v >= 1.0 else SamplingParams().dry_base)] | None = None
    dry_allowed_length: Natural | None = None
    dry_penalty_last_n: Natural | None = None
    dry_sequence_breakers: Breakers | None = None
    mirostat: Annotated[Integer, clamped(0, 2)] | None = None
    mirostat_tau: Real | None = None
    mirostat_eta: Real | None = None
    adaptive_target: Annotated[Real, clamped(-FLOAT32_MAX, 1.0)] | None = None
    adaptive_decay: Annotated[float, between(0, 0.99)] | None = None
    min_keep: Natural | None = None
    ignore_eos: bool | None = None
    logit_bias: LogitBias | None = None
    grammar: Grammar | None = None
    json_schema: Schema | None = None  # of no effect beside a grammar
    samplers: Samplers | None = None
    penalty_prompt: Content | None = None

    n_probs: ProbCount | None = None
    logprobs: ProbCount | bool | None = None
    top_logprobs: ProbCount | None = None
    post_sampling_probs: bool = False

    @property
    def wanted_probs(self) -> int:
        """SamplingParams.n_probs: n_probs 0 is llama-server's "none", logprobs 0 OpenAI's "the token's own"."""
        if self.n_probs:
            return self.n_probs
        if self.logprobs is None or self.logprobs is False:
            return -1
        return self.top_logprobs or 0 if self.logprobs is True else self.logprobs

    def sampling(self, settings: Settings) -> SamplingParams:
        given = {name: value for name in _SAMPLING if (value := getattr(self, name)) is not None}
        if self.grammar:
            given["json_schema"] = ""
        elif self.json_schema:
            given["grammar"] = ""
        return replace(default_sampling(settings), n_probs=self.wanted_probs, **given)


_SAMPLING = [field.name for field in dataclass_fields(SamplingParams) if field.name != "n_probs"]


class CompletionBody(SamplingBody):
    """What the bodies of all dialects have in common: a prompt, and how many branches continue it until when."""

    model_config = ConfigDict(json_schema_extra={"required": ["prompt"]})

    # Filled by `parse`, which knows every form.
    prompt: Annotated[list[Prompt], WithJsonSchema(PROMPT_SCHEMA)] = Field(default_factory=list)
    n: Integer | None = known_as("n_cmpl", "n")
    n_predict: NaturalOrMinusOne | None = known_as(
        "n_predict", "max_completion_tokens", "max_tokens", "max_new_tokens", "num_predict", "max_length"
    )
    stop: Stop | None = known_as("stop", "stopping_strings", "stop_sequence", "stop_sequences")
    seed: Annotated[Integer, between(-1, UINT32_MAX)] | None = None
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
    lora: Scales | None = None
    return_progress: bool = False
    sse_ping_interval: NaturalOrMinusOne | None = None

    # Checked, and of no effect: the tree finds what can be reused, and any sequence is as good as another.
    n_cache_reuse: Natural | None = None
    id_slot: Integer | None = None
    backend_sampling: bool = False

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body as `read_body` returned it; raise InvalidRequest naming the first field at fault."""
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
        """Return one Generate per prompt; `n` and `max_tokens` are the dialect's defaults.

        Raise InvalidRequest or NotSupported for what goes beyond the settings or what this version cannot honour.
        """
        n = n if self.n is None else self.n
        try:
            check_between(n, 1, settings.max_n)
        except ValueError as error:
            raise bad_field("n", str(error)) from None
        if len(self.prompt) > settings.max_queue:  # more could never wait at once
            raise bad_field("prompt", f"has {len(self.prompt)} prompts; at most {settings.max_queue} are taken")
        if self.state and (len(self.prompt) > 1 or self.cache_prompt is False):
            raise bad_field("state", "names the state of one prompt, with cache_prompt true")
        alike = BranchSpec(
            seed=0,
            max_tokens=max_tokens if self.n_predict is None else self.n_predict,
            stop=self.stop or default_stop(settings),
            sampling=self.sampling(settings),
            max_ms=self.t_max_predict_ms,
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
        """Return how many tokens at its beginning a shifted text keeps; -1: all of the prompt."""
        return settings.n_keep if self.n_keep is None else self.n_keep

    def ping_interval(self, settings: Settings) -> float | None:
        """Return the seconds of silence after which a stream sends a comment, or None for never."""
        seconds = settings.sse_ping_interval if self.sse_ping_interval is None else self.sse_ping_interval
        return seconds if seconds > 0 else None

    def seeds(self, n: int, default: int) -> list[int]:
        """Return the real seeds of n branches: seed + i, never llama.cpp's word for random; a drawn seed for -1."""
        seed = default if self.seed is None else self.seed
        seed = secrets.randbelow(UINT32_MAX) if seed in (-1, UINT32_MAX) else seed
        return [(seed + i) % UINT32_MAX for i in range(n)]


def explain(error: ValidationError) -> InvalidRequest:
    """Turn pydantic's first complaint into ours; `loc` begins with the name that the client used."""
    problem = error.errors(include_url=False)[0]
    name, words = str(problem["loc"][0]), problem["msg"]
    if problem["type"] == "model_type":  # pydantic's words name our class
        words = "Input should be an object"
    if problem["type"] == "value_error":
        return bad_field(name, words.removeprefix("Value error, "))
    return bad_field(name, f"{words}, but got {shown(problem['input'])}")
