"""The JSON shapes of OpenAI's chat completions, as streamed chunks and as one object.

As in the completions: one choice per event, `finish_reason` present and null until the end, usage once. What a reply's
text consists of (reasoning, content, calls of tools) is the business of `tools`.
"""

from __future__ import annotations

from typing import Any

import orjson

from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, Delta, Done, FinishReason, ModelInfo, Progress, PromptDone, PromptProbs
from srb.web import openai_shapes
from srb.web.chat import END_THINK, THINK
from srb.web.chat_schemas import ChatRequest
from srb.web.open_requests import OpenRequest
from srb.web.openai_shapes import DONE, ending
from srb.web.outcome import BranchOutcome, Outcome, timings, usage
from srb.web.streaming import Renderer, sse
from srb.web.tools import Content, Piece, ReplyParser, ToolCall, parse_reply


def chat_envelope(opened: OpenRequest, model: ModelInfo, kind: str) -> dict[str, Any]:
    return {
        **openai_shapes.envelope(opened, model),
        "id": f"chatcmpl-{opened.commands[0].request_id}",
        "object": kind,
    }


class ChatRenderer(Renderer):
    """Streamed chunks; a branch's text goes through its parser until that has nothing left to find.

    Log-probabilities and token ids wait with the text that is held back: a chunk has those of all tokens since the last.
    """

    def __init__(
        self,
        asked: ChatRequest,
        opened: OpenRequest,
        model: ModelInfo,
        include_usage: bool = False,
        return_tokens: bool = False,
    ) -> None:
        self._envelope = chat_envelope(opened, model, "chat.completion.chunk")
        self._include_usage = include_usage
        self._return_tokens = return_tokens
        (command,) = opened.commands
        self._branches = [_Branch(spec.seed, asked.parser(stream=True)) for spec in command.branches]
        self._errors: list[SRBError] = []
        before, after = orjson.dumps({**self._envelope, "choices": []}).split(b"[]")
        tail = b'},"logprobs":null,"finish_reason":null}]' + (b',"usage":null' if include_usage else b"") + after
        self._tail = tail + b"\n\n"
        self._before = [
            b'data: %b[{"index":%d,"delta":{"content":' % (before, index) for index in range(len(self._branches))
        ]

    def start(self) -> bytes:
        role = {"role": "assistant", "content": None}
        return b"".join(self._chunk(index, role) for index in range(len(self._branches)))

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        """Say progress with an empty delta, since clients look into the first choice."""
        if type(event) is not Progress:
            return b""
        return self._chunk(0, {}, prompt_progress=openai_shapes.progress(event))

    def delta(self, event: Delta) -> bytes:
        branch = self._branches[event.index]
        if not event.probs and not self._return_tokens and branch.parser.is_plain:
            return self._before[event.index] + orjson.dumps(event.text) + self._tail if event.text else b""
        branch.probs += event.probs or ()
        branch.tokens += event.tokens if self._return_tokens else ()
        return self._pieces(event.index, branch, branch.parser.feed(event.text))

    def branch_ended(self, event: BranchEnded) -> bytes:
        branch = self._branches[event.index]
        data = self._pieces(event.index, branch, branch.parser.end())
        if event.reason == FinishReason.ERROR:
            self._errors.append(from_slug(event.slug, event.message))
        end = {**_chat_ending(event, branch.calls), "seed": branch.seed}
        return data + self._chunk(event.index, {}, **branch.take_details(), **end)

    def end(self, done: list[Done]) -> bytes:
        if len(self._errors) == len(self._branches):
            return self.failed(self._errors[0])
        if not self._include_usage:
            return DONE
        return sse({**self._envelope, "choices": [], "usage": usage(done), "timings": timings(done)}) + DONE

    def failed(self, error: SRBError) -> bytes:
        return sse(error.body())

    def _pieces(self, index: int, branch: _Branch, pieces: list[Piece]) -> bytes:
        return b"".join(self._chunk(index, branch.delta(piece), **branch.take_details()) for piece in pieces)

    def _chunk(self, index: int, delta: dict[str, Any], prompt_progress: Any = None, **details: Any) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **details}
        extra = {"prompt_progress": prompt_progress} if prompt_progress else {}
        if self._include_usage:
            extra["usage"] = None
        return sse({**self._envelope, "choices": [choice], **extra})


class _Branch:
    """What a stream has to remember of one branch."""

    def __init__(self, seed: int, parser: ReplyParser) -> None:
        self.seed = seed
        self.parser = parser
        self.calls = 0
        self.probs: list[dict[str, Any]] = []
        self.tokens: list[int] = []

    def delta(self, piece: Piece) -> dict[str, Any]:
        if isinstance(piece, ToolCall):
            self.calls += 1
            return {"tool_calls": [{"index": self.calls - 1, **piece.as_dict()}]}
        return {"content" if isinstance(piece, Content) else "reasoning_content": piece.text}

    def take_details(self) -> dict[str, Any]:
        details: dict[str, Any] = {"logprobs": {"content": self.probs}} if self.probs else {}
        if self.tokens:
            details["tokens"] = self.tokens
        self.probs, self.tokens = [], []
        return details


def chat_completion(
    asked: ChatRequest, opened: OpenRequest, model: ModelInfo, outcome: Outcome, return_tokens: bool = False
) -> dict[str, Any]:
    """Return the one object of a call that was not streamed."""
    choices = [_choice(asked, index, branch) for index, branch in enumerate(outcome.branches)]
    if return_tokens:
        choices = [
            {**choice, "tokens": branch.tokens} for choice, branch in zip(choices, outcome.branches, strict=True)
        ]
    return {
        **chat_envelope(opened, model, "chat.completion"),
        "choices": choices,
        "usage": usage(outcome.done),
        "timings": timings(outcome.done),
    }


def _choice(asked: ChatRequest, index: int, branch: BranchOutcome) -> dict[str, Any]:
    assert branch.ended is not None  # the engine ends every branch before the request
    content, reasoning, calls = parse_reply(asked.parser(stream=False), branch.text)
    if asked.reasoning_format == "deepseek-legacy" and reasoning:
        content = f"{THINK}{reasoning}{END_THINK}{content}"
    message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [call.as_dict() for call in calls]
    logprobs = {"content": branch.probs} if branch.probs else None
    end = _chat_ending(branch.ended, len(calls))
    return {"index": index, "message": message, "logprobs": logprobs, **end, "seed": branch.seed}


def _chat_ending(event: BranchEnded, calls: int) -> dict[str, Any]:
    end = ending(event)
    if calls and end["finish_reason"] == "stop":
        end["finish_reason"] = "tool_calls"
    return end
