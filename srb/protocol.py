"""The messages between web workers and engine: commands go in, events come out.

A frame's payload is a JSON array of messages, and a message is `[tag, field, …]` in the order of its class. Commands
carry tuples, events lists. Nothing here does I/O; `framing` moves the bytes. Both sides have the same version: `Hello`
carries it, and a mismatch closes the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Literal, NotRequired, get_args

import orjson
from typing_extensions import TypedDict

from srb.errors import AnswerTooLarge, ProtocolError, SRBError, from_code
from srb.sampling_params import SamplingParams as SamplingParams

VERSION = 13

Boundary = Literal["word", "line", "sentence", "paragraph"]  # where BranchSpec.stop_at may end a branch
MAX_STOP_AFTER = 1000
MAX_DEPTH = 1000  # of Explore
MAX_BRANCHES = 4096  # of one request in its whole life; each keeps its text
MEDIA_MARK = "<__media__>"  # the place of a picture or a sound in a text, as llama-server has it


class FinishReason(StrEnum):
    """The reason why a branch ended."""

    EOS = "eos"  # the model ended its text
    WORD = "word"  # a stop string was found
    BOUNDARY = "boundary"  # the end of the word, line, sentence or paragraph that was asked for (stop_at)
    LIMIT = "limit"  # max_tokens, a time limit, or the end of the context (then `truncated`)
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One branch of a request: `seed` is 0 … 2³²−2; `max_tokens` −1 means until the end of text or context.

    `t_max_predict_ms` > 0 ends the branch with "limit" at the first line end after that many milliseconds of
    generating. `min_tokens` is the number of tokens before the model may end the text. `n_indent` > 0 ends the branch
    with "limit" at a line, after the first, that begins with fewer spaces or tabs. `stop_at`, a Boundary or "", ends the
    branch with "boundary" after that many (`stop_after`) words, lines, sentences or paragraphs. `append` (strings and
    token ids) stands after the shared prompt for this branch alone, and counts as prompt. With `score` the end of the
    branch has the mean log-probability, even if its tokens' are not asked for (`sampling.n_probs` −1). No string of
    `banned_strings` comes in the text. With `token_healing` the last characters before the text may become a part of its
    first token (see `srb/engine/healing.py`).
    """

    seed: int
    max_tokens: int = -1
    stop: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    t_max_predict_ms: int = -1
    min_tokens: int = 0
    n_indent: int = 0
    stop_at: str = ""
    stop_after: int = 1
    append: tuple[str | int, ...] = ()
    banned_strings: tuple[str, ...] = ()
    score: bool = False
    token_healing: bool = False
    place: int = -1  # in a part of a request that a cluster divides: its index in the whole; −1: its index

    @property
    def is_scored(self) -> bool:
        return self.score or self.sampling.n_probs >= 0

    @property
    def has_grammar(self) -> bool:
        return bool(self.sampling.grammar or self.sampling.json_schema)


@dataclass(frozen=True, slots=True)
class ContextShift:
    """A context shift at the context's end: discard `n_discard` tokens after the first `n_keep`.

    Only for requests with one branch. `n_keep` −1 keeps the whole prompt; a BOS is kept besides. `n_discard` 0 discards
    half of the tokens that are not kept.
    """

    n_keep: int = 0
    n_discard: int = 0


@dataclass(frozen=True, slots=True)
class Explore:
    """A walk over the model's probabilities, which forks where a token has `cutoff` times the likeliest one's or more.

    The request has one branch at first and at most `max_branches`; each ends `depth` tokens after the prompt.
    """

    cutoff: float = 0.1
    max_branches: int = 64
    depth: int = 8

    def limit(self, max_tokens: int) -> int:
        """Return the limit of a branch that may have `max_tokens` tokens; -1: any number."""
        return self.depth if max_tokens < 0 else min(max_tokens, self.depth)


# Commands: web -> engine ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Generate:
    """A request: its prompt (strings and token ids, in order) and the branches that continue it.

    A part −1 − i of the prompt stands for the file `media[i]`, as base64, which `media_field` of the body has named.
    """

    request_id: str
    prompt: tuple[str | int, ...]
    branches: tuple[BranchSpec, ...]
    add_special: bool = True  # begin with BOS if the vocabulary has it added
    cache_prompt: bool = True
    state: str = ""  # name under which the prompt's KV is kept and reused by later requests
    lora: tuple[tuple[int, float], ...] | None = None  # (adapter, scale), others 0; None: the server's scales
    report_progress: bool = False  # send Progress while the prompt is computed
    shift: ContextShift | None = None  # None: a branch ends at the context's end
    id_slot: int = -1  # slot of the first branch; −1: any
    prompt_logprobs: bool = False  # send PromptLogprobs, with n_probs of the first branch, for each token of the prompt
    owner: str = ""  # the client, who alone may list and control the request
    max_unread: int = 0  # most requests of the owner that may linger without a reader, rests included; 0: any number
    max_lingering: int = 0  # most of them that may run or wait; 0: any number
    linger: float = 0.0  # seconds that the request stays after its last branch has ended, or its last reader has left
    can_grow: bool = False  # AddBranches may add branches
    base: BranchSpec | None = None  # of added branches, whose seeds follow its seed; None: the first of `branches`
    distinct_first: bool = False  # no two branches begin with the same token while there are candidates
    distinct_words: bool = False  # no two branches have the same first word while there are others
    sibling_penalty: float = 0.0  # subtracted from a token's logit for each sibling that chose it at the same place
    explore: Explore | None = None  # None: branches are added by AddBranches alone
    preserved_tokens: tuple[str, ...] = ()  # control tokens that are part of the text, by their own text
    media: tuple[str, ...] = ()
    media_field: str = "prompt"
    session: str = ""  # the owner's name for a story: in a cluster its requests meet on one replica; "": by the text
    num_places: int = 0  # of a part of a request that a cluster divides: the branches of the whole; 0: it is whole
    num_parts: int = 0  # … and the parts

    @property
    def branches_interact(self) -> bool:
        """Whether a branch depends on its siblings: then the seeds reproduce the request, but no branch alone."""
        return self.distinct_first or self.distinct_words or self.sibling_penalty > 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a request, or one of its branches. Unknown ids are ignored: the request may just have ended.

    `leaves` says only that the connection has no reader of the request any more; then it goes on for others, or lingers.
    """

    request_id: str
    index: int | None = None
    leaves: bool = False


# Each of these is answered by one Reply (or Rejected); its docstring begins with the type of the Reply's value.


@dataclass(frozen=True, slots=True)
class Tokenize:
    """list[int]: the tokens of strings and ids, in order; `add_special` adds the vocabulary's BOS and EOS."""

    request_id: str
    parts: tuple[str | int, ...]
    add_special: bool
    parse_special: bool


@dataclass(frozen=True, slots=True)
class CountTokens:
    """int: the number of tokens of a prompt with media (see `Generate`), the vocabulary's BOS included."""

    request_id: str
    prompt: tuple[str | int, ...]
    media: tuple[str, ...]
    media_field: str = "prompt"  # named in errors


@dataclass(frozen=True, slots=True)
class Detokenize:
    """list[str]: the bytes of each token as latin-1 characters; control tokens as their text, or "" without `special`."""

    request_id: str
    tokens: tuple[int, ...]
    special: bool = True


@dataclass(frozen=True, slots=True)
class GetStats:
    """dict[str, float]: the engine's counters (`…_total`) and gauges; with a cluster also `cluster`, ClusterStats."""

    request_id: str


@dataclass(frozen=True, slots=True)
class GetSlots:
    """list[dict]: every slot, with what runs in it; engine/slots.py describes the keys."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Embed:
    """{"embeddings": [[[float]]], "tokens": [int]}: for each input its vectors, not normalized, and its length.

    Each input has one vector, or with `pooling` none one per token; "" is the model's own pooling.
    """

    request_id: str
    inputs: tuple[tuple[str | int, ...], ...]
    pooling: str = ""
    truncate: bool = False  # whether an input that is too long loses its end


@dataclass(frozen=True, slots=True)
class Rerank:
    """{"scores": [float], "tokens": [int]}: the score of each document, and the length of each pair in tokens."""

    request_id: str
    query: str
    documents: tuple[str, ...]
    truncate: bool = False  # whether a document that is too long loses its end
    max_tokens: int = 0  # that are kept of a document that may lose its end; 0: as many as fit beside the query


@dataclass(frozen=True, slots=True)
class GetAdapters:
    """list[dict]: id, path, scale, task_name, prompt_prefix of each LoRA adapter."""

    request_id: str


@dataclass(frozen=True, slots=True)
class SetAdapters:
    """list[dict], as for GetAdapters: set the scales of future requests; adapters that are not named get 0."""

    request_id: str
    scales: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StateAction:
    """{"tokens": int, "bytes": int, "ms": float}: save, restore or erase a named state.

    `save` stores the text of the latest ended branch of `slot`; `restore` brings a state into the tree, for later
    requests; `erase` evicts the idle text of `slot`; `forget` leaves that text in the tree, and the slot without it.
    """

    request_id: str
    action: str
    name: str
    slot: int = 0


@dataclass(frozen=True, slots=True)
class GetSlotTime:
    """float | None: the UNIX time from which a slot has the text that StateAction would save; None if it has none."""

    request_id: str
    slot: int


# Controls of a running request, `target`, by its `owner`; an empty owner may control any request whose id it knows.


@dataclass(frozen=True, slots=True)
class ListRequests:
    """list[dict]: the owner's requests, as GetRequest's without texts."""

    request_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class GetRequest:
    """dict: the request and each branch with its text so far; engine/steering.py describes the keys."""

    request_id: str
    target: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Attach:
    """Read the target's events from now on: answered by Attached, then the target's events come as to its first reader."""

    request_id: str
    target: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class StopBranches:
    """dict, as for GetRequest without texts: end branch `index`, or with None all branches and the request."""

    request_id: str
    target: str
    owner: str = ""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class EndReasoning:
    """{"branches": [int]}: end the reasoning of branch `index`, or with None of all; those whose reasoning was not over.

    Only in branches with `reasoning_control`.
    """

    request_id: str
    target: str
    owner: str = ""
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeBranch:
    """dict: the changed branch: `more` tokens are added to its limit, `changes` are other fields of BranchSpec.

    A branch that has ended by its limit goes on, if no more than `max_running` branches of the request run or wait then.
    `max_tokens` is the limit of all branches together; 0: none.
    """

    request_id: str
    target: str
    index: int
    owner: str = ""
    more: int = 0
    changes: tuple[tuple[str, Any], ...] = ()
    max_tokens: int = 0
    max_running: int = 0


# An entry of AddBranches: its seed (None: the next one), `append`, and changed fields of BranchSpec and SamplingParams.
NewBranch = tuple[int | None, tuple[str | int, ...], tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]


@dataclass(frozen=True, slots=True)
class AddBranches:
    """{"indices": [int], "seeds": [int]}: add branches, from the prompt or forked from branch `origin`.

    A fork begins with the first `token` tokens or `character` characters of its origin's text. At most `max_running`
    branches of the request may run or wait; `max_tokens` is the limit of all branches together, 0: none.
    """

    request_id: str
    target: str
    branches: tuple[NewBranch, ...]
    owner: str = ""
    origin: int | None = None
    token: int | None = None
    character: int | None = None
    max_running: int = 0
    max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class HoldPlaces:
    """dict | None: let `holder` alone add branches to a part of a divided request, for `seconds`; None while another may.

    The value is the part as ListRequests has it. With 0 `seconds` the holder adds no more. `num_places` is the number of
    the whole's branches, if more than the part knows.
    """

    request_id: str
    target: str
    owner: str
    holder: str
    seconds: float
    num_places: int = 0


# Events: engine -> web ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The first event of a connection; `server_id` names the server that started the engine, "" without one."""

    version: int
    pid: int
    server_id: str = ""


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
    code: str
    message: str
    extra: dict[str, Any]

    @classmethod
    def of(cls, request_id: str, error: SRBError) -> Rejected:
        return cls(request_id, error.code, error.message, error.extra)

    @property
    def error(self) -> SRBError:
        return from_code(self.code, self.message, self.extra)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a command; terminal. The command's docstring describes `value`."""

    request_id: str
    value: Any


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a prompt: all tokens, cached ones, processed ones (cached included), ms since it began.

    `slot` is that of the first branch.
    """

    request_id: str
    total: int
    cached: int
    processed: int
    time_ms: float
    slot: int = 0


@dataclass(frozen=True, slots=True)
class PromptDone:
    """The prompt is computed; sent once, before the request's first Delta and after its PromptLogprobs.

    `slots` has the slot of each branch.
    """

    request_id: str
    cached_tokens: int
    restored_tokens: int
    prompt_ms: float
    slots: list[int] = field(default_factory=list)
    image_tokens: int = 0  # of the prompt's tokens: those of pictures
    audio_tokens: int = 0  # … and of sounds
    computed_tokens: int = 0


class ReplicaStats(TypedDict):
    """One replica of a cluster: the node that it is on, and its engine's stats."""

    node: str
    stats: dict[str, float]


class ClusterStats(TypedDict):
    """The replicas that take requests, by name; `trouble` is why the list may be old, "" if it is not."""

    trouble: str
    replicas: dict[str, ReplicaStats]


class LikelyToken(TypedDict):
    """A token and how probable it was: its log-probability, or its probability after the whole chain of samplers."""

    id: int
    token: str
    bytes: list[int]
    logprob: NotRequired[float | None]
    prob: NotRequired[float]


class TokenProbs(LikelyToken):
    """A token of a text, and the likeliest at its place; `top_probs` where it has `prob`."""

    top_logprobs: NotRequired[list[LikelyToken]]
    top_probs: NotRequired[list[LikelyToken]]


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """The prompt's tokens as entries of Delta.probs; the first one's logprob is None. May come in several parts."""

    request_id: str
    probs: list[TokenProbs]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of one branch: whole characters, stop strings removed; `tokens` are the ids that ended in this text.

    `probs`, where asked for, has one entry a token. `predicted_ms` is the work since the prompt was done.
    """

    request_id: str
    index: int
    text: str
    tokens: list[int]
    probs: list[TokenProbs] | None = None
    predicted_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class BranchEnded:
    """A branch has ended; `length` counts its tokens (an end-of-text token is not one)."""

    request_id: str
    index: int
    reason: str
    length: int
    stopping_word: str = ""
    truncated: bool = False
    logprob: float | None = None  # mean log-probability, of a branch with BranchSpec.is_scored
    code: str = ""  # with reason "error"
    message: str = ""
    rewinds: int = 0  # how often the branch was rewound, to avoid banned strings
    path_logprob: float | None = None  # of all tokens together and the end of the text, of an explored branch
    drafted: int = 0  # tokens of drafts that were computed (spec_type), and of those the ones that the branch drew
    accepted: int = 0
    given_computed: int = 0  # tokens that were computed for it before its first one: of its `append`, and to heal it
    predicted_ms: float = field(default=0.0, compare=False)  # as Delta's


@dataclass(frozen=True, slots=True)
class BranchAdded:
    """A branch was added, or (`resumed`) goes on after its end. A fork begins with `text`, its origin's first `token`s.

    A branch that was added by Explore has the log-probability of its path, up to its own first token, and the `tokens`
    whose text ends in `text`.
    """

    request_id: str
    index: int
    seed: int
    resumed: bool = False
    origin: int | None = None
    token: int | None = None
    text: str = ""
    logprob: float | None = None
    tokens: list[int] = field(default_factory=list)
    place: int = -1  # BranchSpec.place
    predicted_ms: float = field(default=0.0, compare=False)  # as Delta's

    @property
    def begun(self) -> Delta:
        """The text that the branch begins with, as its first Delta."""
        return Delta(self.request_id, self.index, self.text, self.tokens, predicted_ms=self.predicted_ms)


@dataclass(frozen=True, slots=True)
class Attached:
    """The answer to Attach; `value` is GetRequest's. The target's later events follow."""

    request_id: str
    target: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resting:
    """Every branch has ended, and the request stays for `seconds`; the other fields are those of Done."""

    request_id: str
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prompt_ms: float
    predicted_ms: float
    restored_tokens: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    computed_tokens: int = 0

    @classmethod
    def of(cls, done: Done, seconds: float) -> Resting:
        return cls(seconds=seconds, **asdict(done))

    @property
    def done(self) -> Done:
        values = asdict(self)
        del values["seconds"]
        return Done(**values)


@dataclass(frozen=True, slots=True)
class Done:
    """Every branch has ended; terminal. Times in milliseconds."""

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prompt_ms: float
    predicted_ms: float
    restored_tokens: int = 0  # tokens of `cached_tokens` that had been parked
    image_tokens: int = 0  # tokens of `prompt_tokens` that are pictures'
    audio_tokens: int = 0  # … and sounds'
    drafted_tokens: int = 0  # computed for drafts (spec_type), and of those the ones that the branches drew
    accepted_tokens: int = 0
    # For the prompt and what branches append. Of a healed prompt this is not all that was not cached: its last token is
    # never computed, nor are the removed ones whose rows are known; a branch may compute a token to end as the prompt did.
    computed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The whole request failed after it was accepted; terminal."""

    request_id: str
    code: str
    message: str

    @property
    def error(self) -> SRBError:
        return from_code(self.code, self.message)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The loaded model, as the web workers know it."""

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
    blank_page: list[int] = field(default_factory=list)  # the tokens that stand before an empty prompt; []: none
    eos_id: int = -1
    eot_id: int = -1
    eog_ids: list[int] = field(default_factory=list)  # all tokens that end a text, and that `ignore_eos` forbids
    sep_id: int = -1
    nl_id: int = -1
    pad_id: int = -1
    fim: dict[str, int] = field(default_factory=dict)  # fill-in-the-middle ids: pre, suf, mid, rep, sep; −1: none
    fim_texts: dict[str, str] = field(default_factory=dict)  # of those that the vocabulary has
    add_bos: bool = False  # a text begins with BOS
    ftype: str = ""  # number format of the weights, such as Q8_0
    chat_template_tool_use: str = ""
    embedding: bool = False  # answers Embed
    pooling: str = "none"  # default of Embed: none | mean | cls | last | rank
    reranking: bool = False  # answers Rerank
    can_shift: bool = False  # honours Generate.shift
    replicas: int = 1  # engines that have this model: those of a cluster that are ready and do not hang
    sees: bool = False  # takes pictures as media
    hears: bool = False  # takes sounds as media
    lacks: str = ""  # typographic characters that the vocabulary can only spell in single bytes
    speculative: str = "none"  # kinds of drafts, under llama-server's names, separated by commas
    license: str = ""  # of the weights, as the file names it
    nondeterminism: str = ""  # why a token's logits depend on what is computed beside it; "": they do not

    as_dict = asdict


PromptEvent = Progress | PromptLogprobs | PromptDone
Control = ListRequests | GetRequest | StopBranches | EndReasoning | ChangeBranch | AddBranches
Text = Tokenize | CountTokens | Detokenize
Slots = GetSlots | StateAction | GetSlotTime
Ask = Text | Slots | GetStats | Embed | Rerank | GetAdapters | SetAdapters | HoldPlaces | Control
Command = Generate | Cancel | Ask | Attach
Event = (Hello | Ready | Accepted | Rejected | Reply | Progress | PromptDone | PromptLogprobs
         | Delta | BranchEnded | BranchAdded | Attached | Resting | Done | Failed)  # fmt: skip
TERMINAL = (Rejected, Reply, Done, Failed)


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
    return Generate(request_id, prompt, tuple(branches), **given)


_CODEC = _Codec()
