"""Walks of the engine and of a bridge with several owners: nobody waits while one with more running branches is admitted.

The oracle counts again, one admission after another: of those that wait, the first of the owner with the fewest branches,
divided by her weight.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.cluster.fair_queue import FairQueue
from srb.engine.fake import FakeModel
from srb.engine.request import Branch, BranchState, Request
from tests.engine_helpers import Driver
from tests.walks import examples

OWNERS = {"key @alice": 1, "key @bob": 3, "key #1": 1, "10.0.0.1": 1, "10.0.0.2": 7, "": 1}  # and their weights


@dataclass(frozen=True)
class Asked:
    owner: str
    n: int
    max_tokens: int
    steps: int  # before the next one comes


ASKED = st.builds(Asked, st.sampled_from(list(OWNERS)), st.integers(1, 7), st.integers(2, 20), st.integers(0, 4))


def active(driver: Driver) -> list[Request]:
    return list(driver.engine._requests.active.values())


def expected_order(requests: list[Request]) -> list[str]:
    """Return the waiting requests in the order in which they have to begin."""
    counts: Counter[str] = Counter()
    for request in requests:
        if not request.is_waiting:
            counts[request.owner] += max(1, len(request.in_state(BranchState.RUNNING)))
    waiting, order = [request for request in requests if request.is_waiting], []
    while waiting:
        fewest = min(Fraction(counts[request.owner], OWNERS[request.owner]) for request in waiting)
        request = next(each for each in waiting if Fraction(counts[each.owner], OWNERS[each.owner]) == fewest)
        waiting.remove(request)
        order.append(request.request_id)
        counts[request.owner] += 1
    return order


def has_branches_ready(request: Request) -> bool:
    is_ready = not request.is_waiting and request.prefix.is_complete
    return is_ready and bool(request.in_state(BranchState.WAITING))


def check_step(driver: Driver) -> None:
    """Take a step; check who began and whose branches started in it."""
    before = active(driver)
    order, waited = expected_order(before), {request.request_id for request in before if request.is_waiting}
    were_running = {branch for request in before for branch in request.in_state(BranchState.RUNNING)}
    driver.step()
    after = active(driver)
    still = {request.request_id for request in after if request.is_waiting}
    begun = waited - still
    assert begun == set(order[: len(begun)]), f"{begun} began, but the order is {order}"
    counts = Counter(branch.request.owner for branch in _running(after))
    started = {branch.request.owner for branch in _running(after) if branch not in were_running}
    ready = {request.owner for request in after if has_branches_ready(request)}
    for key in started:
        for other in ready:
            share = Fraction(counts[key] - 1, OWNERS[key])
            assert Fraction(counts[other], OWNERS[other]) >= share, f"{key} has {counts[key]}, {other} {counts[other]}"


def _running(requests: list[Request]) -> list[Branch]:
    return [branch for request in requests for branch in request.in_state(BranchState.RUNNING)]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(ASKED, min_size=1, max_size=14), st.integers(2, 12))
def test_the_owner_with_the_fewest_running_branches_is_next_in_the_engine(asked: list[Asked], n_seq_max: int) -> None:
    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=4096))
    ids = []
    for seed, each in enumerate(asked):
        options = {"ignore_eos": True, "cache_prompt": False, "owner": each.owner, "weight": OWNERS[each.owner]}
        ids.append(driver.submit([seed % 40, 3], each.n, seed, each.max_tokens, **options))
        for _ in range(each.steps):
            check_step(driver)
    for _ in range(3000):
        if not driver.engine.has_work:
            break
        check_step(driver)
    for each, request_id in zip(asked, ids, strict=True):
        assert len(driver.result(request_id).ends) == each.n, "somebody waited for ever"
    driver.check_drained()


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(2, 8), st.integers(1, 12), st.integers(1, 40), st.integers(2, 4), st.booleans())
def test_nobody_starves_beside_others_who_never_stop(
    n_seq_max: int, n: int, length: int, others: int, is_small: bool
) -> None:
    """A request waits for the branches of its own key at most, and for those that were first."""
    driver = Driver(FakeModel(n_seq_max=n_seq_max, n_ctx=256 if is_small else 4096), max_queue=10_000)
    options = {"ignore_eos": True, "cache_prompt": False}
    driver.submit("a", n, 1, length, owner="key @alice", **options)
    driver.step()
    second = driver.submit("b", n, 1, length, owner="key @alice", **options)
    for number in range(2000):
        if number % 2 == 0:
            driver.submit([number % 40, 3], 1, 1, 3, owner=f"key @other{number % others}", **options)
        driver.step()
        if driver.result(second).terminal or not driver.request(second).is_waiting:
            break
    else:
        raise AssertionError("the request never began")
    driver.run()


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 5))
def test_the_key_with_the_fewest_branches_is_next_at_a_bridge(seed: int, capacity: int, keys: int) -> None:
    chance, turns = random.Random(seed), FairQueue()
    counts: Counter[str] = Counter()
    waiting: dict[str, tuple[str, int]] = {}  # in the order of arrival
    begun: dict[str, tuple[str, int]] = {}

    weights = [chance.choice((1, 1, 2, 5)) for _ in range(keys)]

    def share(key: str) -> Fraction:
        return Fraction(counts[key], weights[int(key.removeprefix("key "))])

    def room() -> int:
        return capacity - counts.total()

    def begin(request_id: str) -> None:
        key, branches = waiting.pop(request_id)
        fewest = min([share(key), *(share(other) for other, _ in waiting.values())])
        assert share(key) == fewest, "a key with more branches is admitted before one that waits"
        older = [each for each, (other, _) in waiting.items() if share(other) == fewest and each < request_id]
        assert not older, "within equal ones the first comes first"
        assert room() > 0 or all(share(key) <= share(other) for other, number in counts.items() if number)
        begun[request_id] = (key, branches)
        counts[key] += branches
        turns.begin(key, branches)

    def settle() -> None:
        while (go := turns.next(room)) is not None:
            go()
        assert len(turns) == len(waiting)
        assert not waiting or room() <= 0, "somebody waits, and there is room"

    def end() -> None:
        key, branches = begun.pop(chance.choice(sorted(begun)))
        counts[key] -= branches
        turns.end(key, branches)
        settle()

    for number in range(60):
        if begun and chance.random() < 0.4:
            end()
            continue
        request_id = f"r{number:03}"
        waiting[request_id] = (f"key {chance.randrange(keys)}", chance.randint(1, 20))
        key = waiting[request_id][0]
        turns.wait(request_id, key, weights[int(key.removeprefix("key "))], partial(begin, request_id))
        if chance.random() < 0.1:
            assert turns.forget(request_id)
            del waiting[request_id]
        settle()
    while begun:
        end()
    assert not waiting, "somebody waits for ever"
    assert repr(turns) == "<FairQueue {} open, 0 waiting>"
