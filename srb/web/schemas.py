"""Request bodies: from the bytes of a body to the commands that the engine gets, or a 400 that names the field.

Bodies are lenient about what they do not know (clients send up to ninety fields) and strict about what they do. A
field that is null is a field that is absent. Defaults of sampling live in SamplingParams; None here means "not given".
"""

from __future__ import annotations

import secrets
from dataclasses import fields as dataclass_fields
from typing import Annotated, Any, Self
from uuid import uuid4

import orjson
from flask import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from srb.errors import InvalidRequest, NotSupported
from srb.protocol import BranchSpec, Generate, SamplingParams
from srb.settings import Settings
from srb.web.fields import (
    FLOAT32_MAX,
    INT32_MAX,
    UINT32_MAX,
    Breakers,
    Fraction,
    Grammar,
    LogitBias,
    Natural,
    NaturalOrMinusOne,
    NotNegative,
    Prompt,
    Real,
    Samplers,
    Stop,
    between,
    check_between,
    clamped,
    known_as,
    parse_prompts,
    shown,
)

MAX_N_PROBS = 256

ProbCount = Annotated[int, between(0, MAX_N_PROBS)]


def read_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object without its null fields, whatever its Content-Type says.

    Raise InvalidRequest for anything else than one JSON object, and Werkzeug's 413 beyond max_body_bytes.
    """
    try:
        body = orjson.loads(_read(request))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return {name: value for name, value in body.items() if value is not None}


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError(f"must be more than 0, but got {value}")
    return value


def _read(request: Request) -> bytes:
    """Werkzeug reads at most max_content_length bytes, and says 413 only where the length was announced."""
    try:
        data = request.get_data(cache=False)
    except HTTPException:
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
    top_k: Annotated[int, clamped(0, INT32_MAX)] | None = None
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
    mirostat: Annotated[int, clamped(0, 2)] | None = None
    mirostat_tau: Real | None = None
    mirostat_eta: Real | None = None
    adaptive_target: Annotated[Real, clamped(-FLOAT32_MAX, 1.0)] | None = None
    adaptive_decay: Annotated[float, between(0, 0.99)] | None = None
    min_keep: Natural | None = None
    ignore_eos: bool | None = None
    logit_bias: LogitBias | None = None
    grammar: Grammar | None = None
    samplers: Samplers | None = None

    n_probs: ProbCount | None = None
    logprobs: ProbCount | bool | None = None
    top_logprobs: ProbCount | None = None

    @property
    def wanted_probs(self) -> int:
        """SamplingParams.n_probs: n_probs 0 is llama-server's "none", logprobs 0 OpenAI's "the token's own"."""
        if self.n_probs:
            return self.n_probs
        if self.logprobs is None or self.logprobs is False:
            return -1
        return self.top_logprobs or 0 if self.logprobs is True else self.logprobs

    def sampling(self) -> SamplingParams:
        names = {field.name for field in dataclass_fields(SamplingParams)} - {"n_probs"}
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return SamplingParams(n_probs=self.wanted_probs, **given)


class CompletionBody(SamplingBody):
    """The body of a completion in the srb and openai dialects."""

    prompt: list[Prompt] = Field(default_factory=list)  # filled by `parse`, which knows every form
    n: int | None = known_as("n_cmpl", "n")
    n_predict: NaturalOrMinusOne | None = known_as(
        "n_predict", "max_completion_tokens", "max_tokens", "max_new_tokens", "num_predict", "max_length"
    )
    stop: Stop | None = known_as("stop", "stopping_strings", "stop_sequence", "stop_sequences")
    seed: Annotated[int, between(-1, UINT32_MAX)] | None = None
    cache_prompt: bool = True
    state: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")] = ""
    stream: bool | None = None
    stream_options: StreamOptions = StreamOptions()
    return_tokens: bool = False

    best_of: int | None = None
    echo: bool = False
    suffix: str = ""
    json_schema: Any = None
    t_max_predict_ms: NaturalOrMinusOne | None = None

    # Checked, and of no effect: the context is never shifted here.
    n_keep: NaturalOrMinusOne | None = None
    n_discard: Natural | None = None
    n_indent: Natural | None = None
    n_cache_reuse: Natural | None = None

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
            raise _explain(error) from None
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
        if self.state and (len(self.prompt) > 1 or not self.cache_prompt):
            raise bad_field("state", "names the state of one prompt, with cache_prompt true")
        self._refuse_what_is_missing(n)
        sampling = self.sampling()
        limit = max_tokens if self.n_predict is None else self.n_predict
        return [
            Generate(
                request_id=uuid4().hex,
                prompt=prompt,
                branches=tuple(BranchSpec(seed, limit, self.stop or (), sampling=sampling) for seed in self.seeds(n)),
                cache_prompt=self.cache_prompt,
                state=self.state,
            )
            for prompt in self.prompt
        ]

    def seeds(self, n: int) -> list[int]:
        """Return the real seeds of n branches: seed + i, never llama.cpp's word for random; a drawn seed for -1."""
        seed = secrets.randbelow(UINT32_MAX) if self.seed in (None, -1, UINT32_MAX) else self.seed
        assert seed is not None
        return [(seed + i) % UINT32_MAX for i in range(n)]

    def _refuse_what_is_missing(self, n: int) -> None:
        if self.best_of is not None and self.best_of != n:
            raise bad_field("best_of", f"only the value of n ({n}) is supported, but got {self.best_of}")
        if self.echo:
            raise bad_field("echo", "true is not supported")
        if self.suffix:
            raise bad_field("suffix", "is not supported")
        if self.json_schema is not None:
            raise NotSupported("Field 'json_schema': is not supported yet; use 'grammar'", param="json_schema")
        if self.t_max_predict_ms is not None and self.t_max_predict_ms > 0:
            raise NotSupported("Field 't_max_predict_ms': is not supported yet", param="t_max_predict_ms")


def bad_field(name: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"Field '{name}': {problem}", param=name)


def _explain(error: ValidationError) -> InvalidRequest:
    """Turn pydantic's first complaint into ours; `loc` begins with the name that the client used."""
    problem = error.errors(include_url=False)[0]
    name, words = str(problem["loc"][0]), problem["msg"]
    if problem["type"] == "model_type":  # pydantic's words name our class
        words = "Input should be an object"
    if problem["type"] == "value_error":
        return bad_field(name, words.removeprefix("Value error, "))
    return bad_field(name, f"{words}, but got {shown(problem['input'])}")
