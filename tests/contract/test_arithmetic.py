"""Arithmetic sampling: each branch is an exact sample, and the branches of a request share the probabilities out evenly."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.arithmetic import BITS, Code, point_of
from srb.engine.fake import FakeModel
from srb.engine.model import Candidates, Model
from srb.errors import InvalidRequest
from srb.wire.commands import BranchSpec, Explore, Generate
from tests.contract.test_diversity import FIRST, PROBS, fake_and_llama, logits_of
from tests.engine_helpers import Driver

CHI_SQUARE = {3: 21.1, 15: 44.3}  # 0.9999 quantiles, by degrees of freedom
BRANCHES = 8


def statistic(seen: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    assert seen.keys() <= expected.keys()
    return sum((seen[key] - chance * seen.total()) ** 2 / (chance * seen.total()) for key, chance in expected.items())


@fake_and_llama
def test_each_branch_draws_two_tokens_with_their_probabilities_whatever_its_index(model: Model) -> None:
    params = SamplingParams(temperature=1.0, samplers=("top_k", "temperature"), top_k=4)
    sampler, logits = model.new_sampler(params, 1, []), logits_of(model)
    expected = {(a, b): PROBS[a] * PROBS[b] for a in range(4) for b in range(4)}
    shifts = np.random.default_rng(1).random(4000)
    for index in (0, 1, 5):
        seen: Counter[tuple[int, ...]] = Counter()
        for shift in shifts:
            code = Code(point_of(index, float(shift)))
            seen[tuple(sampler.sample_by(logits, code.take) - FIRST for _ in range(2))] += 1
        assert statistic(seen, expected) < CHI_SQUARE[15]
    sampler.close()


@fake_and_llama
def test_branches_share_the_first_token_out_by_its_probabilities(model: Model) -> None:
    params = SamplingParams(temperature=1.0, samplers=("top_k", "temperature"), top_k=4)
    sampler, logits = model.new_sampler(params, 1, []), logits_of(model)
    for shift in np.random.default_rng(2).random(200):
        drawn = [sampler.sample_by(logits, Code(point_of(index, float(shift))).take) for index in range(BRANCHES)]
        for place, chance in enumerate(PROBS):
            assert math.floor(BRANCHES * chance) <= drawn.count(FIRST + place) <= math.ceil(BRANCHES * chance)
    sampler.close()


def test_points_of_added_branches_lie_in_the_gaps() -> None:
    for count in (2, 4, 8, 64):
        points = sorted(point_of(index, 0.3) for index in range(count))
        gaps = np.diff([*points, points[0] + 1])
        assert gaps == pytest.approx(1 / count)


def test_a_point_is_spent_after_its_bits_and_a_certain_token_takes_none() -> None:
    code = Code(0.7)
    certain = Candidates(np.array([5], np.int32), np.ones(1, np.float32))
    for _ in range(100):
        assert code.take(certain) == 5
    assert not code.is_spent
    half = Candidates(np.arange(2, dtype=np.int32), np.array([0.5, 0.5], np.float32))
    for _ in range(BITS):
        assert not code.is_spent
        code.take(half)
    assert code.is_spent


@pytest.mark.parametrize("n_seq_max", [2, 64])
def test_the_seeds_repeat_the_request_and_branches_begin_apart(n_seq_max: int) -> None:
    def texts(arithmetic: bool, seed: int) -> list[tuple[int, ...]]:
        driver = Driver(FakeModel(n_ctx=4096, n_seq_max=n_seq_max))
        request_id = driver.submit("the old king said", BRANCHES, seed, 12, ignore_eos=True, arithmetic=arithmetic)
        driver.run()
        return [tuple(driver.result(request_id).tokens[index]) for index in range(BRANCHES)]

    assert texts(True, 3) == texts(True, 3)
    begun = {is_on: sum(len({text[0] for text in texts(is_on, seed)}) for seed in range(40)) for is_on in (True, False)}
    assert begun[True] > begun[False]


def test_a_fork_and_an_added_branch_have_points_of_their_own() -> None:
    driver = Driver(FakeModel(n_ctx=4096))
    request_id = driver.submit(
        "the old king", 4, max_tokens=20, ignore_eos=True, arithmetic=True, can_grow=True, linger=9.0
    )
    driver.run()
    added = [*driver.add(request_id), *driver.add(request_id, origin=1, token=2)]
    driver.run()
    texts = {tuple(driver.result(request_id).tokens[index]) for index in [*range(4), *added]}
    assert len(texts) == 6


def test_other_ways_to_spread_and_walks_are_refused_beside_it() -> None:
    engine = Driver().engine
    for given in ({"distinct_first": True}, {"sibling_penalty": 1.0}, {"explore": Explore()}):
        with pytest.raises(InvalidRequest, match="sampling"):
            engine.prepare(Generate("r", ("the old",), (BranchSpec(1),), arithmetic=True, **given))  # type: ignore[arg-type]
