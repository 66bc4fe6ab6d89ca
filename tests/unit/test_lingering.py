"""Requests that nobody reads: they give way to those that are read, in everything, and run as others do when alone."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine import request as request_module
from srb.engine.fake import FakeModel
from srb.engine.open_requests import MAX_KEPT
from srb.engine.scheduler import UNREAD_EVERY
from srb.errors import Conflict, RateLimited, SRBError
from srb.wire.commands import GetRequest
from srb.wire.events import FinishReason, Rejected
from tests.engine_helpers import Driver, plain, solo

ENDLESS: dict[str, Any] = {"max_tokens": 200, "ignore_eos": True, "linger": 10.0**6, "can_grow": True}


def leave_behind(driver: Driver, count: int, n: int = 16, **options: Any) -> list[str]:
    """Submit requests, let them run for some steps, and leave them."""
    ids = [driver.submit([place] + [9] * 5, n=n, **{**ENDLESS, **options}) for place in range(count)]
    for _ in range(3 * count):
        driver.step()
    for request_id in ids:
        driver.leave(request_id)
    return ids


def steps_of(driver: Driver, request_id: str) -> int:
    """Step until a request has ended; return the number of steps."""
    steps = 0
    while not driver.result(request_id).terminal:
        driver.step()
        steps += 1
    return steps


def written(driver: Driver, request_id: str) -> int:
    return sum(branch.length for branch in driver.request(request_id).branches)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("scarce", [{"n_ctx": 4096}, {"n_ctx": 300}], ids=["sequences", "cells"])
def test_a_request_with_a_reader_waits_for_none_without(count: int, scarce: dict[str, int]) -> None:
    driver = Driver(FakeModel(n_seq_max=16, **scarce))
    left = leave_behind(driver, count, max_tokens=30)
    alone = Driver(FakeModel(n_seq_max=16, **scarce))
    needed = steps_of(alone, alone.submit("the old king", n=8))
    for _ in range(3):
        victim = driver.submit("the old king", n=8)
        assert steps_of(driver, victim) <= needed + count
        assert driver.result(victim).texts == solo("the old king", 1).texts | {
            index: solo("the old king", 1 + index).texts[0] for index in range(8)
        }
    driver.run()
    assert all(len(driver.result(request_id).ends) == 16 for request_id in left)  # they go on once they are alone


def test_requests_without_a_reader_that_leave_room_take_part_in_few_steps() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=4096))
    [left] = leave_behind(driver, 1, n=2)
    before = written(driver, left)
    driver.submit("the old king", n=4, max_tokens=8 * UNREAD_EVERY, ignore_eos=True)
    for _ in range(4 * UNREAD_EVERY):
        driver.step()
    assert written(driver, left) == before + 4 * 2
    assert driver.engine.stats()["branches_paused_total"] == 0


def test_a_prompt_that_a_reader_waits_for_is_computed_as_if_it_was_read() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=4096, n_batch=16, n_ubatch=16))
    text = list(range(40)) * 4
    left = driver.submit(text, **ENDLESS)
    driver.step()
    driver.leave(left)
    read = driver.submit([*text, 7], max_tokens=2)
    driver.submit("the old king", max_tokens=50, ignore_eos=True)
    assert steps_of(driver, read) < 20
    assert driver.result(read).terminal[0].cached_tokens >= len(text) - 16


def test_with_a_limit_of_requests_one_that_is_read_takes_the_turn_of_one_that_is_not() -> None:
    driver = Driver(max_running=1)
    [left] = leave_behind(driver, 1, n=2)
    victim = driver.submit("the old king", max_tokens=5)
    assert steps_of(driver, victim) <= 8
    assert driver.engine.stats()["requests_processing"] == 1
    victim = driver.submit("the old king", max_tokens=50, ignore_eos=True)
    for _ in range(3):
        driver.step()
    driver.attach(left)  # a reader that comes back waits for the turn, as others do
    for _ in range(3):
        driver.step()
        assert sum(bool(request.prefix.node) for request in driver.engine._requests.active.values()) == 1
    driver.run()
    assert len(driver.result(left).ends) == 0 or driver.result(left).rests


@pytest.mark.parametrize("comes", ["new", "resumed", "grown"])
def test_a_request_without_a_reader_leaves_the_queue_for_one_with(comes: str) -> None:
    driver = Driver(FakeModel(n_seq_max=2, n_ctx=4096), max_queue=1)
    other = driver.submit("a", max_tokens=3, linger=500, can_grow=True, ignore_eos=True)
    driver.run()
    running = driver.submit("b", max_tokens=300, ignore_eos=True)
    driver.step()
    left = driver.submit([1, 2, 3], **ENDLESS)
    driver.leave(left)
    if comes == "new":
        driver.submit("c")
    elif comes == "resumed":
        driver.change(other, 0, 5)
    else:
        driver.add(other)
    assert driver.result(left).ends[0].reason == FinishReason.LIMIT
    assert driver.result(left).rests
    driver.attach(left)
    driver.cancel(running)
    driver.change(left, 0, 5)  # its reader may let it go on
    driver.run()
    assert driver.result(left).ends[0].length == 5


def test_beyond_its_clients_limit_the_request_that_was_left_first_ends_and_rests_with_its_texts() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=4096))
    ids = [driver.submit([place] + [9] * 5, n=2, **ENDLESS, owner="a", max_lingering=2) for place in range(4)]
    other = driver.submit("x", **ENDLESS, owner="b", max_lingering=2)
    for _ in range(8):
        driver.step()
    for request_id in (other, ids[2], ids[0], ids[3]):
        driver.leave(request_id)
    assert [request_id for request_id in ids if driver.result(request_id).rests] == [ids[2]]
    assert not driver.result(other).rests
    with pytest.raises(RateLimited):
        driver.change(ids[2], 0, 5)
    driver.attach(ids[2])
    texts = dict(driver.result(ids[2]).texts)
    driver.change(ids[2], 0, 100)
    for _ in range(8):
        driver.step()
    assert driver.result(ids[2]).texts[0].startswith(texts[0])
    driver.leave(ids[2])
    assert driver.result(ids[0]).rests
    driver.run()
    driver.advance(10.0**7)
    driver.check_drained()


def test_rests_do_not_count_as_requests_that_run_without_a_reader() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=4096))
    for place in range(4):
        driver.leave(driver.submit([place, 9], **{**ENDLESS, "max_tokens": 2}, owner="a", max_lingering=1))
        driver.run()
    left = driver.submit("the old king", **ENDLESS, owner="a", max_lingering=1)
    driver.leave(left)
    driver.step()
    assert not driver.result(left).rests


def test_a_request_that_rested_for_long_and_goes_on_unread_lingers_anew() -> None:
    """As docs/api.md shows it: an answer that was not streamed, and a control after a while."""
    driver = Driver()
    request_id = driver.submit("the old king", max_tokens=5, ignore_eos=True, linger=8.0)
    driver.leave(request_id)
    driver.run()
    driver.advance(6.0)
    driver.change(request_id, 0, more=200)
    driver.advance(6.0)  # longer than what was left of the rest
    driver.run()
    assert driver.result(request_id).ends[0].length == 205


@pytest.mark.parametrize("control", ["more", "fork"])
def test_a_request_that_is_given_more_to_write_while_nobody_reads_it_lingers_anew(control: str) -> None:
    driver = Driver()
    request_id = driver.submit("the old king", max_tokens=300, ignore_eos=True, linger=8.0, can_grow=True)
    driver.step()
    driver.leave(request_id)
    driver.advance(6.0)
    driver.change(request_id, 0, more=20) if control == "more" else driver.add(request_id, origin=0)
    driver.advance(6.0)
    assert driver.request(request_id).is_unread
    driver.advance(3.0)
    assert driver.result(request_id).terminal


def test_a_reader_that_comes_to_a_rest_does_not_end_it() -> None:
    driver = Driver()
    request_id = driver.submit("the old king", max_tokens=5, linger=8.0)
    driver.run()
    driver.advance(6.0)
    driver.leave(request_id)
    driver.advance(6.0)  # by now the rest would be over, had its reader stayed
    assert driver.attach(request_id)["state"] == "resting"
    driver.advance(6.0)
    driver.change(request_id, 0, more=5)
    driver.run()
    assert driver.result(request_id).ends[0].length == 10


@pytest.mark.parametrize("refused", ["change", "add", "new"])
def test_what_is_refused_takes_nobodys_place_in_the_queue(refused: str) -> None:
    driver = Driver(FakeModel(n_seq_max=2, n_ctx=4096), max_queue=1)
    rests = driver.submit("a", max_tokens=3, linger=500, can_grow=True, ignore_eos=True)
    driver.run()
    driver.submit("b", max_tokens=300, ignore_eos=True)
    driver.step()
    left = driver.submit([1, 2, 3], **ENDLESS)
    driver.leave(left)
    if refused == "change":
        with pytest.raises(SRBError):
            driver.change(rests, 0, more=-1)
    elif refused == "add":
        with pytest.raises(SRBError):
            driver.add(rests, *[plain()] * 2, max_running=1)
    else:
        driver.submit("c", linger=10, max_unread=1)
        assert isinstance(driver.result("r3").terminal[0], Rejected)
    assert driver.request(left).is_waiting
    assert not driver.result(left).ends


def kept(driver: Driver, request_id: str) -> list[list[str]]:
    return [[prob["token"] for prob in branch.probs] for branch in driver.request(request_id).branches]


def test_probabilities_stay_after_the_end_as_long_as_the_request_asks() -> None:
    driver = Driver(FakeModel())
    request_id = driver.submit("the old king", n=2, max_tokens=6, n_probs=2, keep_probs=60.0)
    driver.run()
    assert driver.result(request_id).rests
    said = driver.engine.serve_query(GetRequest("q", request_id))
    told = [[prob["token"] for prob in branch["probs"]] for branch in said["branches"]]
    assert told == kept(driver, request_id)
    assert ["".join(tokens) for tokens in told] == [driver.result(request_id).texts[index] for index in range(2)]
    driver.leave(request_id)
    driver.advance(59)
    assert driver.idle
    driver.advance(2)
    assert not driver.idle
    driver.check_drained()


def test_texts_kept_for_their_probabilities_are_few_and_keep_nobody_from_asking() -> None:
    driver = Driver(FakeModel())
    ids = []
    for place in range(MAX_KEPT + 5):
        ids.append(driver.submit([place], max_tokens=3, n_probs=1, keep_probs=60.0, owner="key 1", max_unread=2))
        driver.run()
        driver.leave(ids[-1])
    driver.advance(0)
    assert [request.request_id for request in driver.idle] == ids[5:]


@pytest.mark.parametrize("end", ["leave", "stop", "cancel"])
def test_a_request_that_keeps_probabilities_ends_with_its_reader_as_others_do(end: str) -> None:
    driver = Driver(FakeModel())
    request_id = driver.submit("the old king", max_tokens=200, ignore_eos=True, n_probs=1, keep_probs=60.0)
    for _ in range(8):
        driver.step()
    getattr(driver, end)(request_id)
    driver.step()
    assert [request.request_id for request in driver.idle] == [request_id]
    assert 0 < len(kept(driver, request_id)[0]) < 10
    with pytest.raises(Conflict):
        driver.change(request_id, 0, more=5)


def test_a_limit_bounds_the_probabilities_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "MAX_KEPT_TOKENS", 40)
    driver = Driver(FakeModel())
    request_id = driver.submit("the old king", n=2, max_tokens=30, ignore_eos=True, n_probs=3, keep_probs=60.0)
    driver.run()
    assert [len(tokens) for tokens in kept(driver, request_id)] == [5, 5]
