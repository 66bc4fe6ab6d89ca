"""Types of the srb dialect's answers and events. The renderer builds `stream` events as bytes; tests check their type."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import JSONObject, PromptProgress, Ranking, Timings, Usage, shapes
from srb.wire.events import FinishReason, TokenProbs


class SeedsNote(TypedDict):
    """The key of answers whose branches depend on each other: the seeds reproduce the request, and no branch alone."""

    seeds_reproduce: NotRequired[Literal["request"]]


class StartEvent(SeedsNote):
    """The begin of a stream; `of` and no seeds if the branches are still to be chosen (best_of)."""

    event: Literal["start"]
    count: int
    of: NotRequired[int]
    id: str
    seeds: NotRequired[list[int]]
    directions: NotRequired[list[str]]  # of each branch, if there are any
    prompt_tokens: int


class ProgressEvent(TypedDict):
    """The number of branches that have ended, of those among which the answer's are chosen."""

    event: Literal["progress"]
    done: int
    of: int


class PromptProgressEvent(PromptProgress):
    """The progress of the prompt, with `return_progress`: one event before its first batch and one after each."""

    event: Literal["prompt"]


StreamEvent = TypedDict("StreamEvent", {
    "event": Literal["stream"], "index": int, "text": str, "tokens": NotRequired[list[int]],
    "logprobs": NotRequired[list[TokenProbs]],
})  # fmt: skip


class BranchEnding(TypedDict):
    """The end of a branch; `stop` is 1 if the model ended its text or a stop string was found."""

    length: int
    stop: Literal[0, 1]
    reason: FinishReason
    stopping_word: str
    truncated: NotRequired[Literal[True]]
    logprob: NotRequired[float]
    rewinds: NotRequired[int]
    path_logprob: NotRequired[float]


class StopEvent(BranchEnding):
    event: Literal["stop"]
    index: int


class TokenSurprise(TokenProbs):
    """A token of a known text, and where it begins: a number of characters from the text's beginning."""

    start: int


class TextSurprise(TypedDict):
    """A known text's tokens, and the sum of their log-probabilities."""

    logprob: float
    tokens: list[TokenSurprise]


class SRBSurprise(TypedDict):
    model: str
    texts: list[TextSurprise]
    usage: Usage


SRBErrorObject = TypedDict("SRBErrorObject", {"code": str, "message": str})


class BranchOrigin(TypedDict):
    """The place where a fork begins: after so many tokens of a branch."""

    branch: int
    token: int


# "from" is a keyword of Python, so its TypedDict is made by a call.
_Fork = TypedDict("_Fork", {"from": NotRequired[BranchOrigin]})


class BranchEvent(_Fork):
    """A branch was added, or (`resumed`) goes on after its end; a fork has `from`, and begins with `text`.

    A fork of an exploration has `parent` and `at`, which say the same as `from`, and the log-probability of its path.
    """

    event: Literal["branch"]
    index: int
    seed: int
    direction: NotRequired[str]
    text: NotRequired[str]
    resumed: NotRequired[Literal[True]]
    parent: NotRequired[int]
    at: NotRequired[int]
    logprob: NotRequired[float]
    tokens: NotRequired[list[int]]


class RestEvent(TypedDict):
    """Every branch has ended, and the request lingers for `seconds`: branches may be added or go on."""

    event: Literal["rest"]
    seconds: float
    usage: Usage


BranchStateName = Literal["waiting", "running", "ended"]


class BranchDescription(_Fork):
    """A branch so far; a fork has `from`, an ended branch the keys of a `stop` event. `max_tokens` -1: no limit."""

    index: int
    seed: int
    state: BranchStateName
    length: int
    max_tokens: int
    direction: NotRequired[str]
    text: NotRequired[str]
    tokens: NotRequired[list[int]]
    stop: NotRequired[Literal[0, 1]]
    reason: NotRequired[FinishReason]
    stopping_word: NotRequired[str]
    truncated: NotRequired[Literal[True]]
    logprob: NotRequired[float]
    path_logprob: NotRequired[float]
    error: NotRequired[SRBErrorObject]


RequestStateName = Literal["queued", "running", "resting", "ended"]


class RequestDescription(TypedDict):
    """A request that runs or rests; `age` in seconds."""

    id: str
    state: RequestStateName
    age: float
    prompt_tokens: int
    linger: float
    branches: list[BranchDescription]


RequestList = TypedDict("RequestList", {"completions": list[RequestDescription]})


class SnapshotEvent(RequestDescription):
    event: Literal["snapshot"]


Stopped = TypedDict("Stopped", {"id": str, "state": Literal["ended"]})
Added = TypedDict("Added", {"indices": list[int], "seeds": list[int]})


class Senses(TypedDict):
    """Whether the model takes pictures and sounds."""

    vision: bool
    audio: bool


class SeveralModels(TypedDict):
    """The keys that a server with several models adds: their names, and the state of the described one."""

    models: NotRequired[list[str]]
    status: NotRequired[str]  # as GET /v1/models tells it: unloaded, loading or loaded
    embedding: NotRequired[str | None]  # the name of the one that tells what texts mean, if it is at hand


class Fill(TypedDict):
    """The texts of a model's fill-in-the-middle tokens, and whether the text behind the gap comes first (`spm_infill`)."""

    prefix: str
    suffix: str
    middle: str
    suffix_first: bool


class UsageDay(TypedDict):
    """The tokens of a client's calls that ended on a day; those computed and completed count for budgets."""

    client: str  # a key's name, or a digest of a key without one; "" of all that have no key
    day: str  # UTC's
    requests: int
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    completion_tokens: int


class Budget(TypedDict):
    """The tokens that a key may use in a day or a month, and how many it has; it begins anew at `until`."""

    of: Literal["day", "month"]
    tokens: int
    spent: int
    until: str


class UsageAnswer(TypedDict):
    days: list[UsageDay]
    budgets: list[Budget]


class ServerDescription(SeveralModels):
    """The model, its longest context in tokens, limits of requests, and the defaults of their fields."""

    version: str
    model: str
    n_ctx: int  # 0 while it is not known
    modalities: Senses | None
    chat_template: bool | None
    fill: Fill | None  # null also where the vocabulary has no such tokens
    control_vectors: list[str]  # the names of those that requests may have
    lacks: str | None  # quotation marks, dashes and the like that the vocabulary has no tokens for
    max_n: int
    max_linger: int
    max_body_bytes: int
    n: int
    max_tokens: int
    sampling: JSONObject


class DoneEvent(Ranking):
    event: Literal["done"]
    count: int
    seeds: NotRequired[list[int]]  # of chosen branches (best_of)
    directions: NotRequired[list[str]]
    usage: Usage
    timings: Timings


class ErrorEvent(TypedDict):
    """An error. With `index` one branch failed and the others continue; without, it is the last event of the stream."""

    event: Literal["error"]
    code: str
    message: str
    index: NotRequired[int]


_LaterEvent = PromptProgressEvent | StreamEvent | StopEvent | BranchEvent | RestEvent | DoneEvent | ErrorEvent
SRBEvent = StartEvent | ProgressEvent | _LaterEvent
AttachedEvent = SnapshotEvent | _LaterEvent


class SRBCompletionChoice(BranchEnding, _Fork):
    index: int
    text: str
    direction: NotRequired[str]
    tokens: NotRequired[list[int]]
    logprobs: NotRequired[list[TokenProbs]]
    error: NotRequired[SRBErrorObject]


class SRBCompletion(Ranking, SeedsNote):
    id: str
    completions: list[SRBCompletionChoice]
    seeds: list[int]
    usage: Usage
    timings: Timings


shapes(__name__)
