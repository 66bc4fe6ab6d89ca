"""Speculation: texts are the same with drafts as without, and drafts are added only where they pay."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.lookup import Draft, Lookup, PromptLookup, prompt_index
from srb.engine.model import Batch, DecodeStatus
from srb.engine.tokens import Tokens, tokens_of
from srb.wire.commands import ContextShift
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


OPTIONS: tuple[dict[str, Any], ...] = (
    {"n": 1, "max_tokens": 60},
    {"n": 8, "max_tokens": 40, "temperature": 1.5},
    {"n": 3, "max_tokens": 33, "stop": (" king", "fox the")},
    {"n": 3, "max_tokens": 90, "stop_at": "sentence"},
    {"n": 2, "max_tokens": 30, "n_probs": 2},
    {"n": 2, "max_tokens": 30, "cache_prompt": False},
    {"n": 2, "max_tokens": 400},
    {"n": 2, "max_tokens": 30, "repeat_penalty": 1.3},
)


STATES = {"has_states": True, "n_seq_max": 24}


@cache
def without_drafts(place: int) -> tuple[Any, Any, dict[str, float]]:
    """Return the texts of the options at a place with two seeds, and the engine's numbers between them."""
    plain = Driver(FakeModel(n_ctx=1000, n_ctx_seq=300))
    first, stats = written(plain, **OPTIONS[place]), plain.engine.stats()
    return first, written(plain, **OPTIONS[place], seed=9), stats


@pytest.mark.parametrize("memory", [{}, {"decodes_ahead": True}, STATES, STATES | {"decodes_ahead": True}], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("place", range(len(OPTIONS)), ids=lambda place: str(OPTIONS[place]))
def test_drafts_right_or_wrong_change_no_text(
    share: float, place: int, memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, expected_again, plain = without_drafts(place)
    oracle = Oracle(list(expected[0].values()), share)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    driver = Driver(FakeModel(n_ctx=1000, n_ctx_seq=300, **memory), max_draft=6)
    assert written(driver, **OPTIONS[place]) == expected
    stats = driver.engine.stats()
    assert stats["spec_decode_num_draft_tokens_total"] > 0
    assert stats["tokens_predicted_total"] == plain["tokens_predicted_total"]
    if share == 1.0:
        assert stats["spec_decode_num_accepted_tokens_total"] > 0.8 * stats["spec_decode_num_draft_tokens_total"]
        assert stats["n_decode_total"] < 0.6 * plain["n_decode_total"]
    computed = stats["prompt_tokens_total"]
    assert written(driver, **OPTIONS[place], seed=9) == expected_again  # the tree holds what it held without drafts
    assert driver.engine.stats()["prompt_tokens_total"] == computed or not OPTIONS[place].get("cache_prompt", True)


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
    request = driver.request(request_id)
    for _ in range(6):
        driver.step()
    assert request.prefix.lookup is not None
    while driver.engine.has_work:
        driver.step()
    assert driver.idle == [request]
    assert request.prefix.lookup is None
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


def test_memory_that_cannot_be_cut_drafts_nothing() -> None:
    driver = Driver(FakeModel(n_ctx=4000, supports_partial_reuse=False), max_draft=8)
    bias = tuple((token, None) for token in range(driver.model.n_vocab) if token != 9)
    driver.submit(PROMPT, max_tokens=50, logit_bias=bias)
    driver.run()
    assert driver.engine.stats()["spec_decode_num_draft_tokens_total"] == 0


@pytest.mark.parametrize("memory", [{}, STATES], ids=str)
def test_a_step_without_room_is_tried_again_without_its_drafts(
    memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Driver(FakeModel(n_ctx=1000))
    expected = written(plain, n=2, max_tokens=40)
    oracle = Oracle(list(expected[0].values()), 1.0)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    driver = Driver(FakeModel(n_ctx=1000, **memory), max_draft=4)
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


def test_chances_follow_from_how_long_drafts_were_right() -> None:
    """Lines of eight tokens come in any order: within a line the next token is sure, after it anything may come."""
    lines = [list(range(10 * number, 10 * number + 8)) for number in range(1, 5)]
    order = random.Random(1)
    text = [token for _ in range(100) for token in order.choice(lines)]
    prompt = tokens_of(text[:80])
    draft, within, after = Draft(PromptLookup(prompt)), [], []
    for length in range(1, 700):
        tokens, chances = draft.propose(tokens_of(text[80 : 80 + length]), 4)
        assert len(tokens) == len(chances)
        assert chances == sorted(chances, reverse=True)
        if length > 300 and chances:
            (after if length % 8 == 0 else within).append(chances[0])
    assert sum(within) / len(within) > sum(after) / len(after)
    assert sum(within) / len(within) > 0.8


def test_drafts_that_will_hardly_be_right_end_early() -> None:
    prompt = tokens_of([1, 2, 3, *([4, 1, 2, 3] * 20)])
    draft = Draft(PromptLookup(prompt))
    wrong = [token for number in range(60) for token in (1, 2, 3, 100 + number)]
    lengths = [len(draft.propose(tokens_of(wrong[:length]), 8)[0]) for length in range(3, len(wrong), 4)]
    assert lengths[0] > 5
    assert lengths[-1] < 4


class Costly(FakeModel):
    """A fake whose decodes take seconds by the number of their tokens."""

    def __init__(self, cost: Callable[[int], float], n_seq_max: int = 32) -> None:
        super().__init__(n_ctx=8000, n_seq_max=n_seq_max, n_ubatch=64)
        self.cost = cost
        self.seconds = 0.0

    def decode(self, batch: Batch) -> DecodeStatus:
        self.seconds += self.cost(len(batch))
        return super().decode(batch)


def seconds_to_write(model: Costly, max_draft: int, n: int, tokens: int = 600) -> tuple[float, dict[int, list[int]]]:
    driver = Driver(model, max_draft=max_draft)
    driver.engine._clock = driver.engine._speculation._clock = lambda: model.seconds
    outcome = driver.outcomes[driver.submit(PROMPT, n=n, max_tokens=tokens, ignore_eos=True)]
    driver.run()
    return model.seconds, dict(outcome.tokens)


def in_steps(size: int) -> float:
    return 1 + 0.05 * (size - 1)


@cache
def undrafted(cost: Callable[[int], float], n: int) -> tuple[float, dict[int, list[int]]]:
    """Return the seconds and the texts of `n` branches without drafts."""
    return seconds_to_write(Costly(cost), 0, n)


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_drafts_that_do_not_pay_cost_hardly_anything(n: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token takes as long as a step, so no draft can pay."""
    without, texts = undrafted(float, n)
    oracle = Oracle(list(texts.values()), share)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    model = Costly(float)
    seconds, same = seconds_to_write(model, 8, n)
    assert same == texts
    assert seconds <= 1.02 * without


@pytest.mark.parametrize("n", [1, 2, 8])
def test_drafts_that_pay_are_nearly_as_good_as_the_best_number(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = in_steps
    without, texts = undrafted(cost, n)
    oracle = Oracle(list(texts.values()), 0.9)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    seconds, same = seconds_to_write(Costly(cost), 8, n)
    assert same == texts
    deepest = min(8, 24 // n)
    best = max(
        sum(0.9**place for place in range(depth + 1)) * cost(n) / cost(n + n * depth) for depth in range(deepest + 1)
    )
    assert without / seconds > 1 + 0.85 * (best - 1)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_slow_first_step_with_drafts_does_not_end_them(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = in_steps
    without, texts = undrafted(cost, n)
    oracle = Oracle(list(texts.values()), 0.9)
    monkeypatch.setattr(Lookup, "draft", lambda _, tokens, most: oracle.draft(tokens, most))
    sizes: list[int] = []

    def once_slow(size: int) -> float:
        is_first = size > n and max(sizes[1:], default=n) == n  # beside the prompt
        sizes.append(size)
        return cost(size) * (20 if is_first and len(sizes) > 1 else 1)

    seconds, same = seconds_to_write(Costly(once_slow), 8, n)
    assert same == texts
    assert seconds - 20 < 0.8 * without
