"""The keeper of named states: the latest of each name, within a limit."""

from __future__ import annotations

from srb.cluster.states import StateKeeper


def test_the_latest_save_of_a_name_is_kept_and_fetched_only_if_it_is_later_than_what_is_known() -> None:
    keeper = StateKeeper(100)
    assert keeper.fetch("x", 0) is None
    assert keeper.look("x", 0) == 0
    assert keeper.keep("x", 5, b"five") == ""
    assert keeper.keep("x", 4, b"four, which was saved before") == ""
    assert keeper.fetch("x", 4) == (5, b"five")
    assert keeper.fetch("x", 5) is None
    assert keeper.keep("x", 6, b"six") == ""
    assert keeper.fetch("x", 5) == (6, b"six")
    assert (keeper.look("x", 5), keeper.look("x", 6)) == (len(b"six"), 0)


def test_the_least_recently_used_states_make_room() -> None:
    keeper = StateKeeper(10)
    for name in "abc":
        assert keeper.keep(name, 1, bytes(3)) == ""
    keeper.fetch("a", 0)
    assert keeper.keep("d", 1, bytes(4)) == ""
    assert [name for name in "abcd" if keeper.fetch(name, 0)] == ["a", "c", "d"]
    assert keeper.keep("a", 2, bytes(10)) == ""
    assert [name for name in "abcd" if keeper.fetch(name, 0)] == ["a"]
    keeper.limit(9)
    assert keeper.fetch("a", 0) is None


def test_a_state_beyond_the_limit_leaves_no_older_one_of_its_name_to_be_taken_for_it() -> None:
    keeper = StateKeeper(10)
    keeper.keep("a", 1, bytes(4))
    keeper.keep("b", 1, bytes(4))
    assert keeper.keep("a", 0, bytes(11)) == "", "an earlier save is of no interest"
    assert keeper.fetch("a", 0) == (1, bytes(4))
    assert keeper.keep("a", 2, bytes(11)) == "its 11 bytes are more than the cluster keeps for named states"
    assert keeper.fetch("a", 0) is None
    assert keeper.keep("c", 1, bytes(6)) == ""
    assert [keeper.look(name, 0) for name in "abc"] == [0, 4, 6], "its room is free"


def test_a_state_beyond_the_limit_is_refused_and_the_others_stay() -> None:
    keeper = StateKeeper(10)
    keeper.keep("a", 1, bytes(10))
    assert keeper.keep("b", 1, bytes(11)) == "its 11 bytes are more than the cluster keeps for named states"
    assert keeper.fetch("a", 0) == (1, bytes(10))
