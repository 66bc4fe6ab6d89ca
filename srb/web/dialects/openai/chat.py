"""Routes of the openai dialect's chat completions, of their control while they run, and of rendered conversations."""

from typing import Annotated, Any, Literal
from uuid import uuid4

from flask import Blueprint, Response, request
from pydantic import Field

from srb.errors import Conflict, NotFound
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.bodies.fields import INT32_MAX, Integer, between
from srb.web.calls.outcome import gather, ranking
from srb.web.calls.stages import staged
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.llamacpp.body import Body
from srb.web.dialects.openai.chat_body import ChatBody
from srb.web.dialects.openai.chat_render import ChatRenderer, chat_completion
from srb.web.dialects.openai.frame import VerboseBody
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import EndReasoning

routes = Blueprint("chat", __name__)
templates = Blueprint("templates", __name__)  # llama-server's, which the page asks too


@routes.post("/v1/chat/completions")
@routes.post("/chat/completions")
@operation(ChatBody, "openai.ChatCompletion", "openai.ChatCompletionChunk", error="openai.Error", foreign=True)
def chat_completions() -> Response:
    """Reply to a conversation, with one or several branches."""
    given = read_body(request)
    body, verbose = ChatBody.parse(given), VerboseBody(given)
    body.check_tokens(bool(body.stream))
    draft = body.check(web().request_settings)
    settings, model = web().settings, web().client.check_ready()
    asked = body.request(web().request_settings, model, draft)
    ids = body.token_ids(asked.commands)
    with web().calls.open(asked.commands, request.environ, streamed=bool(body.stream)) as call:
        if not body.stream:
            outcome = gather(call)
            answers, found = verbose.answers(call, model), ranking(outcome.branches, call, body.rank)
            return json_reply(chat_completion(asked, call, model, outcome, ids, answers, found))
        include_usage = body.stream_options.include_usage
        renderer = staged(
            call,
            lambda: ChatRenderer(asked, call, model, include_usage, ids, verbose.answers(call, model)),
            body.rank,
        )
        return stream_response(call, renderer, body.ping_interval(settings))


@templates.post("/apply-template")
@operation(ChatBody, "openai.AppliedTemplate", foreign=True)
def apply_template() -> Response:
    """Return the conversation rendered as a prompt."""
    body = ChatBody.parse(read_body(request))
    settings, model = web().settings, web().client.check_ready()
    answer: dict[str, Any] = {"prompt": body.render(settings, model).text}
    if (place := body.place(settings, model, answer["prompt"])) is not None:
        answer["direction_place"] = {
            "at": place.character,
            "before": place.before,
            "rest": "".join(map(str, place.rest)),
        }
    return json_reply(answer)


@routes.post("/v1/chat/completions/input_tokens")
@routes.post("/chat/completions/input_tokens")
@operation(ChatBody, "openai.InputTokens", error="openai.Error", foreign=True)
def input_tokens() -> Response:
    """Count the tokens of a rendered conversation, with the BOS if the model has one."""
    body = ChatBody.parse(read_body(request))
    return json_reply({"input_tokens": prompt_length(body), "object": "response.input_tokens"})


def prompt_length(body: ChatBody) -> int:
    """Return the number of tokens of a rendered conversation, with the BOS if the model has one."""
    client = web().client
    prompt, media = body.prompt_and_media(web().settings, client.check_ready())
    asker = web().calls.asker(request.environ)
    if media:
        return client.count_tokens(prompt, media, "messages", asker)
    return len(client.tokenize(prompt, add_special=True, parse_special=True, asker=asker))


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
