"""llama-server's resumable streams: a chat whose request names its conversation goes on without its client."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

from flask import Blueprint, Response, request
from pydantic import Field

from srb.errors import NotFound, bad_field
from srb.web.bodies.completion import read_body
from srb.web.calls.calls import Call
from srb.web.calls.kept_streams import KeptEventStream, StreamReader
from srb.web.calls.renderer import Renderer
from srb.web.calls.streaming import HEADERS, stream_response
from srb.web.context import web
from srb.web.dialects.llamacpp.answers import FoundStream
from srb.web.dialects.llamacpp.body import Body
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import StopBranches

routes = Blueprint("llamacpp_streams", __name__)

CONVERSATION = "X-Conversation-Id"
MAX_NAME = 1024  # characters
MAX_NAMES = 4096


class LookupBody(Body):
    """The body of `POST /v1/streams/lookup`."""

    conversation_ids: Annotated[list[str], Field(max_length=MAX_NAMES)] = Field(default_factory=list)


def stream_of_conversation(call: Call, renderer: Renderer, ping_interval: float | None) -> Response:
    """Return a streamed response, which is kept if the request names its conversation."""
    conversation = request.headers.get(CONVERSATION, "")
    if not conversation:
        return stream_response(call, renderer, ping_interval)
    if len(conversation) > MAX_NAME:
        raise bad_field(CONVERSATION, f"has {len(conversation)} characters; at most {MAX_NAME} are allowed")
    _stop(conversation)
    recording = web().streams.begin(_owner(), conversation, call.request_ids[0])
    stream = KeptEventStream(call, renderer, ping_interval, recording)
    return Response(stream, mimetype="text/event-stream", headers=HEADERS, direct_passthrough=True)


@routes.get("/v1/stream")
@operation(media_type="text/event-stream", query=("conv_id", "from"), foreign=True)
def read_stream() -> Response:
    """Read a conversation's stream from its byte `from` on, and go on as it is written."""
    stream = web().streams.find(_owner(), _conversation())
    if stream is None:
        raise NotFound("Stream not found or expired")
    said = request.args.get("from", "") or "0"
    if not said.isascii() or not said.isdigit() or len(said) > 18:
        raise bad_field("from", "should be the number of bytes that were read")
    if int(said) < stream.first:
        raise bad_field("from", "Stream offset lost, please restart")
    body = StreamReader(stream, int(said), web().calls, request.environ)
    return Response(body, mimetype="text/event-stream", headers=HEADERS, direct_passthrough=True)


@routes.delete("/v1/stream")
@operation(query=("conv_id",), foreign=True)
def stop_stream() -> Response:
    """Stop a conversation's stream, if there is one, and forget it."""
    _stop(_conversation())
    return Response(status=204)


@routes.post("/v1/streams/lookup")
@operation(LookupBody, list[FoundStream], foreign=True)
def look_up_streams() -> Response:
    """Return which of these conversations have streams, running or ended a short while ago."""
    body = LookupBody.parse(read_body(request))
    found = web().streams.matching(_owner(), filter(None, body.conversation_ids))
    answer: list[FoundStream] = [
        {
            "conversation_id": each.conversation,
            "is_done": each.is_over,
            "total_bytes": each.total,
            "started_at": each.started_at,
            "completed_at": each.completed_at,
        }
        for each in found
    ]
    return json_reply(answer)


def _stop(conversation: str) -> None:
    """End the request of a conversation's stream and remove the stream, if there is one."""
    stream = web().streams.find(_owner(), conversation)
    if stream is None:
        return
    is_over = stream.is_over
    web().streams.remove(stream)
    for engine in () if is_over else web().engines:
        try:
            engine.ask(StopBranches(uuid4().hex, stream.request_id, _owner()))
        except NotFound:
            continue
        break


def _conversation() -> str:
    conversation = request.args.get("conv_id", "")
    if not conversation:
        raise bad_field("conv_id", "is required: the conversation's id")
    return conversation


def _owner() -> str:
    return web().calls.controller(request.environ)
