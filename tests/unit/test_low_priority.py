"""Requests of low priority, as the page's that make a story's text ready: they come after all that somebody reads."""

from __future__ import annotations

from typing import Any

import pytest

from srb.engine.fake import FakeModel
from tests.engine_helpers import Driver, solo

TEXT = list(range(40)) * 8
READY: dict[str, Any] = {"max_tokens": 0, "priority": 1}  # a text is computed, and nothing is written


def engine(**options: Any) -> Driver:
    return Driver(FakeModel(n_seq_max=16, n_ctx=4096, n_batch=16, n_ubatch=16), **options)


def steps_of(driver: Driver, request_id: str) -> int:
    steps = 0
    while not driver.result(request_id).terminal:
        driver.step()
        steps += 1
    return steps


@pytest.mark.parametrize("began", [0, 3])
@pytest.mark.parametrize("count", [1, 6])
def test_a_request_that_is_read_waits_for_none_of_low_priority(count: int, began: int) -> None:
    driver, alone = engine(), engine()
    for place in range(count):
        driver.submit([50 + place, *TEXT], **READY)
    for _ in range(began):
        driver.step()
    needed = steps_of(alone, alone.submit("the old king", n=8, max_tokens=6))
    read = driver.submit("the old king", n=8, max_tokens=6)
    assert steps_of(driver, read) <= needed + count
    assert driver.result(read).texts[0] == solo("the old king", 1, 6).texts[0]
    driver.run()
    driver.check_drained()


def test_a_text_that_was_made_ready_is_computed_no_more() -> None:
    driver = engine()
    ready = driver.submit(TEXT, **READY)
    driver.run()
    assert driver.result(ready).ends[0].length == 0
    read = driver.submit([*TEXT, 7], max_tokens=3)
    driver.run()
    assert driver.result(read).terminal[0].cached_tokens == len(TEXT)


@pytest.mark.parametrize("leaves", ["before", "after", "never"])
def test_a_round_that_begins_meanwhile_goes_on_with_what_is_computed(leaves: str) -> None:
    driver, alone = engine(), engine()
    needed = steps_of(alone, alone.submit([*TEXT, 7], max_tokens=3))
    ready = driver.submit(TEXT, **READY)
    for _ in range(10):
        driver.step()
    if leaves == "before":
        driver.cancel(ready)
    read = driver.submit([*TEXT, 7], max_tokens=3)
    if leaves == "after":
        driver.cancel(ready)
    assert steps_of(driver, read) <= needed - 10 + 2
    driver.run()
    driver.check_drained()


def test_it_leaves_the_queue_for_one_that_is_read() -> None:
    driver = Driver(FakeModel(n_seq_max=2, n_ctx=4096), max_queue=1)
    driver.submit("b", max_tokens=300, ignore_eos=True)
    driver.step()
    ready = driver.submit(TEXT, **READY)
    read = driver.submit("c", max_tokens=3)
    assert driver.result(ready).terminal
    driver.run()
    assert driver.result(read).ends[0].length == 3


@pytest.mark.parametrize("priority", [0, -1])
def test_other_numbers_change_nothing(priority: int) -> None:
    driver, alone = engine(), engine()
    needed = steps_of(alone, alone.submit(TEXT, max_tokens=2))
    first = driver.submit(TEXT, max_tokens=2, priority=priority)
    driver.submit("the old king", n=2, max_tokens=50, ignore_eos=True)
    assert steps_of(driver, first) <= needed + 4
