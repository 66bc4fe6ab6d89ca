"""Sampling parameters: each with its default, range, names and meaning, in this one place.

The settings, request fields, command-line options, `generation_settings`, config/default.toml and the tables in docs/ are
made from `PARAMETERS`. To add a parameter, add a field to `SamplingParams` and its stage to engine/sampling.py, then run
`python -m tools.generated`, which writes the generated pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, get_type_hints

MAX_GRAMMAR = 64 * 1024  # bytes, also of a JSON schema; what else one may cost is limited in engine/grammar
# Keywords of `grammar_schemas`, for errors and the log: where in the request a schema stands, and of which tool it is.
PLACE, TOOL = MARKS = ("x-srb-place", "x-srb-tool")
MAX_BIASES = 1024  # any of 300 to 10,000 would do: llama.cpp goes through them for each token of each branch
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One sampling parameter; `name`, `type` and `default` are those of its field of SamplingParams.

    The range is `least` ≤ value ≤ `most` and value > `above`; without a bound it ends where 32 bits end. `as_text` describes
    the form of a setting that is written as text, `form` the forms of a request's field that has several.
    """

    name: str = ""
    type: Any = None
    default: Any = None

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


_OF_THE_REST = "measured over the tokens that may come; llama.cpp's sums are NaN where others were excluded before"
_LAST_N = "at most the context; -1 is the context, as in llama-server of 2024, and refused by that of today"


def _parameter(default: Any, description: str, **described: Any) -> Any:
    return field(default=default, metadata={"parameter": Parameter(description=description, **described)})


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a branch; names, defaults and order are llama.cpp's. The seed is in BranchSpec.

    `logit_bias` has pairs (token id or string, bias); a bias of None forbids the token. `n_probs` is -1 for no
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

    samplers: tuple[str, ...] = _parameter(
        DEFAULT_SAMPLERS, "samplers, in the order in which they run", as_text="separated by semicolons",
        form=f"list of at most {MAX_SAMPLERS} names, or a string of letters",
        note="unknown names are skipped; without `penalties`, the penalties that are on run first",
        flags="--samplers", differs=f"at most {MAX_SAMPLERS}; without `penalties`, the penalties that are on run first",
    )  # fmt: skip
    temperature: float = _parameter(
        0.8, "temperature; 0: always the most likely token", note="all branches are then identical, unless they spread",
        least=0, outside=Outside.CLAMPED, flags="--temp --temperature -T", variable="LLAMA_ARG_TEMPERATURE",
    )  # fmt: skip
    dynatemp_range: float = _parameter(
        0.0, "range of the dynamic temperature, ± around temperature; 0: off",
        least=0, outside=Outside.TAKEN, flags="--dynatemp-range",
    )  # fmt: skip
    dynatemp_exponent: float = _parameter(
        1.0, "exponent of the entropy in the dynamic temperature", flags="--dynatemp-exp"
    )
    top_k: int = _parameter(
        40, "keep the k most likely tokens; 0: all",
        least=0, outside=Outside.CLAMPED, flags="--top-k -k", variable="LLAMA_ARG_TOP_K",
    )  # fmt: skip
    top_p: float = _parameter(
        0.95, "keep the most likely tokens whose probabilities add up to p; 1: all",
        least=0, most=1, outside=Outside.CLAMPED, flags="--top-p", variable="LLAMA_ARG_TOP_P",
    )  # fmt: skip
    min_p: float = _parameter(
        0.05, "drop tokens less likely than p times the most likely one; 0: off",
        least=0, most=1, outside=Outside.CLAMPED, flags="--min-p", variable="LLAMA_ARG_MIN_P",
    )  # fmt: skip
    typical_p: float = _parameter(
        1.0, "locally typical sampling; 1: off",
        least=0, most=1, outside=Outside.TAKEN, aliases=("typical",), flags="--typical --typical-p", differs=_OF_THE_REST,
    )  # fmt: skip
    top_n_sigma: float = _parameter(
        -1.0, "keep tokens whose logit is within n standard deviations of the highest; below 0: off",
        aliases=("nsigma",), flags="--top-nsigma --top-n-sigma",
    )  # fmt: skip
    xtc_probability: float = _parameter(
        0.0, "probability that XTC is applied to a token; 0: off",
        least=0, most=1, outside=Outside.CLAMPED, flags="--xtc-probability",
    )  # fmt: skip
    xtc_threshold: float = _parameter(
        0.1, "XTC drops all but the least likely of the tokens above this probability; above 0.5: off",
        least=0, most=1, outside=Outside.CLAMPED, flags="--xtc-threshold",
    )  # fmt: skip
    repeat_last_n: int = _parameter(
        64, "number of last tokens that the penalties consider; 0: none; -1: as many as the context holds",
        note="the prompt's included", unit="tokens", least=-1, differs=_LAST_N,
        aliases=("repetition_penalty_range", "rep_pen_range"), flags="--repeat-last-n",
    )  # fmt: skip
    repeat_penalty: float = _parameter(
        1.0, "penalty for repeated tokens; 1: off",
        above=0, aliases=("repetition_penalty", "rep_pen"),
        flags="--repeat-penalty -p", variable="LLAMA_ARG_REPEAT_PENALTY",
    )  # fmt: skip
    frequency_penalty: float = _parameter(
        0.0, "penalty for each occurrence of a token; 0: off",
        flags="--frequency-penalty", variable="LLAMA_ARG_FREQUENCY_PENALTY",
    )  # fmt: skip
    presence_penalty: float = _parameter(
        0.0, "penalty for tokens that have occurred; 0: off",
        flags="--presence-penalty", variable="LLAMA_ARG_PRESENCE_PENALTY",
    )  # fmt: skip
    dry_multiplier: float = _parameter(
        0.0, "multiplier of DRY's penalty for repeated phrases; 0: off", flags="--dry-multiplier"
    )
    dry_base: float = _parameter(
        1.75, "base of DRY's penalty, which grows exponentially with the phrase's length",
        least=1, outside=Outside.DEFAULT, flags="--dry-base",
    )  # fmt: skip
    dry_allowed_length: int = _parameter(
        2, "length in tokens of the longest repeated phrase that DRY does not penalize",
        unit="tokens", least=0, flags="--dry-allowed-length",
    )  # fmt: skip
    dry_penalty_last_n: int = _parameter(
        64, "number of last tokens that DRY considers; 0: none; -1: as many as the context holds",
        unit="tokens", least=-1, differs=_LAST_N, flags="--dry-penalty-last-n",
    )  # fmt: skip
    dry_sequence_breakers: tuple[str, ...] = _parameter(
        ("\n", ":", '"', "*"), "strings at which DRY ends a phrase", as_text="as a JSON list",
        form=f"list of 1 to {MAX_BREAKERS} strings, or a string of JSON with such a list, with or without brackets",
    )  # fmt: skip
    mirostat: int = _parameter(
        0, "version of Mirostat; 0: off",
        least=0, most=2, outside=Outside.CLAMPED, aliases=("mirostat_mode",), flags="--mirostat",
        differs=f"1: {_OF_THE_REST}",
    )  # fmt: skip
    mirostat_tau: float = _parameter(5.0, "target entropy of Mirostat", flags="--mirostat-ent")
    mirostat_eta: float = _parameter(0.1, "learning rate of Mirostat", flags="--mirostat-lr")
    adaptive_target: float = _parameter(
        -1.0, "target probability of adaptive-p, which prefers tokens near it; below 0: off",
        most=1, outside=Outside.CLAMPED, flags="--adaptive-target",
    )  # fmt: skip
    adaptive_decay: float = _parameter(
        0.9, "decay of adaptive-p's average over past tokens; lower adapts faster",
        least=0, most=0.99, flags="--adaptive-decay",
    )  # fmt: skip
    min_keep: int = _parameter(
        0, "minimum number of tokens that samplers such as top_p keep", unit="tokens", least=0, is_setting=False
    )
    logit_bias: tuple[tuple[int | str, float | None], ...] = _parameter(
        (), "biases added to the logits of tokens", as_text="such as 15043+1,29-inf (-inf forbids a token)",
        form=f'`{{"token": bias}}` or `[[token, bias], …]`, at most {MAX_BIASES}',
        note="a token is an id or a string; `false` forbids it; ids beyond the vocabulary are skipped",
        differs=f"at most {MAX_BIASES}",
    )  # fmt: skip
    ignore_eos: bool = _parameter(
        False,
        "forbid the end-of-text token, so that a branch continues to another limit",
        aliases=("ban_eos_token",),
        flags="--ignore-eos",
    )
    grammar: str = _parameter(
        "", "grammar that constrains the text", form="GBNF, Lark or a regular expression, at most 64 KiB",
        note="groups nested at most 100 deep", differs="at most 64 KiB, groups nested at most 100 deep",
        aliases=("grammar_string",), flags="--grammar",
    )  # fmt: skip
    json_schema: str = _parameter(
        "", "JSON schema that constrains the text", form="object or `true`, at most 64 KiB, nested at most 64 deep",
        note="`{}`: any object, `true`: any JSON; `grammar` has precedence",
        differs="at most 64 KiB, nested at most 64 deep; read by llguidance, which holds more of the standard",
        flags="-j --json-schema",
    )  # fmt: skip
    grammar_place: str = _parameter(
        "grammar", "where in the request `grammar` stands, for errors", is_setting=False, is_field=False
    )
    schema_place: str = _parameter(
        "json_schema", "where in the request `json_schema` stands, for errors", is_setting=False, is_field=False
    )
    n_probs: int = _parameter(
        -1, "number of most likely tokens whose log-probabilities are reported", is_setting=False, is_field=False
    )
    post_sampling_probs: bool = _parameter(
        False, "report probabilities after all samplers (`prob`, `top_probs`) instead of the model's log-probabilities",
        is_setting=False,
    )  # fmt: skip
    grammar_triggers: tuple[tuple[str, str | int], ...] = _parameter(
        (), "texts at which the grammar begins; none: at the first token", is_setting=False, is_field=False
    )
    grammar_schemas: tuple[str, ...] = _parameter(
        (), "JSON schemas that the grammar names", is_setting=False, is_field=False
    )
    reasoning_tags: tuple[str, ...] = _parameter((), "the tags around reasoning", is_setting=False, is_field=False)
    reasoning_budget_tokens: int = _parameter(
        -1, "most tokens of reasoning; -1: any number", is_setting=False, is_field=False
    )
    reasoning_budget_message: str = _parameter(
        "", "text before the end tag of reasoning that is cut", is_setting=False, is_field=False
    )
    reasoning_control: bool = _parameter(
        False, "whether EndReasoning may end the reasoning", is_setting=False, is_field=False
    )
    penalty_prompt: tuple[str | int, ...] | None = _parameter(
        None, "text that the penalties consider instead of the prompt",
        form="string, or list of token ids and strings", is_setting=False,
    )  # fmt: skip


_TYPES = get_type_hints(SamplingParams)

PARAMETERS: dict[str, Parameter] = {
    each.name: replace(each.metadata["parameter"], name=each.name, type=_TYPES[each.name], default=each.default)
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
