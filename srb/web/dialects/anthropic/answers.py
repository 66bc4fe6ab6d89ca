"""Answer types of Anthropic's Messages: the message, its blocks, and the events of a stream."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import JSONObject, Timings, shapes
from srb.web.dialects.anthropic.errors import AnthropicError

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


TextBlock = TypedDict("TextBlock", {"type": Literal["text"], "text": str})


class ThinkingBlock(TypedDict):
    """Reasoning; the signature is empty, since the server checks none."""

    type: Literal["thinking"]
    thinking: str
    signature: str


ToolUseBlock = TypedDict("ToolUseBlock", {"type": Literal["tool_use"], "id": str, "name": str, "input": JSONObject})
ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class OutputDetails(TypedDict):
    thinking_tokens: int  # an estimate, by the part of the characters


class MessageUsage(TypedDict):
    """Numbers of tokens; those of the prompt are `input_tokens` and `cache_read_input_tokens` together."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails


MessageAnswer = TypedDict("MessageAnswer", {
    "id": str, "type": Literal["message"], "role": Literal["assistant"], "model": str, "content": list[ContentBlock],
    "stop_reason": StopReason | None, "stop_sequence": str | None, "usage": MessageUsage, "seed": int,
    "timings": NotRequired[Timings],
})  # fmt: skip
MessageStart = TypedDict("MessageStart", {"type": Literal["message_start"], "message": MessageAnswer})
BlockStart = TypedDict("BlockStart", {
    "type": Literal["content_block_start"], "index": int, "content_block": ContentBlock,
})  # fmt: skip
TextDelta = TypedDict("TextDelta", {"type": Literal["text_delta"], "text": str})
ThinkingDelta = TypedDict("ThinkingDelta", {"type": Literal["thinking_delta"], "thinking": str})
SignatureDelta = TypedDict("SignatureDelta", {"type": Literal["signature_delta"], "signature": str})


class InputDelta(TypedDict):
    """A part of a call's input, as JSON text."""

    type: Literal["input_json_delta"]
    partial_json: str


BlockDelta = TypedDict("BlockDelta", {
    "type": Literal["content_block_delta"], "index": int,
    "delta": TextDelta | ThinkingDelta | SignatureDelta | InputDelta,
})  # fmt: skip
BlockStop = TypedDict("BlockStop", {"type": Literal["content_block_stop"], "index": int})
Stopped = TypedDict("Stopped", {"stop_reason": StopReason, "stop_sequence": str | None})
MessageDelta = TypedDict("MessageDelta", {
    "type": Literal["message_delta"], "delta": Stopped, "usage": MessageUsage, "timings": Timings,
})  # fmt: skip
MessageStop = TypedDict("MessageStop", {"type": Literal["message_stop"]})
StreamEvent = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | AnthropicError


TokenCount = TypedDict("TokenCount", {"input_tokens": int})

shapes(__name__)
