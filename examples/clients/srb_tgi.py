"""text-generation-inference: `POST /`, `/generate` and `/generate_stream`, which huggingface_hub's clients ask."""

from typing import Any

from flask import Blueprint, Response, request
from pydantic import BaseModel
from typing_extensions import TypedDict

from srb.errors import SRBError, bad_field
from srb.web.bodies.completion import read_body
from srb.web.bodies.sampling import validated
from srb.web.calls.outcome import gather
from srb.web.calls.renderer import Renderer, sse
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialect import Dialect
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import Generate
from srb.wire.events import BranchEnded, Delta, Done

routes = Blueprint("tgi", __name__)
REASONS = {"eos": "eos_token", "word": "stop_sequence", "boundary": "stop_sequence"}  # else "length"
SAMPLING = ("temperature", "top_k", "top_p", "typical_p")  # without one of these the likeliest tokens are taken
SAME = (*SAMPLING, "repetition_penalty", "frequency_penalty", "seed", "stop", "max_new_tokens", "n")


class TGIBody(BaseModel):
    """What a client sends: a text, and parameters, of which `n` (branches, `POST /` alone) is ours."""

    inputs: str
    parameters: dict[str, Any] = {}
    stream: bool = False


class Text(TypedDict):
    generated_text: str | None
    details: dict[str, Any] | None


class Token(Text):
    index: int
    token: dict[str, Any]


@routes.post("/")
@operation(TGIBody, list[Text], Token, foreign=True)
def compatible() -> Response:
    """Continue a text as one of the two other routes does, by `stream`; an answer is a list."""
    given, most = read_body(request), web().request_settings.max_n
    return stream(given) if given.get("stream") is True else json_reply(texts(given, most))


@routes.post("/generate")
@operation(TGIBody, Text, error=dict[str, str], foreign=True)
def generate() -> Response:
    """Continue a text."""
    return json_reply(texts(read_body(request), most=1)[0])


@routes.post("/generate_stream")
@operation(TGIBody, None, Token, error=dict[str, str], foreign=True)
def generate_stream() -> Response:
    """Continue a text; each token is an event, the last one with the whole text."""
    return stream(read_body(request))


def asked(given: dict[str, Any], most: int, stream: bool = False) -> tuple[Any, list[Generate], dict[str, Any], str]:
    """Return a body as OpenAI's, its commands, the parameters, and what texts begin with. Raise InvalidRequest."""
    sent = validated(TGIBody, given)
    parameters = {name: value for name, value in sent.parameters.items() if value is not None}
    for name in ("adapter_id", "best_of", "top_n_tokens", "watermark"):
        if parameters.get(name):
            raise bad_field(name, "is not supported")
    body: dict[str, Any] = {"prompt": sent.inputs, "logprobs": 0, "truncate_prompt_tokens": parameters.get("truncate")}
    body |= {"temperature": 1 if any(map(parameters.get, ("do_sample", *SAMPLING))) else 0, "max_new_tokens": 100}
    body |= {name: parameters[name] for name in SAME if name in parameters} | {"include_stop_str_in_output": True}
    body["prompt_logprobs"] = 0 if parameters.get("decoder_input_details") else None
    if isinstance(grammar := parameters.get("grammar"), dict):
        body["regex" if grammar.get("type") == "regex" else "json_schema"] = grammar.get("value")
    made = TextCompletionBody.parse(body)
    made.check_tokens(stream)
    if made.count(1) > most:
        raise bad_field("n", f"should be at most {most} here")
    commands, _ = made.requests(web(), n=1, max_tokens=100)
    return made, commands, parameters, sent.inputs if parameters.get("return_full_text") else ""


def texts(given: dict[str, Any], most: int) -> list[Text]:
    """Return the answer, a text for each branch."""
    _, commands, parameters, before = asked(given, most)
    with web().calls.open(commands, request.environ, streamed=False) as call:
        outcome = gather(call)
    found, prefill = list[Text](), list(map(token, outcome.prompt_logprobs.get(commands[0].request_id, [])))
    for branch in outcome.branches:
        told = details(branch.ended, branch.seed) | {"prefill": prefill, "tokens": list(map(token, branch.probs))}
        found.append({"generated_text": before + branch.text, "details": told if parameters.get("details") else None})
    return found


def stream(given: dict[str, Any]) -> Response:
    body, commands, _, before = asked(given, most=1, stream=True)
    with web().calls.open(commands, request.environ, streamed=True) as call:
        return stream_response(call, TGIRenderer(call, before), body.ping_interval(web().settings))


def details(ended: Any, seed: int) -> dict[str, Any]:
    return {"finish_reason": REASONS.get(ended.reason, "length"), "generated_tokens": ended.length, "seed": seed}


def token(entry: Any) -> dict[str, Any]:
    return {"id": entry["id"], "text": entry["token"], "logprob": entry["logprob"], "special": not entry["token"]}


class TGIRenderer(Renderer):
    """Events of one branch. The newest token waits for the next one, since the last has the whole text."""

    def __init__(self, call: Any, before: str) -> None:
        super().__init__(call)
        self._said: Token = {"index": 0, "token": {}, "generated_text": None, "details": None}
        self._text, self._end_of = before, dict[str, Any]()

    def delta(self, event: Delta) -> bytes:
        self._text += event.text
        return b"".join(self._next(token(entry)) for entry in event.probs or ())

    def _next(self, newest: dict[str, Any]) -> bytes:
        before, self._said = self._said, {**self._said, "index": self._said["index"] + 1, "token": newest}
        return sse(before) if before["index"] else b""

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        self._end_of = details(event, self._specs[0].seed)
        last = event.reason == "eos" or not self._said["index"]
        return self._next({"id": event.end_token, "text": "", "logprob": 0.0, "special": True}) if last else b""

    def _end(self, done: list[Done]) -> bytes:
        return sse({**self._said, "generated_text": self._text, "details": self._end_of})

    def failed(self, error: SRBError) -> bytes:
        return sse(problem(error))


def problem(error: SRBError) -> dict[str, str]:
    return {"error": error.message, "error_type": "overloaded" if error.http_status in (429, 503) else "validation"}


DIALECT = Dialect(
    "text-generation-inference", (routes,), {"/generate": problem}, "https://hf.co/docs/text-generation-inference"
)
