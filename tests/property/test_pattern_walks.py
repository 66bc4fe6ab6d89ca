"""No match of a banned pattern is in any text that readers see, whatever the request, and other texts are as without it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine.fake import EOS, FakeModel
from srb.engine.request import Request
from srb.wire.commands import BannedPattern
from srb.wire.events import Delta, FinishReason
from tests.engine_helpers import Driver, plain
from tests.pattern_oracle import hits_in

PROMPTS = ("the old king said", "a lamp and a gar", "")
PATTERNS = (
    r"\bthe\b", r"king$", r"^ ?\w", r"\w+ed\b", r"[,.?!] \w", r"(?-i:a) [a-l]\w+", r"o\w*d", r"n t", r"\b\w{3}\b", r"\w\b",
    r"said|king|\?", r"[^a-z ]", r"lamp( and)?", r".{12}e\b", "a",
)  # fmt: skip

weights = st.sampled_from([0.0, 0.0, 0.2, 0.7])
entries = st.tuples(st.sampled_from(PATTERNS), weights, st.booleans())
lists = st.lists(entries, min_size=1, max_size=4).map(tuple)
models = st.sampled_from(
    [
        {},
        {"n_seq_max": 3},
        {"n_ctx": 80},
        {"supports_partial_reuse": False},
        {"has_states": True},
        {"decodes_ahead": True},
    ]
)
options = st.fixed_dictionaries(
    {},
    optional={
        "stop": st.sampled_from([("?",), ("king", " old"), (" a",)]),
        "stop_at": st.sampled_from(["word", "sentence"]),
        "stop_after": st.integers(1, 4),
        "n_indent": st.integers(0, 2),
        "t_max_predict_ms": st.sampled_from([-1, 30]),
        "banned_strings": st.sampled_from([("KING",), ("e o", "?")]),
        "token_healing": st.booleans(),
        "include_stop": st.booleans(),
        "distinct_words": st.booleans(),
        "distinct_first": st.booleans(),
        "ignore_eos": st.booleans(),
        "grammar": st.sampled_from(
            ['root ::= ("the " | "king " | "old " | "a " | "said ")+', 'root ::= "the old" " king"?']
        ),
        "n_probs": st.sampled_from([-1, 0]),
    },
)


class Watching(Driver):
    """A driver that keeps its requests, for the seeds of their branches."""

    def __init__(self, **model: Any) -> None:
        super().__init__(FakeModel(**model))
        self.requests: dict[str, Request] = {}

    def submit(self, *args: Any, **options: Any) -> str:
        request_id = super().submit(*args, **options)
        self.requests[request_id] = self.request(request_id)
        return request_id

    def run_branches(self) -> None:
        """Step until all branches have ended; those that may go on rest."""
        for _ in range(5000):
            if not self.engine.has_work:
                return
            self.step()
        raise AssertionError("no end")

    def check(self, patterns: tuple[BannedPattern, ...], beginnings: dict[int, str] | None = None) -> None:
        """Assert that no branch has a match that does not stand: any with a weight does where they came to a dead end."""
        for branch in self.requests["r0"].branches:
            listed = tuple(each for each in patterns if not each[1]) if branch.text.lets_stand else patterns
            text = self.result("r0").texts[branch.index]
            assert hits_in(text, listed, branch.spec.seed, len((beginnings or {}).get(branch.index, ""))) == [], text


@given(models, st.sampled_from(PROMPTS), st.integers(1, 4), st.integers(0, 50), st.integers(1, 18), lists, options)
def test_no_branch_has_a_match_and_those_that_would_have_none_are_as_without_patterns(
    model: dict[str, Any],
    prompt: str,
    n: int,
    seed: int,
    max_tokens: int,
    patterns: tuple[BannedPattern, ...],
    given_options: dict[str, Any],
) -> None:
    driver = Watching(**model)
    request_id = driver.submit(prompt, n, seed, max_tokens, banned_patterns=patterns, **given_options)
    driver.run_branches()
    driver.check_drained()
    driver.check(patterns)
    outcome = driver.result(request_id)
    if given_options.keys() & {"distinct_words", "distinct_first", "t_max_predict_ms", "grammar"}:
        return  # a branch depends on others, on the clock, which rewinds move, or without bans draws no forced token
    other = Watching(**model)
    other.submit(prompt, n, seed, max_tokens, **given_options)
    other.run_branches()
    for index, end in other.result("r0").ends.items():
        text = other.result("r0").texts[index]
        if not hits_in(text, patterns, seed + index) and outcome.ends[index].rewinds == 0:
            assert (outcome.texts[index], outcome.ends[index].reason) == (text, end.reason)


@given(models, st.integers(0, 30), lists, st.integers(1, 9), st.integers(0, 5), st.integers(1, 9))
def test_branches_that_go_on_are_forked_or_stopped_have_no_match_either(
    model: dict[str, Any], seed: int, patterns: tuple[BannedPattern, ...], first: int, at: int, more: int
) -> None:
    if not model.get("supports_partial_reuse", True) or "n_ctx" in model:
        model = {}
    driver = Watching(**model)
    driver.submit("the old king said", 2, seed, first, banned_patterns=patterns, linger=60.0, can_grow=True)
    driver.run_branches()
    driver.check(patterns)
    if driver.requests["r0"].branches[0].can_resume:
        driver.change("r0", 0, more=more)
    shown = driver.result("r0").tokens[1]
    at = min(at, len(shown))
    fork_text = b"".join(map(driver.model.piece, shown[:at])).decode(errors="replace")
    [index] = driver.add("r0", plain(seed=seed + 7, max_tokens=more), origin=1, token=at)
    for _ in range(3):
        driver.step()
    if driver.request("r0").branches[index].is_active:
        driver.stop("r0", index)
    driver.run_branches()
    driver.check(patterns, {index: fork_text})
    driver.cancel("r0")
    driver.run()


@given(st.integers(0, 30), lists, st.integers(1, 12))
def test_a_cancelled_branchs_text_has_no_match(seed: int, patterns: tuple[BannedPattern, ...], steps: int) -> None:
    driver = Watching()
    driver.submit("the old king said", 2, seed, 30, banned_patterns=patterns)
    for _ in range(steps):
        driver.step()
    driver.cancel("r0")
    driver.run()
    driver.check(patterns)


def test_what_is_never_at_hand_costs_no_rewind_and_changes_no_token() -> None:
    patterns = tuple((rf"\bnever{number} (?:was|is) \w+\b", 0.0, False) for number in range(500))
    for seed in range(4):
        texts = []
        for banned in ((), patterns):
            driver = Driver()
            driver.submit("the old king said", 8, seed, 40, banned_patterns=banned)
            driver.run()
            texts.append((driver.result("r0").texts, driver.result("r0").tokens))
            assert not any(end.rewinds for end in driver.result("r0").ends.values())
        assert texts[0] == texts[1]


def test_a_match_with_a_weight_stands_as_often_as_it_says() -> None:
    """Each decision is the seed's and the place's: of many branches as many have the word."""
    counts = []
    for weight in (0.0, 0.3, 1.0):
        driver = Driver(FakeModel(n_ctx=4096, n_seq_max=64))
        driver.submit("the old king said", 64, 1, 12, banned_patterns=((r"\b(?:the|a|old)\b", weight, False),))
        driver.run()
        words = [word for text in driver.result("r0").texts.values() for word in text.lower().split()]
        counts.append(sum(word.strip(",.?!") in ("the", "a", "old") for word in words))
    assert counts[0] == 0
    assert 0 < counts[1] < 0.6 * counts[2]


def test_a_grammar_that_forces_a_match_lets_one_with_a_weight_stand_and_none_without() -> None:
    for weight, reason in ((0.3, FinishReason.EOS), (0.0, FinishReason.ERROR)):
        driver = Driver()
        driver.submit("x", 8, 1, 30, grammar='root ::= "the king"', banned_patterns=(("k.ng", weight, False),))
        driver.run()
        outcome = driver.result("r0")
        assert {end.reason for end in outcome.ends.values()} == {reason}
        assert all(("king" in text) == (weight > 0) for text in outcome.texts.values())


@pytest.mark.parametrize("reason", [FinishReason.EOS, FinishReason.LIMIT])
def test_a_match_that_only_the_end_of_the_text_completes_is_taken_back(reason: FinishReason) -> None:
    rewinds = 0
    for seed in range(30):
        driver = Driver()
        bias: dict[str, Any] = {"logit_bias": ((EOS, 6.0),)} if reason is FinishReason.EOS else {"ignore_eos": True}
        driver.submit("the old king said", 4, seed, 5, banned_patterns=((r"\w\Z", 0.0, False),), **bias)
        driver.run()
        outcome = driver.result("r0")
        for index, end in outcome.ends.items():
            assert not outcome.texts[index][-1:].isalnum()
            rewinds += end.rewinds if end.reason is reason else 0
            assert end.length == 5 or end.reason is not FinishReason.LIMIT
        deltas = [event for event in outcome.events if isinstance(event, Delta)]
        assert sum(len(event.tokens) for event in deltas) == sum(end.length for end in outcome.ends.values())
    assert rewinds > 0
