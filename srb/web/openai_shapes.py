"""The JSON shapes of OpenAI's completions, as streamed chunks and as one object.

Differences that clients rely on: `finish_reason` is present and null until the end, `stop_reason` is the matched stop
string or "", one choice per SSE event, usage once and summed over the branches.
"""

from __future__ import annotations

import time
from typing import Any

import orjson

from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, Delta, Done, FinishReason, ModelInfo
from srb.web.open_requests import OpenRequest
from srb.web.outcome import BranchOutcome, Outcome, first_choices, timings, usage
from srb.web.streaming import sse

DONE = b"data: [DONE]\n\n"

# A cancelled branch was cut short like one at its limit. "error" is not OpenAI's, whose streams fail as a whole.
FINISH_REASONS: dict[str, str] = {
    FinishReason.EOS: "stop",
    FinishReason.WORD: "stop",
    FinishReason.LIMIT: "length",
    FinishReason.CANCELLED: "length",
    FinishReason.ERROR: "error",
}


class CompletionRenderer:
    """Streamed chunks of `/v1/completions`; the constant parts of a chunk are encoded once per choice.

    A branch that failed gets a last chunk with finish_reason "error" and the error inside its choice, since SDKs give
    up the whole stream at a top-level `error`; that one is sent only where no branch is left to lose.
    """

    def __init__(
        self, opened: OpenRequest, model: ModelInfo, include_usage: bool = False, return_tokens: bool = False
    ) -> None:
        self._envelope = envelope(opened, model)
        self._firsts = first_choices(opened)
        self._include_usage = include_usage
        self._return_tokens = return_tokens
        self._choices = sum(len(command.branches) for command in opened.commands)
        self._errors: list[SRBError] = []
        self._offsets = [0] * self._choices  # characters sent so far, for text_offset
        before, after = orjson.dumps({**self._envelope, "choices": []}).split(b"[]")
        self._after = b'"logprobs":null,"finish_reason":null}]' + (b',"usage":null' if include_usage else b"") + after
        self._before = [b'data: %b[{"index":%d,"text":' % (before, index) for index in range(self._choices)]
        self._tail = b"," + self._after + b"\n\n"

    def start(self) -> bytes:
        return b""

    def delta(self, event: Delta) -> bytes:
        index = self._firsts[event.request_id] + event.index
        if event.probs or self._return_tokens:
            return self._detailed(index, event)
        return self._before[index] + orjson.dumps(event.text) + self._tail if event.text else b""

    def _detailed(self, index: int, event: Delta) -> bytes:
        choice: dict[str, Any] = {"index": index, "text": event.text, "logprobs": None, "finish_reason": None}
        if event.probs:
            choice["logprobs"] = legacy_logprobs(event.probs, self._offsets[index])
            self._offsets[index] += len(event.text)
        if self._return_tokens:
            choice["tokens"] = event.tokens
        return self._chunk(choice)

    def branch_ended(self, event: BranchEnded) -> bytes:
        index = self._firsts[event.request_id] + event.index
        choice = {"index": index, "text": "", "logprobs": None, **ending(event)}
        if event.reason == FinishReason.ERROR:
            self._errors.append(from_slug(event.slug, event.message))
        return self._chunk(choice)

    def end(self, done: list[Done]) -> bytes:
        if len(self._errors) == self._choices:
            return self.failed(self._errors[0])
        if not self._include_usage:
            return DONE
        return sse({**self._envelope, "choices": [], "usage": usage(done), "timings": timings(done)}) + DONE

    def failed(self, error: SRBError) -> bytes:
        return sse(error.body())

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        extra = {"usage": None} if self._include_usage else {}
        return sse({**self._envelope, "choices": [choice], **extra})


def completion(opened: OpenRequest, model: ModelInfo, outcome: Outcome, return_tokens: bool = False) -> dict[str, Any]:
    """Return the one object of a call that was not streamed."""
    choices = [_choice(index, branch, return_tokens) for index, branch in enumerate(outcome.branches)]
    return {
        **envelope(opened, model),
        "choices": choices,
        "usage": usage(outcome.done),
        "timings": timings(outcome.done),
    }


def _choice(index: int, branch: BranchOutcome, return_tokens: bool) -> dict[str, Any]:
    assert branch.ended is not None  # the engine ends every branch before the request
    logprobs = legacy_logprobs(branch.probs, 0) if branch.probs else None
    choice = {"index": index, "text": branch.text, "logprobs": logprobs, **ending(branch.ended)}
    return {**choice, "tokens": branch.tokens} if return_tokens else choice


def envelope(opened: OpenRequest, model: ModelInfo) -> dict[str, Any]:
    return {
        "id": f"cmpl-{opened.commands[0].request_id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.alias,
        "system_fingerprint": model.build_info,
    }


def ending(event: BranchEnded) -> dict[str, Any]:
    """Return the keys of a choice that say how it ended."""
    choice: dict[str, Any] = {"finish_reason": FINISH_REASONS[event.reason]}
    if choice["finish_reason"] == "stop":
        choice["stop_reason"] = event.stopping_word
    if event.reason == FinishReason.ERROR:
        choice["error"] = from_slug(event.slug, event.message).body()["error"]
    return choice


def legacy_logprobs(probs: list[dict[str, Any]], offset: int) -> dict[str, Any]:
    """Return the completions' logprobs object, with the chat shape beside it under `content`.

    `offset` is where the first token's text begins in the choice's text, in characters.
    """
    offsets = []
    for entry in probs:
        offsets.append(offset)
        offset += len(entry["token"])
    return {
        "tokens": [entry["token"] for entry in probs],
        "token_logprobs": [entry["logprob"] for entry in probs],
        # Several tokens may be spelled alike; the dict keeps the likeliest, which comes first.
        "top_logprobs": [{top["token"]: top["logprob"] for top in reversed(entry["top_logprobs"])} for entry in probs],
        "text_offset": offsets,
        "content": probs,
    }
