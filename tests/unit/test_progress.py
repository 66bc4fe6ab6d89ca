"""Threads work in their order, and a thread that waits for one is told of as alive, until nobody waits for its work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from srb import progress as module
from srb.errors import Cancelled
from srb.progress import FairSemaphore, taken, work_while
from tests.processes import DEADLINE, wait_for


class Worker:
    """A thread that takes a turn, and holds it until the test lets it go."""

    def __init__(self, turn: Callable[[], AbstractContextManager[None]]) -> None:
        self._turn = turn
        self.looks = 0
        self.is_wanted = True
        self.has_turn, self.may_end = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        work_while(self._look)
        try:
            with self._turn():
                self.has_turn.set()
                self.may_end.wait(DEADLINE)
        except Cancelled as error:
            self.error = error

    def _look(self) -> bool:
        self.looks += 1
        return self.is_wanted


@pytest.fixture(params=["turns", "lock"])
def turn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    if request.param == "lock":
        lock = threading.Lock()
        return lambda: taken(lock)
    turns = FairSemaphore(1)
    return lambda: _of(turns)


def _of(turns: FairSemaphore) -> AbstractContextManager[None]:
    return turns  # type: ignore[return-value]


@pytest.fixture
def workers(turn: Callable[[], AbstractContextManager[None]]) -> Iterator[Callable[[], Worker]]:
    made: list[Worker] = []

    def start() -> Worker:
        made.append(Worker(turn))
        return made[-1]

    yield start
    for worker in made:
        worker.may_end.set()
        worker.thread.join(DEADLINE)


def test_to_wait_for_a_turn_is_progress_and_so_is_its_coming(workers: Callable[[], Worker]) -> None:
    first = workers()
    assert first.has_turn.wait(DEADLINE)
    second = workers()
    wait_for(lambda: second.looks > 3, "the second looks while it waits")
    assert not second.has_turn.is_set()
    first.may_end.set()
    assert second.has_turn.wait(DEADLINE)


def test_a_thread_whose_work_nobody_wants_waits_no_more_and_takes_no_turn(workers: Callable[[], Worker]) -> None:
    first = workers()
    assert first.has_turn.wait(DEADLINE)
    second, third = workers(), workers()
    wait_for(lambda: second.looks and third.looks, "both wait")
    second.is_wanted = False
    second.thread.join(DEADLINE)
    assert second.error is not None
    first.may_end.set()
    assert third.has_turn.wait(DEADLINE)
    assert not second.has_turn.is_set()


def test_turns_come_in_the_order_of_those_who_wait() -> None:
    turns, order = FairSemaphore(1), list[int]()

    def take(number: int) -> None:
        with turns:
            order.append(number)

    with turns:
        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            wait_for(lambda: len(turns._waiting) == len(threads), "it waits")
        assert order == []
    for thread in threads:
        thread.join(DEADLINE)
    assert order == list(range(5))
