"""The places of a divided request are added by one bridge at a time."""

from __future__ import annotations

import pytest

from srb.engine.places import Places
from srb.errors import Conflict
from srb.protocol import AddBranches, BranchSpec, Generate, HoldPlaces, ListRequests, SamplingParams
from tests.engine_helpers import Driver


def test_one_holder_at_a_time_and_the_next_when_that_is_done() -> None:
    places = Places(6, 2)
    assert places.hold("a", 10.0, now=0.0)
    assert not places.hold("b", 10.0, now=5.0)
    assert places.hold("a", 0.0, now=6.0)
    assert places.hold("b", 10.0, now=6.0)
    assert not places.hold("a", 10.0, now=6.0)


def test_a_hold_ends_by_itself_and_its_late_holder_ends_no_other() -> None:
    places = Places(6, 2)
    assert places.hold("gone", 10.0, now=0.0)
    assert places.hold("b", 10.0, now=10.0)
    assert not places.hold("gone", 0.0, now=11.0)
    assert not places.hold("c", 10.0, now=12.0)


def test_the_number_of_places_never_shrinks() -> None:
    places = Places(6, 2)
    places.note(9)
    places.note(7)
    assert places.count == 9


def part(driver: Driver, num_places: int) -> str:
    """Begin a request that is a part of one with so many branches; return its id."""
    specs = (BranchSpec(1, 30, sampling=SamplingParams(ignore_eos=True), place=0),)
    command = Generate("part", ("the old king said",), specs, can_grow=True, num_places=num_places, num_parts=2)
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    driver.step()
    return command.request_id


def test_a_part_knows_the_places_that_it_was_told_of_and_those_that_it_was_given() -> None:
    driver = Driver()
    name = part(driver, 6)
    engine = driver.engine
    [listed] = engine.serve_query(ListRequests("l", ""))
    held = engine.serve_query(HoldPlaces("h", name, "", "a", 9.0))
    assert held == {**listed, "age": held["age"]}
    assert listed["num_places"] == 6
    assert engine.serve_query(HoldPlaces("h", name, "", "b", 9.0, 8)) is None
    [listed] = engine.serve_query(ListRequests("l", ""))
    assert listed["num_places"] == 8
    engine.submit(engine.prepare(AddBranches("add", name, ((None, (), (("place", 11),), ()),))))
    [listed] = engine.serve_query(ListRequests("l", ""))
    assert listed["num_places"] == 12
    driver.advance(9.0)
    assert engine.serve_query(HoldPlaces("h", name, "", "b", 9.0)) is not None


def test_a_whole_request_has_no_places() -> None:
    driver = Driver()
    name = part(driver, 0)
    assert "num_places" not in driver.engine.serve_query(ListRequests("l", ""))[0]
    with pytest.raises(Conflict, match="not divided"):
        driver.engine.serve_query(HoldPlaces("h", name, "", "a", 9.0))
