"""Speculation: texts are the same with drafts as without, and drafts are added only where they pay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.lookup import Lookup, prompt_index
from srb.engine.model import DecodeStatus
from srb.engine.step_times import StepTimes
from srb.engine.tokens import Tokens, tokens_of
from srb.protocol import ContextShift
from tests.engine_helpers import Driver, solo

PROMPT = "the old king said the young fox"


class Oracle:
    """Drafts for the texts that a run without drafts has written: each token is right with probability `share`."""

    def __init__(self, texts: Sequence[Sequence[int]], share: float) -> None:
        self._texts = texts
        self._share = share
        self._chance = random.Random(1)

    def draft(self, tokens: Tokens, most: int) -> list[int]:
        """Return what follows in the first text that begins so."""
        known = list(tokens)
        text = next((list(text) for text in self._texts if list(text[: len(known)]) == known), [])
        following = text[len(known) : len(known) + most]
        return [token if self._chance.random() < self._share else 5 for token in following]


def written(driver: Driver, **options: Any) -> tuple[dict[int, list[int]], dict[int, Any]]:
    outcome = driver.outcomes[driver.submit(PROMPT, **options)]
    driver.run()
    return dict(outcome.tokens), {
        index: (end.reason, end.length, end.stopping_word) for index, end in outcome.ends.items()
    }


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "options",
    [
        {"n": 1, "max_tokens": 60},
        {"n": 8, "max_tokens": 40, "temperature": 1.5},
        {"n": 3, "max_tokens": 33, "stop": (" king", "fox the")},
        {"n": 3, "max_tokens": 90, "stop_at": "sentence"},
        {"n": 2, "max_tokens": 30, "n_probs": 2},
        {"n": 2, "max_tokens": 30, "cache_prompt": False},
        {"n": 2, "max_tokens": 400},
        {"n": 2, "max_tokens": 30, "repeat_penalty": 1.3},
    ],
)
def test_drafts_right_or_wrong_change_no_text(
    share: float, options: dict[str, Any], ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Driver(FakeModel(n_ctx=1000, n_ctx_seq=300))
    expected = written(plain, **options)
    oracle = Oracle(list(expected[0].values()), share)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    driver = Driver(FakeModel(n_ctx=1000, n_ctx_seq=300, decodes_ahead=ahead), max_draft=6)
    assert written(driver, **options) == expected
    stats = driver.engine.stats()
    assert stats["spec_decode_num_draft_tokens_total"] > 0
    assert stats["tokens_predicted_total"] == plain.engine.stats()["tokens_predicted_total"]
    if share == 1.0:
        assert stats["spec_decode_num_accepted_tokens_total"] > 0.8 * stats["spec_decode_num_draft_tokens_total"]
        assert stats["n_decode_total"] < 0.6 * plain.engine.stats()["n_decode_total"]
    computed = driver.engine.stats()["prompt_tokens_total"]
    again = {**options, "seed": 9}
    assert written(driver, **again) == written(plain, **again)  # the tree holds what it held without drafts
    assert driver.engine.stats()["prompt_tokens_total"] == computed or not options.get("cache_prompt", True)


def test_a_text_that_repeats_itself_takes_fewer_decodes() -> None:
    model = FakeModel(n_ctx=4000)
    bias = tuple((token, None) for token in range(model.n_vocab) if token != 9)  # it can say one word alone
    driver = Driver(model, max_draft=8)
    driver.submit(PROMPT, max_tokens=200, logit_bias=bias)
    driver.run()
    assert driver.engine.stats()["n_decode_total"] < 60


def test_a_stop_that_is_found_during_the_next_decode_leaves_no_draft_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = solo(PROMPT, seed=1, max_tokens=12, ignore_eos=True).tokens[0]
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: [5] * most)
    for length in range(2, 9):
        driver = Driver(FakeModel(n_ctx=1000, decodes_ahead=True), max_draft=4)
        stop = driver.model.piece(expected[length - 1]).decode()
        outcome = driver.outcomes[driver.submit(PROMPT, seed=1, max_tokens=12, ignore_eos=True, stop=(stop,))]
        driver.run()
        text = [*driver.engine.tokenize([PROMPT], True, True), *expected[: outcome.ends[0].length]]
        again = driver.outcomes[driver.submit(text, seed=7, max_tokens=12)]
        driver.run()
        assert again.texts == solo(text, seed=7, max_tokens=12).texts


def test_drafts_count_as_cells_until_they_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that ends may restore a text; there has to be room for it beside the drafts of the others."""
    counted: list[bool] = []
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: [5] * most)
    driver = Driver(FakeModel(n_ctx=1000), max_draft=4)
    end = driver.engine._branches.end

    def checked(*args: Any, **options: Any) -> None:
        counted.append(driver.model.used_cells <= driver.engine.stats()["kv_cells_used"])
        end(*args, **options)

    monkeypatch.setattr(driver.engine._branches, "end", checked)
    driver.submit(PROMPT, n=6, max_tokens=30, ignore_eos=True, stop=(" fox", " the", " and", ".", " king"))
    driver.run()
    assert counted == [True] * 6


def test_a_request_that_rests_keeps_no_index_of_its_text() -> None:
    model = FakeModel(n_ctx=1000)
    bias = tuple((token, None) for token in range(model.n_vocab) if token != 9)
    driver = Driver(model, max_draft=4)
    request_id = driver.submit(PROMPT, n=2, max_tokens=30, logit_bias=bias, linger=60.0)
    driver.step()
    request = driver.request(request_id)
    driver.step()
    assert request.prefix.index is not None
    while driver.engine.has_work:
        driver.step()
    assert driver.resting == [request]
    assert request.prefix.index is None
    assert [branch.draft for branch in request.branches] == [None, None]
    driver.change(request_id, 0, more=20)
    while driver.engine.has_work:
        driver.step()
    assert driver.result(request_id).tokens[0] == [9] * 50


def test_context_shifts_of_a_text_that_repeats_itself_begin_its_drafts_anew() -> None:
    """From the second shift on, the prompt that is left is as long as after the shift before."""
    model = FakeModel(n_ctx_seq=40)
    bias = tuple((token, None) for token in range(model.n_vocab) if token != 9)
    driver = Driver(model, max_draft=4)
    outcome = driver.outcomes[driver.submit(PROMPT, max_tokens=150, logit_bias=bias, shift=ContextShift(0, 0))]
    for _ in range(300):
        driver.step()
        if outcome.terminal:
            break
    assert outcome.tokens[0] == [9] * 150
    assert driver.engine.stats()["context_shifts_total"] > 4
    assert driver.engine.stats()["spec_decode_num_accepted_tokens_total"] > 0


@pytest.mark.parametrize("options", [{"has_states": True}, {"supports_partial_reuse": False}])
def test_memory_that_cannot_be_cut_drafts_nothing(options: dict[str, bool]) -> None:
    driver = Driver(FakeModel(n_ctx=4000, **options), max_draft=8)
    bias = tuple((token, None) for token in range(driver.model.n_vocab) if token != 9)
    driver.submit(PROMPT, max_tokens=50, logit_bias=bias)
    driver.run()
    assert driver.engine.stats()["spec_decode_num_draft_tokens_total"] == 0


def test_a_step_without_room_is_tried_again_without_its_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Driver(FakeModel(n_ctx=1000))
    expected = written(plain, n=2, max_tokens=40)
    oracle = Oracle(list(expected[0].values()), 1.0)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    driver = Driver(FakeModel(n_ctx=1000), max_draft=4)
    for status in (DecodeStatus.NO_ROOM, DecodeStatus.INVALID):
        outcome = driver.outcomes[driver.submit(PROMPT, n=2, max_tokens=40)]
        for _ in range(6):
            driver.step()
        driver.model.failures.append(status)
        driver.run()
        assert dict(outcome.tokens) == expected[0]
    assert driver.engine.stats()["branches_paused_total"] == 0


def test_a_draft_is_what_followed_the_latest_equal_tokens() -> None:
    prompt = tokens_of([1, 2, 3, 4, 5, 9, 2, 3, 4, 6, 7])
    lookup = Lookup(prompt, prompt_index(prompt))
    assert list(lookup.draft(tokens_of([]), 4)) == []
    assert list(lookup.draft(tokens_of([2, 3, 4]), 2)) == [6, 7]
    assert list(lookup.draft(tokens_of([2, 3, 4]), 4)) == [6, 7, 2, 3]  # on from the prompt's end into the branch
    assert list(lookup.draft(tokens_of([2, 3, 4, 8, 2, 3, 4]), 6)) == [8, 2, 3, 4, 8, 2]  # its own text goes first
    assert list(lookup.draft(tokens_of([2, 3, 4, 8, 2, 3, 4, 1, 1]), 6)) == []


def test_a_long_prompt_is_indexed_at_its_end_alone() -> None:
    assert len(prompt_index(tokens_of(range(100_000)))) < 9000


def measured(**seconds: float) -> StepTimes:
    """Return times in which each size, `t1` for 1, was measured often."""
    times = StepTimes()
    for name, each in seconds.items():
        for _ in range(100):
            times.note(int(name[1:]), each)
    return times


def test_drafts_are_added_while_they_pay() -> None:
    times = StepTimes()
    assert times.best_addition(1, [0.9] * 4) == 0  # nothing is known yet
    times.note(1, 1.0)
    assert times.best_addition(1, [0.9] * 4) == 4  # larger steps are tried
    assert measured(t1=1, t2=1.1, t3=1.2, t4=1.3, t5=1.4).best_addition(1, [0.9, 0.8, 0.05, 0.04]) == 2
    assert measured(t1=1, t2=2, t3=3, t4=4, t5=5).best_addition(1, [0.9] * 4) == 0  # each token costs a step


def test_a_step_between_two_measured_ones_takes_a_time_between_theirs() -> None:
    assert measured(t8=1, t32=4).best_addition(8, [0.9] * 24) == 0
    assert measured(t8=1, t32=1.5).best_addition(8, [0.9] * 10 + [0.1] * 14) == 10
    assert measured(t8=1, t12=1.1).best_addition(8, [0.9] * 24) == 24  # beyond them nothing is known


def test_the_first_slow_step_of_a_size_is_not_its_time() -> None:
    times = measured(t1=1)
    for seconds in (9.0, 1.2, 1.2):
        assert times.best_addition(1, [0.9] * 3) == 3
        times.note(4, seconds)
    assert times.best_addition(1, [0.9] * 3) == 3


def test_times_of_long_ago_are_measured_again() -> None:
    times = measured(t1=1, t5=9)
    assert times.best_addition(1, [0.9] * 4) == 0
    for _ in range(5000):
        times.note(1, 1.0)
    assert times.best_addition(1, [0.9] * 4) == 4


def test_a_single_slow_step_does_not_end_speculation() -> None:
    times = StepTimes()
    for _ in range(50):
        for size, seconds in ((1, 1.0), (2, 1.1), (3, 1.2), (4, 1.2)):
            times.note(size, seconds)
    times.note(4, 100.0)
    assert times.best_addition(1, [0.9, 0.9, 0.9]) == 3
