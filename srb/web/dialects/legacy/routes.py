"""Two dialects of 2023: dialogues on `POST /completion`, whose route calls `dialogue`, and lines on `POST /stream`."""

from typing import Any

import orjson
from flask import Blueprint, Response, request

from srb.errors import SRBError
from srb.web.bodies.completion import read_body
from srb.web.calls.renderer import Renderer
from srb.web.calls.streaming import HEADERS, EventStream, stream_response
from srb.web.context import web
from srb.web.dialects.legacy.body import STREAM_LENGTH, DialogueBody, StreamBody
from srb.web.openapi import operation
from srb.wire.events import BranchEnded, Delta, Done

routes = Blueprint("legacy", __name__)


@routes.post("/stream")
@operation(StreamBody, media_type="text/plain", foreign=True)
def stream() -> Response:
    """Continue a prompt as a stream of plain text, one token per line."""
    settings = web().settings
    command = StreamBody.read(read_body(request), settings).command(settings, STREAM_LENGTH)
    with web().calls.open([command], request.environ, streamed=True) as call:
        lines = EventStream(call, LineRenderer(call), ping_interval=None)  # plain text has no comments
        return Response(lines, content_type="text/plain; charset=utf-8", headers=HEADERS, direct_passthrough=True)


def dialogue(body: dict[str, Any]) -> Response:
    """Answer the user's words in a dialogue, always as a stream of `{"content": …}`."""
    settings = web().settings
    asked = DialogueBody.read(body, settings, web().shared_prompt)
    with web().calls.open([asked.command(settings, settings.max_tokens)], request.environ, streamed=True) as call:
        return stream_response(call, DialogueRenderer(call), asked.ping_interval(settings))


class _TextRenderer(Renderer):
    """A stream of new text and errors, without start and end."""

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        return self.failed(error) if error is not None else b""

    def end(self, done: list[Done]) -> bytes:
        return b""


class LineRenderer(_TextRenderer):
    """A stream of one line per token; a token's text may contain line breaks."""

    event_end = b""

    def delta(self, event: Delta) -> bytes:
        return f"{event.text}\n".encode() if event.text else b""

    def failed(self, error: SRBError) -> bytes:
        """Render an error as a line of text."""
        return f"error: {error.message}\n".encode()


class DialogueRenderer(_TextRenderer):
    writes_one_by_one = True

    def delta(self, event: Delta) -> bytes:
        return b'data: {"content":' + orjson.dumps(event.text) + b"}\n\n" if event.text else b""
