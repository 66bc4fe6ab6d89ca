"""Routes of the llamacpp dialect: llama-server's own completions and infills."""

from typing import Any

from flask import Blueprint, Response, request

from srb.errors import bad_field
from srb.web.bodies.completion import CommandTemplate, read_body
from srb.web.calls.outcome import gather, ranking
from srb.web.calls.stages import staged
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.legacy import routes as legacy
from srb.web.dialects.legacy.body import DialogueBody
from srb.web.dialects.llamacpp.body import InfillBody, LlamaCompletionBody, SystemPrompt
from srb.web.dialects.llamacpp.infill import check_infill, infill_prompt
from srb.web.dialects.llamacpp.render import Answers, LlamaRenderer, PromptTexts, completion
from srb.web.foreign_pages import refuse_page
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("llamacpp", __name__)


@routes.post("/completion")
@routes.post("/completions")
@operation(LlamaCompletionBody, "llamacpp.LlamaAnswer", "llamacpp.LlamaEvent", foreign=True)
def completions() -> Response:
    """Continue a prompt in llama-server's own dialect; a dialogue's body is answered as by a server of 2023."""
    body = read_body(request)
    return legacy.dialogue(body) if DialogueBody.matches(body) else answer(body)


@routes.post("/infill")
@operation(InfillBody, "llamacpp.LlamaAnswer", "llamacpp.LlamaEvent", foreign=True)
def infill() -> Response:
    """Fill the gap between a prefix and a suffix, as a stream unless `stream` is false."""
    body = read_body(request)
    asked, around = LlamaCompletionBody.parse({**body, "prompt": "-"}), InfillBody.parse(body)
    asked = asked.model_copy(update={"stream": asked.stream is not False})
    draft = _draft(asked)
    model = web().client.check_ready()
    check_infill(model)
    max_tokens = web().settings.max_tokens if asked.n_predict is None else asked.n_predict
    prompt = infill_prompt(web().client, model, web().settings, around, max_tokens)
    return _answer(asked.model_copy(update={"prompt": [prompt]}), draft)


def answer(body: dict[str, Any]) -> Response:
    """Answer a completion body in this dialect; several prompts become several requests with one list of answers.

    A body with a `system_prompt` and no prompt puts it in force, computes it and is answered with an empty completion.
    """
    if body.get("system_prompt") is not None:  # it would be every client's
        refuse_page("system_prompt")
    if body.get("prompt") is None and isinstance(body.get("system_prompt"), dict):
        return _answer_system_prompt(LlamaCompletionBody.parse({**body, "prompt": "-"}))
    asked = LlamaCompletionBody.parse(body)
    shared = web().shared_prompt if asked.system_prompt is None else asked.system_prompt
    if shared.prompt:
        asked = asked.model_copy(update={"prompt": [(shared.prompt, *prompt) for prompt in asked.prompt]})
    return _answer(asked, new_system_prompt=asked.system_prompt)


def _answer_system_prompt(asked: LlamaCompletionBody) -> Response:
    system_prompt, asked = asked.system_prompt, asked.model_copy(update={"n_predict": 0})
    assert system_prompt is not None  # an object, and no bad one
    draft = _draft(asked)
    model = web().client.check_ready()
    if not system_prompt.prompt and model.bos_id < 0:
        raise bad_field(
            "prompt", "is required with an empty system_prompt: this model's texts do not begin with a token"
        )
    prompt = system_prompt.prompt or model.bos_id
    return _answer(asked.model_copy(update={"prompt": [(prompt,)]}), draft, system_prompt)


def _draft(asked: LlamaCompletionBody) -> CommandTemplate:
    return asked.draft(web().request_settings, n=1, max_tokens=web().settings.max_tokens)


def _answer(
    asked: LlamaCompletionBody, draft: CommandTemplate | None = None, new_system_prompt: SystemPrompt | None = None
) -> Response:
    """Answer a body with complete prompts; once the engine accepts it, set `new_system_prompt` for all clients."""
    settings = web().settings
    if asked.reasoning_format is None:  # llama-server tells its default
        default = "deepseek" if settings.reasoning_format == "auto" else settings.reasoning_format
        asked = asked.model_copy(update={"reasoning_format": default})
    commands = asked.commands(web().request_settings, n=1, max_tokens=settings.max_tokens, draft=draft)
    model = web().client.check_ready()
    with web().calls.open(commands, request.environ, streamed=bool(asked.stream)) as call:
        if new_system_prompt is not None:
            web().system_prompt.set(new_system_prompt)
        answers = Answers(call, model, asked, PromptTexts(web().client, model))
        if not asked.stream:
            outcome = gather(call)
            return json_reply(completion(answers, outcome, ranking(outcome.branches, call, asked.rank)))
        renderer = staged(call, lambda: LlamaRenderer(call, answers), asked.rank)
        return stream_response(call, renderer, asked.ping_interval(settings))
