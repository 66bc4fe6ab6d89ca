"""The surprise of known texts: how likely the model finds each of their tokens, and how open each place was.

Texts that go on from one prompt are each read alone behind it: the prompt is computed once, and its probabilities are not.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from flask import Blueprint, Response, request
from pydantic import Field

from srb.errors import bad_field
from srb.web.bodies.completion import CompletionBody, read_body
from srb.web.bodies.fields import DescribedBody, Integer, LoraScales, between
from srb.web.bodies.sampling import validated
from srb.web.calls.outcome import gather, usage
from srb.web.context import web
from srb.web.dialects.srb.answers import SRBSurprise, TextSurprise, TokenSurprise
from srb.web.loop.yielding import in_thread
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import Generate
from srb.wire.events import TokenProbs

routes = Blueprint("srb_surprise", __name__)

MAX_LIKELY = 20  # of a place: an entry takes 512 bytes of a worker's memory
MAX_CONTROL = 64  # bytes of a control token's text


class SurpriseBody(DescribedBody):
    texts: Annotated[list[str], Field(min_length=1)]
    prompt: str = ""
    top_logprobs: Annotated[Integer, between(0, MAX_LIKELY)] = 0
    cache_prompt: bool | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    priority: Annotated[Integer, between(-(2**31), 2**31 - 1)] = 0
    session: Annotated[str, Field(max_length=200)] | None = None
    lora: LoraScales | None = None
    model: str | None = None

    def commands(self) -> list[Generate]:
        """Return a request for each text, which samples nothing. Raise InvalidRequest for more texts than branches."""
        settings = web().request_settings
        if len(self.texts) > settings.max_n:
            raise bad_field("texts", f"has {len(self.texts)} entries; at most {settings.max_n} are allowed (max_n)")
        shared = {name: getattr(self, name) for name in ("cache_prompt", "cache_salt", "session")}
        fields = {name: value for name, value in shared.items() if value is not None}
        fields |= {"n": 1, "max_tokens": 0, "logprobs": self.top_logprobs, "token_healing": False}
        asked = CompletionBody.parse({**fields, "prompt": [self.prompt + text for text in self.texts]})
        asked = asked.model_copy(update={"lora": self.lora, "priority": self.priority})  # which are parsed
        return [
            replace(command, prompt_logprobs=True, surprise_from=len(self.prompt))
            for command in asked.commands(settings, 1, 0)
        ]


@routes.post("/v1/srb/surprise")
@operation(SurpriseBody, SRBSurprise, foreign=True)
def surprise() -> Response:
    """Return the probability of each token of known texts behind a prompt, and the entropy of its place."""
    asked = validated(SurpriseBody, read_body(request))
    with web().calls.open(asked.commands(), request.environ, streamed=False) as call:
        outcome = gather(call)
        known = [outcome.prompt_logprobs.get(command.request_id, []) for command in call.commands]
        said: SRBSurprise = {
            "model": web().client.check_ready().alias,
            "texts": in_thread(lambda: list(map(partial(_described, asked.prompt), asked.texts, known))),
            "usage": usage(outcome.done),
        }
    return json_reply(said)


def _described(prompt: str, text: str, probs: Sequence[TokenProbs]) -> TextSurprise:
    """Return what is known of a text behind a prompt; its first token may begin within the prompt's last word."""
    places = _places(prompt, text, [bytes(entry["bytes"]) for entry in probs])
    tokens: list[TokenSurprise] = [{"start": place, **entry} for place, entry in zip(places, probs, strict=True)]
    known = [entry["logprob"] for entry in probs if entry["logprob"] is not None]
    return {"logprob": math.fsum(known), "tokens": tokens}


def _places(prompt: str, text: str, pieces: Sequence[bytes]) -> list[int]:
    """Return where each token begins, in characters from the text's beginning; below 0 in the prompt.

    Over what has no piece of its own, the text of a control token, the next one leaps; a space that the tokenizer has
    added is nowhere.
    """
    whole, sent = (prompt + text).encode(), b"".join(pieces)
    at, before = len(whole) - len(sent), len(prompt.encode())
    if at > before or not whole.endswith(sent):
        at = max(0, before - len(pieces[0])) if pieces else before
    chars, counted = _num_characters(whole[:at]) - len(prompt), at
    places = []
    for piece in pieces:
        if not whole.startswith(piece, at):
            most = at + MAX_CONTROL + len(piece)
            found = {whole.find(each, at, most): each for each in (piece, piece.lstrip())}
            at, piece = min(((place, each) for place, each in found.items() if place >= 0), default=(at, b""))
        chars, counted = chars + _num_characters(whole[counted:at]), at
        places.append(chars - (at < len(whole) and whole[at] & 0xC0 == 0x80))  # within a character: that one's place
        at += len(piece)
    return places


def _num_characters(data: bytes) -> int:
    return sum(byte & 0xC0 != 0x80 for byte in data)
