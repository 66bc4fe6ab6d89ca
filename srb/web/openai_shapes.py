"""The JSON shapes of OpenAI's completions, as streamed chunks and as one object.

Differences that clients rely on: `finish_reason` is present and null until the end, `stop_reason` is the matched stop
string or "", one choice per SSE event, usage once and summed over the branches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import orjson

from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, Delta, Done, FinishReason, ModelInfo, Progress, PromptDone, PromptProbs
from srb.web.echo import Echo
from srb.web.open_requests import OpenRequest
from srb.web.outcome import BranchOutcome, Outcome, first_choices, timings, usage
from srb.web.streaming import Renderer, sse

DONE = b"data: [DONE]\n\n"

# A cancelled branch was cut short like one at its limit. "error" is not OpenAI's, whose streams fail as a whole.
FINISH_REASONS: dict[str, str] = {
    FinishReason.EOS: "stop",
    FinishReason.WORD: "stop",
    FinishReason.LIMIT: "length",
    FinishReason.CANCELLED: "length",
    FinishReason.ERROR: "error",
}


class CompletionRenderer(Renderer):
    """Streamed chunks of `/v1/completions`; the constant parts of a chunk are encoded once per choice.

    A branch that failed gets a last chunk with finish_reason "error" and the error inside its choice, since SDKs give
    up the whole stream at a top-level `error`; that one is sent only where no branch is left to lose.
    """

    def __init__(
        self,
        opened: OpenRequest,
        model: ModelInfo,
        include_usage: bool = False,
        return_tokens: bool = False,
        echoes: Sequence[Echo] = (),
        last: bytes = DONE,
    ) -> None:
        self._last = last
        self._envelope = envelope(opened, model)
        self._commands = {command.request_id: command for command in opened.commands}
        self._firsts = first_choices(opened)
        self._include_usage = include_usage
        self._return_tokens = return_tokens
        self._echoes = dict(zip(self._commands, echoes, strict=False))  # all prompts, or none
        self._prompt_probs: dict[str, list[dict[str, Any]]] = {}
        self._choices = sum(len(command.branches) for command in opened.commands)
        self._errors: list[SRBError] = []
        self._offsets = [0] * self._choices  # characters sent so far, for text_offset
        before, after = orjson.dumps({**self._envelope, "choices": []}).split(b"[]")
        self._after = b'"logprobs":null,"finish_reason":null}]' + (b',"usage":null' if include_usage else b"") + after
        self._before = [b'data: %b[{"index":%d,"text":' % (before, index) for index in range(self._choices)]
        self._tail = b"," + self._after + b"\n\n"

    def start(self) -> bytes:
        return b"".join(
            self._echo(request_id, echo, None)
            for request_id, echo in self._echoes.items()
            if not self._commands[request_id].prompt_probs
        )

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        if type(event) is Progress:
            choice = {"index": self._firsts[event.request_id], "text": "", "logprobs": None, "finish_reason": None}
            return self._chunk(choice, prompt_progress=progress(event))
        if type(event) is PromptProbs:
            self._prompt_probs.setdefault(event.request_id, []).extend(event.probs)
        elif type(event) is PromptDone and event.request_id in self._prompt_probs:
            echo = self._echoes[event.request_id]
            return self._echo(event.request_id, echo, echo.label(self._prompt_probs.pop(event.request_id)))
        return b""

    def _echo(self, request_id: str, echo: Echo, probs: list[dict[str, Any]] | None) -> bytes:
        """Say a prompt's text at the beginning of each of its choices."""
        first = self._firsts[request_id]
        choice = {"text": echo.text, "logprobs": legacy_logprobs(probs, 0) if probs else None, "finish_reason": None}
        parts = []
        for index in range(first, first + len(self._commands[request_id].branches)):
            self._offsets[index] = len(echo.text)
            parts.append(self._chunk({"index": index, **choice}))
        return b"".join(parts)

    def delta(self, event: Delta) -> bytes:
        index = self._firsts[event.request_id] + event.index
        if event.probs or self._return_tokens:
            return self._detailed(index, event)
        return self._before[index] + orjson.dumps(event.text) + self._tail if event.text else b""

    def _detailed(self, index: int, event: Delta) -> bytes:
        choice: dict[str, Any] = {"index": index, "text": event.text, "logprobs": None, "finish_reason": None}
        if event.probs:
            choice["logprobs"] = legacy_logprobs(event.probs, self._offsets[index])
            self._offsets[index] += sum(len(entry["token"]) for entry in event.probs)
        if self._return_tokens:
            choice["tokens"] = event.tokens
        return self._chunk(choice)

    def branch_ended(self, event: BranchEnded) -> bytes:
        index = self._firsts[event.request_id] + event.index
        seed = self._commands[event.request_id].branches[event.index].seed
        choice = {"index": index, "text": "", "logprobs": None, **ending(event), "seed": seed}
        if event.reason == FinishReason.ERROR:
            self._errors.append(from_slug(event.slug, event.message))
        return self._chunk(choice)

    def end(self, done: list[Done]) -> bytes:
        if len(self._errors) == self._choices:
            return self.failed(self._errors[0])
        if not self._include_usage:
            return self._last
        return sse({**self._envelope, "choices": [], "usage": usage(done), "timings": timings(done)}) + self._last

    def failed(self, error: SRBError) -> bytes:
        return sse(error.body())

    def _chunk(self, choice: dict[str, Any], **extra: Any) -> bytes:
        if self._include_usage:
            extra["usage"] = None
        return sse({**self._envelope, "choices": [choice], **extra})


def completion(
    opened: OpenRequest,
    model: ModelInfo,
    outcome: Outcome,
    branches: Sequence[BranchOutcome],
    *,
    logprobs: bool = False,
    return_tokens: bool = False,
    echoes: Sequence[Echo] = (),
) -> dict[str, Any]:
    """Return the one object of a call that was not streamed.

    `branches` are those of the outcome that are answered, equally many for each prompt. `echoes` has one for each
    prompt, where prompts are part of the texts.
    """
    each = len(branches) // len(opened.commands)
    choices = []
    for index, branch in enumerate(branches):
        command = opened.commands[index // each]
        text, probs = branch.text, branch.probs
        if echoes:
            echo = echoes[index // each]
            text = echo.text + text
            probs = echo.label(outcome.prompt_probs[command.request_id]) + probs if command.prompt_probs else probs
        choice = {"index": index, "text": text, "logprobs": legacy_logprobs(probs, 0) if logprobs and probs else None}
        assert branch.ended is not None  # the engine ends every branch before the request
        choice |= {**ending(branch.ended), "seed": branch.seed}
        choices.append({**choice, "tokens": branch.tokens} if return_tokens else choice)
    return {
        **envelope(opened, model),
        "choices": choices,
        "usage": usage(outcome.done),
        "timings": timings(outcome.done),
    }


def envelope(opened: OpenRequest, model: ModelInfo) -> dict[str, Any]:
    return {
        "id": f"cmpl-{opened.commands[0].request_id}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.alias,
        "system_fingerprint": model.build_info,
    }


def progress(event: Progress) -> dict[str, int]:
    """Return llama-server's `prompt_progress`."""
    return {"total": event.total, "cache": event.cached, "processed": event.processed, "time_ms": round(event.time_ms)}


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

    `offset` is where the first token's text begins in the choice's text, in characters. A prompt's first token has no
    probability: null, twice.
    """
    offsets = []
    for entry in probs:
        offsets.append(offset)
        offset += len(entry["token"])
    return {
        "tokens": [entry["token"] for entry in probs],
        "token_logprobs": [_logprob(entry) for entry in probs],
        "top_logprobs": [None if _logprob(entry) is None else _top_logprobs(entry) for entry in probs],
        "text_offset": offsets,
        "content": probs,
    }


def _top_logprobs(entry: dict[str, Any]) -> dict[str, float | None]:
    """Several tokens may be spelled alike; the dict keeps the likeliest, which comes first."""
    tops = entry.get("top_logprobs") or entry.get("top_probs") or []
    return {top["token"]: _logprob(top) for top in reversed(tops)}


def _logprob(entry: dict[str, Any]) -> float | None:
    """With post_sampling_probs an entry has a probability instead."""
    if "prob" not in entry:
        logprob: float | None = entry["logprob"]
        return logprob
    return math.log(entry["prob"]) if entry["prob"] > 0 else -1e9
