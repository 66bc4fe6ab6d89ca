"""Answer types of OpenAI's text completions, and the types that chats share with them."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import ErrorObject, PromptProgress, Ranking, Timings, Usage, shapes
from srb.web.dialects.llamacpp.answers import Final, Partial, Selection
from srb.web.dialects.srb.answers import SRBCompletion, SRBEvent
from srb.wire.events import TokenProbs

# With `verbose`: the llamacpp dialect's object of the same event or answer. In a class the name would be changed.
_Verbose = TypedDict("_Verbose", {"__verbose": NotRequired[Partial | Final | Selection]})


class Origin(_Verbose):
    """The id, time, model and build that every answer carries."""

    id: str
    created: int
    model: str
    system_fingerprint: str


class Whole(Origin, Ranking):
    """An answer that was not streamed, without its choices."""

    usage: Usage
    timings: Timings


class Chunk(Origin, Ranking):
    """One event of a stream, without its choices."""

    usage: NotRequired[Usage | None]
    timings: NotRequired[Timings]
    prompt_progress: NotRequired[PromptProgress]  # with return_progress


class LegacyLogprobs(TypedDict):
    """OpenAI's arrays, with one entry per token, and in `content` the newer list of objects."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]  # likeliest first, the chosen token among them
    text_offset: list[int]
    content: list[TokenProbs]


class Ending(TypedDict):
    """The end of a choice, and its optional keys."""

    finish_reason: Literal["stop", "length", "error"]
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]  # with finish_reason "error"
    tokens: NotRequired[list[int]]  # with return_tokens


class TextChoice(Ending):
    """One choice. `stop_reason` comes with finish_reason "stop": the stop string, "" if the model ended its
    text, or "boundary" at the end that `stop_at` asked for.
    """

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    seed: int


class TextCompletion(Whole):
    object: Literal["text_completion"]
    choices: list[TextChoice]


class TextChunkChoice(TypedDict):
    """New text of a choice; its last chunk also has its end and its seed."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: Literal["stop", "length", "error"] | None
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]
    seed: NotRequired[int]
    tokens: NotRequired[list[int]]


class TextCompletionChunk(Chunk):
    """One event of a stream: one choice, or no choice and the usage and ranking that were asked for."""

    object: Literal["text_completion"]
    choices: list[TextChunkChoice]


CompletionAnswer = TextCompletion | SRBCompletion
CompletionEvent = TextCompletionChunk | SRBEvent

shapes(__name__)
