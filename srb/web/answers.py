"""What text completions answer, as models: for /openapi.json and for tests, which check real answers against them.

The answers themselves are made by the dialects, as plain dicts and glued bytes; nothing here runs for a request.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """A JSON object with these keys and no others; a key with a default may be absent."""

    model_config = ConfigDict(strict=True, extra="forbid")


class ErrorObject(BaseModel):
    """`param` names the field at fault; some errors carry more."""

    code: int
    message: str
    type: str
    param: str | None = None


class ErrorAnswer(Answer):
    error: ErrorObject


class PromptTokensDetails(Answer):
    cached_tokens: int


class Usage(Answer):
    """Summed over the branches; a shared prompt counts once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Timings(Answer):
    """Over all branches together; times in milliseconds."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


class PromptProgress(Answer):
    """How far a prompt is: tokens in all, those that were known, those that are computed now; milliseconds so far."""

    total: int
    cache: int
    processed: int
    time_ms: int


class LikelyToken(Answer):
    id: int
    token: str
    bytes: list[int]
    logprob: float | None = None
    prob: float | None = None  # with post_sampling_probs


class TokenProbs(LikelyToken):
    top_logprobs: list[LikelyToken] | None = None
    top_probs: list[LikelyToken] | None = None


class LegacyLogprobs(Answer):
    """OpenAI's arrays, one entry a token, and the newer list of objects beside them."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]
    content: list[TokenProbs]


class TextChoice(Answer):
    """`stop_reason` is there at a finish_reason "stop": the stop string, or "" at the text's end."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: Literal["stop", "length", "error"]
    stop_reason: str | None = None
    seed: int
    tokens: list[int] | None = None  # with return_tokens
    error: ErrorObject | None = None  # with finish_reason "error"


class TextCompletion(Answer):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
    timings: Timings


class TextChunkChoice(TextChoice):
    finish_reason: Literal["stop", "length", "error"] | None  # type: ignore[assignment]
    seed: int | None = None  # type: ignore[assignment]  # in the choice's last chunk


class TextCompletionChunk(Answer):
    """One event of a stream: one choice, or none and the usage, where that was asked for."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChunkChoice]
    usage: Usage | None = None
    timings: Timings | None = None
    prompt_progress: PromptProgress | None = None  # with return_progress


class StartEvent(Answer):
    event: Literal["start"]
    count: int
    id: str
    seeds: list[int]
    prompt_tokens: int


class StreamEvent(Answer):
    event: Literal["stream"]
    index: int
    text: str
    tokens: list[int] | None = None
    logprobs: list[TokenProbs] | None = None


class BranchEnding(Answer):
    length: int
    stop: Literal[0, 1]
    reason: Literal["eos", "word", "limit", "cancelled", "error"]
    stopping_word: str
    truncated: Literal[True] | None = None
    logprob: float | None = None


class StopEvent(BranchEnding):
    event: Literal["stop"]
    index: int


class DoneEvent(Answer):
    event: Literal["done"]
    count: int
    usage: Usage
    timings: Timings


class ErrorEvent(Answer):
    """With `index` one branch has failed and the others go on; without, it is the last event."""

    event: Literal["error"]
    code: str
    message: str
    index: int | None = None


SRBEvent = StartEvent | StreamEvent | StopEvent | DoneEvent | ErrorEvent


class SRBErrorObject(Answer):
    code: str
    message: str


class SRBCompletionChoice(BranchEnding):
    index: int
    text: str
    tokens: list[int] | None = None
    logprobs: list[TokenProbs] | None = None
    error: SRBErrorObject | None = None


class SRBCompletion(Answer):
    id: str
    completions: list[SRBCompletionChoice]
    seeds: list[int]
    usage: Usage
    timings: Timings


CompletionAnswer = TextCompletion | SRBCompletion
CompletionEvent = TextCompletionChunk | SRBEvent


JSONObject = dict[str, Any]
