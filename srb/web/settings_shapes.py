"""`generation_settings`: what a branch is generated with, under llama-server's names."""

from __future__ import annotations

from typing import Any

from srb.protocol import BranchSpec, Generate, ModelInfo, SamplingParams
from srb.settings import Settings
from srb.web.defaults import default_sampling, default_stop
from srb.web.fields import UINT32_MAX
from srb.web.llamacpp_schemas import LlamaCompletionBody

_SAME_NAME = (
    "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "top_n_sigma", "xtc_probability",
    "xtc_threshold", "typical_p", "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty",
    "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "mirostat", "mirostat_tau", "mirostat_eta",
    "adaptive_target", "adaptive_decay", "ignore_eos", "min_keep",
)  # fmt: skip

# What is said of abilities that completions do not use here, and of samplers that llama.cpp has no more.
_CONSTANT = {
    "chat_format": "Content-only",
    "reasoning_format": "none",
    "reasoning_in_content": False,
    "generation_prompt": "",
    "speculative.types": "none",
    "backend_sampling": False,
    "tfs_z": 1.0,
    "penalize_nl": True,
}


def generation_settings(
    command: Generate, spec: BranchSpec, model: ModelInfo, asked: LlamaCompletionBody
) -> dict[str, Any]:
    """Return what one branch was generated with; its `seed` is the real one."""
    sampling = spec.sampling
    return {
        **_numbers(sampling),
        "seed": spec.seed,
        "dry_sequence_breakers": sampling.dry_sequence_breakers,
        "stop": spec.stop,
        "max_tokens": spec.max_tokens,
        "n_predict": spec.max_tokens,
        "n_keep": command.shift.n_keep if command.shift else asked.n_keep or 0,
        "n_discard": asked.n_discard,
        "n_indent": spec.n_indent,
        "t_max_predict_ms": spec.max_ms,
        "min_tokens": spec.min_tokens,
        "stream": bool(asked.stream),
        "logit_bias": [
            {"bias": bias, "token": token} for token, bias in (*sampling.logit_bias, *_endings(sampling, model))
        ],
        "grammar": sampling.grammar,
        "json_schema": sampling.json_schema,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "timings_per_token": asked.timings_per_token,
        "lora": [{"id": adapter, "scale": scale} for adapter, scale in command.lora or ()],
        "n_ctx": model.n_ctx_seq,
        "model": model.alias,
    }


def _endings(sampling: SamplingParams, model: ModelInfo) -> list[tuple[int, None]]:
    """Return the tokens that `ignore_eos` forbids, as far as they have a name."""
    return [(token, None) for token in (model.eos_id, model.eot_id) if token >= 0] if sampling.ignore_eos else []


def default_generation_settings(settings: Settings, model: ModelInfo) -> dict[str, Any]:
    """Return what a request that says nothing gets, flat as in 2024 and under `params` as now."""
    params = {
        **_numbers(default_sampling(settings)),
        "seed": UINT32_MAX if settings.seed == -1 else settings.seed,
        "stop": default_stop(settings),
        "max_tokens": settings.n_predict,
        "n_predict": settings.n_predict,
        "n_keep": settings.n_keep,
        "n_discard": 0,
        "stream": False,
        "timings_per_token": False,
        "lora": [],
    }
    return {**params, "params": params, "n_ctx": model.n_ctx_seq, "model": model.alias}


def sampling_settings(slot: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a running branch's parameters from an entry of core.Engine.slots."""
    return {**_numbers(SamplingParams(**slot["sampling"])), "seed": slot["seed"]}


def _numbers(sampling: SamplingParams) -> dict[str, Any]:
    return {
        **{name: getattr(sampling, name) for name in _SAME_NAME},
        **_CONSTANT,
        "n_probs": max(0, sampling.n_probs),
        "post_sampling_probs": sampling.post_sampling_probs,
        "samplers": sampling.samplers,
        "penalty_prompt_tokens": [part for part in sampling.penalty_prompt or () if isinstance(part, int)],
        "use_penalty_prompt_tokens": sampling.penalty_prompt is not None,
    }
