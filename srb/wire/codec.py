"""The encoding of messages between web workers and engine.

A frame's payload is a JSON array of messages, and a message is `[tag, field, …]` in the order of its class. Nothing here
does I/O; `framing` moves the bytes. Both sides have the same version: `Hello` carries it, and a mismatch closes the
connection.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, ClassVar, get_args

import orjson

from srb.config.sampling_params import SamplingParams
from srb.errors import AnswerTooLarge, ProtocolError
from srb.wire.commands import Ask, Attach, BranchSpec, Cancel, Command, ContextShift, Explore, Generate, Place
from srb.wire.events import Attached, Delta, Event, PromptLogprobs, Rejected, Reply

VERSION = 24  # raised with each change of a command or event; a worker waits until it finds an engine of its own


class _Codec:
    """Codec of messages: classes to arrays and back; the tag is the class's place in the list."""

    commands: ClassVar[tuple[type, ...]] = (Generate, Cancel, Attach, *get_args(Ask))
    classes: ClassVar[tuple[type, ...]] = (*commands, *get_args(Event))

    def __init__(self) -> None:
        self._tags = {cls: tag for tag, cls in enumerate(self.classes)}
        # With a second name attrgetter returns a tuple for one-field classes too.
        self._getters = {cls: attrgetter("__class__", *(f.name for f in fields(cls))) for cls in self.classes}

    def row(self, message: Any) -> list[Any]:
        if type(message) is Generate:
            return [0, *_generate_to_row(message)]
        cls = type(message)
        return [self._tags[cls], *self._getters[cls](message)[1:]]

    def message(self, row: Any) -> Any:
        tag, *values = row
        cls = self.classes[tag]
        if tag < len(self.commands):
            values = [_frozen(value) for value in values]
        return _generate_from_row(*values) if cls is Generate else cls(*values)


def encode(messages: Iterable[Command | Event]) -> bytes:
    """Return the payload of one frame with `messages`, in order."""
    return orjson.dumps([_CODEC.row(m) for m in messages])


def num_logprobs(event: Event) -> int:
    """Return the number of log-probabilities in an event: each token's own, and those of likely tokens beside it."""
    probs = event.probs if isinstance(event, (Delta, PromptLogprobs)) else None
    if not probs:
        return 0
    return sum(1 + len(prob.get("top_logprobs") or prob.get("top_probs") or ()) for prob in probs)


def encode_frames(events: Iterable[Event], size: int, max_size: int) -> Iterator[bytes]:
    """Yield payloads that together carry `events` in order, each of about `size` bytes or with a single longer event.

    No payload is longer than `max_size`: a longer Reply becomes Rejected, and log-probabilities are split.
    """
    events = list(events)
    if len(whole := encode(events)) <= size:  # nearly always: one call, which the decode thread does not interrupt
        yield whole
        return
    parts: list[bytes] = []
    length = 1  # with brackets and commas
    for part in _rows(events, max_size - 2):
        if parts and length + len(part) + 1 > size:
            yield b"[" + b",".join(parts) + b"]"
            parts, length = [], 1
        parts.append(part)
        length += len(part) + 1
    if parts:
        yield b"[" + b",".join(parts) + b"]"


def _rows(events: Iterable[Event], max_size: int) -> Iterator[bytes]:
    for event in events:
        row = orjson.dumps(_CODEC.row(event))
        if len(row) <= max_size:
            yield row
        elif type(event) is PromptLogprobs and len(event.probs) > 1:
            half = len(event.probs) // 2
            halves = (replace(event, probs=event.probs[:half]), replace(event, probs=event.probs[half:]))
            yield from _rows(halves, max_size)
        elif type(event) is Reply or type(event) is Attached:
            error = AnswerTooLarge(f"The answer has {len(row)} bytes; the web server accepts at most {max_size}")
            yield orjson.dumps(_CODEC.row(Rejected.of(event.request_id, error)))
        else:
            raise ValueError(f"{type(event).__name__} of {len(row)} bytes; a frame has at most {max_size}")


def decode(payload: bytes) -> list[Any]:
    """Return the messages of a frame's payload. Raise ProtocolError for anything else."""
    try:
        return [_CODEC.message(row) for row in orjson.loads(payload)]
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of protocol {VERSION}: {error}") from error


def outline(payload: bytes) -> list[tuple[type, list[Any]]]:
    """Return the class and the fields of each event of a frame, without making the events: for those who pass them on."""
    try:
        return [(_CODEC.classes[row[0]], row[1:]) for row in orjson.loads(payload)]
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ProtocolError(f"not a frame of protocol {VERSION}: {error}") from error


def _frozen(value: Any) -> Any:
    """Return lists, also nested ones, as tuples; other values unchanged."""
    if type(value) is not list:
        return value
    return tuple(map(_frozen, value) if list in set(map(type, value)) else value)


def _changed(message: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    given = {name: getattr(message, name) for name in defaults}
    return {name: value for name, value in given.items() if value != defaults[name]}


def _defaults(message: Any, *without: str) -> dict[str, Any]:
    return {f.name: getattr(message, f.name) for f in fields(message) if f.name not in without}


_SAMPLING_DEFAULTS = _defaults(SamplingParams())
_BRANCH_DEFAULTS = _defaults(BranchSpec(0), "seed", "sampling")
_GENERATE_DEFAULTS = _defaults(Generate("", (), ()), "request_id", "prompt", "branches")


def _generate_to_row(command: Generate) -> list[Any]:
    """Return a Generate as a row. Default values are left out, and branches that differ in their seed alone are grouped."""
    groups: list[tuple[BranchSpec, list[int]]] = []
    for spec in command.branches:
        if groups and replace(spec, seed=groups[-1][0].seed) == groups[-1][0]:
            groups[-1][1].append(spec.seed)
        else:
            groups.append((spec, [spec.seed]))
    rows = [_spec_to_row(spec, seeds) for spec, seeds in groups]
    options = _changed(command, _GENERATE_DEFAULTS)
    if command.base is not None:
        options["base"] = _spec_to_row(command.base, [command.base.seed])
    return [command.request_id, command.prompt, rows, options]


def _spec_to_row(spec: BranchSpec, seeds: list[int]) -> list[Any]:
    return [seeds, _changed(spec, _BRANCH_DEFAULTS), _changed(spec.sampling, _SAMPLING_DEFAULTS)]


def _specs_from_row(seeds: list[int], changed: dict[str, Any], sampling: dict[str, Any]) -> list[BranchSpec]:
    params = SamplingParams(**{name: _frozen(value) for name, value in sampling.items()})
    given = {name: _frozen(value) for name, value in changed.items()}
    return [BranchSpec(seed, sampling=params, **given) for seed in seeds]


def _generate_from_row(request_id: Any, prompt: Any, rows: Any, options: dict[str, Any]) -> Generate:
    branches = [spec for row in rows for spec in _specs_from_row(*row)]
    if options.get("base") is not None:
        [base] = _specs_from_row(*options.pop("base"))
        options["base"] = base
    given = {name: _frozen(value) for name, value in options.items()}
    if given.get("shift") is not None:
        given["shift"] = ContextShift(**given["shift"])
    if given.get("explore") is not None:
        given["explore"] = Explore(**given["explore"])
    if given.get("place") is not None:
        place = given["place"]
        given["place"] = Place(**{**place, "rest": _frozen(place["rest"])})
    return Generate(request_id, prompt, tuple(branches), **given)


_CODEC = _Codec()
