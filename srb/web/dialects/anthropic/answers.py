"""Answer types of Anthropic's Messages: the message, its blocks, and the events of a stream."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import JSONObject, Timings, shape
from srb.web.dialects.anthropic.errors import AnthropicError

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


@shape
class TextBlock(TypedDict):
    type: Literal["text"]
    text: str


@shape
class ThinkingBlock(TypedDict):
    """Reasoning; the signature is empty, since the server checks none."""

    type: Literal["thinking"]
    thinking: str
    signature: str


@shape
class ToolUseBlock(TypedDict):
    type: Literal["tool_use"]
    id: str
    name: str
    input: JSONObject


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


@shape
class OutputDetails(TypedDict):
    thinking_tokens: int  # an estimate, by the part of the characters


@shape
class MessageUsage(TypedDict):
    """Numbers of tokens; those of the prompt are `input_tokens` and `cache_read_input_tokens` together."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails


@shape
class MessageAnswer(TypedDict):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage
    seed: int
    timings: NotRequired[Timings]


@shape
class MessageStart(TypedDict):
    type: Literal["message_start"]
    message: MessageAnswer


@shape
class BlockStart(TypedDict):
    type: Literal["content_block_start"]
    index: int
    content_block: ContentBlock


@shape
class TextDelta(TypedDict):
    type: Literal["text_delta"]
    text: str


@shape
class ThinkingDelta(TypedDict):
    type: Literal["thinking_delta"]
    thinking: str


@shape
class SignatureDelta(TypedDict):
    type: Literal["signature_delta"]
    signature: str


@shape
class InputDelta(TypedDict):
    """A part of a call's input, as JSON text."""

    type: Literal["input_json_delta"]
    partial_json: str


@shape
class BlockDelta(TypedDict):
    type: Literal["content_block_delta"]
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


@shape
class BlockStop(TypedDict):
    type: Literal["content_block_stop"]
    index: int


@shape
class Stopped(TypedDict):
    stop_reason: StopReason
    stop_sequence: str | None


@shape
class MessageDelta(TypedDict):
    type: Literal["message_delta"]
    delta: Stopped
    usage: MessageUsage
    timings: Timings


@shape
class MessageStop(TypedDict):
    type: Literal["message_stop"]


StreamEvent = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | AnthropicError


@shape
class TokenCount(TypedDict):
    input_tokens: int
