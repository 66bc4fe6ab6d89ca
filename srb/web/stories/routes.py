"""The story routes: list, read since a number, post, bin, export and import. The door has let the request in."""

import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import orjson
from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from srb import logs
from srb.errors import BodyTooLarge, Forbidden, bad_field
from srb.stories.forms import FileShape, MediumShape, PostShape, ShareShape
from srb.stories.json_body import read_object
from srb.stories.limits import MAX_MEDIUM, MAX_NUMBER, MAX_POST, MAX_STORY, MAX_VALUE, MAX_WANTED
from srb.stories.media import Medium, medium_of
from srb.stories.parts import read_post, validated
from srb.stories.store import Store
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_bytes
from srb.web.context import web
from srb.web.limits import PERSON
from srb.web.openapi import operation
from srb.web.request_log import QUIET
from srb.web.stories import origin_check
from srb.web.stories.stories_file import Wish, checked

log = logging.getLogger("srb.stories")

routes = Blueprint("stories", __name__)

ONE = f"{origin_check.ROOT}/<story_id>"
MEDIA = f"{ONE}/media"
SEARCH = f"{origin_check.ROOT}/~search"  # no story has this id
SHARES = f"{ONE}/shares"

T = TypeVar("T")

# Bytes of somebody's picture are shown as that picture, or not at all: never as a document that could run something.
_MEDIUM_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'", "Content-Disposition": "attachment"}


@routes.before_request
def _check_door() -> None:
    """Refuse a request that came past the door, by whatever new way."""
    if origin_check.PASSED not in request.environ:
        raise Forbidden("Stories belong to this server's own page")
    request.environ[QUIET] = True


@routes.get(origin_check.ROOT)
@operation(answer="srb.StoryList", query=("deleted",), foreign=False)
def overview() -> Response:
    """List all stories, the last changed first; with `?deleted=1` those in the bin."""
    binned = request.args.get("deleted") in ("1", "true")
    return _json(_use(lambda store: store.overview(binned=binned)))


@routes.post(origin_check.ROOT)
@operation(FileShape, "srb.StoryImported", foreign=False)
def bring_in() -> Response:
    """Import a story from a file: into the story of its id, or as a new one."""
    try:
        data, wish = _body(MAX_STORY, "the file of a story"), Wish()
        with web().calls.watching(wish, request.environ):
            return _json(orjson.dumps(web().stories.bring_in(data, wish, _person())))
    except BodyTooLarge as error:
        message = f"{error.message}; the command `srb stories import` takes larger ones"
        raise type(error)(message, **error.extra) from None


@routes.get(SEARCH)
@operation(answer="srb.StoryPlaces", query=("q",), foreign=False)
def search() -> Response:
    """Find the words `q` in all stories that are not in the bin, in every branch."""
    wanted, wish = request.args.get("q", "").strip(), Wish()
    if not wanted or len(wanted) > MAX_WANTED:
        raise bad_field("q", f"should be 1 to {MAX_WANTED} characters")
    with web().calls.watching(wish, request.environ):
        return _json(_use(lambda store: store.search(wanted, wish.pause)))


@routes.get(ONE)
@operation(answer="srb.StoryParts", query=("since", "server"), foreign=False)
def read(story_id: str) -> Response:
    """Return all of a story that is newer than the number `since`, or 204 if nothing is."""
    since, server = _since(), request.args.get("server")
    parts = _use(lambda store: store.read(story_id, since, server))
    return _json(parts) if parts is not None else Response(status=204)


@routes.post(ONE)
@operation(PostShape, "srb.StoryPosted", foreign=False)
def post(story_id: str) -> Response:
    """Save parts of a story, merged with what is stored; a new id makes a new story."""
    _check_id(story_id)
    post = checked(read_post, _body(MAX_POST, "one post of a story"))
    return _json(_use(lambda store: store.post(story_id, post)))


@routes.delete(ONE)
@operation(answer="srb.StoryState", foreign=False)
def remove(story_id: str) -> Response:
    """Put a story into the bin, from which it is removed after 30 days; what was computed of it is forgotten now."""
    answer = _changed(lambda store: store.remove(story_id))
    _note("deleted", story_id)
    web().forgetting.forget_story(story_id)
    return answer


@routes.post(f"{ONE}/restore")
@operation(answer="srb.StoryState", foreign=False)
def restore(story_id: str) -> Response:
    """Take a story out of the bin."""
    answer = _changed(lambda store: store.restore(story_id))
    _note("restored", story_id)
    return answer


@routes.get(f"{ONE}/export")
@operation(answer=JSONObject, foreign=False)
def export(story_id: str) -> Response:
    """Return a story as a file."""
    response = _changed(lambda store: store.export(story_id))
    _note("exported", story_id)
    response.headers["Content-Disposition"] = f'attachment; filename="srb-story-{story_id}.json"'
    return response


@routes.get(SHARES)
@operation(answer="srb.StoryShares", foreign=False)
def shares(story_id: str) -> Response:
    """Name a story's owner, and the people with whom it is shared."""
    return _changed(lambda store: store.shares(story_id))


@routes.post(SHARES)
@operation(ShareShape, "srb.StoryShares", foreign=False)
def share(story_id: str) -> Response:
    """Share a story of one's own with a name, or take that back (`"access": "none"`)."""
    asked = checked(_share_of_body, _body(MAX_VALUE, "a share"))
    if asked.access != "none" and asked.name not in {each.name for each in web().server.load_api_keys()}:
        raise bad_field("name", "no key of this server has this name")
    answer = _changed(lambda store: store.share(story_id, asked.name, asked.access))
    _note("shared", story_id, {"with": asked.name, "access": asked.access})
    return answer


@routes.post(MEDIA)
@operation(MediumShape, "srb.StoredMedium", foreign=False)
def add_medium(story_id: str) -> Response:
    """Store a picture or sound beside a story's texts; a new story id makes a new story."""
    _check_id(story_id)
    medium = checked(_medium_of_body, _body(MAX_MEDIUM * 4 // 3 + MAX_VALUE, "a picture or sound"))
    _use(lambda store: store.add_medium(story_id, medium))
    return _json(orjson.dumps({"id": medium.id, "type": medium.type, "bytes": len(medium.data)}))


@routes.get(f"{MEDIA}/<medium_id>")
@operation(media_type="application/octet-stream", foreign=False)
def medium(story_id: str, medium_id: str) -> Response:
    """Return a picture or sound of a story, with the type that its bytes have."""
    found = _use(lambda store: store.medium(story_id, medium_id))
    return Response(found.data, mimetype=found.type, headers=_MEDIUM_HEADERS)


def _share_of_body(data: bytes) -> ShareShape:
    return validated(ShareShape, read_object(data))


def _medium_of_body(data: bytes) -> Medium:
    return medium_of(validated(MediumShape, read_object(data)).data, "data")


def _check_id(story_id: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", story_id):
        raise bad_field("story_id", "should be an id: 1 to 64 letters, digits, - and _")


def _note(act: str, story_id: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Log who has done what with a story, for whoever has to tell later."""
    fields = {"act": act, "story": story_id, "person": _person(), "address": request.remote_addr or "local", **more}
    text = "%(person)s@%(address)s %(act)s story %(story)s" + (" with %(with)s: %(access)s" if more else "")
    log.info(text, fields, extra=logs.with_fields(fields))


def _person() -> str:
    name: str = request.environ.get(PERSON, "")
    return name


def _use(act: Callable[[Store], T]) -> T:
    """Return what `act` returns, of the stories that the caller may use."""
    person = _person()
    return web().stories.use(lambda store: act(store.of(person)))


def _changed(act: Callable[[Store], bytes]) -> Response:
    return _json(_use(act))


def _json(data: bytes) -> Response:
    return Response(data, mimetype="application/json")


def _body(limit: int, name: str) -> bytes:
    """Return the body. Raise BodyTooLarge for one beyond `limit`, whatever `max_body_bytes` is for other routes."""
    request.max_content_length = limit + 1
    try:
        return read_bytes(request)
    except RequestEntityTooLarge:
        raise BodyTooLarge(f"The body is larger than {limit} bytes, the limit of {name}", param="body") from None


def _since() -> int:
    """Return the query's `since`, 0 without one. Raise InvalidRequest."""
    text = request.args.get("since", "") or "0"
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) > MAX_NUMBER:
        raise bad_field("since", "should be a sequence number")
    return int(text)
