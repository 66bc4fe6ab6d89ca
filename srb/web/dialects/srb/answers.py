"""Types of the srb dialect's answers and events. The renderer builds `stream` events as bytes; tests check their type."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.protocol import FinishReason, TokenProbs
from srb.web.answers import Timings, Usage, shape


@shape
class StartEvent(TypedDict):
    event: Literal["start"]
    count: int
    id: str
    seeds: list[int]
    prompt_tokens: int


@shape
class StreamEvent(TypedDict):
    event: Literal["stream"]
    index: int
    text: str
    tokens: NotRequired[list[int]]
    logprobs: NotRequired[list[TokenProbs]]


@shape
class BranchEnding(TypedDict):
    """The end of a branch; `stop` is 1 if the model ended its text or a stop string was found."""

    length: int
    stop: Literal[0, 1]
    reason: FinishReason
    stopping_word: str
    truncated: NotRequired[Literal[True]]
    logprob: NotRequired[float]


@shape
class StopEvent(BranchEnding):
    event: Literal["stop"]
    index: int


@shape
class DoneEvent(TypedDict):
    event: Literal["done"]
    count: int
    usage: Usage
    timings: Timings


@shape
class ErrorEvent(TypedDict):
    """An error. With `index` one branch failed and the others continue; without, it is the last event of the stream."""

    event: Literal["error"]
    code: str
    message: str
    index: NotRequired[int]


SRBEvent = StartEvent | StreamEvent | StopEvent | DoneEvent | ErrorEvent


@shape
class SRBErrorObject(TypedDict):
    code: str
    message: str


@shape
class SRBCompletionChoice(BranchEnding):
    index: int
    text: str
    tokens: NotRequired[list[int]]
    logprobs: NotRequired[list[TokenProbs]]
    error: NotRequired[SRBErrorObject]


@shape
class SRBCompletion(TypedDict):
    id: str
    completions: list[SRBCompletionChoice]
    seeds: list[int]
    usage: Usage
    timings: Timings
