"""Routes of Anthropic's Messages."""

from flask import Blueprint, Response, request

from srb.web.bodies.completion import read_body
from srb.web.calls.outcome import gather
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.anthropic.body import MessagesBody
from srb.web.dialects.anthropic.render import MessageFrame, MessageRenderer, message
from srb.web.dialects.openai.chat import prompt_length
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("anthropic", __name__)


@routes.post("/v1/messages")
@operation(
    MessagesBody, "anthropic.MessageAnswer", "anthropic.StreamEvent", error="anthropic.AnthropicError", foreign=True
)
def messages() -> Response:
    """Reply to a conversation in the form of Anthropic's API."""
    body = MessagesBody.parse(read_body(request))
    settings = web().settings
    draft = body.check(settings)
    model = web().client.check_ready()
    asked = body.request(settings, model, draft)
    with web().calls.open(asked.commands, request.environ, streamed=bool(body.stream)) as call:
        frame = MessageFrame(asked, body, call, model)
        if not body.stream:
            return json_reply(message(frame, gather(call)))
        return stream_response(call, MessageRenderer(call, frame), body.ping_interval(settings))


@routes.post("/v1/messages/count_tokens")
@operation(MessagesBody, "anthropic.TokenCount", error="anthropic.AnthropicError", foreign=True)
def count_tokens() -> Response:
    """Count the tokens of a conversation, with the BOS if the model has one."""
    return json_reply({"input_tokens": prompt_length(MessagesBody.parse(read_body(request)))})
