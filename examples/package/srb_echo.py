"""A package beside SRB: the dialect `echo`, and the family of models `echo`. `pip install ./examples/package` adds both."""

from flask import Blueprint, Response, request
from typing_extensions import TypedDict

from srb.errors import SRBError
from srb.web.bodies.completion import CompletionBody, read_body
from srb.web.calls.outcome import gather
from srb.web.chat.call_forms import JsonCalls
from srb.web.chat.families import Family
from srb.web.context import web
from srb.web.dialect import Dialect
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("echo", __name__)


class Models(TypedDict):
    models: list[str]


class Texts(TypedDict):
    texts: list[str]


class Problem(TypedDict):
    problem: str


@routes.get("/echo/models")
@operation(answer=Models, error=Problem, foreign=True)
def models() -> Response:
    """Name the model."""
    return json_reply({"models": [web().client.check_ready().alias]})


@routes.post("/echo/complete")
@operation(CompletionBody, Texts, error=Problem, foreign=True)
def complete() -> Response:
    """Continue a prompt, with `n` texts."""
    body = CompletionBody.parse(read_body(request))
    commands = body.commands(web().request_settings, n=1, max_tokens=64)
    with web().calls.open(commands, request.environ, streamed=False) as call:
        return json_reply({"texts": [branch.text for branch in gather(call).branches]})


def problem(error: SRBError) -> Problem:
    return {"problem": error.message}


DIALECT = Dialect("A dialect as an example", (routes,), {"/echo/": problem})

# Templates that have the sign are of the family: thoughts and calls stand in tags of its own.
CALLS = JsonCalls(call="<echo:call>", call_end="</echo:call>")
FAMILY = Family("echo", ("<echo:call>",), (CALLS,), reasoning=("<echo:think>", "</echo:think>"))
