"""Commands: the messages from web workers to the engine. They carry tuples."""

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from srb.config.sampling_params import SamplingParams as SamplingParams

Boundary = Literal["word", "line", "sentence", "paragraph"]  # where BranchSpec.stop_at may end a branch
MAX_STOP_AFTER = 1000  # words or sentences; a longer text is bounded by max_tokens
ControlVectors = tuple[tuple[str, float], ...]  # (name, scale)
MAX_VECTOR_SCALE = 10  # what is written is no text long before
BannedPattern = tuple[str, float, bool]  # a regular expression, how often a match stands (0 … 1), whether case counts
MAX_DIRECTION = 1000  # characters of a branch's direction: an instruction, no text; n of them are computed
MAX_DEPTH = 1000  # of Explore: places at which its branches may fork
MAX_BRANCHES = 4096  # of one request in its whole life; each keeps its text, and `added` ones have no other limit
MEDIA_MARK = "<__media__>"  # the place of a picture or a sound in a text, as llama-server has it
_TRACEPARENT = re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Door = tuple[str, int, str]  # of a replica: host, port, and the token by which it gives texts
KEY = "key "  # the beginning of an owner that is a person with a name, or an API key without one; others are addresses
PAGE = "page "  # … an owner that is a page of another origin, which may control its own requests alone


def client_of(owner: str) -> str:
    """Return the client that an owner's requests count for: of foreign pages the address, or each origin had a share."""
    return owner.rpartition(" ")[2] if owner.startswith(PAGE) else owner


def digest_of(text: str) -> str:
    """Return 24 digits for a story's or a client's name; "" for none."""
    return blake2b(text.encode(), digest_size=12).hexdigest() if text else ""


def _check_traceparent(text: str) -> None:
    """Raise ValueError for a traceparent that is none: it may be a header's, and goes into other programs."""
    if text and not _TRACEPARENT.fullmatch(text):
        raise ValueError("traceparent should be that of W3C's Trace Context")


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One branch of a request: `seed` is 0 … 2³²−2; `max_tokens` −1 means until the end of text or context.

    `t_max_predict_ms` > 0 ends the branch with "limit" at the first line end after that many milliseconds of
    generating. `min_tokens` is the number of tokens before the model may end the text. `n_indent` > 0 ends the branch
    with "limit" at a line, after the first, that begins with fewer spaces or tabs. `stop_at`, a Boundary or "", ends the
    branch with "boundary" after that many (`stop_after`) words, lines, sentences or paragraphs. `append` (strings and
    token ids) stands after the shared prompt for this branch alone, and counts as prompt. With `score` the end of the
    branch has the mean log-probability, even if its tokens' are not asked for (`sampling.n_probs` −1). No string of
    `banned_strings` comes in the text, and no match of `banned_patterns` but those that their weights let stand. With
    `token_healing` the last characters before the text may become a part of its first token (see
    `srb/engine/healing.py`). `direction` is an instruction for this branch alone, which stands at the request's `place` in
    the prompt ("": none does, and the branch has the prompt as it is); it counts as prompt. With `include_stop` the string
    of `stop`, or the token, that ends the branch is the end of its text, but for `hidden_stops`. `control_vectors` are added
    where its own tokens are computed, `append` and what follows a direction included; None: the request's.
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
    banned_patterns: tuple[BannedPattern, ...] = ()
    score: bool = False
    token_healing: bool = False
    direction: str = ""
    include_stop: bool = False
    hidden_stops: tuple[str, ...] = ()
    control_vectors: ControlVectors | None = None

    @property
    def has_bans(self) -> bool:
        return bool(self.banned_strings or self.banned_patterns)

    @property
    def is_scored(self) -> bool:
        return self.score or self.sampling.n_probs >= 0

    @property
    def kept_stops(self) -> tuple[str, ...]:
        """The stop strings that are the end of a text that they end."""
        return tuple(stop for stop in self.stop if stop not in self.hidden_stops) if self.include_stop else ()

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
class Place:
    """The place of directions: before character `character` of the prompt's part `part`, which is a text.

    A branch with a direction reads the prompt up to there, then `before`, the direction, and `rest` instead of what
    stands behind the place.
    """

    part: int
    character: int
    before: str
    rest: tuple[str | int, ...]


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


@dataclass(frozen=True, slots=True)
class _Message:
    """A command with an id, which its events and its reply have."""

    request_id: str


@dataclass(frozen=True, slots=True)
class _Control(_Message):
    """A command about the running request `target`; an empty `owner` may control any request whose id it knows."""

    target: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Generate(_Message):
    """A request: its prompt (strings and token ids, in order) and the branches that continue it.

    A part −1 − i of the prompt stands for the file `media[i]`, as base64, which `media_field` of the body has named.
    """

    prompt: tuple[str | int, ...]
    branches: tuple[BranchSpec, ...]
    add_special: bool = True  # begin with BOS if the vocabulary has it added
    cache_prompt: bool = True
    state: str = ""  # name under which the prompt's KV is kept and reused by later requests
    lora: tuple[tuple[int, float], ...] | None = None  # (adapter, scale), others 0; None: the server's scales
    control_vectors: ControlVectors | None = (
        None  # of the prompt, and of branches without their own; None: the server's
    )
    report_progress: bool = False  # send Progress while the prompt is computed
    shift: ContextShift | None = None  # None: a branch ends at the context's end
    id_slot: int = -1  # slot of the first branch; −1: any
    prompt_logprobs: bool = False  # send PromptLogprobs, with n_probs of the first branch, for each token of the prompt
    surprise_from: int = -1  # …, with entropies, for those alone that lie behind this character of it; −1: for all
    prompt_top: int = -1  # … with so many likely tokens instead, and each token's rank; -1: not
    owner: str = ""  # the client, who alone may list and control the request
    weight: int = 1  # of the owner: her share of the time and of the room beside others' weights
    max_unread: int = 0  # most requests of the owner that may linger without a reader, rests included; 0: any number
    max_lingering: int = 0  # most of them that may run or wait; 0: any number
    linger: float = 0.0  # seconds that the request stays after its last branch has ended, or its last reader has left
    can_grow: bool = False  # AddBranches may add branches
    keep_probs: float = 0.0  # seconds after the end in which GetRequest has the branches' `probs`; not with `linger`
    base: BranchSpec | None = None  # of added branches, whose seeds follow its seed; None: the first of `branches`
    distinct_first: bool = False  # no two branches begin with the same token while there are candidates
    distinct_words: bool = False  # no two branches have the same first word while there are others
    arithmetic: bool = False  # first tokens are drawn by points that lie evenly apart, see srb/engine/arithmetic.py
    sibling_penalty: float = 0.0  # subtracted from a token's logit for each sibling that chose it at the same place
    explore: Explore | None = None  # None: branches are added by AddBranches alone
    place: Place | None = None  # of directions; None: no branch has one
    directions: tuple[str, ...] = ()  # dealt in turn, by their index, to branches that are added without one
    preserved_tokens: tuple[str, ...] = ()  # control tokens that are part of the text, by their own text
    media: tuple[str, ...] = ()
    media_field: str = "prompt"
    cache_salt: str = ""  # its computed texts are shared only with requests of the same one
    priority: int = 0  # above 0: it gives way to all requests that somebody reads
    session: str = ""  # the owner's name for a story: in a cluster its requests meet on one replica; "": by the text
    traceparent: str = ""  # the span of the call, as the header of this name; "": none

    def __post_init__(self) -> None:
        _check_traceparent(self.traceparent)

    @property
    def key(self) -> str:
        """The owner whose fair share counts; "" for all who have no key, whatever their address."""
        return self.owner if self.owner.startswith(KEY) else ""

    @property
    def asker(self) -> str:
        """Digests of the key and of the story for which the text is computed, each "" without one."""
        return f"{digest_of(self.key)}.{digest_of(self.session)}"

    @property
    def branches_interact(self) -> bool:
        """Whether a branch depends on its siblings: then the seeds reproduce the request, but no branch alone."""
        return self.distinct_first or self.distinct_words or self.sibling_penalty > 0 or self.arithmetic


@dataclass(frozen=True, slots=True)
class Cancel(_Message):
    """Cancel a request, or one of its branches. Unknown ids are ignored: the request may just have ended.

    `leaves` says only that the connection has no reader of the request any more; then it goes on for others, or lingers.
    """

    index: int | None = None
    leaves: bool = False


# Each of these is answered by one Reply (or Rejected); its docstring begins with the type of the Reply's value.


@dataclass(frozen=True, slots=True)
class Tokenize(_Message):
    """list[int]: the tokens of strings and ids, in order; `add_special` adds the vocabulary's BOS and EOS."""

    parts: tuple[str | int, ...]
    add_special: bool
    parse_special: bool
    owner: str = ""  # the client, whose long texts leave room for others'


@dataclass(frozen=True, slots=True)
class CountTokens(_Message):
    """int: the number of tokens of a prompt with media (see `Generate`), the vocabulary's BOS included."""

    prompt: tuple[str | int, ...]
    media: tuple[str, ...]
    media_field: str = "prompt"  # named in errors
    owner: str = ""  # as Tokenize's


@dataclass(frozen=True, slots=True)
class Detokenize(_Message):
    """list[str]: the bytes of each token as latin-1 characters; control tokens as their text, or "" without `special`."""

    tokens: tuple[int, ...]
    special: bool = True


@dataclass(frozen=True, slots=True)
class GetStats(_Message):
    """dict[str, float]: the engine's counters (`…_total`) and gauges; with a cluster also `cluster`, ClusterStats.

    A cluster's bridge answers from memory if that is no older than `max_age` seconds.
    """

    max_age: float = 0.0


@dataclass(frozen=True, slots=True)
class GetSlots(_Message):
    """list[dict]: every slot, with what runs in it; engine/slots.py describes the keys."""


@dataclass(frozen=True, slots=True)
class Embed(_Message):
    """{"embeddings": [[[float]]], "tokens": [int]}: for each input its vectors, not normalized, and its length.

    Each input has one vector, or with `pooling` none one per token; "" is the model's own pooling.
    """

    inputs: tuple[tuple[str | int, ...], ...]
    pooling: str = ""
    truncate: bool = False  # whether an input that is too long loses its end
    traceparent: str = ""  # as Generate's

    def __post_init__(self) -> None:
        _check_traceparent(self.traceparent)


@dataclass(frozen=True, slots=True)
class Rerank(_Message):
    """{"scores": [float], "tokens": [int]}: the score of each document, and the length of each pair in tokens."""

    query: str
    documents: tuple[str, ...]
    truncate: bool = False  # whether a document that is too long loses its end
    max_tokens: int = 0  # that are kept of a document that may lose its end; 0: as many as fit beside the query
    traceparent: str = ""  # as Generate's

    def __post_init__(self) -> None:
        _check_traceparent(self.traceparent)


@dataclass(frozen=True, slots=True)
class ForgetTexts(_Message):
    """{"tokens": int}: evict the computed texts of deleted stories and revoked keys; see `PrefixTree.forget`."""

    stories: tuple[str, ...] = ()  # digests
    keys: tuple[str, ...] = ()

    def has(self, asker: str) -> bool:
        """Whether an asker's texts (`Generate.asker`) are to go."""
        key, _, story = asker.partition(".")
        return key in self.keys or story in self.stories


@dataclass(frozen=True, slots=True)
class GetTexts(_Message):
    """dict: what the store has of a story (a digest), for another replica that goes on with it.

    `entries` are base64, as in the index of texts, each behind its parent; `folder` has their files, and `model` is a hash
    of all that KV depends on. First all texts that rest are parked and written: until then `entries` is None, unless the
    caller waits `no_longer`.
    """

    story: str
    no_longer: bool = False


@dataclass(frozen=True, slots=True)
class TakeTexts(_Message):
    """int: number of stories (digests) whose texts are to be looked for at the replica that had them, and in the store's
    neighbours: now, or with `is_coming` when the story's next request comes, for what that one needs.
    """

    stories: tuple[str, ...]
    door: Door | None = None  # of the replica that had them; None: it is gone
    is_coming: bool = False


@dataclass(frozen=True, slots=True)
class GetAdapters(_Message):
    """list[dict]: id, path, scale, task_name, prompt_prefix of each LoRA adapter."""


@dataclass(frozen=True, slots=True)
class SetAdapters(_Message):
    """list[dict], as for GetAdapters: set the scales of future requests; adapters that are not named get 0."""

    scales: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StateAction(_Message):
    """{"tokens": int, "bytes": int, "ms": float}: save, restore or erase a named state.

    `save` stores the text of the latest ended branch of `slot`; `restore` brings a state into the tree, for later
    requests; `erase` evicts the idle text of `slot`; `forget` leaves that text in the tree, and the slot without it.
    """

    action: str
    name: str
    slot: int = 0


@dataclass(frozen=True, slots=True)
class GetSlotTime(_Message):
    """float | None: the UNIX time from which a slot has the text that StateAction would save; None if it has none."""

    slot: int


# Controls of a running request, `target`, by its `owner`; an empty owner may control any request whose id it knows.


@dataclass(frozen=True, slots=True)
class ListRequests(_Message):
    """list[dict]: the owner's requests, as GetRequest's without texts.

    With `prefix` those whose ids begin so: an id is known to who may control it, so without an owner anybody's.
    """

    owner: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class GetRequest(_Control):
    """dict: the request and each branch with its text so far; engine/steering.py describes the keys."""


@dataclass(frozen=True, slots=True)
class Attach(_Control):
    """Read the target's events from now on: answered by Attached, then the target's events come as to its first reader."""


@dataclass(frozen=True, slots=True)
class StopBranches(_Control):
    """dict, as for GetRequest without texts: end branch `index`, or with None all branches and the request."""

    index: int | None = None


@dataclass(frozen=True, slots=True)
class EndReasoning(_Control):
    """{"branches": [int]}: end the reasoning of branch `index`, or with None of all; those whose reasoning was not over.

    Only in branches with `reasoning_control`.
    """

    index: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeBranch(_Message):
    """dict: the changed branch: `more` tokens are added to its limit, `changes` are other fields of BranchSpec.

    A branch that has ended by its limit goes on, if no more than `max_running` branches of the request run or wait then.
    `max_tokens` is the limit of all branches together; 0: none.
    """

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
class AddBranches(_Message):
    """{"indices": [int], "seeds": [int]}: add branches, from the prompt or forked from branch `origin`.

    A fork begins with the first `token` tokens or `character` characters of its origin's text. At most `max_running`
    branches of the request may run or wait; `max_tokens` is the limit of all branches together, 0: none.
    """

    target: str
    branches: tuple[NewBranch, ...]
    owner: str = ""
    origin: int | None = None
    token: int | None = None
    character: int | None = None
    max_running: int = 0
    max_tokens: int = 0


Control = ListRequests | GetRequest | StopBranches | EndReasoning | ChangeBranch | AddBranches
Text = Tokenize | CountTokens | Detokenize
Submit = Generate | Embed | Rerank | StateAction | AddBranches  # prepared before they reach the decode thread
Slots = GetSlots | StateAction | GetSlotTime
Texts = ForgetTexts | GetTexts | TakeTexts
Ask = Text | Slots | GetStats | Embed | Rerank | GetAdapters | SetAdapters | Texts | Control
Command = Generate | Cancel | Ask | Attach
