"""SamplingParams as a sampler chain: its stages, in llama.cpp's order.

A pure description, so that equal seeds and parameters give llama-server's results, and a test can compare the stages.
Stages that change nothing are left out. Source: `common_sampler_init` in llama.cpp's common/sampling.cpp.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from srb.config.sampling_params import SamplingParams

MIROSTAT_CANDIDATES = 100  # the m of mirostat 1, fixed in llama.cpp
NEVER = 1e-30  # of the likeliest token's probability: no draw comes to what has less
# Stages that draw random numbers; none of them remembers past tokens.
SEEDED = frozenset({"xtc", "dist", "mirostat", "mirostat_v2", "adaptive_p"})


@dataclass(frozen=True, slots=True)
class Stage:
    """One sampler: the name of its `llama_sampler_init_…` and the arguments after the vocabulary."""

    name: str
    args: tuple[Any, ...]


# What top_n_sigma or a bias excludes stays in llama.cpp's list with a probability of 0, whose logarithm makes a NaN of what
# typical and mirostat 1 measure over the list; so what is never drawn is dropped before them.
DROPPED = Stage("min_p", (NEVER, 1))


def chain(params: SamplingParams, seed: int) -> list[Stage]:
    """Return the stages after logit bias and grammar, which need a vocabulary; the last stage chooses a token."""
    if params.mirostat == 1:
        chooser = Stage("mirostat", (seed, params.mirostat_tau, params.mirostat_eta, MIROSTAT_CANDIDATES))
        return [*_smoothed(Stage("temp", (params.temperature,)), params), DROPPED, chooser]
    if params.mirostat == 2:
        chooser = Stage("mirostat_v2", (seed, params.mirostat_tau, params.mirostat_eta))
        return [*_smoothed(Stage("temp", (params.temperature,)), params), chooser]
    named = [stage for name in params.samplers if (stage := _STAGES[name](params, seed))]
    stages = [each for stage in named for each in _smoothed(stage, params)]
    stages = [each for stage in stages for each in ((DROPPED, stage) if stage.name == "typical" else (stage,))]
    if "adaptive_p" in params.samplers:
        return [*stages, Stage("adaptive_p", (params.adaptive_target, params.adaptive_decay, seed))]
    return [*stages, Stage("dist", (seed,))]


def _smoothed(stage: Stage, p: SamplingParams) -> list[Stage]:
    """Return a stage, and after that of the temperature quadratic sampling, as KoboldCpp runs it."""
    is_on = stage.name in ("temp", "temp_ext") and p.temperature > 0 and p.smoothing_factor > 0
    return [stage, Stage("quadratic", (p.smoothing_factor, p.smoothing_curve))] if is_on else [stage]


def is_greedy(params: SamplingParams) -> bool:
    """Whether the chain always chooses the likeliest token: its temperature is 0, and no range varies it."""
    temperatures = (stage.args for stage in chain(params, 0) if stage.name in ("temp", "temp_ext"))
    return any(args[0] <= 0 and not any(args[1:2]) for args in temperatures)


def remembered_tokens(params: SamplingParams) -> int:
    """Return how many past tokens the chain looks at; a new sampler accepts so many of the prompt's last tokens."""
    stages = {stage.name: stage for stage in chain(params, 0)}
    return max(
        params.repeat_last_n if "penalties" in stages else 0,
        params.dry_penalty_last_n if "dry" in stages else 0,
    )


def _penalties(p: SamplingParams, _seed: int) -> Stage | None:
    if p.repeat_last_n == 0 or (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) == (1.0, 0.0, 0.0):
        return None
    return Stage("penalties", (p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty))


def _dry(p: SamplingParams, _seed: int) -> Stage | None:
    if p.dry_multiplier == 0.0 or p.dry_base < 1.0 or p.dry_penalty_last_n == 0:
        return None
    breakers = tuple(dict.fromkeys(p.dry_sequence_breakers))  # a repeated breaker costs time and changes nothing
    args = (p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_penalty_last_n, breakers)
    return Stage("dry", args)


def _xtc(p: SamplingParams, seed: int) -> Stage | None:
    if p.xtc_probability <= 0.0 or p.xtc_threshold > 0.5:
        return None
    return Stage("xtc", (p.xtc_probability, p.xtc_threshold, p.min_keep, seed))


_STAGES: dict[str, Callable[[SamplingParams, int], Stage | None]] = {
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": lambda p, _: Stage("top_n_sigma", (p.top_n_sigma,)) if p.top_n_sigma > 0 else None,
    "top_k": lambda p, _: Stage("top_k", (p.top_k,)) if p.top_k > 0 else None,
    "typ_p": lambda p, _: Stage("typical", (p.typical_p, p.min_keep)) if p.typical_p < 1 else None,
    "top_p": lambda p, _: Stage("top_p", (p.top_p, p.min_keep)) if p.top_p < 1 else None,
    "min_p": lambda p, _: Stage("min_p", (p.min_p, p.min_keep)) if p.min_p > 0 else None,
    "xtc": _xtc,
    "temperature": lambda p, _: Stage("temp_ext", (p.temperature, p.dynatemp_range, p.dynatemp_exponent)),
    "infill": lambda _p, _s: Stage("infill", ()),
    "adaptive_p": lambda _p, _s: None,  # chooses a token, so it is the last stage wherever it is named
}
