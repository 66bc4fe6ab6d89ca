"""Request bodies: their bytes become commands for the engine, or a 400 that names the field at fault.

Unknown fields are ignored (clients send up to ninety), known fields are checked strictly. A null field counts as absent.
Sampling defaults come from the settings; a field with the value None is absent here.
"""

import gc
import math
import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

import gevent
import orjson
from flask import Request, current_app, g
from pydantic import ConfigDict, Field, PrivateAttr, WithJsonSchema
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from srb.config.sampling_params import MAX_SIBLING_PENALTY
from srb.config.settings import Settings
from srb.errors import BodyTooSlow, InvalidRequest, SRBError, bad_field, in_field
from srb.web.bodies.directions import DirectionList, DirectionPlace, dealt, place_in, without_notes
from srb.web.bodies.encodings import Decoder, refusal_of, without_lone_surrogates, without_mark, wrong_byte
from srb.web.bodies.fields import (
    INT32_MAX,
    PROMPT_SCHEMA,
    UINT32_MAX,
    Integer,
    LoraScales,
    Natural,
    NaturalOrMinusOne,
    ObjectFields,
    Prompt,
    Rank,
    Real,
    Vectors,
    between,
    check_between,
    parse_prompts,
)
from srb.web.bodies.media import MAX_FILES, image_prompts, marked_prompt, own_media
from srb.web.bodies.sampling import BranchList, SamplingBody, default_stop, validated
from srb.web.bodies.unread import BODY_MODEL, UNREAD, Within, unread
from srb.web.loop.memory import BodyBudget
from srb.web.loop.yielding import Turnstile, count_in_pieces
from srb.wire.commands import MAX_DEPTH, BranchSpec, ContextShift, Explore, Generate, Place

BODY_SIZE = "srb_body_size"  # name in flask.g: the bytes of the body that have arrived
REPLACED = "srb_replaced"  # name in flask.g: the half characters of the body that became U+FFFD
_PEEKED, _READ = "srb_peeked", "srb_read"  # names in flask.g: a body that is to be read, and what is known of one
# Commas and opening brackets of a body, between which values stand: 4 MiB has room for so many.
MAX_MARKS = 2 * 1024 * 1024
_LARGE = 65536  # bytes of a body that takes milliseconds to check: such bodies take turns
_TURNSTILE = Turnstile()  # of the worker's large bodies
_PIECE = 256 * 1024  # bytes read at once: a fast client must not keep the worker from its other clients
_NAMES = ("model", "name", "priority")  # the fields that name a model, and say whether one may be loaded


def read_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object without its null fields; raise the errors of read_object."""
    return without_nulls(read_object(request))


def read_object(request: Request) -> dict[str, Any]:
    """Return the request's JSON object; its Content-Type is ignored.

    Raise InvalidRequest unless the body is one JSON object, BodyTooSlow after client_timeout, and Werkzeug's 413 beyond
    max_body_bytes.
    """
    body = read_json(request)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    setattr(g, UNREAD, unread(g.get(BODY_MODEL), body))
    return body


def without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def read_json(request: Request) -> Any:
    """Return the request's JSON value; raise the errors of read_object."""
    return g.pop(_PEEKED) if _PEEKED in g else _read_json(request)


def named_model(request: Request) -> dict[str, Any]:
    """Return the fields of the request's body that name a model, before or after it was read; raise as read_json does."""
    if not request.content_length and "Transfer-Encoding" not in request.headers:
        return {}
    if _READ not in g:
        setattr(g, _PEEKED, _read_json(request))
    found: dict[str, Any] = g.get(_READ)
    return found


def _read_json(request: Request) -> Any:
    value = parse_json(read_bytes(request))
    setattr(g, _READ, {name: value[name] for name in _NAMES if name in value} if isinstance(value, dict) else {})
    return value


def parse_json(data: bytes) -> Any:
    """Return a body's JSON value. Raise InvalidRequest for malformed JSON, and for longer lists than are taken."""
    if len(data) > _LARGE:
        _TURNSTILE.wait()
    if len(data) > 2 * MAX_MARKS and count_in_pieces(data, (b",", b"[", b"{")) > MAX_MARKS:
        # Long bodies are long texts and pictures. Lists of as many bytes would take seconds and gigabytes to read.
        raise InvalidRequest(f"The body has more than {MAX_MARKS} commas and brackets; a body may have fewer values")
    gc.disable()  # a collection for every 700 lists of a million takes ten times the time of reading them
    try:
        value = _loaded(without_mark(data))
        if len(data) > _LARGE:  # orjson has had the worker for up to 0.1 s, in one go
            gevent.sleep(0)
        if refusal := refusal_of(value):
            del value
            raise refusal
        return value
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {wrong_byte(data, pause=_pause) or error}") from None
    finally:
        gc.enable()


_pause = partial(gevent.sleep, 0)


def _loaded(data: bytes) -> Any:
    """Return a JSON value; half characters, which clients leave where they cut a text, become U+FFFD, and are counted."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        repaired, count = without_lone_surrogates(data, pause=_pause)
        if not count:
            raise
    value = orjson.loads(repaired)
    setattr(g, REPLACED, count)
    return value


def read_bytes(request: Request) -> bytes:
    """Return the body as its client wrote it; raise the errors of read_object that are not of its content, and BodiesFull.

    Werkzeug reads at most max_content_length bytes, and raises 413 only for an announced length. A body with a
    Content-Encoding is decoded, and as long after it.
    """
    seconds = current_app.config["READ_TIMEOUT"]
    try:
        with gevent.Timeout(seconds, BodyTooSlow(f"The body did not arrive within {seconds} seconds")):
            data = _received(request, current_app.config["BODY_BUDGET"])
    except (HTTPException, SRBError):
        raise
    except Exception as error:  # from the WSGI server, for malformed chunks
        raise InvalidRequest(f"The body could not be read: {error}") from None
    if request.max_content_length is not None and len(data) >= request.max_content_length:
        raise RequestEntityTooLarge
    return data


def _received(request: Request, budget: BodyBudget) -> bytes:
    """Return the body, read in pieces: a client that sends without a pause would otherwise keep all other calls waiting."""
    stream, data = request.stream, bytearray()  # both raise 413 for an announced length, before anything is read
    most = request.max_content_length or math.inf
    decoder = Decoder(request.headers.get("Content-Encoding", ""), most)
    try:
        with budget.receiving(request.content_length or 0) as arrive:
            while len(data) < most and (piece := stream.read(_PIECE)):
                for decoded in decoder.feed(piece):
                    arrive(len(decoded))
                    data += decoded
                    gevent.sleep(0)
            if len(data) < most:
                decoder.end()
            return bytes(data)
    finally:
        setattr(g, BODY_SIZE, len(data))
        data.clear()  # the traceback of an error may live until the next collection


class StreamOptions(ObjectFields):
    include_usage: bool = False


class ExploreBody(ObjectFields):
    """The body's `explore`: fork wherever a token has `cutoff` times the likeliest one's probability or more."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    cutoff: Annotated[float, Field(gt=0, le=1)] = 0.1
    max_branches: Annotated[Integer, between(1, INT32_MAX)] | None = None
    depth: Annotated[Integer, between(1, MAX_DEPTH)] = 8


# Fields that do not go with `explore`, which chooses tokens and branches by itself; a body may lack them.
NOT_WITH_EXPLORE = (
    *(
        "branches",
        "directions",
        "best_of",
        "response_format",
        "tools",
        "grammar",
        "json_schema",
        "distinct_first",
        "distinct_words",
    ),
    *("sibling_penalty", "banned_strings", "banned_patterns", "banned_tokens", "allowed_token_ids"),
    *("post_sampling_probs", "echo"),
)


@dataclass(frozen=True)
class CommandTemplate:
    """A body's command without its prompt, and the settings by which it was checked."""

    settings: Settings
    command: Generate


class CompletionBody(SamplingBody):
    """The fields that the bodies of all dialects share: prompt, number and length of branches, and their sampling."""

    model_config = ConfigDict(json_schema_extra={"required": ["prompt"]})

    continues_text: ClassVar[bool] = True  # False: the prompt is a template's, whose end is no writer's

    # Filled by `parse`, from every form of a prompt.
    prompt: Annotated[list[Prompt], WithJsonSchema(PROMPT_SCHEMA), Within("Prompt")] = []
    n: Integer | None = None
    branches: BranchList | None = None
    directions: DirectionList | None = None
    direction_place: DirectionPlace | None = None
    explore: ExploreBody | None = None
    linger: Annotated[Real, between(0, INT32_MAX)] | None = None
    distinct_first: bool = False
    distinct_words: bool = False
    sibling_penalty: Annotated[float, between(0, MAX_SIBLING_PENALTY)] = 0.0
    sampling_method: Literal["independent", "arithmetic"] = "independent"
    cache_prompt: bool | None = None
    priority: Annotated[Integer, between(-INT32_MAX - 1, INT32_MAX)] = 0
    state: Annotated[str, Field(max_length=64, pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$")] = ""
    session: Annotated[str, Field(max_length=200)] | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions = StreamOptions()
    return_tokens: bool = False

    n_keep: NaturalOrMinusOne = 0
    n_discard: Natural = 0
    lora: Annotated[LoraScales, Within("Scale")] | None = None
    control_vectors: Vectors | None = None
    return_progress: bool = False
    sse_ping_interval: NaturalOrMinusOne | None = None
    verbose: bool = False
    rank: Rank = False
    reasoning_format: Literal["auto", "deepseek", "deepseek-legacy", "none"] | None = None

    id_slot: NaturalOrMinusOne = -1

    _media: list[str] = PrivateAttr(default_factory=list)
    _media_field: str = PrivateAttr("prompt")
    _place: Place | None = PrivateAttr(None)  # of directions, where a template has made the prompt

    # Checked, but without effect: the prefix tree finds all reusable text.
    n_cache_reuse: Natural | None = None
    backend_sampling: bool = False

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a body from `read_body`; raise InvalidRequest, which names the first field at fault."""
        if "prompt" not in body:
            raise bad_field("prompt", "is required")
        media: list[str] = []
        with in_field("prompt"):
            prompts = parse_prompts(body["prompt"], lambda text, data: marked_prompt(text, data, media))
        parsed = validated(cls, {**body, "prompt": []}).counted()
        if media:
            if getattr(parsed, "image_data", None):
                raise bad_field("image_data", "cannot be used together with multimodal_data")
            return parsed.with_media(prompts, media, "prompt")
        if image_data := getattr(parsed, "image_data", None):
            with in_field("image_data"):
                return parsed.with_media(*image_prompts(prompts, image_data), "image_data")
        return parsed.model_copy(update={"prompt": prompts})

    def counted(self) -> Self:
        """Return the body with as many branches as it has directions, if it does not say how many."""
        if self.directions is None or self.n is not None or self.branches is not None:
            return self
        return self.model_copy(update={"n": len(self.directions)})

    @property
    def has_directions(self) -> bool:
        """Whether some branch has a direction, or may get one."""
        own = any(entry.direction is not None for entry in self.branches or ())
        if own and self.directions is not None:
            raise bad_field("directions", "cannot be used together with a branch's 'direction'")
        if not own and self.directions is None and self.direction_place is not None:
            raise bad_field("direction_place", "needs directions")
        return own or self.directions is not None

    def with_media(self, prompts: list[Prompt], media: list[str], field: str) -> Self:
        """Return the body with prompts that have media, base64 files that `field` of the body has named."""
        if len(media) > MAX_FILES:
            raise bad_field(field, f"has {len(media)} files; at most {MAX_FILES} are taken")
        changed = self.model_copy(update={"prompt": prompts})
        changed._media, changed._media_field = media, field
        return changed

    def draft(self, settings: Settings, n: int, max_tokens: int) -> CommandTemplate:
        """Return a command for another prompt; `n` and `max_tokens` (-1: no limit) are the dialect's defaults.

        It needs no model, so that a bad body loads none; `commands` takes it. Raise InvalidRequest for values beyond the
        settings' limits, NotSupported for features that are not implemented.
        """
        self._check_explore()
        n = self._check_count(1 if self.explore else n if self.n is None else self.n, settings.max_n)
        if self.state and self.cache_prompt is False:
            raise bad_field("state", "needs a single prompt and cache_prompt true")
        explore = self._explore(settings.max_n)
        if explore is not None:
            max_tokens = -1  # a default; the depth is the limit
        shifts = settings.context_shift and explore is None
        base, *branches = self._specs(settings, n, max_tokens)
        command = Generate(
            request_id="",
            prompt=(),
            branches=tuple(branches),
            cache_prompt=settings.cache_prompt if self.cache_prompt is None else self.cache_prompt,
            state=self.state,
            session=self.session or "",
            cache_salt=self.cache_salt or "",
            priority=self.priority,
            lora=self.lora,
            control_vectors=self.control_vectors,
            report_progress=self.return_progress and bool(self.stream),
            id_slot=self.id_slot,
            linger=self._linger(settings),
            base=base if self.branches is not None else None,
            distinct_first=self.distinct_first,
            distinct_words=self.distinct_words,
            arithmetic=self.sampling_method == "arithmetic",
            sibling_penalty=self.sibling_penalty,
            shift=ContextShift(self.n_keep, self.n_discard) if shifts else None,
            explore=explore,
            directions=tuple(self.directions or ()),
        )
        return CommandTemplate(settings, _limited(command))

    def commands(
        self, settings: Settings, n: int, max_tokens: int, draft: CommandTemplate | None = None
    ) -> list[Generate]:
        """Return one Generate per prompt, the first made from `draft` unless the settings have changed since then.

        Raise what `draft` raises.
        """
        if len(self.prompt) > settings.max_queue:  # more could never be queued together
            raise bad_field("prompt", f"has {len(self.prompt)} prompts; at most {settings.max_queue} are allowed")
        if self.state and len(self.prompt) > 1:
            raise bad_field("state", "needs a single prompt and cache_prompt true")
        if self.explore is not None and len(self.prompt) > 1:
            raise bad_field("prompt", f"has {len(self.prompt)} prompts; explore takes one")
        first = draft if draft is not None and draft.settings is settings else None
        commands = []
        for prompt in self.prompt:
            made, first = first or self.draft(settings, n, max_tokens), None  # each prompt has its own random seeds
            parts, media = own_media(prompt, self._media) if self._media else (prompt, ())
            given = replace(made.command, request_id=uuid4().hex, prompt=parts, media=media)
            if self.has_directions:
                place = self._place or place_in(parts, self.direction_place)
                given = without_notes(replace(given, place=place))
            commands.append(replace(given, media_field=self._media_field))
        return commands

    def _check_explore(self) -> None:
        """Raise InvalidRequest, which names the field, if `explore` is used with one that it does not go with."""
        if self.explore is None:
            return
        for name in NOT_WITH_EXPLORE:
            if getattr(self, name, None):
                raise bad_field(name, "cannot be used together with explore")
        if self.n not in (None, 1):
            raise bad_field(
                "n", f"is {self.n}; with explore it is 1 or left out, and explore.max_branches is the limit"
            )

    def _explore(self, most: int) -> Explore | None:
        if self.explore is None:
            return None
        asked = self.explore.max_branches
        if asked is not None and asked > most:
            raise bad_field("explore.max_branches", f"is {asked}; at most {most} are allowed (max_n)")
        default = min(Explore().max_branches, most)
        return Explore(self.explore.cutoff, default if asked is None else asked, self.explore.depth)

    def _check_count(self, n: int, most: int) -> int:
        """Return the number of branches per prompt. Raise InvalidRequest, which names the field at fault."""
        name = "n"
        if len(self.directions or ()) > most:
            raise bad_field(
                "directions", f"has {len(self.directions or ())} entries; at most {most} are allowed (max_n)"
            )
        if self.branches is not None:
            if self.n not in (None, len(self.branches)):
                raise bad_field("n", f"is {self.n}, and 'branches' has {len(self.branches)}; leave one of them out")
            name, n = "branches", len(self.branches)
        try:
            check_between(n, 1, most)
        except ValueError as error:
            raise bad_field(name, f"{error}{' entries' if name == 'branches' else ''}") from None
        return n

    def _linger(self, settings: Settings) -> float:
        """Return how long the request stays when nothing runs or nobody reads. Raise InvalidRequest beyond the limit."""
        if self.linger is not None and self.linger > settings.max_linger:
            raise bad_field(
                "linger", f"is {self.linger:g} seconds; at most {settings.max_linger} are allowed (max_linger)"
            )
        return self.linger or 0.0

    def _specs(self, settings: Settings, n: int, max_tokens: int) -> tuple[BranchSpec, ...]:
        """Return the specification of a branch without fields of its own, then those of a prompt's `n` branches."""
        seeds = self.seeds(n, settings.seed)
        alike = self.spec_from(
            BranchSpec(
                seeds[0],
                max_tokens,
                default_stop(settings),
                self.sampling(settings),
                score=bool(self.rank),
                token_healing=settings.token_healing == "on",
            )
        )
        if not self.continues_text:
            alike = replace(alike, token_healing=False)
        directions = dealt(self.directions or [], n)
        if self.branches is None:
            specs = zip(seeds, directions, strict=True)
            return (alike, *(replace(alike, seed=seed, direction=direction) for seed, direction in specs))
        own = (
            replace(
                entry.spec_from(alike),
                seed=seed if entry.seed is None else first_seed(entry.seed),
                sampling=entry.numbered(place).sampling_from(alike.sampling),
                append=entry.append,
                direction=entry.direction or direction,
            )
            for place, (entry, seed, direction) in enumerate(zip(self.branches, seeds, directions, strict=True))
        )
        return alike, *own

    def ping_interval(self, settings: Settings) -> float | None:
        """Return the seconds without an event after which a stream sends a keep-alive comment, or None for never."""
        seconds = settings.sse_ping_interval if self.sse_ping_interval is None else self.sse_ping_interval
        return seconds if seconds > 0 else None

    def seeds(self, n: int, default: int) -> list[int]:
        """Return the seeds of n branches: seed + i, never llama.cpp's value for random; -1 draws a random first seed."""
        seed = default if self.seed is None else self.seed
        seed = first_seed(seed)
        return [(seed + i) % UINT32_MAX for i in range(n)]


def _limited(command: Generate) -> Generate:
    """Return a command whose branches end at the depth that `explore` asks for, if it does."""
    if command.explore is None:
        return command
    limit = command.explore.limit
    return replace(command, branches=tuple(replace(b, max_tokens=limit(b.max_tokens)) for b in command.branches))


def first_seed(seed: int) -> int:
    """Return `seed` as llama.cpp takes it, or a random one for -1 and for llama.cpp's value for random.

    Clients send times in milliseconds and other numbers of 64 bits: they are folded, and the answer has the seed in use.
    """
    return secrets.randbelow(UINT32_MAX) if seed in (-1, UINT32_MAX) else seed % UINT32_MAX
