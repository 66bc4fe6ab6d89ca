"""Answer types of OpenAI's Responses: the response, its items, and the events of a stream."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import ErrorObject, JSONObject, PromptProgress, Ranking, Timings, shapes
from srb.wire.events import TokenProbs

Status = Literal["in_progress", "completed", "incomplete", "failed"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


OutputText = TypedDict("OutputText", {
    "type": Literal["output_text"], "text": str, "annotations": list[JSONObject], "logprobs": list[TokenProbs],
})  # fmt: skip
ReasoningText = TypedDict("ReasoningText", {"type": Literal["reasoning_text"], "text": str})


class OfBranch(TypedDict):
    """The key of items that belong to another branch than the first."""

    branch: NotRequired[int]


class MessageItem(OfBranch):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: ItemStatus
    content: list[OutputText]


class ReasoningItem(OfBranch):
    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[JSONObject]
    content: list[ReasoningText]
    encrypted_content: None


class OfNamespace(TypedDict):
    namespace: NotRequired[str]  # of a tool that a namespace has; its name is then the one within it


class CallItem(OfBranch, OfNamespace):
    """A call of a tool; `arguments` is JSON."""

    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


Item = MessageItem | ReasoningItem | CallItem


class InputDetails(TypedDict):
    cached_tokens: int
    cache_write_tokens: int
    text_tokens: NotRequired[int]  # with pictures or sounds, as in PromptTokensDetails
    image_tokens: NotRequired[int]
    audio_tokens: NotRequired[int]


class OutputDetails(TypedDict):
    reasoning_tokens: int  # an estimate, by the part of the characters


class ResponseUsage(TypedDict):
    """Numbers of tokens, summed over the branches; a shared prompt counts once."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class BranchEnd(TypedDict):
    """A branch of the response: its seed and, once it has ended, the reason, as in a choice of a chat."""

    index: int
    seed: int
    finish_reason: Literal["stop", "length", "tool_calls", "error"] | None
    stop_reason: NotRequired[str]
    error: NotRequired[ErrorObject]


ResponseError = TypedDict("ResponseError", {
    "code": Literal["server_error", "rate_limit_exceeded", "invalid_prompt"], "message": str, "type": str,
})  # fmt: skip
Incomplete = TypedDict("Incomplete", {"reason": Literal["max_output_tokens"]})


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


Event = TypedDict("Event", {"sequence_number": int})


class ResponseEvent(Event):
    """The beginning, the progress of the prompt, and the end, with the response as it is then."""

    type: Literal[
        "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed"
    ]
    response: Response
    prompt_progress: NotRequired[PromptProgress]  # with return_progress


class ItemEvent(Event):
    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: Item


class OfItem(Event):
    item_id: str
    output_index: int


class PartEvent(OfItem):
    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputText | ReasoningText


class TextDelta(OfItem):
    type: Literal["response.output_text.delta"]
    content_index: int
    delta: str
    logprobs: list[TokenProbs]


class TextDone(OfItem):
    type: Literal["response.output_text.done"]
    content_index: int
    text: str
    logprobs: list[TokenProbs]


class ReasoningDelta(OfItem):
    type: Literal["response.reasoning_text.delta"]
    content_index: int
    delta: str


class ReasoningDone(OfItem):
    type: Literal["response.reasoning_text.done"]
    content_index: int
    text: str


class ArgumentsDelta(OfItem):
    type: Literal["response.function_call_arguments.delta"]
    delta: str


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

shapes(__name__)
