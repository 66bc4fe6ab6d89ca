"""Routes of OpenAI's Responses."""

from flask import Blueprint, Response, request

from srb.errors import renamed
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.calls.outcome import gather, ranking
from srb.web.calls.stages import staged
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.openai.chat import prompt_length
from srb.web.dialects.responses.body import NAMES, ResponsesBody
from srb.web.dialects.responses.frame import ResponseFrame
from srb.web.dialects.responses.render import ResponsesRenderer, response
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("responses", __name__)


@routes.post("/v1/responses")
@routes.post("/responses")
@operation(ResponsesBody, "responses.Response", "responses.StreamEvent", error="openai.Error", foreign=True)
def responses() -> Response:
    """Respond to an input, with one or several branches."""
    given = read_body(request)
    body = ResponsesBody.parse(given)
    settings = web().request_settings
    draft = body.check(settings)
    model = web().client.check_ready()
    asked = body.request(web().request_settings, model, draft)
    with renamed(NAMES), web().calls.open(asked.commands, request.environ, streamed=bool(body.stream)) as call:
        frame = ResponseFrame(asked, body, given, call, model)
        if not body.stream:
            outcome = gather(call)
            return json_reply(response(frame, outcome, ranking(outcome.branches, call, body.rank)))
        renderer = staged(call, lambda: ResponsesRenderer(call, frame), body.rank)
        return stream_response(call, renderer, body.ping_interval(settings))


@routes.post("/v1/responses/input_tokens")
@routes.post("/responses/input_tokens")
@operation(ResponsesBody, "openai.InputTokens", error="openai.Error", foreign=True)
def input_tokens() -> Response:
    """Count the tokens of an input, with the BOS if the model has one."""
    body = ResponsesBody.parse(read_body(request))
    with renamed(NAMES):
        answer: JSONObject = {"input_tokens": prompt_length(body), "object": "response.input_tokens"}
    return json_reply(answer)
