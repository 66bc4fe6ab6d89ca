"""The stories of a replica that leaves: to whom a bridge hands each, and when it is looked for again."""

from __future__ import annotations

import pytest

from srb.cluster import handover
from srb.cluster.handover import Handover, Story


def story(name: str, *holders: str) -> Story:
    return Story(name.encode(), f"digest of {name}", holders)


def test_the_first_request_of_a_story_and_one_where_it_was_last_have_nothing_to_look_for() -> None:
    stories = Handover()
    assert stories.begin("a", story("one")) == ""
    assert stories.begin("a", story("one", "a", "b")) == ""


def test_a_request_at_another_replica_looks_where_the_story_was_last() -> None:
    stories = Handover()
    assert stories.begin("b", story("one", "a")) == "a"
    assert stories.begin("a", story("one", "b", "a")) == "b"


def test_the_stories_that_rest_at_a_replica_that_leaves_go_at_once_the_latest_first() -> None:
    stories, holders = Handover(), {b"one": ("a",), b"two": ("b", "a"), b"three": ("a", "b")}
    for name in ("one", "two", "three"):
        stories.begin("a", story(name))
        stories.end("a", name.encode())
    assert stories.leave("a", lambda mark: holders[mark]) == [(b"three", "digest of three"), (b"one", "digest of one")]


def test_a_story_that_is_written_there_goes_with_its_next_requests_until_nothing_of_it_runs_there() -> None:
    stories = Handover()
    stories.begin("a", story("one"))
    assert stories.leave("a", lambda mark: ("a",)) == []
    assert stories.begin("b", story("one", "a")) == "a"
    assert stories.begin("b", story("one", "b", "a")) == "a", "the old one has written on"
    stories.end("a", b"one")
    assert stories.begin("b", story("one", "b", "a")) == "a", "what it wrote last"
    assert stories.begin("b", story("one", "b", "a")) == ""


def test_a_replica_that_is_gone_is_asked_for_nothing() -> None:
    stories = Handover()
    stories.begin("a", story("one"))
    stories.leave("a", lambda mark: ("a",))
    stories.begin("b", story("one", "a"))
    stories.forget("a")
    assert stories.begin("b", story("one", "b", "a")) == ""


def test_no_more_stories_go_ahead_than_a_replica_takes_and_no_more_are_known_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stories = Handover()
    for number in range(handover.MOST_AHEAD + 10):
        stories.begin("a", story(str(number)))
        stories.end("a", str(number).encode())
    ahead = stories.leave("a", lambda mark: ("a",))
    assert len(ahead) == handover.MOST_AHEAD
    assert ahead[0][0] == str(handover.MOST_AHEAD + 9).encode()
    monkeypatch.setattr(handover, "_MOST", 5)
    few = Handover()
    for number in range(8):
        few.begin("a", story(str(number)))
        few.end("a", str(number).encode())
    assert {each[0] for each in few.leave("a", lambda mark: ("a",))} == {str(number).encode() for number in range(3, 8)}
