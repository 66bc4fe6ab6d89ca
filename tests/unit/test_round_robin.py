"""RoundRobin: calls that are there together begin in a rotation of their clients."""

from __future__ import annotations

from collections.abc import Sequence

import gevent

from srb.web.loop.yielding import RoundRobin


def order_of(calls: Sequence[str], work: int = 0) -> list[str]:
    """Return the order in which calls of these clients begin that are there at once; each yields so often at its work."""
    turns, began = RoundRobin(), list[str]()

    def call(client: str) -> None:
        turns.wait(client)
        began.append(client)
        for _ in range(work):
            gevent.sleep(0)

    gevent.joinall([gevent.spawn(call, client) for client in calls], raise_error=True)
    assert repr(turns) == "<RoundRobin 0 calls of 0 clients wait>"
    return began


def test_a_client_waits_for_one_call_of_each_other_and_not_for_a_crowd() -> None:
    assert order_of(["crowd"] * 1000 + ["innocent"]).index("innocent") <= 2
    assert order_of(["a"] * 1000 + ["b"] * 1000 + ["innocent"] * 2, work=3)[:8].count("innocent") == 2


def test_calls_of_one_client_begin_as_they_came() -> None:
    turns, began = RoundRobin(), list[int]()

    def call(number: int) -> None:
        turns.wait("a")
        began.append(number)

    gevent.joinall([gevent.spawn(call, number) for number in range(20)], raise_error=True)
    assert began == list(range(20))


def test_a_call_that_is_alone_begins_at_once_and_the_next_when_it_waits() -> None:
    turns, began = RoundRobin(), list[str]()

    def call(name: str) -> None:
        turns.wait(name)
        began.append(name)

    turns.wait("first")
    second = gevent.spawn(call, "second")
    assert began == []
    second.join()
    assert began == ["second"]
