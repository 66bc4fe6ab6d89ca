"""Answer types of OpenAI's chat completions."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import ErrorObject, shapes
from srb.web.dialects.openai.answers import Chunk, Whole
from srb.wire.events import TokenProbs

FinishReason = Literal["stop", "length", "tool_calls", "error"]


class CalledFunction(TypedDict):
    name: str
    arguments: str  # JSON


CalledTool = TypedDict("CalledTool", {"id": str, "type": Literal["function"], "function": CalledFunction})


class FunctionPart(TypedDict):
    """A function as it begins, with empty arguments, or the next part of its arguments."""

    name: NotRequired[str]
    arguments: str


class IndexedCall(TypedDict):
    """A call in a stream: id, type and name come once, with its beginning."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionPart


ChatLogprobs = TypedDict("ChatLogprobs", {"content": list[TokenProbs]})
Message = TypedDict("Message", {
    "role": Literal["assistant"], "content": str | None, "reasoning_content": NotRequired[str],
    "tool_calls": NotRequired[list[CalledTool]],
})  # fmt: skip


class ChatEnding(TypedDict):
    """The end of a choice, and its optional keys; as in text completions, with a finish_reason for tool calls."""

    finish_reason: FinishReason
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]  # with finish_reason "error"
    tokens: NotRequired[list[int]]  # with return_tokens


class ChatChoice(ChatEnding):
    index: int
    message: Message
    logprobs: ChatLogprobs | None
    seed: int


class ChatCompletion(Whole):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]


MessageDelta = TypedDict("MessageDelta", {
    "role": NotRequired[Literal["assistant"]], "content": NotRequired[str], "reasoning_content": NotRequired[str],
    "tool_calls": NotRequired[list[IndexedCall]],
})  # fmt: skip


class ChatChunkChoice(TypedDict):
    """New text of a choice; its last chunk also has its end and its seed."""

    index: int
    delta: MessageDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]
    seed: NotRequired[int]
    tokens: NotRequired[list[int]]


class ChatCompletionChunk(Chunk):
    """One event of a stream: one choice, or no choice and the usage and ranking that were asked for."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]


DirectionPlaceAnswer = TypedDict("DirectionPlaceAnswer", {"at": int, "before": str, "rest": str})


class AppliedTemplate(TypedDict):
    """A rendered conversation, and for a body with directions the `direction_place` of a completion with this prompt."""

    prompt: str
    direction_place: NotRequired[DirectionPlaceAnswer]


InputTokens = TypedDict("InputTokens", {"input_tokens": int, "object": Literal["response.input_tokens"]})


class Controlled(TypedDict):
    """Whether a control was possible: the branches whose reasoning was not over, else the reason."""

    success: bool
    branches: NotRequired[list[int]]
    message: NotRequired[str]


shapes(__name__)
