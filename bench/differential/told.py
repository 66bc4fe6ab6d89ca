"""Differences that docs/compatibility.md tells: the cases and places where they appear, and the page's sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bench.differential.differences import Difference


@dataclass(frozen=True)
class Told:
    """A deliberate difference. `says` stands in the page; the others are patterns as of file names, of which one fits."""

    says: str
    places: tuple[str, ...]
    cases: tuple[str, ...] = ("*",)
    whats: tuple[str, ...] = ("*",)

    def tells(self, case: str, difference: Difference) -> bool:
        """Whether a difference of a case's answers is this one."""
        fits = _fits(difference.key, self.places) and _fits(difference.what, self.whats)
        return fits and _fits(case.removesuffix(", streamed"), self.cases)


def _fits(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


ONLY_SRB = ("only B has it:*",)
GENERATING = ("POST /completion: *", "POST /infill: *", "POST /completion as text")

# Bodies with a known field that has a bad value, by their names in bench/differential/cases.py.
BAD_VALUES = tuple(
    f"*: {name}"
    for name in (
        *(
            "stop a number",
            "stop a list of numbers",
            "id_slot text",
            "response_fields text",
            "response_fields of numbers",
        ),
        *("lora scaled", "lora unknown", "lora without id", "stream_options text", "samplers a number"),
        *("logit_bias text", "grammar a number", "top_k a fraction", "top_p a bool", "n_probs -1", "model number"),
        *("logprobs 2", "logprobs 0", "prompt number", "messages empty", "message with content null", "no parts"),
        *("continue_final_message of a user", "add_generation_prompt text", "tool_choice without tools"),
        *("response_format json_schema without schema", "response_format a text", "response_format and grammar"),
        *("chat_template_kwargs text", "add_special text", "fraction", "dimensions", "top_n text"),
        *(
            "top_n negative",
            "scaled",
            "unknown",
            "without scale",
            "id a text",
            "no objects",
            "scale a text",
            "top_p text",
        ),
    )
)
NOT_THERE = (
    *("POST /v1/chat/completions/control", "POST /responses*", "POST /v1/responses*", "POST /v1/messages*"),
    *("* /v1/stream*", "* /tools", "* /cors-proxy", "POST /audio/*", "POST /v1/audio/*"),
)

TOLD: tuple[Told, ...] = (
    # Errors
    Told("Errors have `param` besides `code`, `message` and `type` if one field is at fault", ("error.param",)),
    Told("The words of a message are SRB's own", ("error.message",)),
    Told("where llama-server often answers 500", ("status",), whats=("A 500*, B 400*", "A 500*, B 501*")),
    Told("A known field with a bad value is 400", ("status",), BAD_VALUES, ("A 200*, B 400*",)),
    Told("A body that is no JSON object is 400", ("status",), whats=("A *, B 400 (The body must be a*",)),
    Told("a known path with another method is 405", ("status",), whats=("A 404*, B 405*",)),
    Told("slashes too many or at the end of a path are ignored", ("status",), ("GET //health", "GET /health/")),
    Told("such an endpoint is 404", ("status",), NOT_THERE, ("A *, B 404*",)),
    # Health, metrics, properties
    Told("also has the keys of 2024; `slots_idle`", ("slots_idle", "slots_processing"), ("GET */health*",), ONLY_SRB),
    Told("SRB's own page", ("status", "type", "body"), ("GET /", "GET /?*")),
    Told("`n_tokens_max` is a gauge", ("llamacpp:n_tokens_max",)),
    Told("also has metrics of its own", ("srb:*", "llamacpp:kv_cache_*"), ("GET /metrics",), ONLY_SRB),
    # Tokens
    Told(
        "also has `count`, `length` and `max_model_len`", ("count", "length", "max_model_len"), ("POST /tokenize: *",)
    ),
    # Completions
    Told("also has the keys of 2024", ("*stopped_eos", "*stopped_word", "*stopped_limit"), whats=ONLY_SRB),
    Told("also has the keys of 2024", ("*model",), GENERATING, ONLY_SRB),
    Told(
        "also has the keys of 2024",
        ("*completion_probabilities.content", "*completion_probabilities.probs"),
        whats=ONLY_SRB,
    ),
    Told("`generation_settings` also has", ("*generation_settings.*",), whats=ONLY_SRB),
    Told("every branch's seed is reported", ("*choices.seed",), whats=ONLY_SRB),
)
