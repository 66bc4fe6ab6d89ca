"""The srb dialect: bare events start, stream, stop and done, one line for each token of each branch."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Blueprint, Response, request

from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, BranchSpec, Delta, Done, FinishReason, Generate
from srb.web.open_requests import OpenRequest
from srb.web.outcome import gather, timings, usage
from srb.web.replies import json_reply
from srb.web.schemas import CompletionBody, bad_field, read_body
from srb.web.state import web
from srb.web.streaming import sse, stream_response

routes = Blueprint("srb", __name__)


@routes.post("/v1/srb/completions")
def completions() -> Response:
    return answer(read_body(request))


def answer(body: dict[str, Any]) -> Response:
    """Answer a completion body in this dialect: a stream, unless the body says `"stream": false`."""
    settings = web().settings
    asked = CompletionBody.parse(body)
    if len(asked.prompt) != 1:
        raise bad_field("prompt", "this dialect continues one prompt; send several to the openai dialect")
    (command,) = asked.commands(settings, n=settings.n, max_tokens=settings.default_max_tokens)
    opened = web().requests.open([command], request.environ)
    if asked.stream is False:
        return _complete(opened, command, asked.return_tokens)
    return stream_response(opened, SRBRenderer(opened, command, asked.return_tokens), settings.sse_ping_interval)


class SRBRenderer:
    """Events as the seed of this project wrote them; what is new sits in further keys behind the old ones."""

    def __init__(self, opened: OpenRequest, command: Generate, return_tokens: bool = False) -> None:
        self._opened = opened
        self._command = command
        self._return_tokens = return_tokens
        self._heads = [b'data: {"event":"stream","index":%d,"text":' % i for i in range(len(command.branches))]

    def start(self) -> bytes:
        command = self._command
        return sse(
            {
                "event": "start",
                "count": len(command.branches),
                "id": command.request_id,
                "seeds": _seeds(command.branches),
                "prompt_tokens": self._opened.mailbox.prompt_tokens[command.request_id],
            }
        )

    def delta(self, event: Delta) -> bytes:
        if not event.text and not event.probs and not (self._return_tokens and event.tokens):
            return b""
        line = self._heads[event.index] + orjson.dumps(event.text)
        if self._return_tokens:
            line += b',"tokens":' + orjson.dumps(event.tokens)
        if event.probs:
            line += b',"logprobs":' + orjson.dumps(event.probs)
        return line + b"}\n\n"

    def branch_ended(self, event: BranchEnded) -> bytes:
        stop = sse({"event": "stop", "index": event.index, **_ending(event)})
        if event.reason != FinishReason.ERROR:
            return stop
        return _error(from_slug(event.slug, event.message), index=event.index) + stop

    def end(self, done: list[Done]) -> bytes:
        count = len(self._command.branches)
        return sse({"event": "done", "count": count, "usage": usage(done), "timings": timings(done)})

    def failed(self, error: SRBError) -> bytes:
        return _error(error)


def _complete(opened: OpenRequest, command: Generate, return_tokens: bool) -> Response:
    outcome = gather(opened)
    completions = []
    for index, branch in enumerate(outcome.branches):
        assert branch.ended is not None  # the engine ends every branch before the request
        completion = {"index": index, "text": branch.text, **_ending(branch.ended)}
        if return_tokens:
            completion["tokens"] = branch.tokens
        if branch.probs:
            completion["logprobs"] = branch.probs
        if branch.error:
            completion["error"] = {"code": branch.error.slug, "message": branch.error.message}
        completions.append(completion)
    return json_reply(
        {
            "id": command.request_id,
            "completions": completions,
            "seeds": _seeds(command.branches),
            "usage": usage(outcome.done),
            "timings": timings(outcome.done),
        }
    )


def _ending(event: BranchEnded) -> dict[str, Any]:
    """Return what this dialect says of a branch's end; `stop` is 1 when the text came to an end of its own."""
    ending = {
        "length": event.length,
        "stop": int(event.reason in (FinishReason.EOS, FinishReason.WORD)),
        "reason": event.reason,
        "stopping_word": event.stopping_word,
    }
    if event.truncated:
        ending["truncated"] = True
    if event.logprob is not None:
        ending["logprob"] = event.logprob
    return ending


def _error(error: SRBError, **where: int) -> bytes:
    return sse({"event": "error", "code": error.slug, "message": error.message, **where})


def _seeds(branches: tuple[BranchSpec, ...]) -> list[int]:
    return [branch.seed for branch in branches]
