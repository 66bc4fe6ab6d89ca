"""The llamacpp dialect: llama-server's own completions and infills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, request

from srb.protocol import Generate, ModelInfo
from srb.web.echo import read_back
from srb.web.infill import check_infill, infill_prompt
from srb.web.legacy_schemas import TalkBody
from srb.web.llamacpp_answers import LlamaAnswer, LlamaEvent
from srb.web.llamacpp_schemas import InfillBody, LlamaCompletionBody
from srb.web.llamacpp_shapes import Answers, LlamaRenderer, completion
from srb.web.openapi import operation
from srb.web.outcome import gather
from srb.web.replies import json_reply
from srb.web.routes import legacy
from srb.web.schemas import read_body
from srb.web.state import web
from srb.web.streaming import stream_response

routes = Blueprint("llamacpp", __name__)


@routes.post("/completion")
@routes.post("/completions")
@operation(LlamaCompletionBody, LlamaAnswer, LlamaEvent)
def completions() -> Response:
    """Continue a prompt, in llama-server's own dialect, or in a dialogue as its first version did."""
    body = read_body(request)
    return legacy.talk(body) if TalkBody.is_meant(body) else answer(body)


@routes.post("/infill")
@operation(InfillBody, LlamaAnswer, LlamaEvent)
def infill() -> Response:
    """Fill the gap between a prefix and a suffix."""
    model = web().client.check_ready()
    check_infill(model)
    body = read_body(request)
    asked = LlamaCompletionBody.parse({**body, "prompt": "-"})  # before anything is tokenized for it
    most = web().settings.n_predict if asked.n_predict is None else asked.n_predict
    prompt = infill_prompt(web().client, model, web().settings, InfillBody.parse(body), most)
    return _answer(asked.model_copy(update={"prompt": [prompt]}))


def answer(body: dict[str, Any]) -> Response:
    """Answer a completion body in this dialect; several prompts become several requests with one list of answers."""
    asked = LlamaCompletionBody.parse(body)
    if asked.system_prompt is not None:
        web().system_prompt.set(asked.system_prompt)
    system = web().system_prompt.get().prompt
    if system:
        asked = asked.model_copy(update={"prompt": [(system, *prompt) for prompt in asked.prompt]})
    return _answer(asked)


def _answer(asked: LlamaCompletionBody) -> Response:
    settings = web().settings
    commands = asked.commands(settings, n=1, max_tokens=settings.n_predict)
    model = web().client.check_ready()
    texts = prompt_texts(commands, model)
    opened = web().requests.open(commands, request.environ)
    answers = Answers(opened, model, asked, texts)
    if not asked.stream:
        return json_reply(completion(answers, gather(opened)))
    return stream_response(opened, LlamaRenderer(opened, answers), asked.ping_interval(settings))


def prompt_texts(commands: Sequence[Generate], model: ModelInfo) -> list[str]:
    """Return the prompts as text, with the BOS that the vocabulary puts before a string."""
    texts = []
    for command in commands:
        begins = model.bos_token if model.add_bos and isinstance(command.prompt[0], str) else ""
        texts.append(begins + read_back(web().client, command.prompt, with_pieces=False).text)
    return texts
