"""The sampler chain is llama.cpp's: same stages, same order, nothing that changes nothing."""

from __future__ import annotations

from dataclasses import replace

from srb.config.sampling_params import SamplingParams
from srb.engine.sampling import DROPPED, SEEDED, Stage, chain, is_greedy, remembered_tokens


def names(params: SamplingParams) -> list[str]:
    return [stage.name for stage in chain(params, seed=7)]


def test_the_default_chain_leaves_out_what_is_off() -> None:
    assert names(SamplingParams()) == ["top_k", "top_p", "min_p", "temp_ext", "dist"]


def test_everything_switched_on_stands_in_llama_cpps_order() -> None:
    params = SamplingParams(
        repeat_penalty=1.1, dry_multiplier=0.8, top_n_sigma=1.0, typical_p=0.9, xtc_probability=0.5, dynatemp_range=0.3
    )
    assert names(params) == [
        "penalties", "dry", "top_n_sigma", "top_k", "min_p", "typical", "top_p", "min_p", "xtc", "temp_ext", "dist",
    ]  # fmt: skip


def test_the_users_order_is_kept() -> None:
    assert names(SamplingParams(samplers=("temperature", "top_k"))) == ["temp_ext", "top_k", "dist"]


def test_a_sampler_that_is_named_twice_runs_twice_as_in_llama_cpp() -> None:
    samplers = ("temperature", "xtc", "top_k", "temperature", "xtc")
    params = SamplingParams(samplers=samplers, xtc_probability=0.5, repeat_penalty=1.1)
    assert names(params) == ["temp_ext", "xtc", "top_k", "temp_ext", "xtc", "dist"]
    assert chain(params, seed=7)[0] == chain(params, seed=7)[3]


def test_quadratic_sampling_runs_with_each_temperature_and_not_at_0() -> None:
    smooth = SamplingParams(smoothing_factor=0.3, smoothing_curve=2.0)
    assert names(smooth) == ["top_k", "top_p", "min_p", "temp_ext", "quadratic", "dist"]
    assert chain(smooth, 7)[-2] == Stage("quadratic", (0.3, 2.0))
    twice = replace(smooth, samplers=("temperature", "top_k", "temperature"))
    assert names(twice) == ["temp_ext", "quadratic", "top_k", "temp_ext", "quadratic", "dist"]
    assert names(replace(smooth, mirostat=1)) == ["temp", "quadratic", "min_p", "mirostat"]
    assert names(replace(smooth, mirostat=2)) == ["temp", "quadratic", "mirostat_v2"]
    for off in (replace(smooth, temperature=0.0), replace(smooth, smoothing_factor=0.0), replace(smooth, samplers=())):
        assert "quadratic" not in names(off)
    assert not is_greedy(smooth)


def test_mirostat_replaces_the_chain() -> None:
    chooser = Stage("mirostat", (7, 5.0, 0.1, 100))
    assert chain(SamplingParams(mirostat=1), seed=7) == [Stage("temp", (0.8,)), DROPPED, chooser]
    assert chain(SamplingParams(mirostat=2), seed=7) == [Stage("temp", (0.8,)), Stage("mirostat_v2", (7, 5.0, 0.1))]


def test_adaptive_p_chooses_last_wherever_it_is_named() -> None:
    params = SamplingParams(samplers=("adaptive_p", "min_p"), adaptive_target=0.4)
    assert chain(params, seed=7) == [Stage("min_p", (0.05, 0)), Stage("adaptive_p", (0.4, 0.9, 7))]


def test_only_chains_that_look_back_are_shown_the_prompt() -> None:
    assert remembered_tokens(SamplingParams()) == 0
    assert remembered_tokens(SamplingParams(presence_penalty=0.5, repeat_last_n=32)) == 32
    assert remembered_tokens(SamplingParams(dry_multiplier=0.8, dry_penalty_last_n=100, repeat_penalty=1.2)) == 100


def test_the_stages_that_depend_on_the_seed_are_those_that_are_known_to() -> None:
    every = SamplingParams().samplers
    found = set()
    for params in (
        SamplingParams(mirostat=1),
        SamplingParams(mirostat=2),
        SamplingParams(dry_multiplier=0.8, repeat_penalty=1.1, xtc_probability=0.5, typical_p=0.9, top_n_sigma=1.0),
        SamplingParams(samplers=(*every, "infill", "adaptive_p")),
    ):
        pairs = zip(chain(params, seed=1), chain(params, seed=2), strict=True)
        found |= {one.name for one, other in pairs if one != other}
    assert found == SEEDED


def test_a_breaker_that_is_named_twice_counts_once() -> None:
    params = SamplingParams(dry_multiplier=0.8, dry_sequence_breakers=("a", "b", "a"))
    [dry] = [stage for stage in chain(params, seed=1) if stage.name == "dry"]
    assert dry.args[-1] == ("a", "b")
