"""The srb dialect: bare events start, stream, stop and done, one line for each token of each branch."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Blueprint, Response, request

from srb.errors import SRBError, bad_field, from_slug
from srb.protocol import BranchEnded, Delta, Done, FinishReason, Progress, PromptDone, PromptProbs
from srb.web.answers import SRBCompletion, SRBEvent
from srb.web.echo import Echo
from srb.web.open_requests import OpenRequest
from srb.web.openapi import operation
from srb.web.outcome import gather, timings, usage
from srb.web.replies import json_reply
from srb.web.schemas import read_body
from srb.web.state import web
from srb.web.streaming import Renderer, sse, stream_response
from srb.web.text_schemas import TextCompletionBody

routes = Blueprint("srb", __name__)


@routes.post("/v1/srb/completions")
@operation(TextCompletionBody, SRBCompletion, SRBEvent)
def completions() -> Response:
    """Continue a prompt with many branches, streamed unless the body says otherwise."""
    return answer(read_body(request))


def answer(body: dict[str, Any]) -> Response:
    """Answer a completion body in this dialect: a stream, unless the body says `"stream": false`."""
    settings = web().settings
    asked = TextCompletionBody.parse(body)
    if len(asked.prompt) != 1:
        raise bad_field("prompt", "this dialect continues one prompt; send several to the openai dialect")
    stream = asked.stream is not False
    commands, echoes = asked.requests(web(), settings.n, settings.default_max_tokens, stream)
    opened = web().requests.open(commands, request.environ)
    echo = echoes[0] if echoes else None
    if not stream:
        return _complete(opened, asked, echo)
    return stream_response(opened, SRBRenderer(opened, asked.return_tokens, echo), asked.ping_interval(settings))


class SRBRenderer(Renderer):
    """Events as the seed of this project wrote them; what is new sits in further keys behind the old ones."""

    def __init__(self, opened: OpenRequest, return_tokens: bool = False, echo: Echo | None = None) -> None:
        (self._command,) = opened.commands
        self._opened = opened
        self._return_tokens = return_tokens
        self._echo = echo
        self._prompt_probs: list[dict[str, Any]] = []
        self._heads = [b'data: {"event":"stream","index":%d,"text":' % i for i in range(len(self._command.branches))]

    def start(self) -> bytes:
        command = self._command
        start = sse(
            {
                "event": "start",
                "count": len(command.branches),
                "id": command.request_id,
                "seeds": [branch.seed for branch in command.branches],
                "prompt_tokens": self._opened.mailbox.prompt_tokens[command.request_id],
            }
        )
        return start if command.prompt_probs else start + self._say_prompt()

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        if type(event) is PromptProbs:
            self._prompt_probs += event.probs
        elif type(event) is PromptDone and self._command.prompt_probs:
            return self._say_prompt()
        return b""

    def _say_prompt(self) -> bytes:
        """Begin each branch with the prompt's text, where it was asked for."""
        if self._echo is None:
            return b""
        rest = orjson.dumps(self._echo.text)
        if self._command.prompt_probs:
            rest += b',"logprobs":' + orjson.dumps(self._echo.label(self._prompt_probs))
        return b"".join(head + rest + b"}\n\n" for head in self._heads)

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


def _complete(opened: OpenRequest, asked: TextCompletionBody, echo: Echo | None) -> Response:
    (command,) = opened.commands
    outcome = gather(opened)
    branches = outcome.best(asked.count(web().settings.n), len(command.branches))
    completions = []
    for index, branch in enumerate(branches):
        assert branch.ended is not None  # the engine ends every branch before the request
        completion = {"index": index, "text": branch.text, **_ending(branch.ended)}
        probs = branch.probs
        if echo is not None:
            completion["text"] = echo.text + branch.text
            probs = echo.label(outcome.prompt_probs[command.request_id]) + probs if command.prompt_probs else probs
        if asked.return_tokens:
            completion["tokens"] = branch.tokens
        if asked.wanted_probs >= 0 and probs:
            completion["logprobs"] = probs
        if branch.error:
            completion["error"] = {"code": branch.error.slug, "message": branch.error.message}
        completions.append(completion)
    return json_reply(
        {
            "id": command.request_id,
            "completions": completions,
            "seeds": [branch.seed for branch in branches],
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
