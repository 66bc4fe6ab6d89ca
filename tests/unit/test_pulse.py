"""Signs of life: when the engine gives them, and what the supervisor makes of silence."""

from __future__ import annotations

from dataclasses import dataclass

from srb.engine.pulse import Pulse
from srb.engine.reports import ToSupervisor
from srb.engine.supervisor import Watch


@dataclass
class Loop:
    turn_began: float | None = 100.0
    turn_tokens: int = 0


def test_row_23_a_step_may_take_longer_the_more_tokens_it_has() -> None:
    loop = Loop()
    pulse = Pulse(ToSupervisor(-1), 30, loop)
    assert pulse.complaint(130.0) == ""
    assert "0 tokens takes longer than 30 s" in pulse.complaint(130.1)
    loop.turn_tokens = 512
    assert pulse.complaint(100.0 + 9 * 30) == ""
    assert "512 tokens takes longer than 270 s" in pulse.complaint(100.1 + 9 * 30)


def test_row_23_waiting_for_requests_is_no_stall() -> None:
    assert Pulse(ToSupervisor(-1), 1, Loop(turn_began=None)).complaint(1e9) == ""


def test_row_23_with_0_seconds_a_step_may_take_any_time_and_the_pulse_goes_on() -> None:
    assert Pulse(ToSupervisor(-1), 0, Loop()).complaint(1e9) == ""


def test_row_23_silence_is_a_worry_first_and_then_the_end() -> None:
    watch = Watch(5)
    assert not any(watch.tick() for _ in range(100))  # before the first sign nothing is expected
    watch.heard([])
    assert [watch.tick() for _ in range(4)] == [False, False, True, False]
    assert watch.is_worried
    watch.heard([])
    assert not watch.is_worried
    assert [bool(watch.tick() or watch.complaint) for _ in range(5)] == [False, False, True, False, True]


def test_row_23_an_engine_that_says_it_hangs_is_believed_at_once() -> None:
    watch = Watch(30)
    watch.heard([{"state": "running", "message": ""}])
    assert not watch.complaint
    watch.heard([{"state": "hung", "message": "a step takes too long"}])
    assert watch.complaint == "a step takes too long"


def test_row_23_with_0_seconds_nothing_is_expected() -> None:
    watch = Watch(0)
    watch.heard([])
    assert not any(watch.tick() or watch.complaint for _ in range(1000))


def test_a_load_may_take_any_time() -> None:
    watch = Watch(5)
    watch.heard([{"state": "starting", "message": "the model is being loaded"}])
    assert not any(watch.tick() for _ in range(100))
    assert watch.complaint == ""
    watch.heard([{"state": "running"}])
    assert [watch.tick() for _ in range(5)].count(True) == 1
    assert watch.complaint
