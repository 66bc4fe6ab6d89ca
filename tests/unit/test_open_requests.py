"""The registry of requests: deadlines and rests, by a clock of the test's own."""

from __future__ import annotations

from srb.engine.open_requests import OpenRequests, Overdue
from srb.engine.request import Request
from srb.wire.commands import BranchSpec, Generate
from tests.engine_helpers import Driver


def request(name: str = "x", **options: object) -> Request:
    prepared = Driver().engine.prepare(Generate(name, ("a fox",), (BranchSpec(1, 4),), **options))  # type: ignore[arg-type]
    assert isinstance(prepared, Request)
    return prepared


def test_a_request_waits_for_so_many_seconds_and_runs_for_so_many() -> None:
    registry = OpenRequests(queue_timeout=5, request_timeout=20)
    waiting, running = request("waiting"), request("running")
    for each in (waiting, running):
        registry.add(each, now=10.0)
    running.begin(10.0)
    registry.check_invariants()
    assert registry.overdue(15.0) == []
    assert registry.overdue(15.1) == [(waiting, Overdue.WAITING)]
    registry.remove(waiting)
    assert registry.overdue(30.0) == []
    assert registry.overdue(30.1) == [(running, Overdue.RUNNING)]


def test_a_deadline_that_comes_before_all_known_ones_is_noted() -> None:
    registry = OpenRequests(queue_timeout=0, request_timeout=100)
    lingering = request(linger=3.0)
    registry.add(lingering, now=0.0)
    assert registry.overdue(50.0) == []
    registry.note_unread(lingering, now=50.0)
    registry.check_invariants()
    assert registry.overdue(53.1) == [(lingering, Overdue.UNREAD)]


def test_a_reader_that_comes_back_lifts_the_deadline() -> None:
    registry = OpenRequests(queue_timeout=0, request_timeout=0)
    lingering = request(linger=3.0)
    registry.add(lingering, now=0.0)
    registry.note_unread(lingering, now=1.0)
    registry.note_reader(lingering, now=2.0)
    assert registry.overdue(1000.0) == []
    assert registry.count_unread("") == 0


def test_a_request_is_in_one_place_at_a_time() -> None:
    registry = OpenRequests(queue_timeout=0, request_timeout=0)
    lingering, other = request("x", linger=3.0), request("y")
    for each in (lingering, other):
        registry.add(each, now=0.0)
        registry.finish(each, now=2.0)
    assert list(registry) == [lingering]
    assert registry.seconds_to_rest(4.0) == 1.0
    registry.resume(lingering, now=4.0)
    assert registry.seconds_to_rest(4.0) is None
    assert list(registry.active) == ["x"]
    registry.finish(lingering, now=5.0)
    assert registry.idle_too_long(7.9) == []
    assert registry.idle_too_long(8.0) == [lingering]
    assert not list(registry)
