"""The openai dialect of text completions, and the choice between it and the srb dialect."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from srb.web import openai_shapes
from srb.web.answers import CompletionAnswer, CompletionEvent
from srb.web.openapi import operation
from srb.web.outcome import gather
from srb.web.replies import json_reply
from srb.web.routes import srb
from srb.web.schemas import read_body
from srb.web.state import web
from srb.web.streaming import stream_response
from srb.web.text_schemas import TextCompletionBody

routes = Blueprint("openai", __name__)


@routes.post("/v1/completions")
@operation(TextCompletionBody, CompletionAnswer, CompletionEvent)
def completions() -> Response:
    """Continue a prompt, in the srb or the openai dialect."""
    body = read_body(request)
    completions_format = web().settings.completions_format
    if is_srb(body, completions_format):
        return srb.answer(body)
    return answer(body, stream=completions_format == "openai-stream")


def is_srb(body: dict[str, Any], completions_format: str) -> bool:
    """Decide the dialect of a body: the setting, then the body's `format`, then what OpenAI clients always send."""
    if completions_format != "auto":
        return completions_format == "srb"
    if body.get("format") in ("srb", "openai"):
        return bool(body["format"] == "srb")
    return "model" not in body and "stream" not in body


def answer(body: dict[str, Any], stream: bool = False) -> Response:
    """Answer a completion body in this dialect; several prompts become several requests with one list of choices.

    `stream` is for a body that does not say: cria's clients expect chunks without asking for them, and nothing else.
    """
    asked = TextCompletionBody.parse(body)
    last = b"" if asked.stream is None else openai_shapes.DONE
    stream = stream if asked.stream is None else asked.stream
    commands, echoes = asked.requests(web(), n=1, max_tokens=web().settings.n_predict, stream=stream)
    opened = web().requests.open(commands, request.environ)
    model = web().client.model
    assert model is not None  # the engine has accepted the request, so it has told us its model
    if stream:
        renderer = openai_shapes.CompletionRenderer(
            opened, model, asked.stream_options.include_usage, asked.return_tokens, echoes, last
        )
        return stream_response(opened, renderer, asked.ping_interval(web().settings))
    outcome = gather(opened)
    completion = openai_shapes.completion(
        opened,
        model,
        outcome,
        outcome.best(asked.count(1), len(commands[0].branches)),
        logprobs=asked.wanted_probs >= 0,
        return_tokens=asked.return_tokens,
        echoes=echoes,
    )
    return json_reply(completion)
