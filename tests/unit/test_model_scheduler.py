"""ModelScheduler decides which of several models are loaded, without a clock: the tests give every time as a number."""

from __future__ import annotations

import pytest

from srb.models.scheduler import Grant, ModelScheduler, Refuse, Start, State, Stop


def turns(max_engines: int = 1, model_seconds: float = 10.0) -> ModelScheduler:
    """Return three models of which the first is loaded at 0."""
    made = ModelScheduler(["a", "b", "c"], max_engines, model_seconds)
    made.load("a", 0.0)
    assert made.plan(0.0) == [Start("a")]
    made.ready("a", 0.0)
    assert made.plan(0.0) == []
    return made


def test_a_wish_for_a_loaded_model_is_granted_at_once() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    assert made.plan(1.0) == [Grant("1")]
    assert made.state("a") is State.LOADED


def test_a_model_without_requests_gives_way_soon() -> None:
    made = turns()
    made.want("1", "b", 5.0)
    assert made.plan(5.0) == [Stop("a")]
    assert made.plan(5.0) == [], "each action comes once"
    made.ended("a", 5.1, "")
    assert made.plan(5.1) == [Start("b")]
    made.ready("b", 6.0)
    assert made.plan(6.0) == [Grant("1")]
    assert made.state("a") is State.UNLOADED


def test_a_model_that_was_just_used_waits_for_its_clients_next_request() -> None:
    made = turns()
    made.want("1", "a", 4.9)
    made.plan(4.9)
    made.leave("1", 5.0)
    made.want("2", "b", 5.0)
    assert made.plan(5.0) == []
    assert made.wake_at(5.0) == 5.25
    made.want("3", "a", 5.1)
    assert made.plan(5.1) == [Grant("3")]


def test_a_model_keeps_its_turn_while_it_has_requests_and_then_finishes_them() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.want("2", "b", 2.0)
    assert made.plan(2.0) == [Grant("1")]
    assert made.wake_at(2.0) == 12.0
    made.want("3", "a", 11.9)
    assert made.plan(11.9) == [Grant("3")]
    assert made.plan(12.0) == []
    assert made.state("a") is State.DRAINING
    made.want("4", "a", 12.1)
    assert made.plan(12.1) == [], "later requests wait for the model's next turn"
    made.leave("1", 13.0)
    assert made.plan(13.0) == []
    made.leave("3", 14.0)
    assert made.plan(14.0) == [Stop("a")]
    made.ended("a", 14.0, "")
    assert made.plan(14.0) == [Start("b")]
    made.ready("b", 15.0)
    assert made.plan(15.0) == [Grant("2")]
    made.leave("2", 16.0)
    assert made.plan(16.25) == [Stop("b")]
    made.ended("b", 16.3, "")
    assert made.plan(16.3) == [Start("a")]
    made.ready("a", 17.0)
    assert made.plan(17.0) == [Grant("4")]


def test_all_that_wait_for_a_model_get_in_when_it_is_loaded_even_without_a_turn() -> None:
    made = turns(model_seconds=0.0)
    for number in range(3):
        made.want(f"b{number}", "b", 1.0)
    made.want("c", "c", 1.0)
    assert made.plan(1.0) == [Stop("a")]
    made.ended("a", 1.0, "")
    assert made.plan(1.0) == [Start("b")]
    made.ready("b", 2.0)
    assert made.plan(2.0) == [Grant("b0"), Grant("b1"), Grant("b2")]


def test_of_several_engines_the_one_used_least_recently_gives_way() -> None:
    made = turns(max_engines=2)
    made.want("1", "b", 1.0)
    assert made.plan(1.0) == [Start("b")], "there is room: nothing ends"
    made.ready("b", 2.0)
    made.plan(2.0)
    made.leave("1", 3.0)
    made.want("2", "a", 4.0)
    made.plan(4.0)
    made.leave("2", 5.0)
    made.want("3", "c", 20.0)
    assert made.plan(20.0) == [Stop("b")]
    assert made.state("a") is State.LOADED


def test_a_wish_that_is_taken_back_unloads_nothing() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.want("2", "b", 1.0)
    made.plan(1.0)
    made.leave("2", 5.0)
    assert made.plan(60.0) == []
    assert made.wake_at(60.0) is None
    assert made.state("a") is State.LOADED


def test_a_model_that_gives_way_goes_on_when_the_wish_for_its_place_is_taken_back() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.want("2", "b", 1.0)
    made.plan(1.0)
    made.plan(11.0)
    assert made.state("a") is State.DRAINING
    made.want("3", "a", 12.0)
    assert made.plan(12.0) == []
    made.leave("2", 13.0)
    assert made.plan(13.0) == [Grant("3")]
    assert made.state("a") is State.LOADED


def test_a_model_that_was_told_to_unload_does_so_whoever_leaves() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.want("2", "b", 1.0)
    made.plan(11.0)
    made.unload("a")
    made.leave("2", 12.0)
    assert made.plan(12.0) == []
    assert made.state("a") is State.DRAINING


def test_a_model_that_cannot_be_loaded_refuses_its_calls_and_harms_no_other() -> None:
    made = turns()
    made.want("1", "b", 1.0)
    made.plan(1.0)
    made.ended("a", 1.0, "")
    made.plan(1.0)
    made.want("2", "a", 1.5)
    made.ended("b", 2.0, "not a GGUF file", is_final=True)
    assert made.plan(2.0) == [Refuse("1", "not a GGUF file"), Start("a")]
    made.ready("a", 3.0)
    assert made.plan(3.0) == [Grant("2")]
    made.want("3", "b", 4.0)
    assert made.plan(4.0) == [Refuse("3", "not a GGUF file")], "it is not tried again for each request"
    made.load("b", 5.0)
    assert made.state("b") is State.UNLOADED, "a command tries again"


def test_an_engine_that_dies_while_it_loads_is_started_again_and_fails_after_three_times() -> None:
    made = turns()
    made.unload("a")
    made.plan(0.0)
    made.ended("a", 0.0, "")
    made.want("1", "b", 1.0)
    assert made.plan(1.0) == [Start("b")]
    made.ended("b", 2.0, "SIGKILL")
    assert made.plan(2.0) == []
    assert made.wake_at(2.0) == pytest.approx(2.1)
    assert made.plan(2.2) == [Start("b")]
    made.ended("b", 3.0, "SIGKILL")
    assert made.plan(4.0) == [Start("b")]
    made.ended("b", 5.0, "SIGKILL")
    assert made.plan(5.0) == [Refuse("1", "SIGKILL")]


@pytest.mark.parametrize("count", [3, 20, 2000])
def test_a_machine_that_is_short_of_something_makes_no_model_fail_however_often(count: int) -> None:
    made = ModelScheduler(["a"], 1, 10.0)
    made.load("a", 0.0)
    now, delays = 0.0, []
    for _ in range(count):
        assert made.plan(now) == [Start("a")]
        made.ended("a", now, "no process is left", is_shortage=True)
        wake_at = made.wake_at(now)
        assert wake_at is not None
        delays.append(wake_at - now)
        now = wake_at
    assert delays[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert max(delays) <= 10.0 + 1e-6
    made.plan(now)
    made.ended("a", now, "SIGSEGV")
    assert made.state("a") is State.UNLOADED, "its own first crash is one"


def test_only_crashes_while_it_loads_make_a_model_fail() -> None:
    made, now = turns(), 0.0
    for _ in range(2000):
        made.ended("a", now, "SIGSEGV")
        now += 11.0
        assert made.plan(now) == [Start("a")]
        made.ready("a", now)
    for _ in range(2):
        made.ended("a", now, "SIGSEGV")
        now += 11.0
        assert made.plan(now) == [Start("a")]
        assert made.state("a") is State.LOADING


def test_a_loaded_engine_that_dies_is_started_again_unless_another_has_its_place() -> None:
    made = turns()
    made.ended("a", 1.0, "SIGSEGV")
    assert made.plan(1.05) == []
    assert made.plan(1.2) == [Start("a")]
    made.ready("a", 2.0)
    made.plan(2.0)
    made.ended("a", 3.0, "SIGSEGV")
    made.want("1", "b", 3.0)
    assert made.plan(3.0) == [Start("b")]
    made.ready("b", 4.0)
    made.plan(4.0)
    assert made.plan(60.0) == []
    assert made.state("a") is State.UNLOADED


def test_a_model_is_unloaded_when_its_requests_have_ended_and_loaded_when_it_is_asked_for() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.plan(1.0)
    made.unload("a")
    assert made.plan(1.0) == []
    made.leave("1", 2.0)
    assert made.plan(2.0) == [Stop("a")]
    made.ended("a", 2.0, "")
    assert made.plan(2.0) == []
    made.want("2", "a", 3.0)
    assert made.plan(3.0) == [Start("a")]
    made.unload("a")
    assert made.plan(3.0) == [Stop("a")]


def test_a_list_may_change_but_a_model_with_an_engine_stays() -> None:
    made = turns()
    made.want("1", "b", 1.0)
    made.want("2", "a", 1.0)
    made.set_names(["c", "d"])
    assert made.plan(1.0) == [Refuse("1", "the model b is no longer there"), Grant("2")]
    assert [each.name for each in made.models] == ["c", "d", "a"]


def test_a_model_that_is_held_stays_in_the_list_though_its_engine_and_its_file_are_gone() -> None:
    made = turns()
    made.want("1", "a", 1.0)
    made.plan(1.0)
    made.ended("a", 2.0, "SIGSEGV")
    made.set_names(["b"])
    made.set_names(["a", "b"])
    made.leave("1", 3.0)
    [held] = [each.held for each in made.models if each.name == "a"]
    assert held == 0


def crowded(max_engines: int = 3) -> ModelScheduler:
    """Return models of which a is loaded, and b is wished for and has no room in the memory beside it."""
    made = turns(max_engines=max_engines)
    made.want("1", "b", 1.0)
    assert made.plan(1.0) == [Start("b")]
    made.no_room("b")
    return made


def test_a_model_without_room_in_the_memory_waits_until_another_has_given_way() -> None:
    made = crowded()
    assert made.plan(1.0) == [Stop("a")], "it is idle"
    made.ended("a", 1.1, "")
    assert made.plan(1.1) == [Start("b")]
    made.ready("b", 2.0)
    assert made.plan(2.0) == [Grant("1")]


def test_a_model_without_room_waits_for_the_turn_of_one_that_has_requests() -> None:
    made = turns(max_engines=2)
    made.want("0", "a", 0.5)
    made.plan(0.5)
    made.want("1", "b", 1.0)
    made.plan(1.0)
    made.no_room("b")
    assert made.plan(1.0) == []
    assert made.wake_at(1.0) == 11.0
    made.leave("0", 3.0)
    assert made.plan(3.25) == [Stop("a")]


def test_one_engine_gives_way_at_a_time_and_then_the_memory_is_asked_again() -> None:
    made = turns(max_engines=3)
    made.want("1", "b", 1.0)
    made.plan(1.0)
    made.ready("b", 2.0)
    made.plan(2.0)
    made.leave("1", 3.0)
    made.want("2", "c", 10.0)
    assert made.plan(10.0) == [Start("c")]
    made.no_room("c")
    assert made.plan(10.0) == [Stop("a")], "the one used least recently"
    made.ended("a", 10.1, "")
    assert made.plan(10.1) == [Start("c")]
    made.no_room("c")
    assert made.plan(10.1) == [Stop("b")]
    made.ended("b", 10.2, "")
    assert made.plan(10.2) == [Start("c")]


def test_later_wishes_do_not_overtake_one_that_waits_for_memory() -> None:
    made = crowded()
    made.want("2", "c", 1.0)
    assert Start("c") not in made.plan(1.0)


def test_a_wish_for_memory_that_is_taken_back_unloads_nothing() -> None:
    made = turns(max_engines=3)
    made.want("0", "a", 0.5)
    made.want("1", "b", 1.0)
    made.plan(1.0)
    made.no_room("b")
    assert made.plan(1.0) == []
    made.leave("1", 2.0)
    assert made.plan(60.0) == []
    made.want("2", "c", 61.0)
    assert made.plan(61.0) == [Start("c")], "the limit is max_engines again"


def test_a_model_that_waits_for_memory_may_be_unloaded() -> None:
    made = turns(max_engines=2)
    made.load("b", 1.0)
    assert made.plan(1.0) == [Start("b")]
    made.unload("b")
    assert made.plan(1.0) == [Stop("b")]
    made.ended("b", 1.0, "")
    made.no_room("b")
    assert made.state("b") is State.UNLOADED


def test_a_wish_for_memory_is_not_forgotten_when_another_one_is_taken_back() -> None:
    """While the needs of both were asked for, each was among the engines beside which the other had no room."""
    made = turns(max_engines=3)
    made.want("0", "a", 0.5)
    made.want("1", "b", 1.0)
    made.want("2", "c", 1.0)
    assert made.plan(1.0) == [Grant("0"), Start("b"), Start("c")]
    made.no_room("b")
    made.no_room("c")
    made.leave("2", 1.5)
    made.leave("0", 2.0)
    assert made.plan(2.25) == [Stop("a")]
