"""Answer types of OpenAI's Responses: the response, its items, and the events of a stream."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import ErrorObject, JSONObject, PromptProgress, Ranking, Timings, shape
from srb.wire.events import TokenProbs

Status = Literal["in_progress", "completed", "incomplete", "failed"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


@shape
class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: list[JSONObject]
    logprobs: list[TokenProbs]


@shape
class ReasoningText(TypedDict):
    type: Literal["reasoning_text"]
    text: str


@shape
class OfBranch(TypedDict):
    """The key of items that belong to another branch than the first."""

    branch: NotRequired[int]


@shape
class MessageItem(OfBranch):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: ItemStatus
    content: list[OutputText]


@shape
class ReasoningItem(OfBranch):
    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[JSONObject]
    content: list[ReasoningText]
    encrypted_content: None


@shape
class OfNamespace(TypedDict):
    namespace: NotRequired[str]  # of a tool that a namespace has; its name is then the one within it


@shape
class CallItem(OfBranch, OfNamespace):
    """A call of a tool; `arguments` is JSON."""

    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


Item = MessageItem | ReasoningItem | CallItem


@shape
class InputDetails(TypedDict):
    cached_tokens: int
    cache_write_tokens: int
    text_tokens: NotRequired[int]  # with pictures or sounds, as in PromptTokensDetails
    image_tokens: NotRequired[int]
    audio_tokens: NotRequired[int]


@shape
class OutputDetails(TypedDict):
    reasoning_tokens: int  # an estimate, by the part of the characters


@shape
class ResponseUsage(TypedDict):
    """Numbers of tokens, summed over the branches; a shared prompt counts once."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


@shape
class BranchEnd(TypedDict):
    """A branch of the response: its seed and, once it has ended, the reason, as in a choice of a chat."""

    index: int
    seed: int
    finish_reason: Literal["stop", "length", "tool_calls", "error"] | None
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]


@shape
class ResponseError(TypedDict):
    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    message: str
    type: str


@shape
class Incomplete(TypedDict):
    reason: Literal["max_output_tokens"]


@shape
class Response(Ranking):
    """A response. Its items are those of all branches; `branches` has their seeds and ends."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    error: ResponseError | None
    incomplete_details: Incomplete | None
    model: str
    output: list[Item]
    usage: ResponseUsage | None
    branches: list[BranchEnd]
    timings: NotRequired[Timings]
    # What was asked for.
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: None
    reasoning: JSONObject
    store: Literal[False]
    temperature: float
    text: JSONObject
    tool_choice: Any
    tools: list[JSONObject]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"]
    background: Literal[False]


@shape
class Event(TypedDict):
    sequence_number: int


@shape
class ResponseEvent(Event):
    """The beginning, the progress of the prompt, and the end, with the response as it is then."""

    type: Literal[
        "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
    ]
    response: Response
    prompt_progress: NotRequired[PromptProgress]  # with return_progress


@shape
class ItemEvent(Event):
    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: Item


@shape
class OfItem(Event):
    item_id: str
    output_index: int


@shape
class PartEvent(OfItem):
    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputText | ReasoningText


@shape
class TextDelta(OfItem):
    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[TokenProbs]


@shape
class TextDone(OfItem):
    type: Literal["response.output_text.done"]
    content_index: int
    text: str
    logprobs: list[TokenProbs]


@shape
class ReasoningDelta(OfItem):
    type: Literal["response.reasoning_text.delta"]
    content_index: int
    delta: str


@shape
class ReasoningDone(OfItem):
    type: Literal["response.reasoning_text.done"]
    content_index: int
    text: str


@shape
class ArgumentsDelta(OfItem):
    type: Literal["response.function_call_arguments.delta"]
    delta: str


@shape
class ArgumentsDone(OfItem):
    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str


StreamEvent = (
    ResponseEvent
    | ItemEvent
    | PartEvent
    | TextDelta
    | TextDone
    | ReasoningDelta
    | ReasoningDone
    | ArgumentsDelta
    | ArgumentsDone
)
