"""The object `generation_settings` of an answer: a branch's parameters, under llama-server's names."""

from typing import Any

from srb.config.sampling_params import PARAMETERS, SamplingParams
from srb.config.settings import Settings
from srb.web.answers import JSONObject
from srb.web.bodies.fields import UINT32_MAX
from srb.web.bodies.sampling import default_sampling, default_stop
from srb.web.dialects.llamacpp.body import TOKEN_TRIGGER, WORD_TRIGGER, LlamaCompletionBody
from srb.wire.commands import BranchSpec, ContextShift, Generate
from srb.wire.events import ModelInfo

# JSONObject values: features that completions do not use here, and samplers that llama.cpp has removed.
_CONSTANT: JSONObject = {
    "chat_format": "Content-only",
    "reasoning_format": "none",
    "reasoning_in_content": False,
    "generation_prompt": "",
    "backend_sampling": False,
    "tfs_z": 1.0,
    "penalize_nl": True,
}


def generation_settings(
    command: Generate, spec: BranchSpec, model: ModelInfo, asked: LlamaCompletionBody
) -> JSONObject:
    """Return the parameters of one branch; `seed` is the branch's own seed."""
    sampling = spec.sampling
    return {
        **_sampling(sampling, model.speculative),
        "reasoning_format": asked.reasoning_format or _CONSTANT["reasoning_format"],
        "seed": spec.seed,
        **_forms(sampling, model),
        "stop": spec.stop,
        "max_tokens": spec.max_tokens,
        "n_predict": spec.max_tokens,
        "n_keep": command.shift.n_keep if command.shift else asked.n_keep,
        "n_discard": asked.n_discard,
        "n_indent": spec.n_indent,
        "stop_at": spec.stop_at,
        "stop_after": spec.stop_after,
        "t_max_predict_ms": spec.t_max_predict_ms,
        "min_tokens": spec.min_tokens,
        "stream": bool(asked.stream),
        "timings_per_token": asked.timings_per_token,
        "lora": [{"id": adapter, "scale": scale} for adapter, scale in command.lora or ()],
        "n_ctx": model.n_ctx_seq,
        "model": model.alias,
    }


def _forms(sampling: SamplingParams, model: ModelInfo) -> JSONObject:
    """Return the parameters that are no numbers or switches."""
    return {
        "dry_sequence_breakers": sampling.dry_sequence_breakers,
        "logit_bias": [
            {"bias": bias, "token": token} for token, bias in (*sampling.logit_bias, *_endings(sampling, model))
        ],
        "grammar": sampling.grammar,
        "json_schema": sampling.json_schema,
        "grammar_lazy": bool(sampling.grammar_triggers),
        "grammar_triggers": [_trigger(value) for _, value in sampling.grammar_triggers],
        "preserved_tokens": [],
    }


def _trigger(value: str | int) -> dict[str, Any]:
    """Return a trigger as llama-server's: a token's id, or a word."""
    if isinstance(value, int):
        return {"type": TOKEN_TRIGGER, "value": "", "token": value}
    return {"type": WORD_TRIGGER, "value": value}


def _endings(sampling: SamplingParams, model: ModelInfo) -> list[tuple[int, None]]:
    """Return the biases of the tokens that end a text, which `ignore_eos` forbids."""
    return [(token, None) for token in model.eog_ids] if sampling.ignore_eos else []


def default_generation_settings(settings: Settings, model: ModelInfo) -> JSONObject:
    """Return the default parameters of requests, at the top level as in 2024, and under `params` as now."""
    seed = UINT32_MAX if settings.seed == -1 else settings.seed
    spec = BranchSpec(seed, settings.max_tokens, default_stop(settings), default_sampling(settings))
    command = Generate("", (), (spec,), shift=ContextShift())
    params = generation_settings(command, spec, model, LlamaCompletionBody())
    return {**params, "params": params}


def slot_settings(settings: Settings, model: ModelInfo) -> JSONObject:
    """Return the parameters that an idle slot shows: the defaults, without those that may hold much text."""
    default: JSONObject = default_generation_settings(settings, model)["params"]
    return {**default, "stop": (), "grammar": "", "json_schema": "", "logit_bias": [], "dry_sequence_breakers": ()}


def running_settings(slot: dict[str, Any], idle: JSONObject) -> JSONObject:
    """Return the parameters that run in a slot, from the engine's entry; those that it does not have are `idle`'s."""
    limit = slot["max_tokens"]
    sampling = SamplingParams(**{**slot["sampling"], "samplers": tuple(slot["sampling"]["samplers"])})
    return {
        **idle,
        **_sampling(sampling, idle["speculative.types"]),
        "seed": slot["seed"],
        "n_predict": limit,
        "max_tokens": limit,
        "n_keep": slot["n_keep"],
        "lora": [{"id": adapter, "scale": scale} for adapter, scale in enumerate(slot["lora"])],
    }


def _sampling(sampling: SamplingParams, drafts: str) -> JSONObject:
    return {
        **_plain(sampling),
        **_CONSTANT,
        "speculative.types": drafts,
        "samplers": sampling.samplers,
        "penalty_prompt_tokens": [part for part in sampling.penalty_prompt or () if isinstance(part, int)],
        "use_penalty_prompt_tokens": sampling.penalty_prompt is not None,
    }


def _plain(sampling: SamplingParams) -> JSONObject:
    """Return the parameters that are numbers or switches; in llama-server n_probs is 0 for none."""
    found = {name: getattr(sampling, name) for name, parameter in PARAMETERS.items() if parameter.is_plain}
    return found | {"n_probs": max(0, sampling.n_probs)}
