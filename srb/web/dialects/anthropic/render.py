"""Anthropic's Messages, rendered as streamed events and as one object. A message has one branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import orjson

from srb.errors import SRBError
from srb.web.answers import JSONObject
from srb.web.calls.calls import Call
from srb.web.calls.outcome import Outcome, timings, usage
from srb.web.calls.renderer import Renderer, named_sse
from srb.web.chat.blocks import Begin, Block, Blocks, More, Step, blocks_of
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.anthropic.errors import anthropic_error
from srb.web.dialects.openai.chat_body import ChatRequest
from srb.wire.events import BranchEnded, Delta, Done, FinishReason, ModelInfo, PromptDone, PromptEvent

# A cancelled message is cut short like one at its limit.
_STOP_REASONS: dict[str, str] = dict.fromkeys((FinishReason.LIMIT, FinishReason.CANCELLED), "max_tokens")


class MessageFrame:
    """The message of one call around its content."""

    def __init__(self, asked: ChatRequest, body: MessagesBody, call: Call, model: ModelInfo) -> None:
        (command,) = call.commands
        (branch,) = command.branches
        self._id = f"msg_{command.request_id}"
        self._asked = asked
        self._model = model.alias
        self._seed = branch.seed
        self._stops = body.stop or ()
        self._prompt_tokens = call.mailbox.prompt_tokens[command.request_id]
        self.shows_thinking = body.shows_thinking

    def streamed_blocks(self) -> Blocks:
        return Blocks(self._asked.parser(stream=False, in_parts=True), keeps_text=False)

    def blocks_of(self, text: str) -> Blocks:
        return blocks_of(self._asked.parser(stream=False, in_parts=True), text)

    def begun(self, cached: int) -> JSONObject:
        """Return the message before its content; `cached` tokens of the prompt were computed before."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self._prompt_tokens, cached, 0, 0),
            "seed": self._seed,
        }

    def content(self, block: Block) -> JSONObject:
        if block.kind == "text":
            return {"type": "text", "text": block.text}
        if block.kind == "reasoning":
            return {"type": "thinking", "thinking": block.text if self.shows_thinking else "", "signature": ""}
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": _input(block.text)}

    def stopped(self, ended: BranchEnded, blocks: Blocks) -> JSONObject:
        """Return the reason of the end; a stop string of the template or the settings ends the turn as its own end does."""
        word = ended.stopping_word if ended.stopping_word in self._stops else ""
        reason = _STOP_REASONS.get(ended.reason) or (
            "stop_sequence" if word else "tool_use" if blocks.calls else "end_turn"
        )
        if ended.truncated:
            reason = "model_context_window_exceeded"
        return {"stop_reason": reason, "stop_sequence": word or None}


def message(frame: MessageFrame, outcome: Outcome) -> JSONObject:
    """Return the answer of a call that was not streamed."""
    branch = outcome.branches[0]  # others may have been added to the request
    assert branch.ended is not None  # the engine ends every branch before the request
    blocks = frame.blocks_of(branch.text)
    return {
        **frame.begun(cached=0),
        "content": [frame.content(block) for block in blocks.all],
        **frame.stopped(branch.ended, blocks),
        "usage": _summed(outcome.done, branch.ended, blocks),
        "timings": timings(outcome.done),
    }


class MessageRenderer(Renderer):
    """The events of a streamed message, which begins when its prompt is computed."""

    def __init__(self, call: Call, frame: MessageFrame) -> None:
        super().__init__(call)
        self._frame = frame
        self._blocks = frame.streamed_blocks()
        self._ended: BranchEnded | None = None
        self._started = False
        self._plain = b""  # the bytes before the text of an event

    def prompt(self, event: PromptEvent) -> bytes:
        return self._start(event.cached_tokens) if type(event) is PromptDone else b""

    def delta(self, event: Delta) -> bytes:
        if event.index:
            return b""  # of a branch that was added to the request
        block = self._blocks.plain
        if block is None:
            return self._start() + self._steps(self._blocks.feed(event.text))
        if not event.text:
            return b""
        self._blocks.append(event.text)
        if not self._plain:
            before = self._changed(block, {"type": "text_delta"}).removesuffix(b"}}\n\n")
            self._plain = before + b',"text":'
        return self._plain + orjson.dumps(event.text) + b"}}\n\n"

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        if event.index:
            return b""
        self._ended, self._plain = event, b""
        return self._start() + self._steps(self._blocks.end())

    def _end(self, done: list[Done]) -> bytes:
        assert self._ended is not None  # the engine ends every branch before the request
        stopped = self._frame.stopped(self._ended, self._blocks)
        summed = _summed(done, self._ended, self._blocks)
        end = _event("message_delta", delta=stopped, usage=summed, timings=timings(done))
        return end + _event("message_stop")

    def failed(self, error: SRBError) -> bytes:
        return named_sse("error", anthropic_error(error))

    def _start(self, cached: int = 0) -> bytes:
        if self._started:
            return b""
        self._started = True
        return _event("message_start", message=self._frame.begun(cached))

    def _steps(self, steps: list[Step]) -> bytes:
        return b"".join(
            _event("content_block_start", index=step.block.place, content_block=self._frame.content(_empty(step.block)))
            if isinstance(step, Begin)
            else self._more(step.block, step.text)
            if isinstance(step, More)
            else self._done(step.block)
            for step in steps
        )

    def _more(self, block: Block, text: str) -> bytes:
        if block.kind == "text":
            return self._changed(block, {"type": "text_delta", "text": text})
        if block.kind == "call":
            return self._changed(block, {"type": "input_json_delta", "partial_json": text})
        return self._changed(block, {"type": "thinking_delta", "thinking": text}) if self._frame.shows_thinking else b""

    def _done(self, block: Block) -> bytes:
        signed = {"type": "signature_delta", "signature": ""}
        data = self._changed(block, signed) if block.kind == "reasoning" else b""
        return data + _event("content_block_stop", index=block.place)

    def _changed(self, block: Block, delta: dict[str, str]) -> bytes:
        return _event("content_block_delta", index=block.place, delta=delta)


def _event(kind: str, **values: Any) -> bytes:
    return named_sse(kind, {"type": kind, **values})


def _empty(block: Block) -> Block:
    return Block(block.kind, block.place, block.name, block.id)


def _input(arguments: str) -> JSONObject:
    """Return a call's arguments as an object; {} for text that is none, as in llama-server."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return cast(JSONObject, value) if isinstance(value, dict) else {}


def _summed(done: Sequence[Done], ended: BranchEnded, blocks: Blocks) -> JSONObject:
    summed = usage(done)
    cached = summed["prompt_tokens_details"]["cached_tokens"]
    thinking = blocks.reasoning_tokens(ended.length)
    return _usage(summed["prompt_tokens"], cached, summed["completion_tokens"], thinking)


def _usage(prompt: int, cached: int, output: int, thinking: int) -> JSONObject:
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": thinking},
    }
