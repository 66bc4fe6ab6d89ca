"""Ollama's routes that compute: completions, chats and embeddings."""

import time
from collections.abc import Callable

from flask import Blueprint, Response, g, request

from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.bodies.unread import ALSO_KNOWN
from srb.web.calls.outcome import gather
from srb.web.calls.streaming import HEADERS, EventStream
from srb.web.chat.reply_parser import ReplyParser
from srb.web.context import web
from srb.web.dialects.llamacpp.embeddings import check_embeds, embed, normalized, refuse_embeddings
from srb.web.dialects.ollama.body import (
    Asked,
    OllamaChatBody,
    OllamaEmbedBody,
    OllamaEmbeddingsBody,
    OllamaGenerateBody,
    Text,
)
from srb.web.dialects.ollama.names import check_name
from srb.web.dialects.ollama.render import Answers, Form, OllamaRenderer, chat_form, generate_form, whole
from srb.web.foreign_pages import refuse_page
from srb.web.openapi import LINES, operation
from srb.web.replies import json_reply
from srb.wire.events import ModelInfo

routes = Blueprint("ollama", __name__)

_LINE = "ollama.OllamaLine"  # the answer, and each event of a stream


@routes.post("/api/generate")
@operation(OllamaGenerateBody, _LINE, _LINE, stream_type=LINES, error="ollama.OllamaError", foreign=True)
def generate() -> Response:
    """Complete a prompt as Ollama does; a body without a prompt asks only for the model."""
    body = OllamaGenerateBody.parse(read_body(request))
    if not (body.prompt or body.suffix or body.images) and _unload(body):
        return _loaded(body, generate_form)
    checked = body.check(web().request_settings)
    model, load_ns = _timed(web().client.check_ready)
    check_name(body.model, web().settings, model)
    if not (body.prompt or body.suffix or body.images):
        return _loaded(body, generate_form)
    return _answer(body, generate_form, body.request(checked, web().client, web().request_settings, model), load_ns)


@routes.post("/api/chat")
@operation(OllamaChatBody, _LINE, _LINE, stream_type=LINES, error="ollama.OllamaError", foreign=True)
def chat() -> Response:
    """Reply to a conversation as Ollama does; a body without messages asks only for the model."""
    body = OllamaChatBody.parse(read_body(request))
    if not body.messages and _unload(body):
        return _loaded(body, chat_form)
    checked = body.check(web().request_settings)
    model, load_ns = _timed(web().client.check_ready)
    check_name(body.model, web().settings, model)
    if isinstance(checked, Text):
        return _loaded(body, chat_form)
    return _answer(body, chat_form, checked.asked(web().request_settings, model), load_ns)


def _timed(ready: Callable[[], ModelInfo]) -> tuple[ModelInfo, int]:
    """Return the model, which may have to be loaded first, and how long the call waited for it, in nanoseconds."""
    began = time.monotonic_ns()
    return ready(), time.monotonic_ns() - began


def _unload(body: OllamaGenerateBody | OllamaChatBody) -> bool:
    """Have the model unloaded, after its running requests, if `keep_alive` asks for it and there are several.

    Return whether there is no more to do. One model stays loaded.
    """
    choice = web().choice
    if choice is None or not body.model or body.keep_alive != 0:
        return False
    refuse_page("keep_alive")
    setattr(g, ALSO_KNOWN, frozenset({"keep_alive"}))
    name = choice.models.resolve(body.model)
    if choice.models.states[name].state in ("loading", "loaded"):
        choice.models.unload(name)
    return True


def _loaded(body: OllamaGenerateBody | OllamaChatBody, form: Form) -> Response:
    """Say that the model is loaded; or with `keep_alive` 0 that it is not needed, which one model ignores."""
    line = Answers(body.model, form, Asked([], ReplyParser)).line(form(), done=True)
    line["done_reason"] = "unload" if body.keep_alive == 0 else "load"
    return json_reply(line)


def _answer(body: OllamaGenerateBody | OllamaChatBody, form: Form, asked: Asked, load_ns: int) -> Response:
    answers = Answers(body.model, form, asked, load_ns)
    with web().calls.open(asked.commands, request.environ, streamed=body.stream) as call:
        _unload(body)  # once this request has ended
        if not body.stream:
            return json_reply(whole(answers, gather(call)))
        lines = EventStream(call, OllamaRenderer(call, answers), ping_interval=None)  # JSON has no comments
        return Response(lines, mimetype=LINES, headers=HEADERS, direct_passthrough=True)


@routes.post("/api/embed")
@operation(OllamaEmbedBody, "ollama.Embedded", error="ollama.OllamaError", foreign=True)
def embed_texts() -> Response:
    """Embed texts as Ollama does, as vectors of length 1."""
    began = time.monotonic_ns()
    refuse_embeddings()
    body = OllamaEmbedBody.parse(read_body(request))
    model, load_ns = _timed(lambda: check_embeds(one_vector=True))
    check_name(body.model, web().settings, model)
    vectors: list[list[float]] = []
    tokens = 0
    if body.texts:
        asked = body.embedding()
        embedded = embed(asked, model)
        vectors = [vector for (vector,) in normalized(asked, model, embedded)]
        tokens = sum(embedded["tokens"])
    return json_reply(
        {
            "model": body.model,
            "embeddings": vectors,
            "total_duration": time.monotonic_ns() - began,
            "load_duration": load_ns,
            "prompt_eval_count": tokens,
        }
    )


@routes.post("/api/embeddings")
@operation(OllamaEmbeddingsBody, "ollama.EmbeddedPrompt", error="ollama.OllamaError", foreign=True)
def embed_prompt() -> Response:
    """Embed one text as Ollama's older route does."""
    refuse_embeddings()
    body = OllamaEmbeddingsBody.parse(read_body(request))
    model = check_embeds(one_vector=True)
    check_name(body.model, web().settings, model)
    answer: JSONObject = {"embedding": []}
    if body.prompt:
        asked = body.embedding()
        [[answer["embedding"]]] = normalized(asked, model, embed(asked, model))
    return json_reply(answer)
