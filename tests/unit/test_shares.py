"""The fair share of each person in the engine: nobody's branches keep another's request waiting till they have ended."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.request import BranchState
from srb.wire.commands import BranchSpec, Generate
from tests.engine_helpers import Driver, solo

ALICE, BOB = {"owner": "key @alice"}, {"owner": "key @bob"}
LONG: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True, "cache_prompt": False}


def is_begun(driver: Driver, request_id: str) -> bool:
    return not driver.request(request_id).is_waiting


def running(driver: Driver, *ids: str) -> list[int]:
    return [len(driver.request(request_id).in_state(BranchState.RUNNING)) for request_id in ids]


def steps(driver: Driver, number: int) -> None:
    for _ in range(number):
        driver.step()


@pytest.mark.parametrize(
    ("owner", "key"),
    [("key @alice", "key @alice"), ("key #0123", "key #0123"), ("127.0.0.1", ""), ("", ""), ("keyhole", "")],
)
def test_the_key_of_a_command_is_that_of_its_owner(owner: str, key: str) -> None:
    assert Generate("r", ("x",), (BranchSpec(1),), owner=owner).key == key


@pytest.mark.parametrize("flood", [1, 2, 7])
def test_the_request_of_another_key_overtakes_those_of_one_that_has_branches(flood: int) -> None:
    driver = Driver(FakeModel(n_seq_max=6, n_ctx=4096))
    first = driver.submit("a", n=6, **LONG, **ALICE)
    steps(driver, 3)
    waiting = [driver.submit([place, 9], n=6, **LONG, **ALICE) for place in range(flood)]
    bobs = driver.submit("b", n=2, **LONG, **BOB)
    steps(driver, 3)
    assert is_begun(driver, bobs)
    assert not any(is_begun(driver, each) for each in waiting)
    assert not driver.result(first).terminal
    driver.run()
    assert driver.result(bobs).texts[1] == solo("b", 2, 60, ignore_eos=True).texts[0]


def test_without_keys_each_address_has_a_share_of_its_own() -> None:
    driver = Driver(FakeModel(n_seq_max=6, n_ctx=4096))
    first = driver.submit("a", n=6, **LONG, owner="10.0.0.1")
    steps(driver, 3)
    second = driver.submit("b", n=6, **LONG, owner="10.0.0.1")
    third = driver.submit("c", **LONG, owner="10.0.0.2")
    steps(driver, 4)
    assert is_begun(driver, third)
    assert not is_begun(driver, second)
    assert running(driver, first, third) == [3, 1], "room was made for a prompt and its branch"
    driver.run()


def test_branches_of_one_person_give_way_as_far_as_anothers_share_goes_and_lose_nothing() -> None:
    driver = Driver(FakeModel(n_seq_max=17, n_ctx=4096))
    alices = driver.submit("a", n=40, max_tokens=60, ignore_eos=True, **ALICE)
    steps(driver, 10)
    bobs = driver.submit("b", n=30, max_tokens=60, ignore_eos=True, **BOB)
    steps(driver, 12)
    [alice, bob] = running(driver, alices, bobs)
    assert abs(alice - bob) <= 2, (alice, bob)
    paused = driver.engine.stats()["branches_paused_total"]
    steps(driver, 20)
    assert driver.engine.stats()["branches_paused_total"] == paused, "equal shares are left alone"
    driver.run()
    for request_id, prompt in ((alices, "a"), (bobs, "b")):
        for index in range(30):
            assert driver.result(request_id).texts[index] == solo(prompt, 1 + index, 60, ignore_eos=True).texts[0]


@pytest.mark.parametrize(
    ("alices", "bobs", "n_seq_max"), [(30, 30, 17), (30, 40, 17), (40, 30, 17), (9, 9, 12), (9, 20, 13)]
)
def test_a_place_that_is_left_over_is_not_passed_to_and_fro(alices: int, bobs: int, n_seq_max: int) -> None:
    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=4096))
    first = driver.submit("a", n=alices, **LONG, **ALICE)
    steps(driver, 5)
    second = driver.submit("b", n=bobs, **LONG, **BOB)
    steps(driver, 15)
    paused = driver.engine.stats()["branches_paused_total"]
    steps(driver, 20)
    assert driver.engine.stats()["branches_paused_total"] == paused
    [alice, bob] = running(driver, first, second)
    assert 0 <= alice - bob <= 1
    driver.run()


def test_nobody_gives_way_to_whom_an_older_request_of_her_own_would_precede_then() -> None:
    driver = Driver(FakeModel(n_seq_max=10, n_ctx=4096))
    driver.submit("a", n=2, **LONG, **ALICE)
    driver.submit("b", n=3, **LONG, **BOB)
    steps(driver, 1)
    driver.submit("d", **LONG, **BOB)
    for place in range(3):
        driver.submit([place, 9], **LONG, **ALICE)
    driver.submit("c", **LONG, owner="key @carol")
    steps(driver, 20)
    assert not driver.engine.stats()["branches_paused_total"]
    driver.run()


@pytest.mark.parametrize(("n_seq_max", "paused"), [(11, 2), (15, 1), (16, 0)])
def test_for_room_that_is_free_no_branch_is_paused(n_seq_max: int, paused: int) -> None:
    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=4096))
    short = LONG | {"max_tokens": 2}
    driver.submit("a", n=5, **short, **ALICE)
    driver.submit("b", n=4, **LONG, owner="key @carol")
    driver.submit("c", n=2, **LONG, **ALICE)
    steps(driver, 1)
    bobs = driver.submit("d", n=2, **short, **BOB)
    while not is_begun(driver, bobs):
        driver.step()
    assert driver.engine.stats()["branches_paused_total"] == paused
    driver.run()


def test_a_person_who_holds_all_cells_gives_way_to_anothers_prompt() -> None:
    driver = Driver(FakeModel(n_seq_max=30, n_ctx=600))
    alices = driver.submit("a", n=8, max_tokens=60, ignore_eos=True, **ALICE)
    steps(driver, 40)
    bobs = driver.submit([40] * 150, max_tokens=5, ignore_eos=True, **BOB)
    steps(driver, 8)
    assert is_begun(driver, bobs)
    assert not driver.result(alices).terminal
    driver.run()


def test_sequences_that_become_free_go_to_the_key_with_fewer_branches_until_both_have_as_many() -> None:
    driver = Driver(FakeModel(n_seq_max=10, n_ctx=4096))
    alices = driver.submit("a", n=30, max_tokens=200, ignore_eos=True, **ALICE)
    steps(driver, 3)
    others = driver.submit("b", n=30, max_tokens=200, ignore_eos=True, **ALICE)
    bobs = driver.submit("c", n=30, max_tokens=200, ignore_eos=True, **BOB)
    for index in range(8):
        driver.cancel(alices, index)
        steps(driver, 2)
    alice = sum(running(driver, alices, others))
    [bob] = running(driver, bobs)
    assert abs(alice - bob) <= 1, (alice, bob)
    for request_id in (alices, others, bobs):
        driver.cancel(request_id)
    driver.run()


@pytest.mark.parametrize("bobs_branches", [1, 3])
def test_under_pressure_the_key_with_more_branches_gives_way(bobs_branches: int) -> None:
    driver = Driver(FakeModel(n_seq_max=20, n_ctx=320))
    driver.submit("a", n=8, max_tokens=100, ignore_eos=True, **ALICE)
    steps(driver, 10)
    bobs = driver.submit("b", n=bobs_branches, max_tokens=35, ignore_eos=True, **BOB)
    steps(driver, 10)
    assert running(driver, bobs) == [bobs_branches]
    seen = 0
    while not driver.result(bobs).terminal:
        driver.step()
        seen += driver.engine.stats()["branches_paused_total"] > 0
        if not driver.result(bobs).terminal:
            assert running(driver, bobs) == [bobs_branches], "the younger request of the smaller key goes on"
    assert seen, "there was no pressure"
    driver.run()


def test_a_limit_of_requests_counts_shares_too() -> None:
    driver = Driver(FakeModel(n_seq_max=12, n_ctx=4096), max_running=2)
    long = driver.submit("a", n=2, max_tokens=300, ignore_eos=True, **ALICE)
    short = driver.submit("b", max_tokens=5, ignore_eos=True, **ALICE)
    steps(driver, 2)
    third = driver.submit("c", max_tokens=5, ignore_eos=True, **ALICE)
    bobs = driver.submit("d", max_tokens=50, ignore_eos=True, **BOB)
    while not driver.result(short).terminal:
        driver.step()
    steps(driver, 2)
    assert is_begun(driver, bobs)
    assert not is_begun(driver, third)
    driver.cancel(long)
    driver.run()


def test_a_short_prompt_is_not_computed_after_all_the_long_ones_of_another_key() -> None:
    driver = Driver(FakeModel(n_seq_max=30, n_ctx=8192, n_batch=32, n_ubatch=32))
    flood = [driver.submit([place] * 300, max_tokens=20, cache_prompt=False, **ALICE) for place in range(5)]
    bobs = driver.submit([40] * 30, max_tokens=2, cache_prompt=False, **BOB)
    while not driver.result(bobs).terminal:
        driver.step()
    assert [is_complete(driver, each) for each in flood] == [True, False, False, False, False]
    driver.run()


def is_complete(driver: Driver, request_id: str) -> bool:
    return bool(driver.result(request_id).terminal) or driver.request(request_id).prefix.is_complete


def test_a_new_request_leaves_the_sequences_to_another_keys_branches_whose_prompt_is_being_computed() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=8192, n_batch=32, n_ubatch=32))
    first = driver.submit("a", n=20, max_tokens=500, ignore_eos=True, **ALICE)
    steps(driver, 4)
    second = driver.submit("b", n=5, max_tokens=500, ignore_eos=True, **ALICE)
    bobs = driver.submit([40] * 100, n=4, max_tokens=500, ignore_eos=True, **BOB)
    for index in range(6):
        driver.cancel(first, index)
        driver.step()
        assert not is_begun(driver, second), f"bob has {running(driver, bobs)}"
    steps(driver, 10)
    assert running(driver, bobs) == [4]
    for request_id in (first, second, bobs):
        driver.cancel(request_id)
    driver.run()


def test_requests_of_one_branch_give_way_whole_and_at_once() -> None:
    driver = Driver(FakeModel(n_seq_max=16, n_ctx=4096))
    for place in range(8):
        driver.submit(f"{place} old king", n=1, **LONG, **ALICE)
    steps(driver, 10)
    bobs = driver.submit("a lamp", n=1, **LONG, **BOB)
    steps(driver, 2)
    assert is_begun(driver, bobs)
    paused = driver.engine.stats()["branches_paused_total"]
    steps(driver, 20)
    assert driver.engine.stats()["branches_paused_total"] == paused, "nobody is paused and started again in each step"
    driver.run()
