"""Anthropic's Messages, rendered as streamed events and as one object.

With `n` > 1 the content has the blocks of all branches; in a stream they grow side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from srb.errors import ContextExceeded, SRBError
from srb.web.answers import JSONObject
from srb.web.calls.calls import Call
from srb.web.calls.outcome import Outcome, error_of, timings, usage
from srb.web.calls.renderer import Renderer, named_sse
from srb.web.chat.blocks import Begin, Block, Blocks, More, Step, blocks_of
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.openai.chat_body import ChatRequest
from srb.wire.events import BranchEnded, Delta, Done, FinishReason, ModelInfo, PromptDone, PromptEvent

# A cancelled message is cut short like one at its limit.
_STOP_REASONS: dict[str, str] = dict.fromkeys((FinishReason.LIMIT, FinishReason.CANCELLED), "max_tokens")


@dataclass(slots=True)
class MessageBranch:
    """One branch of a message: its blocks, and the place of each in the message's content."""

    index: int
    seed: int
    blocks: Blocks
    ended: BranchEnded | None = None
    places: dict[int, int] = field(default_factory=dict)  # by the block's place in its branch
    plain: bytes = b""  # in a stream: the bytes before the text of an event


class MessageFrame:
    """The message of one call around its content."""

    def __init__(self, asked: ChatRequest, body: MessagesBody, call: Call, model: ModelInfo) -> None:
        (command,) = call.commands
        self._id = f"msg_{command.request_id}"
        self._asked = asked
        self._model = model.alias
        self._seeds = [branch.seed for branch in command.branches]
        self._stops = body.stop or ()
        self._prompt_tokens = call.mailbox.prompt_tokens[command.request_id]
        self.shows_thinking = body.shows_thinking

    def streamed(self) -> list[MessageBranch]:
        """Return the branches of a stream, without any text."""
        parsers = [self._asked.parser(stream=False, in_parts=True) for _ in self._seeds]
        blocks = [Blocks(parser, keeps_text=False) for parser in parsers]
        return [
            MessageBranch(index, seed, own) for index, (seed, own) in enumerate(zip(self._seeds, blocks, strict=True))
        ]

    def branches_of(self, outcome: Outcome) -> list[MessageBranch]:
        """Return the branches of an answer; others may have been added to the request."""
        return [
            MessageBranch(
                index, seed, blocks_of(self._asked.parser(stream=False, in_parts=True), branch.text), branch.ended
            )
            for index, (seed, branch) in enumerate(zip(self._seeds, outcome.branches, strict=False))
        ]

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
            "seed": self._seeds[0],
        }

    def content(self, block: Block, branch: MessageBranch) -> JSONObject:
        """Return a block of the content; of another branch than the first with its number."""
        return self._content(block) | ({"branch": branch.index} if branch.index else {})

    def _content(self, block: Block) -> JSONObject:
        if block.kind == "text":
            return {"type": "text", "text": block.text}
        if block.kind == "reasoning":
            return {"type": "thinking", "thinking": block.text if self.shows_thinking else "", "signature": ""}
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": _input(block.text)}

    def ends(self, branches: Sequence[MessageBranch]) -> JSONObject:
        """Return the key of the branches' seeds and ends, of a message with several."""
        if len(branches) == 1:
            return {}
        ends = [{"index": branch.index, "seed": branch.seed, **self.stopped(branch)} for branch in branches]
        for branch, end in zip(branches, ends, strict=True):
            if branch.ended is not None and (error := error_of(branch.ended)) is not None:
                end |= {"stop_reason": None, "error": anthropic_error(error)["error"]}
        return {"branches": ends}

    def stopped(self, branch: MessageBranch) -> JSONObject:
        """Return the reason of the end; a stop string of the template or the settings ends the turn as its own end does."""
        ended, blocks = branch.ended, branch.blocks
        assert ended is not None  # the engine ends every branch before the request
        word = ended.stopping_word if ended.stopping_word in self._stops else ""
        reason = _STOP_REASONS.get(ended.reason) or (
            "stop_sequence" if word else "tool_use" if blocks.calls else "end_turn"
        )
        if ended.truncated:
            reason = "model_context_window_exceeded"
        return {"stop_reason": reason, "stop_sequence": word or None}


def message(frame: MessageFrame, outcome: Outcome) -> JSONObject:
    """Return the answer of a call that was not streamed."""
    branches = frame.branches_of(outcome)
    return {
        **frame.begun(cached=0),
        "content": [frame.content(block, branch) for branch in branches for block in branch.blocks.all],
        **frame.stopped(branches[0]),
        **frame.ends(branches),
        "usage": _summed(outcome.done, branches),
        "timings": timings(outcome.done),
    }


class MessageRenderer(Renderer):
    """The events of a streamed message, which begins when its prompt is computed."""

    def __init__(self, call: Call, frame: MessageFrame) -> None:
        super().__init__(call)
        self._frame = frame
        self._branches = frame.streamed()
        self._num_blocks = 0
        self._started = False

    def prompt(self, event: PromptEvent) -> bytes:
        return self._start(event.cached_tokens) if type(event) is PromptDone else b""

    def delta(self, event: Delta) -> bytes:
        if event.index >= len(self._branches):
            return b""  # of a branch that was added to the request
        branch = self._branches[event.index]
        block = branch.blocks.plain
        if block is None:
            return self._start() + self._steps(branch, branch.blocks.feed(event.text))
        if not event.text:
            return b""
        branch.blocks.append(event.text)
        if not branch.plain:
            before = self._changed(branch, block, {"type": "text_delta"}).removesuffix(b"}}\n\n")
            branch.plain = before + b',"text":'
        return branch.plain + orjson.dumps(event.text) + b"}}\n\n"

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        if event.index >= len(self._branches):
            return b""
        branch = self._branches[event.index]
        branch.ended, branch.plain = event, b""
        return self._start() + self._steps(branch, branch.blocks.end())

    def _end(self, done: list[Done]) -> bytes:
        stopped, ends = self._frame.stopped(self._branches[0]), self._frame.ends(self._branches)
        end = _event("message_delta", delta=stopped, usage=_summed(done, self._branches), timings=timings(done), **ends)
        return end + _event("message_stop")

    def failed(self, error: SRBError) -> bytes:
        return named_sse("error", anthropic_error(error))

    def _start(self, cached: int = 0) -> bytes:
        if self._started:
            return b""
        self._started = True
        return _event("message_start", message=self._frame.begun(cached))

    def _steps(self, branch: MessageBranch, steps: list[Step]) -> bytes:
        return b"".join(
            self._begin(branch, step.block)
            if isinstance(step, Begin)
            else self._more(branch, step.block, step.text)
            if isinstance(step, More)
            else self._done(branch, step.block)
            for step in steps
        )

    def _begin(self, branch: MessageBranch, block: Block) -> bytes:
        branch.places[block.place] = index = self._num_blocks
        self._num_blocks += 1
        return _event("content_block_start", index=index, content_block=self._frame.content(_empty(block), branch))

    def _more(self, branch: MessageBranch, block: Block, text: str) -> bytes:
        if block.kind == "text":
            return self._changed(branch, block, {"type": "text_delta", "text": text})
        if block.kind == "call":
            return self._changed(branch, block, {"type": "input_json_delta", "partial_json": text})
        thought = {"type": "thinking_delta", "thinking": text}
        return self._changed(branch, block, thought) if self._frame.shows_thinking else b""

    def _done(self, branch: MessageBranch, block: Block) -> bytes:
        signed = {"type": "signature_delta", "signature": ""}
        data = self._changed(branch, block, signed) if block.kind == "reasoning" else b""
        return data + _event("content_block_stop", index=branch.places[block.place])

    def _changed(self, branch: MessageBranch, block: Block, delta: dict[str, str]) -> bytes:
        return _event("content_block_delta", index=branch.places[block.place], delta=delta)


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


def _summed(done: Sequence[Done], branches: Sequence[MessageBranch]) -> JSONObject:
    summed = usage(done)
    cached = summed["prompt_tokens_details"]["cached_tokens"]
    thinking = sum(each.blocks.reasoning_tokens(each.ended.length) for each in branches if each.ended is not None)
    return _usage(summed["prompt_tokens"], cached, summed["completion_tokens"], thinking)


def _usage(prompt: int, cached: int, output: int, thinking: int) -> JSONObject:
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": thinking},
    }


_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 501: "invalid_request_error", 503: "overloaded_error",
}  # fmt: skip


def anthropic_error(error: SRBError) -> JSONObject:
    """Return the body of an error's answer, and the data of its event in a stream.

    Claude Code knows by the words of the message that a conversation has become too long.
    """
    status = error.http_status
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    message = error.message
    if isinstance(error, ContextExceeded) and {"n_prompt_tokens", "n_ctx"} <= error.extra.keys():
        message = f"prompt is too long: {error.extra['n_prompt_tokens']} tokens > {error.extra['n_ctx']} maximum"
    return {"type": "error", "error": {**error.body()["error"], "type": kind, "message": message}}
