"""Two dialects of 2023: a dialogue on `POST /completion` (from there `talk` is called), and lines on `POST /stream`."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Blueprint, Response, request

from srb.errors import SRBError, from_slug
from srb.protocol import BranchEnded, Delta, Done, FinishReason, Progress, PromptDone, PromptProbs
from srb.web.legacy_schemas import STREAM_LENGTH, StreamBody, TalkBody
from srb.web.openapi import operation
from srb.web.schemas import read_body
from srb.web.state import web
from srb.web.streaming import HEADERS, EventStream, Renderer, sse, stream_response

routes = Blueprint("legacy", __name__)


@routes.post("/stream")
@operation(StreamBody, media_type="text/plain")
def stream() -> Response:
    """Continue a prompt as plain text, one token on each line as it is made."""
    settings = web().settings
    command = StreamBody.read(read_body(request), settings).command(settings, STREAM_LENGTH)
    opened = web().requests.open([command], request.environ)
    lines = EventStream(opened, LineRenderer(), ping_interval=None)  # there are no comments in plain text
    return Response(lines, content_type="text/plain; charset=utf-8", headers=HEADERS, direct_passthrough=True)


def talk(body: dict[str, Any]) -> Response:
    """Answer what somebody says in a dialogue, always as a stream of `{"content": …}`."""
    settings = web().settings
    asked = TalkBody.read(body, settings, web().system_prompt.get())
    opened = web().requests.open([asked.command(settings, settings.n_predict)], request.environ)
    return stream_response(opened, TalkRenderer(), asked.ping_interval(settings))


class _TextRenderer(Renderer):
    """A stream that says nothing but new text and errors."""

    def start(self) -> bytes:
        return b""

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        return b""

    def branch_ended(self, event: BranchEnded) -> bytes:
        return self.failed(from_slug(event.slug, event.message)) if event.reason == FinishReason.ERROR else b""

    def end(self, done: list[Done]) -> bytes:
        return b""


class LineRenderer(_TextRenderer):
    def delta(self, event: Delta) -> bytes:
        return f"{event.text}\n".encode() if event.text else b""

    def failed(self, error: SRBError) -> bytes:
        """Plain text has no other place for an error than a line."""
        return f"error: {error.message}\n".encode()


class TalkRenderer(_TextRenderer):
    def delta(self, event: Delta) -> bytes:
        return b'data: {"content":' + orjson.dumps(event.text) + b"}\n\n" if event.text else b""

    def failed(self, error: SRBError) -> bytes:
        return sse(error.body())
