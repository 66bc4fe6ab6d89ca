"""The likeliest tokens, from which a chain is sampled that leaves out all others: the same ones are drawn as from all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tests.models.random_gguf import TINY, write_llama

VOCAB = 12_000  # more than four times the candidates that are taken of it
HISTORY = [300 + place * 7 % 40 for place in range(120)]  # repeats itself: penalties and DRY have something to do
SEEDS = range(12)
DRY = {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_penalty_last_n": -1}


def forbid(tokens: Iterable[int]) -> tuple[tuple[int, None], ...]:
    return tuple((int(token), None) for token in tokens)


SETTINGS: dict[str, dict[str, Any]] = {
    "as llama-server": {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    "greedy": {"top_k": 40, "temperature": 0},
    "min-p alone": {"top_k": 0, "top_p": 1.0, "min_p": 0.05},
    "a low min-p, which hundreds pass": {"top_k": 0, "top_p": 1.0, "min_p": 0.001, "temperature": 2.0},
    "nothing is left out": {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "one is kept": {"top_k": 1, "temperature": 3.0},
    "more are kept than buckets are for": {"top_k": 300, "top_p": 1.0, "min_p": 0.0, "temperature": 2.0},
    "nearly all are kept": {"top_k": VOCAB - 1, "top_p": 1.0, "min_p": 0.0, "temperature": 2.0},
    "penalties": {"top_k": 40, "repeat_penalty": 1.8, "presence_penalty": 1.0, "frequency_penalty": 0.5},
    "penalties that raise": {"top_k": 20, "presence_penalty": -2.0, "repeat_penalty": 0.5},
    "DRY": {"top_k": 30, **DRY},
    "DRY before min-p": {"top_k": 0, "top_p": 1.0, "min_p": 0.1, **DRY},
    "some tokens are forbidden": {"top_k": 20, "logit_bias": forbid(range(0, 600, 3))},
    "more are forbidden than are looked for": {"top_k": 5, "logit_bias": forbid(range(600, VOCAB, 7))},
    "a token is raised": {"top_k": 10, "logit_bias": ((450, 30.0),)},
    "min-p keeps at least some": {"top_k": 0, "top_p": 1.0, "min_p": 0.9, "min_keep": 8},
    "temperature comes first": {"samplers": ("temperature", "top_k", "min_p"), "top_k": 40, "temperature": 2.0},
    "XTC and typical-p": {"top_k": 50, "xtc_probability": 0.9, "xtc_threshold": 0.02, "typical_p": 0.9},
    "top-n-sigma": {"top_n_sigma": 1.5, "top_k": 40},
    "quadratic sampling": {"smoothing_factor": 0.3, "top_k": 40},
    "quadratic sampling comes first": {"smoothing_factor": 0.3, "samplers": ("temperature", "top_k"), "top_k": 40},
}


@pytest.fixture(scope="module", params=["each token has a logit of its own", "each logit is four tokens'"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    path = write_llama(tmp_path_factory.mktemp("models") / "wide.gguf", replace(TINY, vocab=VOCAB, context=1024))
    if "four" in request.param:
        [rows] = [each.data for each in GGUFReader(path, "r+").tensors if each.name == "output.weight"]
        rows[:] = np.concatenate([rows[: VOCAB // 4]] * 4)
        rows.flush()  # a mapped file
    loaded = LlamaModel.load(Settings(model=str(path), n_ctx=1024, n_seq_max=2, threads=1, n_gpu_layers=0))
    last = len(HISTORY) - 1
    for start, tokens in ((0, HISTORY[:last]), (last, HISTORY[last:])):  # so the last token's row is 0
        batch = Batch()
        batch.add(0, start, tokens, want_logits=len(tokens) == 1)
        assert loaded.decode(batch) is DecodeStatus.OK
    yield loaded
    loaded.close()


@pytest.mark.parametrize("name", SETTINGS)
def test_the_likeliest_draw_what_the_whole_vocabulary_draws(model: LlamaModel, name: str) -> None:
    draws_the_same(model, replace(SamplingParams(ignore_eos=False), **SETTINGS[name]))


@pytest.mark.parametrize("keeps", [{"top_k": 5, "min_p": 0.0}, {"top_k": 0, "min_p": 0.3}], ids=["top-k", "min-p"])
@pytest.mark.parametrize("count", [3, 70, 600])
def test_where_the_likeliest_are_forbidden_the_next_are_drawn(
    model: LlamaModel, count: int, keeps: dict[str, Any]
) -> None:
    forbidden = forbid(np.argsort(-model.logits(0))[:count])
    draws_the_same(model, SamplingParams(top_p=1.0, logit_bias=forbidden, temperature=2.0, **keeps))


def draws_the_same(model: LlamaModel, params: SamplingParams) -> None:
    logits = model.logits(0)
    for seed in SEEDS:
        fast, whole = (model.new_sampler(params, seed, HISTORY) for _ in range(2))
        drawn = [fast.sample(0) for _ in range(6)]  # each is remembered, and changes what penalties see
        assert drawn == [whole.sample_from(logits) for _ in range(6)], f"seed {seed}"
        fast.close()
        whole.close()


def test_equal_logits_are_kept_by_their_tokens_numbers(model: LlamaModel) -> None:
    """So the candidates depend on the logits alone, not on the way in which they are sorted."""
    logits = model.logits(0).copy()
    logits[:] = 0.0
    logits[5000:] = 1.0
    sampler = model.new_sampler(SamplingParams(top_k=3, top_p=1.0, min_p=0.0, temperature=1.0), 1, [])
    assert {sampler.sample_from(logits) for _ in range(60)} == {5000, 5001, 5002}
    sampler.close()
