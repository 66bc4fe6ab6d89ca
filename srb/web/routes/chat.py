"""The openai dialect of chat completions, and what a conversation looks like to the model."""

from __future__ import annotations

from flask import Blueprint, Response, request

from srb.web.chat_answers import AppliedTemplate, ChatCompletion, ChatCompletionChunk, InputTokens
from srb.web.chat_schemas import ChatBody
from srb.web.chat_shapes import ChatRenderer, chat_completion
from srb.web.openapi import operation
from srb.web.outcome import gather
from srb.web.replies import json_reply
from srb.web.schemas import read_body
from srb.web.state import web
from srb.web.streaming import stream_response

routes = Blueprint("chat", __name__)


@routes.post("/v1/chat/completions")
@routes.post("/chat/completions")
@operation(ChatBody, ChatCompletion, ChatCompletionChunk)
def chat_completions() -> Response:
    """Reply to a conversation, once or several times."""
    body = ChatBody.parse(read_body(request))
    settings, model = web().settings, web().client.check_ready()
    asked = body.request(settings, model)
    opened = web().requests.open(asked.commands, request.environ)
    if not body.stream:
        return json_reply(chat_completion(asked, opened, model, gather(opened), body.return_tokens))
    include_usage = body.stream_options.include_usage
    renderer = ChatRenderer(asked, opened, model, include_usage, body.return_tokens)
    return stream_response(opened, renderer, body.ping_interval(settings))


@routes.post("/apply-template")
@operation(ChatBody, AppliedTemplate)
def apply_template() -> Response:
    """Tell the text that the model would continue."""
    body = ChatBody.parse(read_body(request))
    return json_reply({"prompt": body.render(web().settings, web().client.check_ready()).text})


@routes.post("/v1/chat/completions/input_tokens")
@routes.post("/chat/completions/input_tokens")
@operation(ChatBody, InputTokens)
def input_tokens() -> Response:
    """Count the tokens of a conversation's text, with the BOS where the model has one."""
    body = ChatBody.parse(read_body(request))
    text = body.render(web().settings, web().client.check_ready()).text
    tokens = web().client.tokenize((text,), add_special=True, parse_special=True)
    return json_reply({"input_tokens": len(tokens), "object": "response.input_tokens"})
