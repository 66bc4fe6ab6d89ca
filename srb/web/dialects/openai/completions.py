"""The openai dialect of text completions, and the choice between it and the srb dialect."""

from typing import Any

from flask import Blueprint, Response, request

from srb.web.bodies.completion import read_object, without_nulls
from srb.web.calls.outcome import gather, ranking
from srb.web.calls.stages import staged
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.openai import completion_render
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.dialects.openai.frame import DONE, VerboseBody
from srb.web.dialects.srb import routes as srb
from srb.web.dialects.srb.answers import SRBCompletion, SRBEvent
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("openai", __name__)

SRB_KEYS = frozenset({"prompt", "n", "max_tokens", "temperature", "seed", "format"})


@routes.post("/v1/completions")
@operation(
    TextCompletionBody,
    ("openai.TextCompletion", SRBCompletion),
    ("openai.TextCompletionChunk", SRBEvent),
    error="openai.Error",
    foreign=True,
)
def completions() -> Response:
    """Continue a prompt, in the srb or the openai dialect."""
    given = read_object(request)
    body = without_nulls(given)
    completions_format = web().settings.completions_format
    if is_srb(given, completions_format):
        return srb.answer(body)
    return answer(body, stream=completions_format == "openai-stream")


def is_srb(body: dict[str, Any], completions_format: str) -> bool:
    """Whether a body is in the srb dialect, by the setting, else its `format`, else its keys (even those with null).

    A client of llama-srb-api sends few keys. Front ends for OpenAI's interface send more, and not all of them send
    `model` or `stream`.
    """
    if completions_format != "auto":
        return completions_format == "srb"
    if body.get("format") in ("srb", "openai"):
        return bool(body["format"] == "srb")
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):  # several prompts have several answers
        return False
    return body.keys() <= SRB_KEYS


def answer(body: dict[str, Any], stream: bool = False) -> Response:
    """Answer a completion body in this dialect; several prompts become several requests with one list of choices.

    `stream` applies to a body without that field, for cria's clients: they expect chunks without asking for them, and no
    `[DONE]`.
    """
    asked, verbose = TextCompletionBody.parse(body), VerboseBody(body)
    last = b"" if asked.stream is None else DONE
    stream = stream if asked.stream is None else asked.stream
    asked.check_tokens(stream)
    commands, echoes = asked.requests(web(), n=1, max_tokens=web().settings.max_tokens)
    ids = asked.token_ids(commands)
    with web().calls.open(commands, request.environ, streamed=stream) as call:
        model = web().client.check_ready()
        if stream:
            include_usage = asked.stream_options.include_usage
            renderer = staged(
                call,
                lambda: completion_render.CompletionRenderer(
                    call, model, include_usage, ids, echoes, last, verbose.answers(call, model)
                ),
                asked.rank,
                asked.best(1),
            )
            return stream_response(call, renderer, asked.ping_interval(web().settings))
        outcome = gather(call)
        branches = outcome.best(asked.count(1), len(commands[0].branches), asked.select or "likely", call.embed)
        completion = completion_render.completion(
            call,
            model,
            outcome,
            branches,
            logprobs=asked.wanted_probs >= 0,
            ids=ids,
            echoes=echoes,
            verbose=verbose.answers(call, model),
            ranking=ranking(branches, call, asked.rank, outcome.chosen_by),
        )
        return json_reply(completion)
