"""What the engine promises, over the fake model."""

from __future__ import annotations

import gc
import math
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from srb.engine.boundaries import finder
from srb.engine.decoding import EngineFault
from srb.engine.fake import EOS, FakeModel
from srb.engine.model import DecodeStatus
from srb.engine.probs import token_probs, unknown_prob
from srb.engine.tree.prefix_tree import MAX_ROOTS
from srb.errors import ContextExceeded, InvalidRequest, ShuttingDown
from srb.wire.commands import BranchSpec, ContextShift, Embed, Generate, GetAdapters, GetSlots, Rerank, SetAdapters
from srb.wire.events import Delta, Done, Failed, FinishReason, Progress, PromptDone, PromptLogprobs, Rejected
from tests.engine_helpers import Driver, Outcome, solo

PROMPT = "the old king said"


def test_each_branch_samples_its_own_first_token() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=8, max_tokens=1))
    driver.run()
    assert len({tuple(tokens) for tokens in outcome.tokens.values()}) > 1


def test_branch_i_is_the_solo_run_with_seed_plus_i() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=8, seed=40))
    driver.run()
    assert [outcome.texts[i] for i in range(8)] == [solo(PROMPT, seed=40 + i).texts[0] for i in range(8)]


@pytest.mark.parametrize("n", [1, 8, 40])
def test_the_prompt_is_computed_once_whatever_n_is(n: int) -> None:
    driver = Driver()
    driver.submit(PROMPT, n=n, max_tokens=3)
    driver.run()
    prompt_tokens = len(driver.model.tokenize(PROMPT, True, True))
    assert driver.engine.stats()["prompt_tokens_total"] == prompt_tokens
    most_decoded = n * 2  # the last token of each branch is never computed
    assert driver.model.n_tokens_decoded <= prompt_tokens + most_decoded


def test_more_branches_than_sequences_run_in_waves() -> None:
    driver = Driver(FakeModel(n_seq_max=4))
    outcome = driver.result(driver.submit(PROMPT, n=20, seed=5))
    driver.run()
    assert [outcome.texts[i] for i in range(20)] == [solo(PROMPT, seed=5 + i).texts[0] for i in range(20)]


def test_two_sequences_are_enough_for_any_number_of_requests() -> None:
    driver = Driver(FakeModel(n_seq_max=2))
    ids = [driver.submit(PROMPT, n=3, seed=i) for i in range(5)]
    driver.run()
    assert all(
        driver.result(request_id).texts[2] == solo(PROMPT, seed=i + 2).texts[0] for i, request_id in enumerate(ids)
    )


def test_a_request_that_arrives_joins_the_next_step() -> None:
    driver = Driver()
    first = driver.submit(PROMPT, n=2, max_tokens=50, ignore_eos=True)
    driver.step()
    second = driver.submit("a fox", n=2, max_tokens=2, ignore_eos=True)
    driver.step()
    driver.step()
    assert driver.result(second).terminal
    assert not driver.result(first).terminal


def test_a_long_prompt_is_computed_in_chunks_while_others_go_on() -> None:
    driver = Driver()  # n_ubatch 16
    first = driver.submit(PROMPT, n=1, max_tokens=50, ignore_eos=True)
    driver.step()
    second = driver.submit([7] * 100, n=1, max_tokens=1)
    before = len(driver.result(first).tokens[0])
    for count in range(1, 7):
        driver.step()
        assert len(driver.result(first).tokens[0]) == before + count
        assert not driver.result(second).tokens
    driver.step()
    assert driver.result(second).tokens


def test_an_ended_branch_frees_its_cells_at_once() -> None:
    driver = Driver()
    request_id = driver.submit(PROMPT, n=2, max_tokens=30, ignore_eos=True)
    for _ in range(10):
        driver.step()
    held = driver.cells_held()
    driver.cancel(request_id, 0)
    assert driver.cells_held() == held - 9  # ten tokens, of which the last is not yet computed
    assert driver.result(request_id).ends[0].reason == FinishReason.CANCELLED
    driver.run()
    assert driver.result(request_id).texts[1] == solo(PROMPT, seed=2, max_tokens=30, ignore_eos=True).texts[0]


def test_reasons_and_lengths_are_told_per_branch() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=12, max_tokens=10, stop=[" house", "king"]))
    driver.run()
    reasons = {end.reason for end in outcome.ends.values()}
    assert {FinishReason.WORD, FinishReason.LIMIT} <= reasons
    for index, end in outcome.ends.items():
        if end.reason == FinishReason.WORD:
            assert end.stopping_word in (" house", "king")
            assert end.stopping_word not in outcome.texts[index]
            assert end.length <= 10
        elif end.reason == FinishReason.LIMIT:
            assert end.length == len(outcome.tokens[index]) == 10
            assert not end.truncated


def test_end_of_text_is_not_a_token_of_the_branch() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, max_tokens=40, logit_bias=((EOS, 1000.0),)))
    driver.run()
    assert (outcome.ends[0].reason, outcome.ends[0].length, outcome.texts[0]) == (FinishReason.EOS, 0, "")


def test_max_tokens_zero_computes_the_prompt_and_nothing_else() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=3, max_tokens=0))
    driver.run()
    assert [outcome.ends[i].length for i in range(3)] == [0, 0, 0]
    assert driver.engine.stats()["prompt_tokens_total"] > 0


def test_the_end_of_the_context_ends_that_branch_alone() -> None:
    driver = Driver(FakeModel(n_ctx=512, n_ctx_seq=24))
    request_id = driver.submit([5] * 20, n=3, max_tokens=-1, ignore_eos=True)
    other = driver.submit(PROMPT, max_tokens=12, ignore_eos=True)
    driver.run()
    for end in driver.result(request_id).ends.values():
        assert (end.reason, end.truncated, end.length) == (FinishReason.LIMIT, True, 4)
    assert driver.result(other).texts[0] == solo(PROMPT, seed=1, max_tokens=12, ignore_eos=True).texts[0]


def test_first_tokens_cost_no_step_and_every_branch_is_busy_in_each_decode() -> None:
    driver = Driver()
    driver.submit(PROMPT, n=3, max_tokens=5, ignore_eos=True)
    driver.run()
    stats = driver.engine.stats()
    assert (stats["tokens_predicted_total"], stats["decode_steps_total"]) == (3 * 5, 3 * 4)
    assert (stats["n_decode_total"], stats["busy_slots_total"]) == (1 + 4, 1 + 3 * 4)


def test_a_cut_character_is_no_part_of_a_tokens_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeModel()
    pieces = {
        b"ab": "ab",
        "né".encode(): "né",
        b"x\xe2\x82": "x",
        b"\xf0\x9f": "",
        b"\xc3": "",
        b"\xa9": "\ufffd",
        b"": "",
    }
    for piece, text in pieces.items():
        monkeypatch.setattr(model, "piece", lambda token, piece=piece: piece)
        assert unknown_prob(model, 7) == {
            "id": 7, "token": text, "bytes": list(piece), "logprob": None, "top_logprobs": [],
        }  # fmt: skip


def test_the_logarithm_of_no_probability_is_the_least_number_of_32_bits() -> None:
    model = FakeModel()
    logits = np.full(model.n_vocab, -np.inf, np.float32)
    logits[5] = 1.0
    assert token_probs(model, logits, 6, 1)["logprob"] == -3.4028234663852886e38
    assert token_probs(model, logits, 6, 1)["top_logprobs"][0]["logprob"] == 0.0


def test_logprobs_are_told_for_every_token() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, max_tokens=10, n_probs=3, ignore_eos=True))
    driver.run()
    probs = [prob for event in outcome.events for prob in getattr(event, "probs", None) or []]
    assert [prob["id"] for prob in probs] == outcome.tokens[0]
    assert all(len(prob["top_logprobs"]) == 3 for prob in probs)
    assert outcome.ends[0].logprob == pytest.approx(sum(prob["logprob"] for prob in probs) / 10)


def test_a_scored_branch_has_the_mean_logprob_and_tells_no_logprobs() -> None:
    for options in ({}, {"post_sampling_probs": True}):
        driver = Driver()
        scored = driver.result(driver.submit(PROMPT, n=2, score=True, ignore_eos=True, **options))
        told = driver.result(driver.submit(PROMPT, n=2, n_probs=1, ignore_eos=True, **options))
        plain = driver.result(driver.submit(PROMPT, n=2, ignore_eos=True, **options))
        driver.run()
        assert [end.logprob for end in scored.ends.values()] == [end.logprob for end in told.ends.values()]
        assert all(end.logprob < 0 for end in scored.ends.values())
        assert [event.probs for event in of_kind(scored.events, Delta)] == [None] * 20
        assert scored.texts == plain.texts
        assert [end.logprob for end in plain.ends.values()] == [None, None]


def test_out_of_cells_pauses_the_youngest_and_changes_no_text() -> None:
    driver = Driver(FakeModel(n_ctx=60, n_seq_max=16))
    ids = [driver.submit(PROMPT, n=4, seed=10 * i, max_tokens=30, ignore_eos=True) for i in range(3)]
    driver.run()
    assert driver.engine.stats()["branches_paused_total"] > 0
    for i, request_id in enumerate(ids):
        for branch in range(4):
            expected = solo(PROMPT, seed=10 * i + branch, max_tokens=30, ignore_eos=True)
            assert driver.result(request_id).texts[branch] == expected.texts[0]


def test_a_small_request_is_not_starved_by_a_large_one() -> None:
    driver = Driver(FakeModel(n_seq_max=8))
    driver.submit(PROMPT, n=64, max_tokens=20, ignore_eos=True)
    for _ in range(5):
        driver.step()
    small = driver.submit("a fox", n=1, max_tokens=5, ignore_eos=True)
    for _ in range(40):
        driver.step()
    assert driver.result(small).terminal


def test_cancel_ends_a_request_once_and_unknown_ids_are_ignored() -> None:
    driver = Driver()
    request_id = driver.submit(PROMPT, n=3)
    driver.step()
    driver.cancel(request_id)
    driver.cancel(request_id)
    driver.cancel("unknown")
    assert isinstance(driver.result(request_id).terminal[0], Done)
    driver.check_drained()


def test_a_request_is_cancelled_while_it_waits_and_during_prefill() -> None:
    driver = Driver()
    waiting = driver.submit(PROMPT)
    driver.cancel(waiting)
    prefilling = driver.submit([7] * 200)
    driver.step()
    driver.cancel(prefilling)
    driver.check_drained()


def test_row_03_a_full_queue_rejects_and_holds_nothing() -> None:
    driver = Driver(FakeModel(n_seq_max=2, n_ctx=10_000), max_queue=2)  # room for one request at a time
    driver.submit(PROMPT, max_tokens=40, ignore_eos=True)
    driver.step()
    ids = [driver.submit(PROMPT) for _ in range(3)]
    assert [bool(driver.result(request_id).terminal) for request_id in ids] == [False, False, True]
    rejected = driver.result(ids[2]).terminal[0]
    assert isinstance(rejected, Rejected)
    assert rejected.error.http_status == 429
    driver.run()


def test_row_03_one_client_leaves_a_quarter_of_the_queue_to_others() -> None:
    driver = Driver(max_queue=40, max_running=1)

    def admitted(owner: str, count: int) -> int:
        ids = [driver.submit(PROMPT, owner=owner) for _ in range(count)]
        return sum(not driver.result(request_id).terminal for request_id in ids)

    assert admitted("key alice", 60) == 1 + 30  # one has room
    assert admitted("page a 192.0.2.1", 2) + admitted("page b 192.0.2.1", 1) + admitted("192.0.2.1", 1) == 4
    refused = driver.result(driver.submit(PROMPT, owner="key alice")).terminal[0]
    assert "40" in refused.error.message
    driver.run()


def test_row_03_a_full_queue_is_shared_by_clients_and_the_newest_of_whoever_has_most_gives_way() -> None:
    driver = Driver(max_queue=40, max_running=1)
    alice = [driver.submit(PROMPT, owner="key alice", max_tokens=3) for _ in range(60)]
    others = {
        f"key {number}": [driver.submit(PROMPT, owner=f"key {number}", max_tokens=3) for _ in range(count)]
        for number, count in enumerate([10, 4, 1, 1, 1, 1])
    }
    waiting = [request_id for request_id in alice if not driver.result(request_id).terminal]
    assert waiting == alice[: len(waiting)], "the newest have given way"
    assert len(waiting) == 1 + 40 - 18
    given_way = driver.result(alice[len(waiting)]).terminal[0]
    assert isinstance(given_way, Failed)
    assert (given_way.code, given_way.error.http_status) == ("queue_full", 429)
    assert "your requests" in given_way.error.message
    driver.run()
    for ids in [waiting, *others.values()]:
        assert all(driver.result(request_id).ends[0].length for request_id in ids), "each of them is answered"


def test_row_03_many_clients_beside_one_that_never_stops_get_their_answers() -> None:
    driver, chance = Driver(max_queue=8, max_running=2), random.Random(1)
    answers: Counter[str] = Counter()
    open_ids: dict[str, str] = {}
    greedy: list[str] = []
    for _ in range(120):
        greedy = [request_id for request_id in greedy if not driver.result(request_id).terminal]
        greedy += [driver.submit(PROMPT, owner="key greedy", max_tokens=2) for _ in range(20 - len(greedy))]
        for number in chance.sample(range(12), 12):
            owner = f"key {number}"
            if (before := open_ids.get(owner)) is not None and not driver.result(before).terminal:
                continue
            answers[owner] += before is not None and bool(driver.result(before).ends)
            open_ids[owner] = driver.submit(PROMPT, owner=owner, max_tokens=2)
        driver.step()
    got = [answers[f"key {number}"] for number in range(12)]
    assert min(got) > 0, got
    assert sum(got) ** 2 / (len(got) * sum(count**2 for count in got)) > 0.9  # Jain's index of fairness
    driver.run()


def test_row_03_a_refusal_says_how_long_the_queue_is_and_not_to_all_the_same() -> None:
    driver = Driver(max_queue=20, max_running=1)
    for _ in range(30):
        driver.submit(PROMPT, max_tokens=3, ignore_eos=True)
    first = driver.result(driver.submit(PROMPT)).terminal[0]
    assert first.error.retry_after == 1, "nothing is known yet"
    while driver.engine.stats()["requests_deferred"] > 10:
        driver.now += 0.7  # a slow engine
        driver.step()
    driver.submit("long", max_tokens=-1, ignore_eos=True)
    refusals = []
    for _ in range(40):
        outcome = driver.result(driver.submit(PROMPT, max_tokens=3))
        refusals += [terminal.error for terminal in outcome.terminal if isinstance(terminal, Rejected)]
    assert len(refusals) > 10
    begun = list(driver.engine._life.begun)
    expected = driver.engine.stats()["requests_deferred"] * (driver.now - begun[0]) / len(begun)
    assert expected > 10, "a slow engine's queue is long"
    assert all(0.75 * expected - 1 <= error.retry_after <= min(60, 1.25 * expected + 1) for error in refusals)
    assert len({error.retry_after for error in refusals}) > 2
    driver.run()


@pytest.mark.parametrize("max_queue", [1, 2, 3, 7])
def test_a_short_queue_is_filled_by_one_client(max_queue: int) -> None:
    driver = Driver(max_queue=max_queue, max_running=1)
    ids = [driver.submit(PROMPT, owner="key alice") for _ in range(max_queue + 3)]
    assert sum(not driver.result(request_id).terminal for request_id in ids) == 1 + max_queue - (max_queue == 7)
    driver.run()


@pytest.mark.parametrize(
    ("options", "room"),
    [({"n_seq_max": 16}, 8), ({"n_seq_max": 5}, 2), ({"n_ctx": 4 * 20}, 4)],
    ids=["sequences", "few sequences", "cells"],
)
def test_a_burst_on_an_idle_engine_waits_only_beyond_its_room(options: dict[str, int], room: int) -> None:
    driver = Driver(FakeModel(**{"n_ctx": 10_000, **options}), max_queue=2)
    ids = [driver.submit([place] + [9] * 19, max_tokens=2) for place in range(room + 4)]
    refused = [request_id for request_id in ids if driver.result(request_id).terminal]
    assert refused == ids[-2:]
    driver.step()
    assert not any(driver.result(request_id).terminal for request_id in ids[:-2])
    driver.run()


def test_with_a_limit_of_requests_a_burst_waits_beyond_it() -> None:
    driver = Driver(max_queue=2, max_running=1)
    ids = [driver.submit(PROMPT) for _ in range(4)]
    assert [bool(driver.result(request_id).terminal) for request_id in ids] == [False, False, False, True]
    driver.run()


def test_row_03_a_request_that_waits_too_long_fails_and_holds_nothing() -> None:
    driver = Driver(FakeModel(n_seq_max=2, n_ctx=10_000), queue_timeout=0.1)
    running = driver.submit(PROMPT, max_tokens=400)
    driver.step()
    waiting = driver.result(driver.submit("another one"))
    driver.run()
    [failed] = waiting.terminal
    assert (failed.code, failed.error.http_status, failed.error.retry_after) == ("queue_timeout", 503, 5)
    assert driver.result(running).ends[0].length == 400


def test_row_20_when_a_requests_time_is_up_its_branches_end_with_what_they_have() -> None:
    driver = Driver(FakeModel(n_ctx=10_000), request_timeout=0.2)
    outcome = driver.result(driver.submit(PROMPT, n=3, max_tokens=-1, ignore_eos=True))
    driver.run()
    assert [end.reason for end in outcome.ends.values()] == [FinishReason.LIMIT] * 3
    alone = driver.result(driver.submit(PROMPT, n=3, max_tokens=10))
    driver.run()
    assert all(len(outcome.tokens[i]) > 10 and outcome.tokens[i][:10] == alone.tokens[i] for i in range(3))
    assert not any(end.truncated for end in outcome.ends.values())


def test_row_20_a_prompt_that_takes_too_long_ends_without_text() -> None:
    driver = Driver(FakeModel(n_ctx=10_000, n_ubatch=1, n_batch=1, n_seq_max=2), request_timeout=0.02)
    outcome = driver.result(driver.submit("the old king " * 100))
    driver.run()
    assert (outcome.ends[0].reason, outcome.ends[0].length) == (FinishReason.LIMIT, 0)


@pytest.mark.parametrize(
    ("prompt", "options", "named"),
    [
        ([10**9], {}, "prompt"),
        ([-1], {}, "prompt"),
        ([5] * 600, {}, "600 tokens"),
        (PROMPT, {"logit_bias": ((-1, 1.0),)}, "logit_bias"),
        (PROMPT, {"logit_bias": ((1, 1.0),) * 2000}, "logit_bias"),
        (PROMPT, {"grammar": "(" * 200}, "grammar"),
    ],
)
def test_input_that_would_abort_native_code_is_refused_naming_its_field(
    prompt: Sequence[int], options: dict, named: str
) -> None:
    driver = Driver()
    with pytest.raises(InvalidRequest, match=named) as caught:
        driver.submit(prompt, n=4, **options)
    assert isinstance(caught.value, ContextExceeded) or caught.value.extra == {"param": named}
    assert driver.model.open_samplers == 0


def test_a_prompt_longer_than_the_context_tells_both_numbers() -> None:
    with pytest.raises(ContextExceeded) as caught:
        Driver().submit([5] * 600)
    assert caught.value.extra == {"n_prompt_tokens": 600, "n_ctx": 512}


def test_a_grammar_dead_end_ends_its_branch_with_an_error() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=2, grammar='root ::= "a"', ignore_eos=True))
    driver.run()
    assert set(outcome.texts.values()) == {"a"}
    assert [(end.reason, end.code) for end in outcome.ends.values()] == [(FinishReason.ERROR, "grammar_dead_end")] * 2


def test_no_room_shrinks_the_batch_and_fails_nobody() -> None:
    driver = Driver()
    first = driver.submit(PROMPT, n=4, max_tokens=12, ignore_eos=True)
    second = driver.submit("a fox", n=2, max_tokens=12, ignore_eos=True)
    for failing in (1, 0, 1, 2, 1):  # prompts are halved, then branches pause
        driver.model.failures += [DecodeStatus.NO_ROOM] * failing
        driver.step()
    assert driver.engine.stats()["branches_paused_total"] > 0
    driver.run()
    for request_id, prompt, n in ((first, PROMPT, 4), (second, "a fox", 2)):
        expected = [solo(prompt, seed=1 + i, max_tokens=12, ignore_eos=True).texts[0] for i in range(n)]
        assert [driver.result(request_id).texts[i] for i in range(n)] == expected


def test_an_invalid_batch_fails_only_the_request_at_fault() -> None:
    driver = Driver()
    healthy = driver.submit(PROMPT, n=2, max_tokens=8, ignore_eos=True)
    guilty = driver.submit("a fox", n=2, max_tokens=8)
    driver.model.failures += [DecodeStatus.INVALID, DecodeStatus.OK, DecodeStatus.INVALID]
    driver.run()
    assert isinstance(driver.result(guilty).terminal[0], Failed)
    assert driver.result(healthy).texts[1] == solo(PROMPT, seed=2, max_tokens=8, ignore_eos=True).texts[0]


def test_after_a_fatal_decode_the_running_fail_and_the_next_request_works() -> None:
    driver = Driver()
    running = driver.submit(PROMPT, n=2, max_tokens=50)
    driver.step()
    driver.model.failures.append(DecodeStatus.FATAL)
    driver.step()
    assert isinstance(driver.result(running).terminal[0], Failed)
    after = driver.submit(PROMPT)
    driver.run()
    assert driver.result(after).texts[0] == solo(PROMPT, seed=1).texts[0]


@pytest.mark.parametrize("failures", [[DecodeStatus.FATAL] * 2, [DecodeStatus.FATAL, DecodeStatus.OK]])
def test_a_second_fatal_decode_within_a_minute_asks_for_a_restart(failures: list[DecodeStatus]) -> None:
    driver = Driver()
    driver.submit(PROMPT)
    driver.model.failures += failures
    if failures[1] is DecodeStatus.OK:  # the self-test passes, the next computation does not
        driver.step()
        driver.submit(PROMPT)
        driver.model.failures.append(DecodeStatus.FATAL)
    with pytest.raises(EngineFault):
        driver.step()


def test_fail_all_gives_every_request_its_terminal_event() -> None:
    driver = Driver()
    ids = [driver.submit(PROMPT, n=2) for _ in range(3)]
    driver.step()
    driver.take(driver.engine.fail_all(ShuttingDown("the server is shutting down")))
    assert [driver.result(request_id).terminal[0].code for request_id in ids] == ["shutting_down"] * 3
    driver.check_drained()


def of_kind(events: Sequence[object], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("prompt", [PROMPT, [7] * 100])
def test_the_prompts_end_is_told_once_before_the_first_text(prompt: str | list[int]) -> None:
    driver = Driver()
    for cached in (False, True):
        outcome = driver.result(driver.submit(prompt, n=2, ignore_eos=True))
        driver.run()
        [done] = of_kind(outcome.events, PromptDone)
        first = next(place for place, event in enumerate(outcome.events) if isinstance(event, Delta))
        assert outcome.events.index(done) < first
        assert (done.cached_tokens > 0) == cached
        assert done.cached_tokens == outcome.terminal[0].cached_tokens


def test_a_prompt_paused_under_pressure_is_told_to_be_done_once() -> None:
    driver = Driver(FakeModel(n_ctx=60, n_seq_max=16))
    outcomes = [driver.result(driver.submit([5 + i] * 5, n=4, max_tokens=30, ignore_eos=True)) for i in range(3)]
    driver.run()
    assert driver.engine.stats()["branches_paused_total"] > 0
    assert [len(of_kind(outcome.events, PromptDone)) for outcome in outcomes] == [1, 1, 1]
    ends = [outcome.terminal[0] for outcome in outcomes]  # what is computed again does not count
    assert [done.computed_tokens for done in ends] == [done.prompt_tokens - done.cached_tokens for done in ends]


@pytest.mark.parametrize("others", [0, 3])
def test_a_prompt_takes_one_ubatch_of_a_step_whether_or_not_others_run(others: int) -> None:
    driver = Driver(FakeModel(n_ctx=2000, n_batch=256, n_ubatch=32))
    if others:
        driver.submit([5] * 9, n=others, max_tokens=90, ignore_eos=True)
        driver.step()
    driver.submit([7] * 300, max_tokens=1)
    for _ in range(5):
        driver.step()
        assert driver.engine.step_tokens == 32


@pytest.mark.parametrize("others", [1, 8])
def test_no_branch_misses_a_step_while_a_long_prompt_is_computed(others: int) -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_batch=256, n_ubatch=64))
    running = driver.submit([5] * 9, n=others, max_tokens=200, ignore_eos=True)
    driver.step()
    branches = driver.request(running).branches
    before = [len(branch.tokens) for branch in branches]
    long = driver.submit([7] * 1000, max_tokens=1)
    steps = 0
    while not driver.result(long).tokens:
        driver.step()
        steps += 1
        assert [len(branch.tokens) - steps for branch in branches] == before
    assert steps == -(-1000 // (64 - others))  # each step has a whole ubatch, so the prompt waits for nothing else


def test_requests_with_a_common_beginning_compute_it_once() -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=64))
    requests = [driver.submit([5] * 300 + [7 + number] * 10, n=4, max_tokens=3, ignore_eos=True) for number in range(8)]
    driver.run()
    branch_tokens = 8 * 4 * 2  # a branch's last token is never computed
    assert driver.model.n_tokens_decoded == 300 + 8 * 10 + branch_tokens
    assert all(len(driver.result(request).ends) == 4 for request in requests)


def test_independent_prompts_are_computed_in_the_order_of_their_arrival() -> None:
    driver = Driver(FakeModel(n_ctx=8000, n_seq_max=64, n_batch=256, n_ubatch=128))
    requests = [driver.submit([7 + number] * 120, max_tokens=40, ignore_eos=True) for number in range(24)]
    firsts = []
    while len(firsts) < 24:
        driver.step()
        firsts += [each for each in requests if each not in firsts and driver.result(each).tokens]
    assert firsts == requests
    driver.run()
    assert driver.model.n_tokens_decoded == 24 * (120 + 39)


def test_progress_is_told_from_what_was_cached_to_the_end() -> None:
    driver = Driver(FakeModel(n_ubatch=64))
    driver.submit([7] * 50, max_tokens=1)
    driver.run()
    outcome = driver.result(driver.submit([7] * 150, max_tokens=1, report_progress=True))
    driver.run()
    told = of_kind(outcome.events, Progress)
    assert [event.processed for event in told] == [50, 114, 150]
    assert {(event.total, event.cached) for event in told} == {(150, 50)}
    assert told[-1].time_ms > told[0].time_ms
    assert not of_kind(driver.result(driver.submit(PROMPT)).events, Progress)


def test_events_tell_the_time_since_the_prompt_as_the_engine_measured_it() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n=2, max_tokens=3))
    driver.run()
    for index in range(2):
        times = [event.predicted_ms for event in of_kind(outcome.events, Delta) if event.index == index]
        assert times[0] > 0
        assert times == sorted(set(times))
        assert times[-1] <= outcome.ends[index].predicted_ms <= of_kind(outcome.events, Done)[0].predicted_ms


def test_a_time_limit_ends_a_branch_at_the_end_of_a_line() -> None:
    newline = FakeModel().tokenize("\n", False, False)[0]
    driver = Driver()
    # The clock ticks a millisecond a reading, so a few tokens are enough.
    outcome = driver.result(
        driver.submit(PROMPT, max_tokens=60, t_max_predict_ms=5, logit_bias=((newline, 6.0),), seed=3)
    )
    driver.run()
    end = outcome.ends[0]
    assert (end.reason, end.truncated) == (FinishReason.LIMIT, False)
    assert 1 < end.length < 60
    assert outcome.texts[0].endswith("\n")


def test_a_text_cannot_end_before_min_tokens() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, max_tokens=40, min_tokens=5, logit_bias=((EOS, 1000.0),)))
    driver.run()
    assert (outcome.ends[0].reason, outcome.ends[0].length) == (FinishReason.EOS, 5)


def test_settings_that_forbid_every_token_end_the_branch_with_an_error() -> None:
    driver = Driver()
    outcome = driver.result(
        driver.submit(PROMPT, n=2, logit_bias=tuple((i, None) for i in range(driver.model.n_vocab)))
    )
    driver.run()
    assert {(end.reason, end.code, end.length) for end in outcome.ends.values()} == {("error", "grammar_dead_end", 0)}


def test_slots_say_which_branch_runs_in_each() -> None:
    driver = Driver()
    request_id = driver.submit(PROMPT, n=3, seed=7, max_tokens=9, ignore_eos=True)
    for _ in range(4):
        driver.step()
    slots = driver.engine.serve_query(GetSlots("q"))
    assert [slot["id"] for slot in slots] == list(range(driver.model.n_seq_max))
    busy = [slot for slot in slots if slot["is_processing"]]
    assert [(slot["id"], slot["index"], slot["seed"]) for slot in busy] == [(0, 0, 7), (1, 1, 8), (2, 2, 9)]
    assert [slot["branches"] for slot in busy] == [[{"has_new_line": False, "n_decoded": 4, "n_remain": 5}]] * 3
    assert {slot["request_id"] for slot in busy} == {request_id}
    driver.run()
    assert not any(slot["is_processing"] for slot in driver.engine.serve_query(GetSlots("q")))


def test_probabilities_after_sampling_have_their_own_names() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit(PROMPT, n_probs=2, post_sampling_probs=True, ignore_eos=True))
    driver.run()
    probs = [prob for event in of_kind(outcome.events, Delta) for prob in event.probs]
    assert [prob["id"] for prob in probs] == outcome.tokens[0]
    assert all(0 < prob["prob"] <= 1 and len(prob["top_probs"]) == 2 and "logprob" not in prob for prob in probs)
    assert outcome.ends[0].logprob == pytest.approx(sum(math.log(prob["prob"]) for prob in probs) / 10)


def test_a_grammar_wins_over_a_json_schema() -> None:
    driver = Driver()
    both = driver.result(driver.submit(PROMPT, grammar='root ::= "a"', json_schema='{"const":7}'))
    schema = driver.result(driver.submit(PROMPT, json_schema='{"const":7}'))
    driver.run()
    assert (both.texts[0], schema.texts[0]) == ("a", "7")


def scores_of(outcome: Outcome) -> list[dict[str, Any]]:
    return [prob for event in of_kind(outcome.events, PromptLogprobs) for prob in event.probs]


@pytest.mark.parametrize("n_seq_max", [2, 16])
def test_every_token_of_a_prompt_is_scored_once_by_what_comes_before_it(n_seq_max: int) -> None:
    driver = Driver(FakeModel(n_seq_max=n_seq_max))
    tokens = driver.model.tokenize(PROMPT, True, True) * 20
    outcome = driver.result(driver.submit(tokens, n_probs=2, prompt_logprobs=True))
    driver.run()
    scores = scores_of(outcome)
    assert [score["id"] for score in scores] == tokens
    assert (scores[0]["logprob"], scores[0]["top_logprobs"]) == (None, [])
    for place in (1, 33, len(tokens) - 1):
        likely = solo(tokens[:place], 1, max_tokens=1, n_probs=2, temperature=0)
        [prob] = of_kind(likely.events, Delta)[0].probs
        assert scores[place]["top_logprobs"] == prob["top_logprobs"]
        assert scores[place]["logprob"] <= scores[place]["top_logprobs"][0]["logprob"]
    order = [type(event) for event in outcome.events]
    assert order.index(PromptDone) == 1 + order.count(PromptLogprobs)


def test_a_scored_prompt_is_computed_anew_and_kept_for_others() -> None:
    driver = Driver()
    tokens = [7] * 40
    first = driver.result(driver.submit(tokens))
    driver.run()
    scored = driver.result(driver.submit(tokens, prompt_logprobs=True))
    driver.run()
    after = driver.result(driver.submit(tokens))
    driver.run()
    assert [outcome.terminal[0].cached_tokens for outcome in (first, scored, after)] == [0, 0, 40]
    assert first.texts == scored.texts == after.texts
    assert len(scores_of(scored)) == 40


def test_a_prompt_of_one_token_has_one_score() -> None:
    driver = Driver()
    outcome = driver.result(driver.submit([7], prompt_logprobs=True))
    driver.run()
    assert [score["logprob"] for score in scores_of(outcome)] == [None]


def test_branches_go_on_while_a_prompt_is_scored() -> None:
    driver = Driver(FakeModel(n_seq_max=4))
    first = driver.submit(PROMPT, n=2, max_tokens=40, ignore_eos=True)
    driver.step()
    outcomes = [driver.result(driver.submit([5 + i] * 30, prompt_logprobs=True, max_tokens=2)) for i in range(2)]
    driver.run()
    assert [len(scores_of(outcome)) for outcome in outcomes] == [30, 30]
    assert driver.result(first).texts[1] == solo(PROMPT, seed=2, max_tokens=40, ignore_eos=True).texts[0]


def embedded(driver: Driver, command: Embed | Rerank) -> Any:
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    driver.run()
    [answer] = driver.result(command.request_id).terminal
    return answer.value


def test_embeddings_are_computed_a_batch_a_step_while_branches_go_on() -> None:
    driver = Driver(FakeModel(n_ubatch=16))
    first = driver.submit(PROMPT, n=2, max_tokens=30, ignore_eos=True)
    driver.step()
    command = Embed("e", tuple((word * 2,) for word in [" fox", " king", " door"] * 5), "none")
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    steps = 0
    while not driver.result("e").terminal:
        before = len(driver.result(first).tokens[0])
        driver.step()
        assert len(driver.result(first).tokens[0]) == before + 1
        steps += 1
    assert steps == 4  # four inputs fit into a call
    value = driver.result("e").terminal[0].value
    assert value["tokens"] == [3] * 15
    assert [len(vectors) for vectors in value["embeddings"]] == [3] * 15
    assert value["embeddings"][0] == value["embeddings"][3] != value["embeddings"][1]
    driver.run()
    assert driver.engine.stats()["embedding_tokens_total"] == 45


def test_several_commands_share_a_batch_and_each_has_its_own_answer() -> None:
    driver = Driver()
    words = [" fox", " king", " door"]
    for word in words:
        driver.take(driver.engine.submit(driver.engine.prepare(Embed(word, ((word,),), "last"))))
    driver.take(driver.engine.submit(driver.engine.prepare(Rerank("r", " a fox", (" a fox", " a king")))))
    driver.step()
    together = [driver.result(word).terminal[0].value for word in words]
    driver.run()
    assert driver.result("r").terminal[0].value["scores"] == [2.0, 1.0]
    assert together == [embedded(Driver(), Embed(word, ((word,),), "last")) for word in words]


def test_a_command_for_embeddings_can_be_cancelled_or_fail_alone() -> None:
    driver = Driver()
    first = driver.submit(PROMPT, max_tokens=5)
    for name in ("a", "b"):
        driver.take(driver.engine.submit(driver.engine.prepare(Embed(name, (("the fox",),)))))
    driver.cancel("a")
    driver.model.fails_to_embed = True
    driver.run()
    assert [driver.result(name).terminal[0].code for name in ("a", "b")] == ["cancelled", "decode_failed"]
    assert driver.result(first).texts == solo(PROMPT, 1, max_tokens=5).texts


def test_fail_all_ends_waiting_embeddings_too() -> None:
    driver = Driver(max_queue=2)
    driver.model.n_embed_inputs = 1
    for name in ("a", "b", "c", "d"):  # the next step has room for the first
        driver.take(driver.engine.submit(driver.engine.prepare(Embed(name, (("the fox",),)))))
    assert driver.result("d").terminal[0].code == "queue_full"
    driver.take(driver.engine.fail_all(ShuttingDown("bye")))
    assert [driver.result(name).terminal[0].code for name in ("a", "b", "c")] == ["shutting_down"] * 3
    assert not driver.engine.has_work


def test_an_answer_too_large_for_the_wire_is_refused() -> None:
    model = FakeModel()
    model.n_embd = 10**6
    with pytest.raises(InvalidRequest, match="2000000 numbers"):
        Driver(model).engine.prepare(Embed("a", (("a",), ("b",), ("c",))))


def test_requests_with_other_scales_share_nothing_and_have_their_own_texts() -> None:
    driver = Driver(FakeModel(n_adapters=2))
    given = [None, (), ((0, 1.0),), ((1, 0.5),), ((1, 0.5), (0, 1.0))]
    for _ in range(2):
        outcomes = [driver.result(driver.submit(PROMPT, n=2, lora=lora)) for lora in given]
        driver.run()
    assert [outcome.terminal[0].cached_tokens > 0 for outcome in outcomes] == [True] * 5
    assert outcomes[0].texts == outcomes[2].texts  # the first adapter has scale 1 by itself
    assert outcomes[1].texts[0] == solo(PROMPT, 1).texts[0]
    assert len({outcome.texts[1] for outcome in outcomes}) == 4


def test_pressure_changes_no_text_of_requests_with_different_scales() -> None:
    driver = Driver(FakeModel(n_ctx=60, n_adapters=1))
    given = [((0, scale),) for scale in (0.0, 0.5, 1.0)]
    outcomes = [driver.result(driver.submit(PROMPT, n=4, max_tokens=30, ignore_eos=True, lora=lora)) for lora in given]
    driver.run()
    assert driver.engine.stats()["branches_paused_total"] > 0
    for lora, outcome in zip(given, outcomes, strict=True):
        alone = Driver(FakeModel(n_ctx=4096, n_adapters=1))
        expected = alone.result(alone.submit(PROMPT, n=4, max_tokens=30, ignore_eos=True, lora=lora))
        alone.run()
        assert outcome.texts == expected.texts


def test_set_scales_apply_to_future_requests() -> None:
    driver = Driver(FakeModel(n_adapters=2))
    before = driver.result(driver.submit(PROMPT))
    told = driver.engine.serve_query(SetAdapters("q", ((1, 0.5),)))
    assert [adapter["scale"] for adapter in told] == [0.0, 0.5]
    after = driver.result(driver.submit(PROMPT))
    named = driver.result(driver.submit(PROMPT, lora=((1, 0.5),)))
    driver.run()
    assert before.texts != after.texts == named.texts
    assert driver.engine.serve_query(GetAdapters("q")) == told


@pytest.mark.parametrize("scales", [((2, 1.0),), ((-1, 1.0),), ((0, float("inf")),)])
def test_scales_of_unknown_adapters_are_refused(scales: tuple[tuple[int, float], ...]) -> None:
    driver = Driver(FakeModel(n_adapters=2))
    with pytest.raises(InvalidRequest, match="lora"):
        driver.submit(PROMPT, lora=scales)
    with pytest.raises(InvalidRequest, match="lora"):
        driver.engine.serve_query(SetAdapters("q", scales))
    assert driver.model.open_samplers == 0


def test_any_number_of_scales_leaves_a_bounded_number_of_roots() -> None:
    driver = Driver(FakeModel(n_ctx=100, n_adapters=1), cache_bytes=0)
    for number in range(200):
        driver.submit(PROMPT, lora=((0, float(number)),), max_tokens=2)
        driver.run()
    assert driver.engine._tree.num_roots <= MAX_ROOTS


def contexts(prompt: list[int], tokens: list[int], n_ctx: int, n_keep: int, n_discard: int) -> list[int]:
    """Return what a branch sees that has chosen `tokens`, by llama-server's rules."""
    context = list(prompt)
    for token in tokens:
        context.append(token)
        if len(context) == n_ctx:
            discard = n_discard or (n_ctx - n_keep) // 2
            context = context[:n_keep] + context[n_keep + discard :]
    return context


@pytest.mark.parametrize("supports_partial_reuse", [True, False])
@pytest.mark.parametrize(("n_keep", "n_discard", "kept"), [(0, 0, 1), (3, 10, 4), (-1, 5, 7), (1000, 1, 46)])
def test_a_branch_goes_on_past_the_contexts_end(
    supports_partial_reuse: bool, n_keep: int, n_discard: int, kept: int
) -> None:
    driver = Driver(FakeModel(n_ctx_seq=50, supports_partial_reuse=supports_partial_reuse))
    prompt = driver.model.tokenize(PROMPT, True, True)
    assert len(prompt) == 7
    shift = ContextShift(n_keep, n_discard)
    greedy: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
    outcome = driver.result(driver.submit(prompt, max_tokens=120, shift=shift, **greedy))
    driver.run()
    end, done = outcome.ends[0], outcome.terminal[0]
    assert (end.reason, end.length, end.truncated) == (FinishReason.LIMIT, 120, True)
    assert (done.prompt_tokens, done.completion_tokens) == (7, 120)
    assert driver.engine.stats()["context_shifts_total"] > 1
    assert len(of_kind(outcome.events, PromptDone)) == 1
    for place in (42, 43, 60, 90, 119):
        seen = contexts(prompt, outcome.tokens[0][:place], 50, kept, n_discard)
        expected = solo(seen, 1, max_tokens=1, **greedy).tokens[0]
        assert outcome.tokens[0][place : place + 1] == expected


def test_without_a_shift_and_with_siblings_a_branch_ends_at_the_contexts_end() -> None:
    driver = Driver(FakeModel(n_ctx_seq=50))
    single = driver.result(driver.submit(PROMPT, max_tokens=100, ignore_eos=True))
    several = driver.result(driver.submit(PROMPT, n=2, max_tokens=100, ignore_eos=True, shift=ContextShift()))
    driver.run()
    for outcome in (single, several):
        assert all((end.reason, end.truncated, end.length) == ("limit", True, 43) for end in outcome.ends.values())


def test_a_shifted_branch_can_be_cancelled_and_leaves_no_wrong_text() -> None:
    driver = Driver(FakeModel(n_ctx_seq=50))
    request_id = driver.submit(PROMPT, max_tokens=-1, ignore_eos=True, shift=ContextShift())
    while not driver.engine.stats()["context_shifts_total"]:
        driver.step()
    driver.cancel(request_id)  # while its new prompt waits to be computed
    tokens = driver.model.tokenize(PROMPT, True, True) + driver.result(request_id).tokens[0][:30]
    outcome = driver.result(driver.submit(tokens, max_tokens=5))
    driver.run()
    assert outcome.terminal[0].cached_tokens > 30
    assert outcome.texts[0] == solo(tokens, 1, max_tokens=5).texts[0]


@pytest.mark.parametrize("shift", [ContextShift(-2, 0), ContextShift(0, -1)])
def test_a_negative_shift_is_refused(shift: ContextShift) -> None:
    with pytest.raises(InvalidRequest, match="n_keep"):
        Driver().submit(PROMPT, shift=shift)


def begins_at_once(driver: Driver, prompt: str = "another one") -> bool:
    """Whether a request that comes now begins with the next step."""
    deferred = driver.engine.stats()["requests_deferred"]
    driver.submit(prompt)
    driver.step()
    return driver.engine.stats()["requests_deferred"] == deferred


@pytest.mark.parametrize(("n_seq_max", "n", "room"), [(4, 0, 3), (4, 1, 1), (4, 2, 0), (4, 3, 0), (4, 9, 0), (5, 2, 1)])
def test_the_room_is_that_of_a_request_which_comes_now(n_seq_max: int, n: int, room: int) -> None:
    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=10_000))
    if n:
        driver.submit(PROMPT, n=n, max_tokens=-1, ignore_eos=True)
    for _ in range(5):
        driver.step()
    assert driver.engine.stats()["branches_room"] == room
    assert begins_at_once(driver) == (room > 0)


def test_there_is_no_room_without_cells_or_behind_a_request_that_waits() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=256))
    driver.submit(PROMPT, n=4, max_tokens=-1, ignore_eos=True)
    driver.step()
    assert driver.engine.stats()["branches_room"] > 0
    driver.submit([7] * 200)
    assert driver.engine.stats()["branches_room"] == 0
    driver.step()
    assert not begins_at_once(driver)
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=256))
    driver.submit(PROMPT, n=4, max_tokens=-1, ignore_eos=True)
    while driver.engine.stats()["branches_room"]:
        driver.step()
    assert not begins_at_once(driver, prompt="a text of words that is none too short for what is left")


def test_a_request_that_has_just_come_has_its_room_already() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=10_000))
    driver.submit(PROMPT)
    assert driver.engine.stats()["branches_room"] == 13
    driver.step()
    assert driver.engine.stats()["branches_room"] == 13


def test_the_number_of_threads_is_told_as_it_is_now() -> None:
    driver = Driver()
    assert driver.engine.stats()["threads"] == 1
    driver.model.threads = 5
    assert driver.engine.stats()["threads"] == 5


def test_branches_of_their_own_beginnings_continue_as_if_the_prompt_had_them() -> None:
    driver = Driver()
    beginnings = ["", " king said", " king said", " fox"]
    specs = tuple(BranchSpec(5 + i, 8, append=(text,) if text else ()) for i, text in enumerate(beginnings))
    counts = []
    for name in ("first", "again"):
        driver.take(driver.engine.submit(driver.engine.prepare(Generate(name, ("the old",), specs))))
        driver.run()
        for index, text in enumerate(beginnings):
            alone = solo(f"the old{text}", 5 + index, 8)
            assert driver.result(name).texts[index] == alone.texts[0]
            assert driver.result(name).ends[index].length == alone.ends[0].length
        [done] = driver.result(name).terminal
        counts.append(
            done.prompt_tokens - sum(len(driver.model.tokenize(t, False, True)) for t in ["the old", *beginnings])
        )
        cached = done.cached_tokens
    assert counts == [1, 1]  # the BOS
    # All of the prompt, and of each beginning all but the last token, whose logits are needed.
    assert cached == done.prompt_tokens - 3


def test_a_beginning_that_does_not_fit_the_context_is_refused() -> None:
    driver = Driver(FakeModel(n_ctx=40))
    for append in (" king" * 60, (5,) * 39):
        spec = BranchSpec(1, 8, append=(append,) if isinstance(append, str) else append)
        with pytest.raises(ContextExceeded):
            driver.engine.prepare(Generate("r", ("the old",), (BranchSpec(1, 8), spec)))
    with pytest.raises(InvalidRequest, match="append"):
        driver.engine.prepare(Generate("r", ("the old",), (BranchSpec(1, 8, append=(10**6,)),)))
    assert driver.model.open_samplers == 0


@pytest.mark.parametrize("stop_at", ["word", "sentence"])
def test_each_branch_ends_at_its_own_boundary(stop_at: str) -> None:
    driver = Driver(FakeModel(n_ctx=2048))
    likely = driver.model.tokenize(". Ta\n!", add_special=False, parse_special=False)
    bias = tuple((token, 9.0 if token > 50 else 5.0) for token in likely)  # bytes are less likely than words
    options: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True, "logit_bias": bias}
    outcome = driver.result(driver.submit(PROMPT, n=8, stop_at=stop_at, stop_after=2, **options))
    driver.run()
    ends = [end.reason for end in outcome.ends.values()]
    assert FinishReason.BOUNDARY in ends
    for index, end in outcome.ends.items():
        whole = solo(PROMPT, seed=1 + index, **options).texts[0]
        found = finder(stop_at, 2).push(whole)
        assert (end.reason == FinishReason.BOUNDARY) == (found is not None)
        assert outcome.texts[index] == (whole[: found.end] if found else whole)
        assert end.stopping_word == ""
        assert end.length >= len(outcome.tokens[index])


def test_the_fake_never_lets_go_of_the_interpreter() -> None:
    """Short releases would reset the interval after which a waiting thread asks for the lock, so it would wait long."""
    driver = Driver(FakeModel(n_ctx=5000))
    driver.submit(PROMPT, n=2, max_tokens=2000, ignore_eos=True)
    driver.submit(PROMPT, n=2, max_tokens=2000, ignore_eos=True, temperature=0.0)
    ready = threading.Lock()
    ready.acquire()
    has_run: list[bool] = []
    other = threading.Thread(target=lambda: (ready.acquire(), has_run.append(True)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # seconds until a waiting thread asks; before, it runs only after a release
    try:
        other.start()
        ready.release()
        while driver.engine.has_work and not has_run:
            driver.engine.step()
        assert not has_run
    finally:
        sys.setswitchinterval(interval)
        other.join()


@pytest.mark.parametrize("end", ["alone", "by a cancel", "by a failure"])
def test_a_request_that_has_ended_leaves_nothing_to_the_collector(end: str) -> None:
    """A collection comes after thousands of requests, and their garbage would have stayed until then."""
    driver = Driver(cache_cells=0)
    made = driver.submit(PROMPT, n=3, max_tokens=5, ignore_eos=True)
    driver.step()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            if end == "by a cancel":
                driver.cancel(made)
            elif end == "by a failure":
                driver.take(driver.engine.fail_all(ShuttingDown("the server is shutting down")))
            driver.run()
            made = driver.submit(PROMPT, n=3, max_tokens=5, ignore_eos=True)
            driver.step()
        assert gc.collect() == 0
    finally:
        gc.enable()
