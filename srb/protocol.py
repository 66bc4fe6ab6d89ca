"""The wire between web workers and the engine: commands go in, events come out.

A frame's payload is one JSON array of messages, and a message is `[tag, field, …]` in the order of its class. Commands
carry tuples, events lists. Nothing here does I/O; `framing` moves the bytes. Both sides are of one version: `Hello`
carries it and a mismatch closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, get_args

import orjson

from srb.errors import ProtocolError, SRBError, from_slug

VERSION = 2

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
    log-probability of each token and of the n_probs most likely ones; 0 for the token's own; -1 for none. With
    `post_sampling_probs` these are probabilities after the whole chain. `json_schema` is JSON text, "" for none; the
    engine makes a grammar of it, so only one of the two is given.
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
    json_schema: str = ""
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    n_probs: int = -1
    post_sampling_probs: bool = False
    penalty_prompt: tuple[str | int, ...] | None = None  # what penalties look at instead of the prompt


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One branch to be made: `seed` is real (0 … 2³²−2); `max_tokens` −1 means until the end of text or context.

    `max_ms` > 0 ends it with "limit" at the first line end after that many milliseconds of generating. `min_tokens` is
    how many tokens come before the model may end the text. `n_indent` > 0 ends it with "limit" when a line that it
    begins is indented by fewer spaces or tabs.
    """

    seed: int
    max_tokens: int = -1
    stop: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_ms: int = -1
    min_tokens: int = 0
    n_indent: int = 0


@dataclass(frozen=True, slots=True)
class ContextShift:
    """Where a request's only branch reaches the context's end: discard `n_discard` tokens after the first `n_keep`.

    `n_keep` −1 keeps the whole prompt; a BOS is kept besides. `n_discard` 0 discards half of what is not kept.
    """

    n_keep: int = 0
    n_discard: int = 0


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
    lora: tuple[tuple[int, float], ...] | None = None  # (adapter, scale), others 0; None: the server's scales
    report_progress: bool = False  # send Progress while the prompt is computed
    shift: ContextShift | None = None  # None: a branch ends at the context's end
    prompt_probs: bool = False  # send PromptProbs: n_probs of the first branch for each token of the prompt


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request, or one of its branches; unknown ids are ignored, since the end may cross the command."""

    request_id: str
    index: int | None = None


# Each of these is answered by one Answer (or Rejected), with the value that its docstring says.


@dataclass(frozen=True, slots=True)
class Tokenize:
    """list[int]: the tokens of strings and ids, in order; `add_special` puts BOS and EOS where the vocabulary wants."""

    request_id: str
    parts: tuple[str | int, ...]
    add_special: bool
    parse_special: bool


@dataclass(frozen=True, slots=True)
class Detokenize:
    """list[str]: the bytes of each token, control tokens shown as their text, as latin-1 characters."""

    request_id: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GetStats:
    """dict[str, float]: the engine's counters (`…_total`) and gauges."""

    request_id: str


@dataclass(frozen=True, slots=True)
class GetSlots:
    """list[dict]: every sequence that a branch may use; the keys are in engine/slots.py."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Embed:
    """{"embeddings": [[[float]]], "tokens": [int]}: for each input its vectors, not normalized, and its length.

    One vector an input, or one a token with `pooling` none; "" is the model's own pooling.
    """

    request_id: str
    inputs: tuple[tuple[str | int, ...], ...]
    pooling: str = ""


@dataclass(frozen=True, slots=True)
class Rerank:
    """{"scores": [float], "tokens": [int]}: how well each document answers the query; tokens of each pair."""

    request_id: str
    query: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GetAdapters:
    """list[dict]: id, path, scale, task_name, prompt_prefix of each LoRA adapter."""

    request_id: str


@dataclass(frozen=True, slots=True)
class SetAdapters:
    """As GetAdapters, after setting the scales of requests to come; adapters that are not named get 0."""

    request_id: str
    scales: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StateAction:
    """{"tokens": int, "bytes": int, "ms": float}: save, restore or erase a named state.

    `save` keeps the text of the branch of index `slot` that ended last; `restore` brings a state into the tree, for
    whoever continues it; `erase` forgets the idle text of `slot`.
    """

    request_id: str
    action: str
    name: str
    slot: int = 0


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
class Answer:
    """What a command asked for; terminal. Its docstring says what `value` is."""

    request_id: str
    value: Any


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a prompt is: tokens in all, those that were there already, those there now; milliseconds since it began."""

    request_id: str
    total: int
    cached: int
    processed: int
    time_ms: float


@dataclass(frozen=True, slots=True)
class PromptDone:
    """The prompt is computed; comes once, before the request's first Delta, PromptProbs before it."""

    request_id: str
    cached_tokens: int
    restored_tokens: int
    prompt_ms: float


@dataclass(frozen=True, slots=True)
class PromptProbs:
    """The prompt's tokens as entries of Delta.probs; the first one's logprob is None. May come in several parts."""

    request_id: str
    probs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of one branch: whole characters, stop strings removed; `tokens` are the ids that ended in this text.

    `probs`, where asked for, has one entry a token: {"id", "token", "bytes", "logprob", "top_logprobs": […]}, or with
    post_sampling_probs {"id", "token", "bytes", "prob", "top_probs": […]}.
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
    bos_id: int = -1  # token ids; −1 where the vocabulary has none
    eos_id: int = -1
    eot_id: int = -1
    sep_id: int = -1
    nl_id: int = -1
    pad_id: int = -1
    fim: dict[str, int] = field(default_factory=dict)  # fill-in-the-middle ids: pre, suf, mid, rep, sep; −1: none
    add_bos: bool = False  # a text begins with BOS
    ftype: str = ""  # number format of the weights, such as Q8_0
    chat_template_tool_use: str = ""
    embedding: bool = False  # answers Embed
    pooling: str = "none"  # of Embed: none | mean | cls | last | rank
    reranking: bool = False  # answers Rerank
    can_shift: bool = False  # honours Generate.shift

    as_dict = asdict


Ask = Tokenize | Detokenize | GetStats | GetSlots | Embed | Rerank | GetAdapters | SetAdapters | StateAction
Command = Generate | Cancel | Ask
Event = (
    Hello
    | Ready
    | Accepted
    | Rejected
    | Answer
    | Progress
    | PromptDone
    | PromptProbs
    | Delta
    | BranchEnded
    | Done
    | Failed
)
TERMINAL = (Rejected, Answer, Done, Failed)


class _Codec:
    """Turn messages of known classes into arrays and back; the tag is the class's place in the list."""

    commands: ClassVar[tuple[type, ...]] = (Generate, Cancel, *get_args(Ask))
    classes: ClassVar[tuple[type, ...]] = (*commands, *get_args(Event))

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
        cls = self.classes[tag]
        if tag < len(self.commands):
            values = [_frozen(value) for value in values]
        return _generate_from_row(*values) if cls is Generate else cls(*values)


def encode(messages: Iterable[Command | Event]) -> bytes:
    """Return the payload of one frame that carries `messages` in order."""
    return orjson.dumps([_CODEC.row(m) for m in messages])


def decode(payload: bytes) -> list[Any]:
    """Return the messages of one frame's payload; raise ProtocolError for anything else than such a payload."""
    try:
        return [_CODEC.message(row) for row in orjson.loads(payload)]
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of protocol {VERSION}: {error}") from error


def _frozen(value: Any) -> Any:
    """Return a list, and lists in it, as tuples."""
    return tuple(_frozen(each) if type(each) is list else each for each in value) if type(value) is list else value


def _changed(message: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    given = {name: getattr(message, name) for name in defaults}
    return {name: value for name, value in given.items() if value != defaults[name]}


_SAMPLING_DEFAULTS = {f.name: getattr(SamplingParams(), f.name) for f in fields(SamplingParams)}
_BRANCH_DEFAULTS = {
    f.name: getattr(BranchSpec(0), f.name) for f in fields(BranchSpec) if f.name not in ("seed", "sampling")
}
_GENERATE_DEFAULTS = {
    f.name: getattr(Generate("", (), ()), f.name)
    for f in fields(Generate)
    if f.name not in ("request_id", "prompt", "branches")
}


def _generate_to_row(command: Generate) -> list[Any]:
    """Only what differs from the defaults crosses the wire, and branches that differ only in their seed, the common
    case, as one group with a list of seeds.
    """
    groups: list[tuple[BranchSpec, list[int]]] = []
    for spec in command.branches:
        if groups and replace(spec, seed=groups[-1][0].seed) == groups[-1][0]:
            groups[-1][1].append(spec.seed)
        else:
            groups.append((spec, [spec.seed]))
    rows = [
        [seeds, _changed(spec, _BRANCH_DEFAULTS), _changed(spec.sampling, _SAMPLING_DEFAULTS)] for spec, seeds in groups
    ]
    return [command.request_id, command.prompt, rows, _changed(command, _GENERATE_DEFAULTS)]


def _generate_from_row(request_id: Any, prompt: Any, rows: Any, options: dict[str, Any]) -> Generate:
    branches: list[BranchSpec] = []
    for seeds, changed, sampling in rows:
        given = {name: _frozen(value) for name, value in sampling.items()}
        params = SamplingParams(**given)
        given = {name: _frozen(value) for name, value in changed.items()}
        branches += [BranchSpec(seed, sampling=params, **given) for seed in seeds]
    given = {name: _frozen(value) for name, value in options.items()}
    if given.get("shift") is not None:
        given["shift"] = ContextShift(**given["shift"])
    return Generate(request_id, prompt, tuple(branches), **given)


_CODEC = _Codec()
