"""The route that compares texts by what they mean: which are alike, how many really differ, and which to show of them."""

from typing import Annotated, Any, Self

from flask import Blueprint, Response, request
from pydantic import Field

from srb.errors import bad_field
from srb.web.answers import Meaning
from srb.web.bodies.completion import read_body
from srb.web.bodies.fields import Integer, at_most, between
from srb.web.calls.meaning import Likeness, meaning_of
from srb.web.calls.ranking import Candidate, likeliest_first
from srb.web.context import web
from srb.web.dialects.llamacpp.body import Body
from srb.web.foreign_pages import is_page
from srb.web.loop.yielding import in_thread
from srb.web.openapi import operation
from srb.web.replies import json_reply

routes = Blueprint("srb_meaning", __name__)

MOST = 64  # texts: the time of all is that of their embeddings, some milliseconds each
LONGEST = 20_000  # characters of each: what a model for embeddings reads is shorter

Text = Annotated[str, Field(max_length=LONGEST)]


class MeaningBody(Body):
    """The body of `POST /v1/srb/meaning`."""

    texts: Annotated[list[Text], at_most(MOST), Field(min_length=1)]
    logprobs: Annotated[list[float | None], at_most(MOST)] | None = None
    n: Annotated[Integer, between(1, MOST)] | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body; raise InvalidRequest, which names the first field at fault."""
        parsed = super().parse(body)
        if parsed.logprobs is not None and len(parsed.logprobs) != len(parsed.texts):
            raise bad_field("logprobs", f"has {len(parsed.logprobs)} numbers for {len(parsed.texts)} texts")
        return parsed


@routes.post("/v1/srb/meaning")
@operation(MeaningBody, Meaning, foreign=True)
def meaning() -> Response:
    """Compare texts by what they mean: how many really differ, their order, and their groups."""
    asked = MeaningBody.parse(read_body(request))
    choice, calls = web().choice, web().calls
    calls.count(request.environ)
    try:
        vectors = calls.embed(asked.texts, not is_page() and (choice is None or choice.may_load))
    finally:
        calls.uncount(request.environ)
    return json_reply(in_thread(_compare, asked, vectors))


def _compare(asked: MeaningBody, vectors: list[list[float]] | None) -> Meaning:
    logprobs = asked.logprobs or [None] * len(asked.texts)
    candidates = [Candidate(text, logprob) for text, logprob in zip(asked.texts, logprobs, strict=True)]
    order = likeliest_first(dict(enumerate(candidates)))
    likeness = Likeness.of(
        [asked.texts[index] for index in order], None if vectors is None else [vectors[index] for index in order]
    )
    return meaning_of([(order, [candidates[index] for index in order], likeness)], asked.n)
