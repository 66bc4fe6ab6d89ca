"""Branches that keep apart, in the engine: late starts, pauses, added branches, and refusals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.diversity import _Lowered
from srb.engine.fake import EOS, FakeModel
from srb.engine.request import Branch
from srb.errors import InvalidRequest
from srb.wire.commands import BranchSpec, Generate
from tests.contract.test_diversity import CHI_SQUARE, PROBS, chi_square
from tests.engine_helpers import Driver

PROMPT = "the old king said"


def tokens_of(driver: Driver, n: int = 8, max_tokens: int = 12, **options: Any) -> list[list[int]]:
    """Run one request of the driver; return each branch's tokens."""
    request_id = driver.submit(PROMPT, n, 1, max_tokens, ignore_eos=True, **options)
    driver.run()
    return [driver.result(request_id).tokens[index] for index in range(n)]


BOTH = {"distinct_first": True, "sibling_penalty": 2.0}


def test_branches_that_start_late_are_those_of_a_request_that_runs_at_once() -> None:
    together = tokens_of(Driver(FakeModel(n_ctx=1000, n_seq_max=16)), **BOTH)
    assert tokens_of(Driver(FakeModel(n_ctx=1000, n_seq_max=4)), **BOTH) == together
    assert tokens_of(Driver(FakeModel(n_ctx=1000, n_seq_max=2)), **BOTH) == together


@pytest.mark.parametrize(
    "options",
    [
        {"banned_strings": ("a", "e o", "?")},
        {"banned_strings": ("a", "e o", "?"), "token_healing": True},
        {"banned_strings": ("e",), "distinct_words": True},
    ],
)
@pytest.mark.parametrize("memory", [{}, {"supports_partial_reuse": False}])
def test_first_tokens_that_are_drawn_again_are_the_same_however_many_branches_run(
    options: dict[str, Any], memory: dict[str, bool]
) -> None:
    for seed in (26, 31):
        texts = []
        for n_seq_max in (2, 3, 64):
            driver = Driver(FakeModel(n_ctx=4096, n_seq_max=n_seq_max, **memory))
            request_id = driver.submit(PROMPT, 5, seed, distinct_first=True, **options)
            driver.run()
            texts.append([driver.result(request_id).tokens[index] for index in range(5)])
        assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("n_seq_max", [2, 3, 64])
def test_first_tokens_are_drawn_in_the_order_of_the_branches_whatever_is_appended(n_seq_max: int) -> None:
    """Alike at temperature 0: the first branch has the longest `append`, and its first token is its own all the same."""
    driver = Driver(FakeModel(n_ctx=1000, n_seq_max=n_seq_max, n_ubatch=4, n_batch=32))
    appends: list[tuple[str, ...]] = [(" the river and the boat" * 4,), (), (" and the lamp",), ()]
    sampling = SamplingParams(temperature=0.0, logit_bias=only_letters(driver.model))
    specs = tuple(BranchSpec(1, 3, append=append, sampling=sampling) for append in appends)
    driver.take(driver.engine.submit(driver.engine.prepare(Generate("r", (PROMPT,), specs, distinct_first=True))))
    driver.run()
    drawn = [driver.result("r").tokens[index][0] for index in range(4)]
    assert drawn == driver.model.tokenize("abcd", False, False)
    assert driver.engine.stats()["decode_steps_total"] == 4 * 2 + 2  # the first tokens after an `append` have rows, too


def only_letters(model: FakeModel) -> tuple[tuple[int, float | None], ...]:
    """Return biases that allow four letters alone, in this order wherever they are drawn."""
    letters = model.tokenize("abcd", False, False)
    biases = [(token, 1000.0 * (4 - place)) for place, token in enumerate(letters)]
    return (*biases, *((token, None) for token in range(model.n_vocab) if token not in letters))


def test_branches_paused_for_room_are_those_of_a_request_with_room() -> None:
    roomy, narrow = Driver(FakeModel(n_ctx=1000)), Driver(FakeModel(n_ctx=60))
    assert tokens_of(narrow, max_tokens=30, **BOTH) == tokens_of(roomy, max_tokens=30, **BOTH)
    assert narrow.engine.stats()["branches_paused_total"] > 0


def test_requests_do_not_steer_each_other() -> None:
    driver = Driver(FakeModel(n_ctx=1000))
    options = {"ignore_eos": True, **BOTH}
    first, second = (driver.submit(PROMPT, 4, 1, **options) for _ in range(2))
    driver.run()
    assert driver.result(first).tokens == driver.result(second).tokens


def test_whole_requests_draw_first_tokens_without_replacement() -> None:
    """The fake's logits are those of its prompt: with a bias of each token they become PROBS."""
    model = FakeModel(n_ctx=1000)
    tokens = range(10, 14)
    driver = Driver(model)
    probe = driver.submit(PROMPT, 1, 1, 1, n_probs=model.n_vocab, ignore_eos=True)
    driver.run()
    found = [prob for event in driver.result(probe).events for prob in getattr(event, "probs", None) or ()]
    logprobs = {entry["id"]: entry["logprob"] for entry in found[0]["top_logprobs"]}
    biases = tuple((token, None) for token in range(model.n_vocab) if token not in tokens)
    biases += tuple((token, math.log(prob) - logprobs[token]) for token, prob in zip(tokens, PROBS, strict=True))
    seen: Counter[tuple[int, ...]] = Counter()
    for number in range(2000):
        asked = driver.submit(PROMPT, 3, 3 * number, 1, logit_bias=biases, temperature=1.0, distinct_first=True)
        driver.run()
        drawn = driver.outcomes.pop(asked).tokens
        seen[tuple(drawn[index][0] for index in range(3))] += 1
    assert chi_square(seen, tokens, PROBS) < CHI_SQUARE[23]


def test_a_branch_added_later_keeps_both_rules() -> None:
    driver = Driver(FakeModel(n_ctx=1000))
    request_id = driver.submit(PROMPT, 3, 1, 12, ignore_eos=True, temperature=0, **BOTH)
    for _ in range(5):
        driver.step()
    request = driver.engine._requests.active[request_id]
    one = request.branches[0]
    for index in (3, 4):
        request.branches.append(
            Branch(request, index, one.spec, driver.model.new_sampler(one.spec.sampling, index, []))
        )
    driver.run()
    tokens = driver.result(request_id).tokens
    assert len({tokens[index][0] for index in range(5)}) == 5
    assert tokens == dict(enumerate(tokens_of(Driver(FakeModel(n_ctx=1000)), 5, temperature=0, **BOTH)))


@pytest.mark.parametrize("penalty", [0, 100])
def test_a_fork_parts_from_its_origin_where_it_was_forked(penalty: float) -> None:
    """Its first own token is none of a text's beginning, so it may be any; a penalty keeps it from its origin's there."""
    driver = Driver(FakeModel(n_ctx=1000))
    options = {"ignore_eos": True, "temperature": 0, "distinct_first": True, "sibling_penalty": penalty}
    request_id = driver.submit(PROMPT, 2, 1, 12, **options)
    for _ in range(6):
        driver.step()
    request = driver.engine._requests.active[request_id]
    origin = request.branches[1]
    sampler = driver.model.new_sampler(origin.spec.sampling, 2, [])
    fork = Branch(request, 2, replace(origin.spec, max_tokens=9), sampler, origin.tokens[:3])
    fork.num_hidden = 0
    request.branches.append(fork)
    driver.run()
    tokens = driver.result(request_id).tokens
    together = [own == others for own, others in zip(tokens[2], tokens[1][3:], strict=True)]
    assert together == [not penalty] * 9


def test_an_end_of_text_is_a_token_that_one_branch_takes() -> None:
    driver = Driver()
    request_id = driver.submit(PROMPT, 4, 1, 5, logit_bias=((EOS, 50.0),), temperature=0, distinct_first=True)
    driver.run()
    assert [driver.result(request_id).ends[index].length == 0 for index in range(4)] == [True, False, False, False]


class Recorder(FakeModel):
    """A model that remembers how many rows were offered to be sampled ahead."""

    num_offered = 0

    def samples_in_threads(self, count: int) -> bool:
        return True

    def sample_ahead(self, choices: Sequence[tuple[Any, int]]) -> None:
        self.num_offered += len(choices)


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({}, 2 * 3),
        ({"sibling_penalty": 1.0}, 0),
        ({"distinct_first": True}, 2 * 3),
        ({"distinct_first": True, "append": (" and",)}, 2 * 3),
        ({"append": (" and",)}, 2 * 4),
    ],
)
def test_no_token_that_depends_on_siblings_is_sampled_ahead(options: dict[str, Any], offered: int) -> None:
    model = Recorder()
    tokens_of(Driver(model), 2, 4, **options)
    assert model.num_offered == offered


@pytest.mark.parametrize("value", [-1, 101, math.nan, math.inf, "1", True])
def test_a_penalty_that_is_no_number_of_its_range_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="sibling_penalty"):
        Driver().engine.prepare(Generate("r", (PROMPT,), (BranchSpec(1),), sibling_penalty=value))


@pytest.mark.parametrize("count", [1, 5, 16, 17, 60])
def test_logits_are_lowered_once_for_each_sibling_and_get_their_values_back(count: int) -> None:
    given = np.random.default_rng(count).standard_normal(50).astype(np.float32)
    tokens = [token * 7 % 40 for token in range(count)] + [3]
    lowered = _Lowered(given.copy(), tokens, 0.75)
    expected = given - 0.75 * np.bincount(tokens, minlength=50).astype(np.float32)
    assert lowered.logits == pytest.approx(expected, abs=1e-5)
    lowered.restore()
    assert (lowered.logits == given).all()
