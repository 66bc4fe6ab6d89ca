"""Routes that control running requests: list them, read them again, and stop, add, fork or extend their branches."""

import math
from dataclasses import replace
from typing import Annotated, Any, Self
from uuid import uuid4

from flask import Blueprint, Response, request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from srb.errors import NotFound, bad_field
from srb.web.bodies.completion import first_seed, read_body
from srb.web.bodies.fields import INT32_MAX, Integer, Natural, Stop, between
from srb.web.bodies.sampling import BranchBody, BranchList, validated
from srb.web.calls.streaming import stream_response
from srb.web.context import web
from srb.web.dialects.srb.answers import (
    Added,
    AttachedEvent,
    BranchDescription,
    RequestDescription,
    RequestList,
    Stopped,
)
from srb.web.dialects.srb.render import AttachedRenderer, describe, describe_branch
from srb.web.foreign_pages import OWNER
from srb.web.openapi import operation
from srb.web.replies import aged_reply, json_reply
from srb.wire.commands import MAX_STOP_AFTER, AddBranches, Boundary, ChangeBranch, GetRequest, NewBranch, StopBranches

routes = Blueprint("srb_controls", __name__)

ONE = "/v1/srb/completions/<request_id>"


class Origin(BaseModel):
    """The place where forks begin: after the first `token` tokens or `character` characters of a branch, or at its end."""

    model_config = ConfigDict(strict=True, extra="forbid")

    branch: Natural
    token: Natural | None = None
    character: Natural | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.token is not None and self.character is not None:
            raise ValueError("has a token and a character; give one of them")
        return self


class AddBody(BranchBody):
    """The branches to add: `count` alike, with the fields of an entry of `branches`, or `branches` that differ."""

    count: Annotated[Integer, between(1, INT32_MAX)] | None = None
    origin: Origin | None = Field(None, alias="from")
    branches: BranchList | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest, which names the first field at fault."""
        parsed = validated(cls, body)
        if parsed.branches is not None and parsed.count not in (None, len(parsed.branches)):
            raise bad_field(
                "count", f"is {parsed.count}, and 'branches' has {len(parsed.branches)}; leave one of them out"
            )
        given = {name for name, value in body.items() if value is not None}
        if parsed.branches is not None and (own := given - {"count", "from", "branches"}):
            raise bad_field(min(own), "belongs into the entries of 'branches'")
        if parsed.branches is None and parsed.seed is not None and (parsed.count or 1) > 1:
            raise bad_field("seed", "is for one branch; give several in 'branches'")
        return parsed

    def entries(self, most: int) -> tuple[NewBranch, ...]:
        """Return the branches to add; raise InvalidRequest for more than `most`."""
        count = len(self.branches) if self.branches is not None else self.count or 1
        if not 1 <= count <= most:
            raise bad_field(
                "count" if self.branches is None else "branches", f"should be 1 to {most} (max_n), not {count}"
            )
        if self.branches is None:
            return (_entry(self),) * count
        return tuple(_entry(each.numbered(number)) for number, each in enumerate(self.branches))


class ChangeBody(BaseModel):
    """Changes of a branch: `max_tokens` more, and other ends from here on."""

    model_config = ConfigDict(strict=True, extra="forbid")

    max_tokens: Annotated[Integer, between(1, INT32_MAX)] | None = None
    stop: Stop | None = None
    stop_at: Boundary | None = None
    stop_after: Annotated[Integer, between(1, MAX_STOP_AFTER)] | None = None


def _entry(body: BranchBody) -> NewBranch:
    seed = None if body.seed is None else first_seed(body.seed)
    return seed, body.append, tuple(body.changes().items()), tuple(body.sampling_changes().items())


@routes.get("/v1/srb/completions")
@operation(answer=RequestList, foreign=True)
def list_completions() -> Response:
    """List the caller's running and resting requests, without their texts."""
    owner = request.environ.get(OWNER, "")
    answers = [engine.latest_requests(owner) for engine in web().engines]
    answer: RequestList = {"completions": [describe(each) for found in answers for each in found.value]}
    return aged_reply(answer, min((found.at for found in answers), default=math.inf))


@routes.get(ONE)
@operation(answer=RequestDescription, foreign=True)
def get_completion(request_id: str) -> Response:
    """Describe one request, with the text of each branch so far."""
    return json_reply(describe(web().client.ask(GetRequest(uuid4().hex, request_id, _owner()))))


@routes.get(ONE + "/events")
@operation(events=AttachedEvent, query=("return_tokens",), foreign=True)
def attach(request_id: str) -> Response:
    """Read a request's events from now on: first a snapshot of every branch, then what comes."""
    with web().calls.attach(request_id, request.environ) as call:
        return_tokens = request.args.get("return_tokens") in ("1", "true")
        interval = web().settings.sse_ping_interval
        return stream_response(call, AttachedRenderer(call, return_tokens), interval if interval > 0 else None)


@routes.delete(ONE)
@operation(answer=Stopped, foreign=True)
def stop_completion(request_id: str) -> Response:
    """Stop all branches and end the request; what was written stays in the prefix tree."""
    return json_reply(web().client.ask(StopBranches(uuid4().hex, request_id, _owner())))


@routes.delete(ONE + "/branches/<int:index>")
@operation(answer=BranchDescription, foreign=True)
def stop_branch(request_id: str, index: int) -> Response:
    """Stop one branch; the others do not notice."""
    command = StopBranches(uuid4().hex, request_id, _owner(), _small(index))
    return json_reply(describe_branch(web().client.ask(command)))


@routes.post(ONE + "/branches")
@operation(AddBody, Added, foreign=True)
def add_branches(request_id: str) -> Response:
    """Add branches, from the prompt or forked from a branch."""
    asked, settings = AddBody.parse(read_body(request)), web().request_settings
    command = AddBranches(
        uuid4().hex,
        request_id,
        asked.entries(settings.max_n),
        _owner(),
        max_running=settings.max_n,
        max_tokens=settings.max_request_tokens,
    )
    if (origin := asked.origin) is not None:
        command = replace(command, origin=origin.branch, token=origin.token, character=origin.character)
    return json_reply(web().client.ask(command))


@routes.patch(ONE + "/branches/<int:index>")
@operation(ChangeBody, BranchDescription, foreign=True)
def change_branch(request_id: str, index: int) -> Response:
    """Give a branch more tokens, or other ends from here on; a branch that has ended by its limit goes on."""
    asked = validated(ChangeBody, read_body(request))
    given = asked.model_dump(exclude_none=True)
    more = given.pop("max_tokens", 0)
    if not more and not given:
        raise bad_field("max_tokens", "is required, or stop or stop_at")
    settings = web().request_settings
    command = ChangeBranch(
        uuid4().hex,
        request_id,
        _small(index),
        _owner(),
        more,
        tuple(given.items()),
        max_tokens=settings.max_request_tokens,
        max_running=settings.max_n,
    )
    return json_reply(describe_branch(web().client.ask(command)))


def _small(index: int) -> int:
    """Return an index from an address. Raise NotFound for one that no branch can have."""
    if index > INT32_MAX:
        raise NotFound(f"the request has no branch {index}")
    return index


def _owner() -> str:
    return web().calls.controller(request.environ)
