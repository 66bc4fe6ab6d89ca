"""Events: the messages from the engine to web workers. They carry lists."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NotRequired

from typing_extensions import TypedDict

from srb.errors import SRBError, from_code


class FinishReason(StrEnum):
    """The reason why a branch ended."""

    EOS = "eos"  # the model ended its text
    WORD = "word"  # a stop string was found
    BOUNDARY = "boundary"  # the end of the word, line, sentence or paragraph that was asked for (stop_at)
    LIMIT = "limit"  # max_tokens, a time limit, or the end of the context (then `truncated`)
    CANCELLED = "cancelled"
    ERROR = "error"


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
    def of(cls, request_id: str, error: SRBError) -> "Rejected":
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
    """A token of a text, and the likeliest at its place; `top_probs` where it has `prob`. `rank`: 1 is the likeliest."""

    entropy: NotRequired[float | None]  # in nats, of what may stand there; None for a text's first token
    top_logprobs: NotRequired[list[LikelyToken]]
    top_probs: NotRequired[list[LikelyToken]]
    rank: NotRequired[int]


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
    """A branch has ended; `length` counts its tokens (an end-of-text token is not one).

    `end_token` is the token that ended it: an end-of-text token with the reason "eos", or one of `stop_token_ids`.
    """

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
    end_token: int | None = None
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
    predicted_ms: float = field(default=0.0, compare=False)  # as Delta's
    direction: str = ""

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
    def of(cls, done: "Done", seconds: float) -> "Resting":
        return cls(seconds=seconds, **asdict(done))

    @property
    def done(self) -> "Done":
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
    build_info: str  # of llama.cpp: its version and whose package it is
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
    library_lacks: str = ""  # patches of SRB's that this llama.cpp was built without, and what that costs
    license: str = ""  # of the weights, as the file names it
    control_vectors: dict[str, float] = field(default_factory=dict)  # by name: scales of requests that name none
    nondeterminism: str = ""  # why a token's logits depend on what is computed beside it; "": they do not

    as_dict = asdict


PromptEvent = Progress | PromptLogprobs | PromptDone
Event = (Hello | Ready | Accepted | Rejected | Reply | Progress | PromptDone | PromptLogprobs
         | Delta | BranchEnded | BranchAdded | Attached | Resting | Done | Failed)  # fmt: skip
TERMINAL = (Rejected, Reply, Done, Failed)
