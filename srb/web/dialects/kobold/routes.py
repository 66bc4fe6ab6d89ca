"""KoboldAI's and KoboldCpp's routes of texts: completions, their progress and end, and tokens.

A request is found again by its client and `genkey`, in every worker: the key is a part of the request's id, and the engine
lists a client's requests. Requests without a key have one in common for each client.
"""

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from flask import Blueprint, Response, request

from srb.errors import InvalidRequest, NotFound
from srb.web.answers import JSONObject
from srb.web.bodies.completion import parse_json, read_body, read_bytes, without_nulls
from srb.web.bodies.fields import EMPTY_PROMPT, Prompt
from srb.web.calls.engine_client import EngineClient
from srb.web.calls.outcome import gather
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.kobold.body import DetokenizeIdsBody, KeyBody, KoboldBody, TokenCountBody
from srb.web.dialects.kobold.render import KoboldRenderer, results
from srb.web.dialects.openai.completion_render import legacy_logprobs
from srb.web.foreign_pages import OWNER
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import BranchSpec, Generate, GetRequest, ListRequests, StopBranches
from srb.wire.events import ModelInfo

routes = Blueprint("kobold", __name__)

_HALF = 16  # hexadecimal digits: half of a request's id
KEPT_SECONDS = 60.0  # that the probabilities of a text stay for `last_logprobs`, which clients ask for at once


@routes.post("/api/v1/generate")
@routes.post("/api/latest/generate")
@operation(KoboldBody, "kobold.Results", error="kobold.KoboldError", foreign=True)
def generate() -> Response:
    """Continue a prompt as KoboldCpp does, with a result for each of `n` branches."""
    asked = KoboldBody.parse(read_body(request))
    with web().calls.open([_command(asked)], request.environ, streamed=False) as call:
        return json_reply(results(gather(call)))


@routes.post("/api/extra/generate/stream")
@operation(KoboldBody, events="kobold.Token", error="kobold.KoboldError", foreign=True)
def generate_stream() -> Response:
    """Continue a prompt as a stream of KoboldCpp's events."""
    asked = KoboldBody.parse(read_body(request))
    with web().calls.open([_command(asked)], request.environ, streamed=True) as call:
        return stream_response(call, KoboldRenderer(call), asked.ping_interval(web().settings))


def _command(asked: KoboldBody) -> Generate:
    settings = web().request_settings
    draft = asked.draft(settings, n=1, max_tokens=settings.max_tokens_of_srb)
    model = web().client.check_ready()
    n_ctx = min(asked.max_context_length or model.n_ctx_seq, model.n_ctx_seq)
    limit = settings.max_tokens_of_srb if asked.n_predict is None else asked.n_predict
    prompt, limit = fitted(web().client, model, asked.memory, asked.text, n_ctx, limit)
    filled = asked.with_prompt(prompt, model).model_copy(update={"n_predict": limit})
    [command] = filled.commands(web().request_settings, n=1, max_tokens=limit, draft=draft)
    branches = tuple(_at_most(limit, branch) for branch in command.branches)
    base = command.base and _at_most(limit, command.base)
    request_id = uuid4().hex[:_HALF] + _mark(asked.genkey)
    keep_probs = KEPT_SECONDS if asked.wanted_probs >= 0 else 0.0
    return replace(command, request_id=request_id, branches=branches, base=base, keep_probs=keep_probs)


def _at_most(limit: int, branch: BranchSpec) -> BranchSpec:
    """Return a branch that is no longer than there is room for; `limit` -1: any length."""
    if limit < 0:
        return branch
    return replace(branch, max_tokens=limit if branch.max_tokens < 0 else min(limit, branch.max_tokens))


def _mark(genkey: str) -> str:
    """Return the end of the ids of all requests with this key."""
    return hashlib.sha256(b"kobold\0" + genkey.encode("utf-8", "surrogatepass")).hexdigest()[:_HALF]


def _requests(*, ended: bool = False) -> list[tuple[EngineClient, str]]:
    """Return the ids of the caller's requests with the body's key that run, or that have `ended` and are still known, each
    with its engine, the newest first.
    """
    mark = _mark(KeyBody.parse(_optional_body()).genkey)
    owner = request.environ.get(OWNER, "")
    found = [(each, engine) for engine in web().engines for each in engine.ask(ListRequests(uuid4().hex, owner))]
    found.sort(key=lambda pair: pair[0]["age"])
    found = [(each, engine) for each, engine in found if (each["state"] == "resting") is ended]
    return [(engine, each["id"]) for each, engine in found if each["id"].endswith(mark)]


def _optional_body() -> dict[str, Any]:
    """Return the request's JSON object, {} for a request without a body. Raise InvalidRequest for anything else."""
    body = parse_json(read_bytes(request) or b"{}")
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return without_nulls(body)


@routes.get("/api/extra/generate/check")
@operation(answer="kobold.Pending", error="kobold.KoboldError", foreign=True)
def check() -> Response:
    """Return the text so far of the caller's newest request without a key."""
    return _pending()


@routes.post("/api/extra/generate/check")
@operation(KeyBody, "kobold.Pending", error="kobold.KoboldError", foreign=True)
def check_by_key() -> Response:
    """Return the text so far of the caller's newest request with this key."""
    return _pending()


def _pending() -> Response:
    answer: JSONObject = {"results": [{"text": ""}]}
    if branches := _branches(_requests()):
        answer = {"results": [{"text": branch["text"]} for branch in branches]}
    return json_reply(answer)


def _branches(requests: list[tuple[EngineClient, str]]) -> list[dict[str, Any]]:
    """Return the branches of the first of some requests; none if there is none, or it has just ended."""
    for engine, target in requests[:1]:
        with suppress(NotFound):
            known = engine.ask(GetRequest(uuid4().hex, target, web().calls.controller(request.environ)))
            return list(known["branches"])
    return []


@routes.post("/api/extra/last_logprobs")
@operation(KeyBody, "kobold.LastLogprobs", error="kobold.KoboldError", foreign=True)
def last_logprobs() -> Response:
    """Return the probabilities of the caller's newest text with this key that has ended, if it asked for them."""
    known = [branch.get("probs") for branch in _branches(_requests(ended=True))]
    found = [legacy_logprobs(probs, 0) if probs else None for probs in known] or [None]
    several: JSONObject = {"results": [{"logprobs": each} for each in found]} if len(found) > 1 else {}
    return json_reply({"logprobs": found[0], **several})


@routes.post("/api/extra/abort")
@operation(KeyBody, "kobold.Aborted", error="kobold.KoboldError", foreign=True)
def abort() -> Response:
    """End the caller's requests with this key; their answers have the text that was written."""
    stopped = 0
    for engine, target in _requests():
        try:
            engine.ask(StopBranches(uuid4().hex, target, web().calls.controller(request.environ)))
        except NotFound:  # it has just ended
            continue
        stopped += 1
    return json_reply({"success": "true", "done": "true"} if stopped else {"success": "false", "done": "false"})


@routes.post("/api/extra/tokencount")
@operation(TokenCountBody, "kobold.TokenCount", error="kobold.KoboldError", foreign=True)
def count_tokens() -> Response:
    """Count the tokens of a text, with its BOS unless `special` is false."""
    asked, client = TokenCountBody.parse(read_body(request)), web().client
    client.check_ready()
    parts = (asked.prompt,) if asked.prompt else EMPTY_PROMPT
    asker = web().calls.asker(request.environ)
    ids = client.tokenize(parts, add_special=asked.special, asker=asker) if asked.prompt or asked.special else []
    return json_reply({"value": len(ids), "ids": ids})


@routes.post("/api/extra/detokenize")
@operation(DetokenizeIdsBody, "kobold.Detokenized", error="kobold.KoboldError", foreign=True)
def detokenize() -> Response:
    """Return the text of tokens."""
    asked, client = DetokenizeIdsBody.parse(read_body(request)), web().client
    client.check_ready()
    text = b"".join(client.detokenize(asked.ids, special=False)).decode("utf-8", "replace")
    return json_reply({"result": text, "success": True})


_ADDED = 4  # tokens that a tokenizer may put around a text: a BOS, a space
_FEW = 16


def fitted(
    client: EngineClient, model: ModelInfo, memory: str, prompt: str, n_ctx: int, max_tokens: int
) -> tuple[Prompt, int]:
    """Return memory and prompt as a prompt that leaves room for `max_tokens`, and the number of tokens to generate.

    `n_ctx` is the length of both together, in tokens. A fifth of it is the prompt's, however many tokens are asked for;
    `max_tokens` -1 is any number, and as many have room as the prompt leaves.
    """
    least = max(min(n_ctx - 4, _FEW), n_ctx // 5)
    max_tokens = min(max_tokens, n_ctx - least)
    room = n_ctx - (max_tokens if max_tokens >= 0 else least)
    texts = tuple(filter(None, (memory, prompt)))
    if sum(len(text.encode()) for text in texts) + _ADDED <= room:  # no token is shorter than a byte
        return texts or EMPTY_PROMPT, max_tokens
    kept, rest = (client.tokenize((text,)) if text else [] for text in (memory, prompt))
    bos = [model.bos_id] if model.add_bos else []
    if len(bos) + len(kept) + len(rest) <= room:
        return texts, max_tokens
    kept = _last(kept, room - len(bos) - _ADDED)
    rest = _last(rest, room - len(bos) - len(kept))
    return (*bos, *kept, *rest), max_tokens


def _last(tokens: list[int], count: int) -> list[int]:
    return tokens[max(0, len(tokens) - max(0, count)) :]
