"""Answer types that several dialects share. Functions that build answers return these types, and mypy checks them.

The same types describe the answers in /openapi.json. A `NotRequired` key may be absent; an answer has no other keys.
"""

import sys
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict, is_typeddict

JSONObject = dict[str, Any]


def shapes(module: str) -> None:
    """Let the TypedDicts of a module be strict: an answer has no other keys, and no values of other types."""
    for each in vars(sys.modules[module]).values():
        if is_typeddict(each) and each.__module__ == module and not hasattr(each, "__pydantic_config__"):
            with_config(ConfigDict(strict=True, extra="forbid"))(each)


@with_config(ConfigDict(strict=True, extra="ignore"))
class ErrorObject(TypedDict):
    """An error; `param` names the field at fault. Some errors carry more keys."""

    code: int
    message: str
    type: str
    param: NotRequired[str]


ErrorAnswer = TypedDict("ErrorAnswer", {"error": ErrorObject})


class PromptTokensDetails(TypedDict):
    """The kinds of a prompt's tokens; those of text, pictures and sounds are told if it has pictures or sounds."""

    cached_tokens: int
    text_tokens: NotRequired[int]
    image_tokens: NotRequired[int]
    audio_tokens: NotRequired[int]


class Usage(TypedDict):
    """Numbers of tokens, summed over the branches; a shared prompt counts once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Timings(TypedDict):
    """llama-server's timings, over all branches together; times in milliseconds.

    `image_n` and `audio_n` are the prompt's tokens of pictures and sounds, if it has any.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    image_n: NotRequired[int]
    audio_n: NotRequired[int]
    draft_n: NotRequired[int]  # drafted tokens that were computed, and of those the ones that the branches drew
    draft_n_accepted: NotRequired[int]


class Diversity(TypedDict):
    """Distinct words, and pairs of words, of all texts among all of them; the mean distance of two texts. All 0 to 1."""

    distinct_1: float
    distinct_2: float
    distance: float


class Meaning(TypedDict):
    """How alike branches, or texts, are in what they mean: by embeddings (`meaning`) or, without a model for it, by words.

    `different`: how many really different ones there are. `spread`: all indices, so that the first k differ as far as
    possible, for each k; `nearest` has for each of these the one before it that it resembles most, the first itself.
    `order`: all indices, so that neighbours are alike. `groups`: all indices, as many groups as really differ or as were
    asked for; the first of a group stands for those behind it. With several prompts those of each follow each other.
    """

    by: Literal["meaning", "words"]
    different: float
    spread: list[int]
    nearest: list[int]
    order: list[int]
    groups: list[list[int]]


class Ranking(TypedDict):
    """Keys of an answer with `rank`: the indices of the branches, best first, and groups of indices of like texts."""

    ranking: NotRequired[list[int]]
    duplicates: NotRequired[list[list[int]]]
    near_duplicates: NotRequired[list[list[int]]]  # with rank "near"
    diversity: NotRequired[Diversity]
    meaning: NotRequired[Meaning]  # with rank "meaning"
    chosen_by: NotRequired[Literal["meaning", "words"]]  # with select "meaning", even without `rank`


class PromptProgress(TypedDict):
    """Progress of a prompt in tokens: `total`, `cache` (reused) and `processed` (with the reused); `time_ms` so far."""

    total: int
    cache: int
    processed: int
    time_ms: int


shapes(__name__)
