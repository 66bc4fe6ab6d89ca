"""The route of the srb dialect: many branches of one prompt, streamed together, one event per token and branch."""

from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, request

from srb.errors import bad_field
from srb.web.bodies.completion import read_body
from srb.web.calls.calls import Call
from srb.web.calls.echo import Echo
from srb.web.calls.outcome import gather, ranking
from srb.web.calls.stages import staged
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.dialects.srb.answers import SRBCompletion, SRBEvent
from srb.web.dialects.srb.render import SRBRenderer, completion
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("srb", __name__)


@routes.post("/v1/srb/completions")
@operation(TextCompletionBody, SRBCompletion, SRBEvent, foreign=True)
def completions() -> Response:
    """Continue a prompt with many branches; streamed, unless the body has `"stream": false`."""
    return answer(read_body(request))


def answer(body: dict[str, Any]) -> Response:
    """Answer a completion body in this dialect, with a stream unless the body has `"stream": false`."""
    settings = web().settings
    asked = TextCompletionBody.parse({"token_healing": settings.token_healing != "off", **body})
    if len(asked.prompt) != 1:
        raise bad_field("prompt", "this dialect continues one prompt; send several to the openai dialect")
    if asked.return_token_ids or asked.prompt_logprobs is not None:
        name = "return_token_ids" if asked.return_token_ids else "prompt_logprobs"
        raise bad_field(name, "is for the openai dialect; here it is return_tokens, and echo with logprobs")
    stream = asked.stream is not False
    asked.check_tokens(stream)
    n = web().request_settings.n
    commands, echoes = asked.requests(web(), n, settings.max_tokens_of_srb)
    echo = echoes[0] if echoes else None
    grows, reports = asked.best_of is None, asked.return_progress and stream
    commands = [replace(command, can_grow=grows, report_progress=reports) for command in commands]
    with web().calls.open(commands, request.environ, streamed=stream) as call:
        if not stream:
            return _complete(call, asked, echo, n)
        best = asked.best(n)
        of = len(call.commands[0].branches) if best else None
        renderer = staged(call, lambda: SRBRenderer(call, asked.return_tokens, echo, of), asked.rank, best)
        return stream_response(call, renderer, asked.ping_interval(settings))


def _complete(call: Call, asked: TextCompletionBody, echo: Echo | None, n: int) -> Response:
    outcome = gather(call)
    branches = outcome.best(asked.count(n), len(call.commands[0].branches), asked.select or "likely", call.embed)
    answer = completion(
        call,
        outcome,
        branches,
        logprobs=asked.wanted_probs >= 0,
        return_tokens=asked.return_tokens,
        echo=echo,
        ranking=ranking(branches, call, asked.rank, outcome.chosen_by),
    )
    return json_reply(answer)
