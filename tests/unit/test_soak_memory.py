"""The soak's judgement of the engine's memory: it finds growth, and needs a life that is long enough."""

from __future__ import annotations

from collections.abc import Sequence

from tests.soak.memory import LONG_MINUTES, RISE_MIB, ROOM_MIB, SLOPE_MIB, EngineMemory


def memory(lives: dict[int, Sequence[float]], minutes: float = 0.03) -> EngineMemory:
    """An engine with a budget of 32 MiB, sampled every so many minutes."""
    made = EngineMemory(32)
    for pid, life in lives.items():
        for number, mib in enumerate(life):
            made.sample(pid, number * minutes, mib)
    return made


def test_an_engine_that_fills_its_caches_and_stays_is_well() -> None:
    assert memory({1: [80, 120, 150, 160, 170, 170, 172, 171]}).problems() == []


def test_more_than_the_budget_and_some_room_is_too_much() -> None:
    [problem] = memory({1: [80] * 9, 2: [80, *[80 + 32 + ROOM_MIB + 1] * 9]}).problems()
    assert problem.startswith("engine 2 grew by 129 MiB")


def test_growth_in_the_second_half_of_a_short_life_is_found() -> None:
    life = [80, 80, 80, 80, 80, 100, 120, 140, 150]
    [problem] = memory({1: life}).problems()
    assert "second half" in problem
    assert life[-1] - life[4] > RISE_MIB


def test_a_slow_leak_is_found_in_a_long_life() -> None:
    count = int(2.5 * LONG_MINUTES)
    leaking = [80 + 1.5 * SLOPE_MIB * number for number in range(count)]
    assert "a minute" in memory({1: leaking}, minutes=1).problems()[0]
    assert memory({1: [80 + 0.5 * SLOPE_MIB * number for number in range(count)]}, minutes=1).problems() == []


def test_each_life_is_judged_by_itself_and_a_killed_engine_has_nothing() -> None:
    assert memory({1: [80, 120, 130, 131, 132, 131, 130, 0], 2: [60, 100, 130]}).problems() == []


def test_a_run_without_a_long_life_of_an_engine_is_a_problem() -> None:
    assert memory({1: [80, 90], 2: [80, 90]}).problems() == ["no engine lived long enough to measure its memory"]
