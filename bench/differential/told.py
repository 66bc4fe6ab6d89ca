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

# Places that a text decides: all that differs if one token does.
_TEXTS = (
    *("usage.*", "events.*.usage.*", "prompt", "input_tokens"),
    *(
        prefix + place
        for prefix in ("", "events.*.", "choices.", "events.*.choices.")
        for place in (
            *("content", "text", "message.content", "delta.content", "tokens*", "tokens_predicted", "tokens_cached"),
            *("has_new_line", "stop_type", "timings.predicted_n", "finish_reason", "stopped_*", "stop"),
        )
    ),
)
_ENDS = ("events.*.content", "events.*.choices.text", "events.*.choices.delta.content")
_COUNTS = tuple(
    prefix + name for prefix in ("", "events.*.") for name in ("tokens_predicted", "timings.predicted_n", "usage.*")
)
_LEGACY_LOGPROBS = tuple(
    f"*choices.logprobs.{name}" for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
)
_PROBABILITIES = ("*completion_probabilities*", "*choices.logprobs*")
_APPLIED = tuple(f"POST /v1/completions: {name}" for name in ("suffix", "best_of"))

TOLD: tuple[Told, ...] = (
    # Errors
    Told("Errors have `param` besides `code`, `message` and `type` if one field is at fault", ("error.param",)),
    Told("The words of a message are SRB's own", ("error.message",)),
    Told("where llama-server often answers 500", ("status",), whats=("A 500*, B 400*", "A [45]0?*, B 501*")),
    Told("A field that is null counts as absent", ("status",), ("*: null",), ("A 500*, B 200",)),
    Told("A known field with a bad value is 400", ("status",), BAD_VALUES, ("A 200*, B 400*",)),
    Told("A body that is no JSON object is 400", ("status",), whats=("A *, B 400 (The body must be a*",)),
    Told("a known path with another method is 405", ("status",), whats=("A 404*, B 405*",)),
    Told("Repeated slashes in a path, and one at its end, are ignored", ("status",), ("GET //health", "GET /health/")),
    Told("such an endpoint is 404", ("status",), NOT_THERE, ("A *, B 404*",)),
    # Health, metrics, properties
    Told("also has the keys of 2024; `slots_idle`", ("slots_idle", "slots_processing"), ("GET */health*",), ONLY_SRB),
    Told("SRB's own page", ("status", "type", "body"), ("GET /",)),
    Told("`n_tokens_max` is a gauge", ("llamacpp:n_tokens_max",)),
    Told("also has metrics of its own", ("srb:*", "srb_*", "llamacpp:kv_cache_*"), ("GET /metrics",), ONLY_SRB),
    Told("also has the keys of 2023", ("system_prompt", "user_name", "assistant_name"), ("GET /props*",), ONLY_SRB),
    Told("`deterministic` and `nondeterminism`", ("deterministic", "nondeterminism"), ("GET /props*",), ONLY_SRB),
    Told("SRB's form of ChatML", ("chat_template",), ("GET /props*",)),
    Told("llama-server's keys, with values also where it has none", ("models.*",), ("GET */models",)),
    Told("an idle slot has the default parameters", ("params.*", "next_token.*"), ("GET /slots*",)),
    Told("a slot that does not exist is 400", ("status",), ("POST /slots/99*",)),
    Told(
        "and so is a save without any text",
        ("status",),
        ("POST /slots/0?action=save: plain",),
        ("A 200, B 400 (Slot*",),
    ),
    Told("have all the keys of 2024", ("*",), ("GET /slots*",), ONLY_SRB),
    # Tokens
    Told(
        "also has `count`, `length` and `max_model_len`", ("count", "length", "max_model_len"), ("POST /tokenize: *",)
    ),
    # Completions
    Told("also has the keys of 2024", ("*stopped_eos", "*stopped_word", "*stopped_limit"), whats=ONLY_SRB),
    Told(
        "also has the keys of 2024",
        ("*completion_probabilities.content", "*completion_probabilities.probs"),
        whats=ONLY_SRB,
    ),
    Told("`generation_settings` also has", ("*generation_settings.*",), whats=ONLY_SRB),
    Told("not the one that a schema becomes", ("*generation_settings.grammar",), ("*json_schema*",)),
    Told(
        "its `logit_bias` has texts and ids as they were sent",
        ("*generation_settings.logit_bias*",),
        ("*: logit_bias *",),
    ),
    Told(
        "tokens are chosen on the CPU",
        ("*generation_settings.backend_sampling",),
        ("*: backend_sampling",),
    ),
    Told("every branch's seed is reported", ("*choices.seed",), whats=ONLY_SRB),
    Told("0 computes the prompt and makes no token", ("*",), ("*: n_predict 0", "*: echo and no tokens")),
    Told("an empty one is ignored", ("*",), ("*: stop empty text",)),
    Told("vocabularies that put a space before a text", ("prompt", "*.prompt"), ("POST /*completion*",)),
    Told(
        "read by llguidance, which holds more of the standard",
        (*_TEXTS, "events*"),
        ("*json_schema*", "*response_format json_*"),
    ),
    Told(
        "the room for `input_extra` counts the request's",
        (*_TEXTS, "*prompt", "*tokens_evaluated"),
        ("POST /infill: extra",),
    ),
    Told("the server of today streams only if `stream` is true", ("type",), ("POST /infill: without stream",)),
    Told(
        "llama-server's last piece of a text that a stop string ends has them",
        ("events.*.timings",),
        whats=("only A has it*",),
    ),
    Told("an empty list switches all adapters off", _TEXTS, ("*: lora none",)),
    Told("has `timings` once, for all of them", ("*timings.predicted_n",), ("*: n 2", "*: prompts*", "*: best_of")),
    Told("described in the system message of a template without tools", _TEXTS, ("*: tool*", "*: parallel_tool_calls")),
    Told(
        "where llama-server leaves them out and forces no call",
        ("*choices.message.tool_calls", "events.*.choices.delta.tool_calls", "events.length", "events.*.timings"),
        ("*: tool_choice required", "*: tool_choice named"),
    ),
    Told("begins a new reply", ("*",), ("*: continued without content",)),
    Told("do not count the token that ends a text", _COUNTS, ("*: grammar",)),
    Told(
        "-1 is the context, as in llama-server of 2024, and refused by that of today",
        ("status",),
        ("*: repeat_last_n -1",),
    ),
    Told("A token that has no text has no event", ("events.*",), ("*: n_predict null",)),
    Told(
        "begins with an event that is `null`", ("events*",), ("POST *completion*: prompts*", "POST *completion*: n 2")
    ),
    Told("of tokens that end within a character", ("events.*.tokens*", "events.*.tokens_predicted")),
    Told("of tokens that end within a character", _ENDS, whats=("A *, B *\N{REPLACEMENT CHARACTER}*",)),
    Told(
        "llama-server leaves it out if the first token has no text",
        ("events*",),
        ("*chat/completions: parts", "*chat/completions: lora none"),
    ),
    Told("llama-server leaves it out if the first token has no text", ("events.*.choices.delta.role",), whats=ONLY_SRB),
    Told("the role is sent once", ("events.*",), ("*: return_progress",)),
    Told(
        "has an empty `content`, where llama-server's is null",
        ("events.*.choices.delta.content",),
        whats=("A is *null*, B is *",),
    ),
    Told(
        "rendered in [stricter forms]",
        ("status",),
        ("*: message without content", "*: message with content null", "*: two assistants last"),
        ("A [45]0?*, B 200",),
    ),
    Told(
        "an answer has only the new text, where llama-server's begins with the text",
        _TEXTS,
        ("*chat/completions: *continue*",),
    ),
    # OpenAI's answers
    Told(
        "Choices of chats have `logprobs`",
        ("*choices.logprobs",),
        ("POST /v1/chat/completions: *",),
        ("only B has it: null",),
    ),
    Told("ended have `stop_reason`", ("*choices.stop_reason",), whats=ONLY_SRB),
    Told(
        "Streams of `/v1/completions` have `usage` only with `include_usage`",
        ("events.*.usage",),
        ("POST /v1/completions: *",),
    ),
    Told("it is null in all other chunks", ("events.*.usage",), ("*: include_usage",), ("only B has it: null",)),
    Told("in a chunk of its own", ("events.length", "events.*.timings"), ("POST /v1/completions: include_usage",)),
    Told("`usage` is summed over the branches", ("*usage.*",), ("*: prompts*", "*: n 2", "*: best_of")),
    Told("OpenAI's arrays of log-probabilities", _LEGACY_LOGPROBS, ("POST /v1/completions: *",), ONLY_SRB),
    Told("`echo` and `suffix` of `/v1/completions` are applied", ("*",), ("POST /v1/completions: echo", *_APPLIED)),
    Told("where 0 means the chosen tokens' own", ("*choices.logprobs",), ("POST /v1/completions: logprobs 0",)),
    Told("without llama-server's count of the stop string's tokens", _PROBABILITIES, ("*: n_probs with a stop",)),
    Told("also in the other dialects", ("*choices.tokens",), ("*: return_tokens",), ONLY_SRB),
    Told("and `true` as well", _PROBABILITIES, ("POST /v1/completions: logprobs true*", "POST /v1/completions: echo*")),
    Told("name no parser of chats", ("*__verbose.generation_settings.*",), ("*: verbose",)),
    # Embeddings and rankings
    Told(
        "A model that ranks documents makes no embeddings",
        ("status",),
        ("POST *embedding*",),
        ("A 200, B 501 (This model ranks*",),
    ),
)
