"""First words that differ: drawn again where a sibling has the same, whatever runs when, and never for an error."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import EOS, FakeModel, _hash
from srb.engine.first_words import MAX_TOKENS, FirstWord
from srb.engine.rewinding import MAX_REWINDS
from srb.engine.text import Emission
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, FinishReason
from tests.engine_helpers import Driver, Outcome, plain, solo

PROMPT = "the old king said"


def word_of(text: str) -> str:
    word = FirstWord()
    word.take(Emission(text))
    return word.key


def words_of(outcome: Outcome) -> list[str]:
    return [word_of(outcome.texts[index]) for index in sorted(outcome.ends)]


def only(model: FakeModel, *texts: str) -> tuple[tuple[int, None], ...]:
    """Return biases that forbid all tokens but those of some texts and the end of the text."""
    allowed = {token for text in texts for token in model.tokenize(text, False, False)}
    return tuple((token, None) for token in range(model.n_vocab) if token not in allowed | {EOS})


def run(model: FakeModel | None = None, n: int = 8, max_tokens: int = 12, **options: Any) -> Outcome:
    driver = Driver(model or FakeModel(n_ctx=1000))
    request_id = driver.submit(PROMPT, n, options.pop("seed", 1), max_tokens, distinct_words=True, **options)
    driver.run()
    driver.check_drained()
    return driver.result(request_id)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" The cat", "the"),
        ("\n\"Don't, he", "don't"),
        ("well-known man", "well-known"),
        ("so—then", "so"),
        ("...", ""),
        ("", ""),
        ("Stra", "stra"),
        ("猫が", "猫"),
        ("नमस्ते जी", "नमस्ते"),
    ],
)
def test_a_word_is_compared_without_case_and_without_what_stands_around_it(text: str, word: str) -> None:
    assert word_of(text) == word


@pytest.mark.parametrize("temperature", [0, 0.3, 1.5])
@pytest.mark.parametrize(
    "model", [{}, {"n_seq_max": 3}, {"n_ctx": 60}, {"supports_partial_reuse": False}, {"has_states": True}]
)
def test_all_first_words_differ(temperature: float, model: dict[str, Any]) -> None:
    outcome = run(FakeModel(**model), 10, temperature=temperature, ignore_eos=True)
    words = words_of(outcome)
    assert len(set(words)) == 10
    assert all(words)
    plainly = [solo(PROMPT, 1 + index, 12, temperature=temperature, ignore_eos=True) for index in range(10)]
    assert len({word_of(each.texts[0]) for each in plainly}) < 10


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_as_many_branches_as_there_are_words_have_them_all(temperature: float) -> None:
    model = FakeModel(n_ctx=1000)
    options = {"logit_bias": only(model, "abc"), "ignore_eos": True, "temperature": temperature}
    outcome = run(model, 9, 2, **options)
    assert sorted(outcome.texts.values()) == sorted("".join(pair) for pair in product("abc", repeat=2))


def test_more_words_than_rewinds_at_one_place_are_all_found() -> None:
    model = FakeModel(n_ctx=4000, n_seq_max=64)
    words = [" the", " a", " one", " old", " young", " small", " grey", " quiet", " house", " river", " boat", " door"]
    words += [" letter", " lamp", " garden", " keeper", " girl", " fox", " king", " said", " found", " left", " kept"]
    words += [" opened", " lost", " remembered", " and", " but", " then", " because", " until", " under", " over"]
    words += [" near", " with", " never", " always"]
    assert len(words) > MAX_REWINDS
    outcome = run(model, len(words), 1, logit_bias=only(model, *words), temperature=0)
    assert sorted(outcome.texts.values()) == sorted(words)


@pytest.mark.parametrize(
    "options", [{}, {"stop_at": "word"}, {"grammar": "root ::= [ab]{2}"}, {"banned_strings": ("aa",)}]
)
def test_where_no_other_word_is_possible_a_branch_keeps_its_word(options: dict[str, Any]) -> None:
    model = FakeModel(n_ctx=1000)
    options = {"logit_bias": only(model, "ab"), "ignore_eos": True, "temperature": 1.0, **options}
    outcome = run(model, 12, 3, **options)
    plainly = [solo(PROMPT, 1 + index, 3, **options) for index in range(12)]
    # the grammar allows two letters, and then nothing
    assert [end.code for end in outcome.ends.values()] == [each.ends[0].code for each in plainly]
    words = [word for word in words_of(outcome) if word]
    assert 1 < len(set(words)) < len(words)


def test_a_word_that_every_branch_must_have_is_kept_by_all() -> None:
    model = FakeModel()
    outcome = run(model, 3, 4, logit_bias=only(model, " the"), ignore_eos=True)
    assert list(outcome.texts.values()) == [" the the the the"] * 3


def test_the_result_is_the_same_whatever_starts_late_or_is_paused() -> None:
    options = {"ignore_eos": True, "temperature": 0.2, "max_tokens": 30}
    roomy = run(FakeModel(n_ctx=1000), **options)
    assert sum(end.rewinds for end in roomy.ends.values()) > 0
    for model in (
        {"n_seq_max": 4},
        {"n_seq_max": 2},
        {"n_ctx": 60},
        {"supports_partial_reuse": False},
        {"has_states": True},
    ):
        outcome = run(FakeModel(**{"n_ctx": 1000} | model), **options)
        assert (outcome.texts, outcome.tokens) == (roomy.texts, roomy.tokens), model
        assert outcome.ends == roomy.ends


@dataclass
class Oracle:
    """One branch, computed from its first token whenever its first word is taken, with one more token forbidden."""

    model: FakeModel
    seed: int
    max_tokens: int
    params: SamplingParams
    tokens: list[int] = field(default_factory=list)
    rewinds: int = 0
    path: tuple[int, ...] = ()  # the tokens of its first word

    def run(self, taken: dict[str, tuple[int, ...]]) -> str:
        """Return the branch's first word; `taken` has the tokens of the others."""
        forbidden: dict[int, set[int]] = defaultdict(set)
        while True:
            self._write(forbidden)
            word = word_of(self._text(len(self.tokens)))
            if not word:
                return word
            place = next(place for place in range(len(self.tokens)) if word_of(self._text(place + 1)) == word)
            self.path = tuple(self.tokens[: place + 1])
            if word not in taken:
                return word
            for later in [other for other in forbidden if other > place]:
                del forbidden[later]
            forbidden[place] |= {path[-1] for path in taken.values() if path[:-1] == self.path[:-1]} | {self.path[-1]}
            self.rewinds += 1

    def _text(self, count: int) -> str:
        return b"".join(map(self.model.piece, self.tokens[:count])).decode(errors="replace")

    def _write(self, forbidden: dict[int, set[int]]) -> None:
        sampler = self.model.new_sampler(self.params, self.seed, [])
        self.tokens, visible = [], b""
        for token in self.model.tokenize(PROMPT, True, True):
            visible = _hash(visible, [token])
        while len(self.tokens) < self.max_tokens:
            logits = self.model._next_logits(visible)
            logits[list(forbidden[len(self.tokens)])] = -np.inf
            token = sampler.sample_from(logits)
            if token == EOS:
                return
            self.tokens.append(token)
            visible = _hash(visible, [token])


@pytest.mark.parametrize("temperature", [0, 0.2, 1.5])
@pytest.mark.parametrize("bias", [(), ((EOS, 3.0),), only(FakeModel(), "abcde ", " the king?")])
def test_a_text_is_that_of_a_run_in_which_the_tokens_were_forbidden_at_their_places(
    temperature: float, bias: tuple[tuple[int, float | None], ...]
) -> None:
    for seed in range(1, 60, 10):
        outcome = run(n=8, seed=seed, temperature=temperature, logit_bias=bias)
        taken: dict[str, tuple[int, ...]] = {}
        for index in range(8):
            params = SamplingParams(temperature=temperature, logit_bias=bias)
            oracle = Oracle(FakeModel(), seed + index, 12, params)
            if word := oracle.run(taken):
                taken[word] = oracle.path
            assert (outcome.tokens[index], outcome.ends[index].rewinds) == (oracle.tokens, oracle.rewinds)


def test_the_minimum_length_and_counts_are_those_of_the_tokens_that_stay() -> None:
    driver = Driver(FakeModel(n_ctx=1000))
    options = {"temperature": 0.2, "min_tokens": 9, "logit_bias": ((EOS, 20.0),), "distinct_words": True}
    request_id = driver.submit(PROMPT, 8, 1, 30, **options)
    driver.run()
    outcome, stats = driver.result(request_id), driver.engine.stats()
    assert {end.length for end in outcome.ends.values()} == {9}
    assert stats["rewinds_total"] == sum(end.rewinds for end in outcome.ends.values()) > 0
    assert stats["tokens_predicted_total"] == 8 * 9 == outcome.terminal[0].completion_tokens


@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_a_word_that_a_limit_or_the_end_of_the_text_cuts_off_counts_as_it_stands(max_tokens: int) -> None:
    outcome = run(n=8, max_tokens=max_tokens, temperature=0.3, logit_bias=((EOS, 3.0),))
    words = [word for word in words_of(outcome) if word]
    assert len(set(words)) == len(words) > 0


def test_an_end_of_the_text_after_a_siblings_word_is_taken_back_with_it() -> None:
    model = FakeModel()
    bias = (*only(model, " the", " a", " one"), (EOS, 10.0))
    outcome = run(model, 3, 6, logit_bias=bias, temperature=0, min_tokens=1)
    assert sorted(outcome.texts.values()) == [" a", " one", " the"]
    assert {(end.reason, end.length) for end in outcome.ends.values()} == {(FinishReason.EOS, 1)}


@pytest.mark.parametrize("stop_at", ["word", "line", "sentence"])
def test_with_stop_at_word_the_answer_is_as_many_words(stop_at: str) -> None:
    outcome = run(n=10, stop_at=stop_at, temperature=0.3, ignore_eos=True, max_tokens=20)
    assert len(set(words_of(outcome))) == 10
    if stop_at == "word":
        assert {end.reason for end in outcome.ends.values()} == {FinishReason.BOUNDARY}


def test_stop_strings_and_banned_strings_hold_within_the_first_word_too() -> None:
    driver = Driver(FakeModel(n_ctx=1000))
    options = {"stop": ("e",), "banned_strings": ("the", "fo", "k", ".", "!"), "temperature": 0.4, "ignore_eos": True}
    request_id = driver.submit(PROMPT, 10, 1, 20, distinct_words=True, **options)
    driver.run()
    outcome = driver.result(request_id)
    words = [word for word in words_of(outcome) if word]
    assert len(set(words)) == len(words) > 5
    assert not any("e" in text or "k" in text or "fo" in text for text in outcome.texts.values())
    assert FinishReason.WORD in {end.reason for end in outcome.ends.values()}
    stats = driver.engine.stats()
    assert stats["tokens_predicted_total"] == sum(end.length for end in outcome.ends.values())


def test_log_probabilities_are_those_of_the_tokens_that_stay() -> None:
    outcome = run(n=8, temperature=0.2, ignore_eos=True, n_probs=1)
    assert sum(end.rewinds for end in outcome.ends.values()) > 0
    for index in range(8):
        deltas = [event for event in outcome.events if isinstance(event, Delta) and event.index == index]
        probs = [prob for delta in deltas for prob in delta.probs or ()]
        assert [prob["id"] for prob in probs] == outcome.tokens[index]
        mean = sum(prob["logprob"] or 0.0 for prob in probs) / len(probs)
        assert outcome.ends[index].logprob == pytest.approx(mean)


def test_a_text_without_words_is_shown_once_too_much_would_be_held_back() -> None:
    model = FakeModel(n_ctx=1000)
    driver = Driver(model)
    request_id = driver.submit(PROMPT, 2, 1, 60, distinct_words=True, logit_bias=only(model, "?"), ignore_eos=True)
    while not driver.result(request_id).texts:
        driver.step()
    assert driver.result(request_id).texts[0] == "?" * MAX_TOKENS
    driver.run()
    assert driver.result(request_id).texts == {0: "?" * 60, 1: "?" * 60}


def test_both_rules_together_keep_first_tokens_and_first_words_apart() -> None:
    outcome = run(n=8, temperature=0, ignore_eos=True, distinct_first=True)
    assert len({outcome.tokens[index][0] for index in range(8)}) == len(set(words_of(outcome))) == 8
    again = run(n=8, temperature=0, ignore_eos=True, distinct_first=True)
    assert again.texts == outcome.texts


# Steering -----------------------------------------------------------------------------------------------------------------


def begun(n: int = 3, **options: Any) -> tuple[Driver, str]:
    driver = Driver(FakeModel(n_ctx=1000))
    request_id = driver.submit(
        PROMPT, n, 1, 12, distinct_words=True, can_grow=True, ignore_eos=True, temperature=0, linger=100.0, **options
    )
    return driver, request_id


@pytest.mark.parametrize("steps", [0, 1, 3, 100])
def test_a_branch_added_at_any_time_has_a_word_of_its_own(steps: int) -> None:
    driver, request_id = begun()
    for _ in range(steps):
        if driver.engine.has_work:
            driver.step()
    driver.add(request_id, *[plain()] * 3)
    driver.run()
    driver.add(request_id)
    driver.run()
    words = words_of(driver.result(request_id))
    assert words == words_of(run(n=7, ignore_eos=True, temperature=0))
    assert len(set(words)) == 7


def test_a_stopped_branch_holds_nobody_up_and_keeps_the_word_that_it_has_shown() -> None:
    driver, request_id = begun(4)
    driver.step()
    driver.step()
    driver.stop(request_id, 0)
    driver.run()
    assert len(set(words_of(driver.result(request_id))[1:])) == 3
    driver, request_id = begun(1)
    for _ in range(6):
        driver.step()
    driver.stop(request_id, 0)
    shown = word_of(driver.result(request_id).texts[0])
    assert shown
    driver.add(request_id)
    driver.run()
    assert word_of(driver.result(request_id).texts[1]) != shown


def test_a_fork_inside_a_word_completes_another_one() -> None:
    model = FakeModel(n_ctx=1000)
    driver = Driver(model)
    options = {"distinct_words": True, "can_grow": True, "temperature": 0, "linger": 100.0}
    request_id = driver.submit(PROMPT, 1, 1, 2, logit_bias=only(model, "abc"), ignore_eos=True, **options)
    driver.run()
    word = driver.result(request_id).texts[0]
    driver.add(request_id, plain(max_tokens=1), plain(max_tokens=1), origin=0, token=1)
    driver.run()
    texts = driver.result(request_id).texts
    assert {texts[0], texts[1], texts[2]} == {word[0] + letter for letter in "abc"}
    driver.add(request_id, plain(max_tokens=3), origin=0, token=2)  # this word is given
    driver.run()
    assert driver.result(request_id).texts[3].startswith(word)


def held() -> Driver:
    """Return a driver with a request whose second branch has come to its limit, and is held for the first one."""
    driver = Driver(FakeModel(n_ctx=1000, n_ubatch=4))
    branches = (BranchSpec(1, 9, append=tuple([9] * 40)), BranchSpec(3, 1))
    command = Generate("x", (PROMPT,), branches, distinct_words=True, linger=100.0)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    while not driver.request("x").branches[1].is_held:
        driver.step()
    return driver


def test_a_branch_that_is_held_at_its_limit_may_get_more_tokens() -> None:
    driver = held()
    assert driver.change("x", 1, 4)["state"] == "waiting"
    driver.run()
    assert driver.result("x").ends[1].length == 5
    assert driver.change("x", 1, 4)["max_tokens"] == 9
    driver.run()
    assert driver.result("x").ends[1].length == 9


def test_a_cancelled_request_ends_at_once_with_branches_that_are_held() -> None:
    driver = held()
    driver.cancel("x")
    reasons = [driver.result("x").ends[index].reason for index in range(2)]
    assert reasons == [FinishReason.CANCELLED, FinishReason.LIMIT]
    driver.check_drained()


def test_a_branch_that_is_stopped_while_it_is_held_shows_what_it_has() -> None:
    driver = held()
    said = driver.stop("x", 1)
    assert (said["ended"]["reason"], said["length"]) == (FinishReason.CANCELLED, 1)
    assert word_of(driver.result("x").texts[1])
    driver.run()
    assert len(set(words_of(driver.result("x")))) == 2


def test_a_healed_branch_that_is_resumed_where_its_logits_are_known_may_draw_its_word_again() -> None:
    """It has computed no token of its own, so nothing is cut off; llama.cpp would not notice that it was asked to."""

    def texts(disturb: bool) -> dict[int, str]:
        driver = Driver(FakeModel(70, 2, 32, 13), cache_cells=0)
        whole = {"token_healing": True, "append": (" and the ga",)}
        request_id = driver.submit("the old king and the ga", 2, 0, 1, distinct_words=True, temperature=0.0, **whole)
        if disturb:
            driver.submit("the old king said then the fox", 2, 0, 40)
        asked: list[list[int]] = []
        while driver.engine.has_work:
            driver.step()
            for _, tokens in driver.paused():
                if disturb and tokens not in asked and len(asked) < 4:
                    asked.append(tokens)
                    driver.submit(tokens, 1, 7, 0)
        assert bool(asked) is disturb
        driver.check_drained()
        return driver.result(request_id).texts

    assert texts(disturb=True) == texts(disturb=False)
