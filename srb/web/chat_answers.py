"""What chat completions answer, as models: for /openapi.json and for tests; nothing here runs for a request."""

from __future__ import annotations

from typing import Literal

from srb.web.answers import Answer, ErrorObject, PromptProgress, Timings, TokenProbs, Usage

FinishReason = Literal["stop", "length", "tool_calls", "error"]


class CalledFunction(Answer):
    name: str
    arguments: str  # JSON


class Call(Answer):
    id: str
    type: Literal["function"]
    function: CalledFunction


class IndexedCall(Call):
    index: int


class ChatLogprobs(Answer):
    content: list[TokenProbs]


class Message(Answer):
    role: Literal["assistant"]
    content: str | None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None


class ChatChoice(Answer):
    index: int
    message: Message
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    stop_reason: str | None = None
    seed: int
    tokens: list[int] | None = None  # with return_tokens
    error: ErrorObject | None = None  # with finish_reason "error"


class ChatCompletion(Answer):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings


class MessageDelta(Answer):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[IndexedCall] | None = None


class ChatChunkChoice(Answer):
    index: int
    delta: MessageDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    stop_reason: str | None = None
    seed: int | None = None
    tokens: list[int] | None = None
    error: ErrorObject | None = None


class ChatCompletionChunk(Answer):
    """One event of a stream: one choice, or none and the usage, where that was asked for."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    timings: Timings | None = None
    prompt_progress: PromptProgress | None = None  # with return_progress


class AppliedTemplate(Answer):
    prompt: str


class InputTokens(Answer):
    input_tokens: int
    object: Literal["response.input_tokens"]
