"""Banned strings never appear, and a branch goes on as if the text that was taken back had never been."""

from __future__ import annotations

from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import EOS, FakeModel
from srb.engine.rewinding import MAX_REWINDS
from srb.wire.commands import AddBranches, BranchSpec, ChangeBranch, ContextShift, Generate
from srb.wire.events import Delta, FinishReason
from tests.banned_oracle import Oracle
from tests.engine_helpers import Driver, solo

PROMPT = "the old king said"
BANNED = ("KING", " the ", "n t", "e o", "lamp and", "young", "?.")


def prompt_tokens(prompt: str = PROMPT) -> list[int]:
    return FakeModel().tokenize(prompt, True, True)


def check(driver: Driver, request_id: str, seed: int, n: int, max_tokens: int, banned: Any, **options: Any) -> int:
    """Assert that branches are those of the oracle; return the number of their rewinds."""
    outcome, rewinds = driver.result(request_id), 0
    for index in range(n):
        oracle = Oracle(prompt_tokens(), seed + index, banned, max_tokens, **options)
        end = outcome.ends[index]
        assert outcome.tokens[index] == oracle.tokens, (seed, index)
        assert outcome.texts[index] == oracle.text
        assert end.rewinds == sum(oracle.rewinds.values())
        assert (end.reason == FinishReason.ERROR) == oracle.is_dead
        assert end.length == len(oracle.tokens)
        rewinds += end.rewinds
    return rewinds


@pytest.mark.parametrize(
    "model", [{}, {"n_seq_max": 3}, {"n_ctx": 80}, {"supports_partial_reuse": False}, {"has_states": True}]
)
def test_a_text_is_that_of_a_run_in_which_the_token_was_forbidden_at_its_place(model: dict[str, Any]) -> None:
    driver = Driver(FakeModel(**model))
    ids = [driver.submit(PROMPT, 4, seed, 25, banned_strings=BANNED) for seed in (1, 50, 100)]
    driver.run()
    rewinds = [check(driver, each, seed, 4, 25, BANNED) for each, seed in zip(ids, (1, 50, 100), strict=True)]
    assert min(rewinds) > 0
    assert driver.engine.stats()["rewinds_total"] == sum(rewinds)
    lengths = [end.length for each in ids for end in driver.result(each).ends.values()]
    assert driver.engine.stats()["tokens_predicted_total"] == sum(lengths)


def test_the_first_token_is_rewound_to_the_logits_of_the_prompt() -> None:
    first = {seed: solo(PROMPT, seed, 1).texts[0] for seed in range(20)}
    for seed, word in first.items():
        driver = Driver()
        request_id = driver.submit(PROMPT, 1, seed, 8, banned_strings=(word.strip().upper(),))
        driver.run()
        assert check(driver, request_id, seed, 1, 8, (word.strip().upper(),)) > 0
        assert driver.result(request_id).ends[0].rewinds > 0


def test_tokens_of_append_are_never_taken_back_and_only_a_branchs_own_text_counts() -> None:
    driver = Driver()
    model = driver.model
    branches = tuple(
        BranchSpec(seed, 10, append=(" the lamp",), banned_strings=("lamp", "a", " t")) for seed in range(6)
    )
    driver.take(driver.engine.submit(driver.engine.prepare(Generate("x", (PROMPT,), branches))))
    driver.run()
    given = prompt_tokens() + model.tokenize(" the lamp", False, True)
    for seed in range(6):
        oracle = Oracle(given, seed, ("lamp", "a", " t"), 10)
        assert driver.result("x").tokens[seed] == oracle.tokens
    assert sum(end.rewinds for end in driver.result("x").ends.values()) > 0


def test_nothing_of_a_banned_string_is_sent_before_it_may_not_become_one() -> None:
    driver = Driver()
    request_id = driver.submit(PROMPT, 8, 3, 30, banned_strings=BANNED)
    driver.run()
    outcome = driver.result(request_id)
    for event in outcome.events:
        if isinstance(event, Delta):
            assert event.tokens or event.text
    for index in range(8):
        low = outcome.texts[index].lower()
        assert not any(each.lower() in low for each in BANNED)


@pytest.mark.parametrize("post_sampling_probs", [False, True])
def test_log_probabilities_are_the_models_own_and_those_of_the_tokens_that_stay(post_sampling_probs: bool) -> None:
    driver = Driver()
    options = {"n_probs": 2, "post_sampling_probs": post_sampling_probs}
    request_id = driver.submit(PROMPT, 4, 1, 25, banned_strings=BANNED, **options)
    driver.run()
    outcome = driver.result(request_id)
    assert check(driver, request_id, 1, 4, 25, BANNED) > 0
    for index in range(4):
        deltas = [event for event in outcome.events if isinstance(event, Delta) and event.index == index]
        probs = [prob for delta in deltas for prob in delta.probs or ()]
        assert [prob["id"] for prob in probs] == outcome.tokens[index]
        if not post_sampling_probs:
            mean = sum(prob["logprob"] for prob in probs) / len(probs)
            assert outcome.ends[index].logprob == pytest.approx(mean)
            # The chosen tokens scored by a request for the same text.
            own = Driver()
            tokens = [*prompt_tokens(), *outcome.tokens[index]]
            scored = own.result(own.submit(tokens, 1, 1, 0, prompt_logprobs=True, n_probs=0))
            own.run()
            expected = [prob["logprob"] for event in scored.events for prob in getattr(event, "probs", ())]
            assert [prob["logprob"] for prob in probs] == pytest.approx(expected[-len(probs) :])


def test_a_branch_that_only_bans_are_left_for_ends_with_an_error_and_the_others_go_on() -> None:
    driver = Driver()
    every_letter = tuple("abcdefghijklmnopqrstuvwxyz ")
    branches = (BranchSpec(1, 9, banned_strings=every_letter), BranchSpec(2, 9))
    driver.take(driver.engine.submit(driver.engine.prepare(Generate("x", (PROMPT,), branches))))
    driver.run()
    outcome = driver.result("x")
    assert (outcome.ends[0].reason, outcome.ends[0].code) == (FinishReason.ERROR, "banned_dead_end")
    assert outcome.ends[0].rewinds == MAX_REWINDS
    oracle = Oracle(prompt_tokens(), 1, every_letter, 9)
    assert oracle.is_dead
    assert outcome.tokens[0] == oracle.tokens
    assert outcome.texts[1] == solo(PROMPT, 2, 9).texts[0]
    assert outcome.ends[1].reason != FinishReason.ERROR


def test_a_place_where_every_token_is_forbidden_is_a_dead_end() -> None:
    driver = Driver()
    # only two tokens are allowed at all
    allowed = {2, 3}
    bias = tuple((token, None) for token in range(driver.model.n_vocab) if token not in allowed)
    outcome = driver.result(driver.submit(PROMPT, 1, 1, 9, banned_strings=("the", "a"), logit_bias=bias))
    driver.run()
    assert (outcome.ends[0].code, outcome.ends[0].rewinds, outcome.texts[0]) == ("banned_dead_end", 2, "")


def test_the_minimum_length_counts_only_the_tokens_that_stay() -> None:
    driver = Driver()
    bias = ((EOS, 9.0),)
    request_id = driver.submit(PROMPT, 8, 1, 40, banned_strings=BANNED, min_tokens=12, logit_bias=bias)
    driver.run()
    assert check(driver, request_id, 1, 8, 40, BANNED, min_tokens=12, logit_bias=bias) > 0
    assert all(end.length >= 12 for end in driver.result(request_id).ends.values())


def test_a_grammar_is_rewound_too() -> None:
    """Of two letters one is banned: after a rewind the grammar still wants all of them."""
    rewinds = 0
    for seed in range(10):
        driver = Driver()
        request_id = driver.submit(PROMPT, 1, seed, 9, banned_strings=("b",), grammar="root ::= [ab]{3}")
        outcome = driver.result(request_id)
        driver.run()
        assert (outcome.texts[0], outcome.ends[0].reason) == ("aaa", FinishReason.EOS)
        rewinds += outcome.ends[0].rewinds
    assert rewinds >= 5


@pytest.mark.parametrize("shift", [ContextShift(-1, 0), ContextShift(0, 7), ContextShift(2, 1)])
def test_a_context_shift_during_banned_text_is_undone(shift: ContextShift) -> None:
    """The words that follow a shift are banned with those before it."""
    undone, room, model = 0, 24 - len(prompt_tokens()), FakeModel()
    for seed in range(20):
        tokens = solo(PROMPT, seed, 30, n_ctx_seq=24, shift=shift, ignore_eos=True).tokens[0]
        straddling = b"".join(map(model.piece, tokens[room - 2 : room + 1])).decode(errors="replace")
        banned = (straddling, " and", " a")
        driver = Driver(FakeModel(n_ctx=100, n_ctx_seq=24))
        request_id = driver.submit(PROMPT, 1, seed, 30, banned_strings=banned, shift=shift, ignore_eos=True)
        [request] = driver.engine._requests.active.values()
        [branch] = request.branches
        shifted = 0
        while driver.engine.has_work:
            driver.step()
            undone += branch.num_shifted < shifted
            shifted = branch.num_shifted
        check(driver, request_id, seed, 1, 30, banned, shift=shift, n_ctx_seq=24, ignore_eos=True)
    assert undone


def test_a_stop_string_that_completes_first_ends_the_branch() -> None:
    for seed in range(10):
        plain = solo(PROMPT, seed, 10).texts[0]
        driver = Driver()
        words = plain.split(" ")
        stop, banned = " " + words[2], " " + " ".join(words[1:4])
        outcome = driver.result(driver.submit(PROMPT, 1, seed, 10, banned_strings=(banned,), stop=(stop,)))
        driver.run()
        assert (outcome.ends[0].reason, outcome.ends[0].rewinds) == (FinishReason.WORD, 0)
        assert outcome.texts[0] == plain[: plain.index(stop)]


def run_to_the_end_of_branches(driver: Driver, request_id: str, count: int) -> None:
    while len(driver.result(request_id).ends) < count:
        driver.step()


def resting(seed: int, max_tokens: int = 12, banned: tuple[str, ...] = ()) -> Driver:
    """Return a driver with the request "x", whose only branch has ended by its limit."""
    driver = Driver()
    spec = BranchSpec(seed, max_tokens, sampling=SamplingParams(ignore_eos=True), banned_strings=banned)
    command = Generate("x", (PROMPT,), (spec,), can_grow=True, linger=1000.0)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    run_to_the_end_of_branches(driver, "x", 1)
    return driver


def test_a_fork_has_no_banned_string_across_its_beginning() -> None:
    """Its origin's text and its own make one text for its readers."""
    for seed in range(8):
        driver = resting(seed)
        before = b"".join(map(driver.model.piece, driver.result("x").tokens[0][:5])).decode(errors="replace")
        at = len(before)
        for index in (1, 2):
            banned = () if index == 1 else (driver.result("x").texts[1][at - 3 : at + 2],)
            entry = (7, (), (("banned_strings", banned), ("max_tokens", 8)), ())
            growth = AddBranches(f"add{index}", "x", (entry,), origin=0, token=5)
            driver.take(driver.engine.submit(driver.engine.prepare(growth)))
            run_to_the_end_of_branches(driver, "x", index + 1)
        assert all(driver.result("x").texts[index].startswith(before) for index in (1, 2))
        assert banned[0] in driver.result("x").texts[1]
        assert banned[0] not in driver.result("x").texts[2]
        assert driver.result("x").ends[2].rewinds > 0
        driver.cancel("x")
        driver.run()


def test_a_branch_that_goes_on_after_its_limit_has_no_banned_string_across_it() -> None:
    for seed in range(8):
        text = solo(PROMPT, seed, 20, ignore_eos=True).texts[0]
        first = resting(seed, 8).result("x").texts[0]
        banned = (text[len(first) - 3 : len(first) + 2], "garden keeper")
        driver = resting(seed, 8, banned)
        driver.take(driver.engine.control(ChangeBranch("change", "x", 0, more=12)))
        driver.outcomes["x"].ends.clear()
        run_to_the_end_of_branches(driver, "x", 1)
        outcome = driver.result("x")
        assert outcome.ends[0].length == len(outcome.tokens[0]) == 20
        assert not any(string in outcome.texts[0] for string in banned)
        assert outcome.ends[0].rewinds > 0
        assert driver.engine.stats()["tokens_predicted_total"] == 20
        driver.cancel("x")
        driver.run()


def test_siblings_do_not_see_what_was_taken_back() -> None:
    driver = Driver()
    branches = tuple(BranchSpec(seed, 8, banned_strings=("a", "e o", " th") if seed == 0 else ()) for seed in range(4))
    command = Generate("x", (PROMPT,), branches, distinct_first=True, sibling_penalty=100.0)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    [request] = driver.engine._requests.active.values()
    [first, *_] = request.branches
    diversity = request.diversity
    assert diversity is not None
    while driver.engine.has_work:
        driver.step()
        if request.branches:
            sampled = {at: place.tokens[0] for at, place in diversity._places.items()}
            seen = {at: token for at, token in sampled.items() if token >= 0}
            own = dict(enumerate(first.tokens))
            assert {place: token for place, token in seen.items() if place < len(own)} == own
            assert len(seen) <= len(own) + 1  # an end of the text is a token, too
    outcome = driver.result("x")
    assert outcome.ends[0].rewinds > 0
    assert len({tokens[0] for tokens in outcome.tokens.values() if tokens}) == len(outcome.tokens)
