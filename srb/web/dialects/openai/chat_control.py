"""The control of a running chat: its reasoning is ended, and the answer begins."""

from typing import Annotated, Literal
from uuid import uuid4

from flask import Blueprint, Response, request
from pydantic import Field

from srb.errors import Conflict, NotFound
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.bodies.fields import INT32_MAX, Integer, between
from srb.web.context import web
from srb.web.dialects.llamacpp.body import Body
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import EndReasoning

routes = Blueprint("chat_control", __name__)

_PREFIXES = ("chatcmpl-", "cmpl-", "resp_", "msg_")  # of ids in answers, before the request's own


class ControlBody(Body):
    """The body of `POST /v1/chat/completions/control`; without `index` it is about all branches."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    action: Literal["reasoning_end"]
    index: Annotated[Integer, between(0, INT32_MAX)] | None = None
    model: str | None = None  # without effect: the id tells


@routes.post("/v1/chat/completions/control")
@operation(ControlBody, "openai.Controlled", error="openai.Error", foreign=True)
def control() -> Response:
    """End the reasoning of a running chat's branches; the answers begin at once."""
    body = ControlBody.parse(read_body(request))
    answer: JSONObject = {"success": False, "message": "no active completion for this id"}
    for engine in web().engines:
        command = EndReasoning(uuid4().hex, _request_id(body.id), web().calls.controller(request.environ), body.index)
        try:
            answer = {"success": True, "branches": engine.ask(command)["branches"]}
        except NotFound:
            continue
        except Conflict as error:
            answer = {"success": False, "message": error.message}
        break
    return json_reply(answer)


def _request_id(told: str) -> str:
    """Return the id of a request by the one that its answers have."""
    for prefix in _PREFIXES:
        if told.startswith(prefix):
            return told.removeprefix(prefix)
    return told
