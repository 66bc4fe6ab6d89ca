"""The wire between web workers and the engine, on one screen: commands go in, events come out.

A frame's payload is one JSON array of messages, and a message is `[tag, field, …]` in the order of its class. Nothing
here does I/O; `framing` moves the bytes. Both sides are of one version: `Hello` carries it and a mismatch closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar

import orjson

from srb.errors import ProtocolError, SRBError, from_slug

VERSION = 1

DEFAULT_SAMPLERS = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")


class FinishReason(StrEnum):
    """Why a branch ended."""

    EOS = "eos"  # the model ended its text
    WORD = "word"  # a stop string was found
    LIMIT = "limit"  # max_tokens, or the end of the context (then `truncated`)
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What the user asked of the sampler; names, defaults and order are llama.cpp's. The seed lives in BranchSpec.

    `logit_bias` pairs are (token id or string, bias); a bias of None forbids the token. `n_probs` > 0 asks for the
    log-probability of each token and of the n_probs most likely ones; 0 for the token's own; -1 for none.
    """

    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    ignore_eos: bool = False
    logit_bias: tuple[tuple[int | str, float | None], ...] = ()
    grammar: str = ""
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    n_probs: int = -1


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One branch to be made: `seed` is real (0 … 2³²−2); `max_tokens` −1 means until the end of text or context."""

    seed: int
    max_tokens: int = -1
    stop: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)


# Commands: web -> engine ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Generate:
    """A prompt (strings and token ids, in order) and the branches that continue it."""

    request_id: str
    prompt: tuple[str | int, ...]
    branches: tuple[BranchSpec, ...]
    add_special: bool = True  # put the vocabulary's BOS before, where it wants one
    cache_prompt: bool = True
    state: str = ""  # the name under which the prompt's KV is kept, and used again by later requests


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request, or one of its branches; unknown ids are ignored, since the end may cross the command."""

    request_id: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class GetStats:
    request_id: str


# Events: engine -> web ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """First event of a connection."""

    version: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded; `model` holds ModelInfo's fields."""

    model: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request is in the queue; its events follow."""

    request_id: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request was refused before any work; terminal."""

    request_id: str
    slug: str
    message: str
    extra: dict[str, Any]

    @property
    def error(self) -> SRBError:
        return from_slug(self.slug, self.message, self.extra)


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of one branch: whole characters, stop strings removed; `tokens` are the ids that ended in this text.

    `probs`, where asked for, has one entry a token: {"id", "token", "bytes", "logprob", "top_logprobs": […]}.
    """

    request_id: str
    index: int
    text: str
    tokens: list[int]
    probs: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class BranchEnded:
    """A branch has ended; `length` counts its tokens (an end-of-text token is not one)."""

    request_id: str
    index: int
    reason: str
    length: int
    stopping_word: str = ""
    truncated: bool = False
    logprob: float | None = None  # mean log-probability, where asked for
    slug: str = ""  # with reason "error"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """Every branch has ended; terminal. Times in milliseconds."""

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prompt_ms: float
    predicted_ms: float
    restored_tokens: int = 0  # those of `cached_tokens` that had been parked


@dataclass(frozen=True, slots=True)
class Failed:
    """The whole request failed after it was accepted; terminal."""

    request_id: str
    slug: str
    message: str

    @property
    def error(self) -> SRBError:
        return from_slug(self.slug, self.message)


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters and gauges of the engine, by the names of EngineStats."""

    request_id: str
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the web side knows of the loaded model."""

    alias: str
    path: str
    description: str
    architecture: str
    memory: str  # attention | recurrent | hybrid | sliding_window
    n_vocab: int
    vocab_type: int
    n_ctx: int  # cells shared by all sequences
    n_ctx_seq: int  # longest single sequence, prompt and completion
    n_ctx_train: int
    n_embd: int
    n_params: int
    size: int  # bytes of weights
    n_seq_max: int
    chat_template: str
    bos_token: str
    eos_token: str
    has_fill_in_the_middle: bool
    build_info: str

    as_dict = asdict


Command = Generate | Cancel | GetStats
Event = Hello | Ready | Accepted | Rejected | Delta | BranchEnded | Done | Failed | Stats
TERMINAL = (Rejected, Done, Failed)


class _Codec:
    """Turn messages of known classes into arrays and back; the tag is the class's place in the list."""

    classes: ClassVar[tuple[type, ...]] = (
        Generate, Cancel, GetStats, Hello, Ready, Accepted, Rejected, Delta, BranchEnded, Done, Failed, Stats,
    )  # fmt: skip

    def __init__(self) -> None:
        self._tags = {cls: tag for tag, cls in enumerate(self.classes)}
        # A second name makes attrgetter return a tuple for one-field classes too.
        self._getters = {cls: attrgetter("__class__", *(f.name for f in fields(cls))) for cls in self.classes}

    def row(self, message: Any) -> list[Any]:
        if type(message) is Generate:
            return [0, *_generate_to_row(message)]
        cls = type(message)
        return [self._tags[cls], *self._getters[cls](message)[1:]]

    def message(self, row: Any) -> Any:
        tag, *values = row
        return _generate_from_row(values) if tag == 0 else self.classes[tag](*values)


def encode(messages: Iterable[Command | Event]) -> bytes:
    """Return the payload of one frame that carries `messages` in order."""
    return orjson.dumps([_CODEC.row(m) for m in messages])


def decode(payload: bytes) -> list[Any]:
    """Return the messages of one frame's payload; raise ProtocolError for anything else than such a payload."""
    try:
        return [_CODEC.message(row) for row in orjson.loads(payload)]
    except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise ProtocolError(f"not a frame of protocol {VERSION}: {error}") from error


_SAMPLING_DEFAULTS = {f.name: getattr(SamplingParams(), f.name) for f in fields(SamplingParams)}


def _generate_to_row(command: Generate) -> list[Any]:
    """Branches that differ only in their seed, the common case, cross the wire as one group with a list of seeds."""
    groups: list[tuple[BranchSpec, list[int]]] = []
    for spec in command.branches:
        if groups and replace(spec, seed=groups[-1][0].seed) == groups[-1][0]:
            groups[-1][1].append(spec.seed)
        else:
            groups.append((spec, [spec.seed]))
    rows = []
    for spec, seeds in groups:
        given = {name: getattr(spec.sampling, name) for name in _SAMPLING_DEFAULTS}
        changed = {name: value for name, value in given.items() if value != _SAMPLING_DEFAULTS[name]}
        rows.append([seeds, spec.max_tokens, spec.stop, changed])
    return [command.request_id, command.prompt, rows, command.add_special, command.cache_prompt, command.state]


def _generate_from_row(values: Sequence[Any]) -> Generate:
    request_id, prompt, rows, add_special, cache_prompt, state = values
    branches: list[BranchSpec] = []
    for seeds, max_tokens, stop, changed in rows:
        for name in ("dry_sequence_breakers", "samplers"):
            if name in changed:
                changed[name] = tuple(changed[name])
        if "logit_bias" in changed:
            changed["logit_bias"] = tuple((token, bias) for token, bias in changed["logit_bias"])
        sampling = SamplingParams(**changed)
        branches += [BranchSpec(seed, max_tokens, tuple(stop), sampling) for seed in seeds]
    return Generate(request_id, tuple(prompt), tuple(branches), add_special, cache_prompt, state)


_CODEC = _Codec()
