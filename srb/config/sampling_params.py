"""Sampling parameters: types and defaults here; ranges, names and meanings in sampling_params.toml.

The settings, request fields, command-line options, `generation_settings`, config/default.toml and the tables in docs/ are
made from `PARAMETERS`. To add a parameter, add a field to `SamplingParams`, its entry to the table and its stage to
engine/sampling.py, then run `python -m tools.generated`, which writes the generated pages.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

MAX_GRAMMAR = 64 * 1024  # bytes, also of a JSON schema; what else one may cost is limited in engine/grammar
# Keywords of `grammar_schemas`, for errors and the log: where in the request a schema stands, and of which tool it is.
PLACE, TOOL = MARKS = ("x-srb-place", "x-srb-tool")
MAX_BIASES = 1024  # any of 300 to 10,000 would do: llama.cpp goes through them for each token of each branch
MAX_ALLOWED = 65536  # token ids of allowed_token_ids; a longer list is no choice among few
MAX_STOP_TOKENS = 1024
MAX_BREAKERS = 128  # each is searched for in every token of the vocabulary, 17 ms of preparation for four
MAX_SAMPLERS = 32  # names in a list; each costs time per token
MAX_SIBLING_PENALTY = 100.0  # logits differ by less, so that more would forbid no further token

DEFAULT_SAMPLERS = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")

# llama.cpp's sampler names, by every spelling that it or its clients use; single letters are those of --sampler-seq.
SAMPLERS = {
    "penalties": "penalties", "e": "penalties",
    "dry": "dry", "d": "dry",
    "top_n_sigma": "top_n_sigma", "top-n-sigma": "top_n_sigma", "topnsigma": "top_n_sigma", "s": "top_n_sigma",
    "top_k": "top_k", "top-k": "top_k", "topk": "top_k", "k": "top_k",
    "typ_p": "typ_p", "typ-p": "typ_p", "typp": "typ_p", "typ": "typ_p", "y": "typ_p",
    "typical": "typ_p", "typical_p": "typ_p", "typical-p": "typ_p",
    "top_p": "top_p", "top-p": "top_p", "topp": "top_p", "nucleus": "top_p", "p": "top_p",
    "min_p": "min_p", "min-p": "min_p", "minp": "min_p", "m": "min_p",
    "xtc": "xtc", "x": "xtc",
    "temperature": "temperature", "temp": "temperature", "t": "temperature",
    "infill": "infill", "i": "infill",
    "adaptive_p": "adaptive_p", "adaptive-p": "adaptive_p", "adaptivep": "adaptive_p", "a": "adaptive_p",
}  # fmt: skip


class Outside(Enum):
    """Treatment of a request's number outside the range. Such a number in a setting is always refused."""

    REFUSED = "refused"
    CLAMPED = "clamped"  # silently, as llama-server does
    DEFAULT = "default"  # silently replaced by the default, as llama-server does
    TAKEN = "taken"  # accepted: only settings have the range


@dataclass(frozen=True, slots=True)
class Parameter:
    """One sampling parameter; `name`, `type` and `default` are those of its field of SamplingParams.

    The range is `least` ≤ value ≤ `most` and value > `above`; without a bound it ends where 32 bits end. `as_text` describes
    the form of a setting that is written as text, `form` the forms of a request's field that has several.
    """

    name: str
    type: Any
    default: Any
    _: KW_ONLY
    description: str
    note: str = ""  # follows the description in docs/api.md
    unit: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    outside: Outside = Outside.REFUSED
    aliases: tuple[str, ...] = ()  # other names of the request's field
    flags: str = ""  # llama-server's options, separated by spaces; those with converted values are in cli/flags.toml
    variable: str = ""  # llama-server's environment variable
    differs: str = ""  # the difference from llama-server's parameter
    as_text: str = ""
    form: str = ""
    is_setting: bool = True
    is_field: bool = True  # request bodies have a field of this name, checked by these rules

    @property
    def is_plain(self) -> bool:
        """Whether the value is a number or a switch, which has the same form everywhere."""
        return self.type in (int, float, bool)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a branch; names, defaults and order are llama.cpp's. The seed is in BranchSpec.

    `logit_bias` has pairs (token id or string, bias); a bias of None forbids the token. With `allowed_token_ids` no other
    token comes. A token of `stop_token_ids` ends the text, and is its last one. `n_probs` is -1 for no
    log-probabilities, 0 for that of each chosen token, k > 0 also for those of the k most likely tokens. With
    `post_sampling_probs` they are probabilities after the whole sampler chain. `json_schema` is JSON text, "" for none; the
    engine converts it to a grammar, so at most one of `json_schema` and `grammar` is set. `penalty_prompt` is None for the
    prompt itself.

    With `grammar_triggers` the grammar is lazy: it begins where the text has one of them, outside of reasoning. Each
    is a pair: ("word", text), ("start", text) at the beginning of the text, ("token", id), or ("answer", expression): it
    begins at the end of the reasoning, or at once without reasoning, after text that the expression of GBNF allows.
    `grammar` may name the rules `schema-0`, `schema-1`, …: the engine makes them from `grammar_schemas`, JSON texts.
    `reasoning_tags` is () or the tags that begin and end reasoning; the first is "" if the prompt ends inside reasoning.
    After `reasoning_budget_tokens` tokens of it, `reasoning_budget_message` and the end tag are forced; -1: no budget.
    With `reasoning_control` EndReasoning has them forced at once.
    """

    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    smoothing_factor: float = 0.0
    smoothing_curve: float = 1.0
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
    logit_bias: tuple[tuple[int | str, float | None], ...] = ()
    ignore_eos: bool = False
    allowed_token_ids: tuple[int, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    grammar: str = ""
    json_schema: str = ""
    grammar_place: str = "grammar"
    schema_place: str = "json_schema"
    n_probs: int = -1
    post_sampling_probs: bool = False
    grammar_triggers: tuple[tuple[str, str | int], ...] = ()
    grammar_schemas: tuple[str, ...] = ()
    reasoning_tags: tuple[str, ...] = ()
    reasoning_budget_tokens: int = -1
    reasoning_budget_message: str = ""
    reasoning_control: bool = False
    penalty_prompt: tuple[str | int, ...] | None = None


def _parameter(name: str, kind: Any, default: Any, row: dict[str, Any]) -> Parameter:
    known: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Parameter(name, kind, default, **known | {"outside": Outside(known.get("outside", "refused"))})


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_TYPES = get_type_hints(SamplingParams)

PARAMETERS: dict[str, Parameter] = {
    each.name: _parameter(each.name, _TYPES[each.name], each.default, _TABLE[each.name])
    for each in fields(SamplingParams)
}


def with_temperature_bounds(given: dict[str, Any], low: float | None, high: float | None) -> dict[str, Any]:
    """Return parameters with a temperature that varies from `low` to `high`, as text-generation-webui's clients ask.

    A bound that is None is 1, as there. Where the bounds are equal, or `given` has a range of its own, it stays as it is.
    Raise ValueError for a `low` above `high`.
    """
    low, high = (1.0 if bound is None else bound for bound in (low, high))
    if low > high:
        raise ValueError(f"must not be more than dynatemp_high, which is {high}, but got {low}")
    if low == high or given.get("dynatemp_range"):
        return given
    return given | {"temperature": (low + high) / 2, "dynatemp_range": (high - low) / 2}


def with_penalties(params: SamplingParams) -> SamplingParams:
    """Return parameters whose samplers begin with the penalties, if these are on and the samplers leave them out.

    llama-server always ran them before its list until December 2024, and clients' lists of then do not name them.
    """
    is_off = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty) == (1.0, 0.0, 0.0)
    if is_off or "penalties" in params.samplers:
        return params
    return replace(params, samplers=("penalties", *params.samplers))


def known_samplers(names: Iterable[str]) -> tuple[str, ...]:
    """Return llama.cpp's names of samplers, without the unknown ones; upper and lower case are alike."""
    return tuple(SAMPLERS[name] for name in map(str.lower, names) if name in SAMPLERS)
