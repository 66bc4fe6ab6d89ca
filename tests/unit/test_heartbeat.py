"""Signs of life: when the engine gives them, and what the supervisor makes of silence."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from srb.backoff import Backoff
from srb.engine.process.heartbeat import Heartbeat
from srb.errors import SRBError
from srb.process.engine_child import HeartbeatMonitor
from srb.process.status_reporter import ToSupervisor


@dataclass
class Loop:
    turn_began: float | None = 100.0
    turn_tokens: int = 0


@dataclass
class Reports:
    """What an engine has reported, in order."""

    said: list[str] = field(default_factory=list)

    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        self.said.append(f"{state}: {message}".removesuffix(": "))

    def beat(self) -> None:
        self.said.append("beat")


def test_row_23_a_step_may_take_longer_the_more_tokens_it_has() -> None:
    loop = Loop()
    heartbeat = Heartbeat(ToSupervisor(-1), 30, loop)
    assert heartbeat.hang_reason(130.0) == ""
    assert "0 tokens takes longer than 30 s" in heartbeat.hang_reason(130.1)
    loop.turn_tokens = 512
    assert heartbeat.hang_reason(100.0 + 9 * 30) == ""
    assert "512 tokens takes longer than 270 s" in heartbeat.hang_reason(100.1 + 9 * 30)


def test_row_23_waiting_for_requests_is_no_stall() -> None:
    assert Heartbeat(ToSupervisor(-1), 1, Loop(turn_began=None)).hang_reason(1e9) == ""


def test_row_23_with_0_seconds_a_step_may_take_any_time_and_heartbeats_go_on() -> None:
    assert Heartbeat(ToSupervisor(-1), 0, Loop()).hang_reason(1e9) == ""


def test_row_23_an_engine_whose_step_ends_after_all_says_that_it_runs_again() -> None:
    loop, reports = Loop(), Reports()
    heartbeat = Heartbeat(reports, 30, loop)
    hung = "hung: a step of 0 tokens takes longer than 30 s"
    for now in (129.0, 131.0, 132.0):
        heartbeat.beat(now)
    assert reports.said == ["beat", hung]
    loop.turn_began = 132.5
    heartbeat.beat(133.0)
    heartbeat.beat(133.5)
    assert reports.said == ["beat", hung, "running", "beat", "beat"]
    for second in range(134, 164):
        heartbeat.beat(float(second))
    assert reports.said[5:] == ["beat"] * 29 + [hung]


@pytest.mark.parametrize("began", [50.0, 99.9, 130.0], ids=["before", "just before", "while it slept"])
def test_row_63_a_process_that_was_stopped_or_whose_machine_slept_does_not_hang(began: float) -> None:
    loop, reports, work = Loop(turn_began=None), Reports(), Preparing(progressed_at=began)
    heartbeat = Heartbeat(reports, 60, loop, lambda: [work])
    for half in range(98, 201):
        heartbeat.beat(half / 2)
    loop.turn_began = began
    for now in (165.0, 165.5, 166.0):  # stopped for 65 seconds, as by a closed lid
        heartbeat.beat(now)
    assert set(reports.said) == {"beat"}
    assert work.refused == []
    heartbeat.beat(1000.0)
    assert reports.said[-1] == "beat"
    for second in range(1001, 1063):
        heartbeat.beat(float(second))
    assert "hung: a step of 0 tokens takes longer than 60 s" in reports.said, "awake it is judged as before"


@dataclass
class Preparing:
    """A request that is prepared since 100.0, and the errors with which it was refused."""

    characters: int = 0
    encodes: bool = False
    progressed_at: float = 100.0
    refused: list[SRBError] = field(default_factory=list)

    def refuse(self, error: SRBError) -> None:
        self.refused.append(error)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [(Preparing(), 30), (Preparing(2**20), 60), (Preparing(3 * 2**20), 120), (Preparing(encodes=True), 300)],
    ids=["short", "long", "longer", "picture"],
)
def test_row_23_a_preparation_may_take_longer_the_more_text_it_has(work: Preparing, seconds: int) -> None:
    heartbeat = Heartbeat(ToSupervisor(-1), 30, Loop(turn_began=None), lambda: [Preparing(progressed_at=1e9), work])
    assert heartbeat.hang_reason(100.0 + seconds) == ""
    assert f"{work.characters} characters takes longer than {seconds} s" in heartbeat.hang_reason(100.6 + seconds)


def test_row_23_a_request_that_never_ends_its_preparation_is_refused_before_the_hang_is_told() -> None:
    reports, work = Reports(), Preparing()
    heartbeat = Heartbeat(reports, 30, Loop(turn_began=None), lambda: [work])
    heartbeat.beat(129.9)
    assert work.refused == []
    heartbeat.beat(130.4)
    assert [error.http_status for error in work.refused] == [400]
    assert reports.said == ["beat", "beat"]
    heartbeat.beat(130.9)
    assert reports.said[2:] == ["hung: the preparation of a request of 0 characters takes longer than 30 s"]
    work.progressed_at = 131.0
    heartbeat.beat(131.4)
    assert reports.said[3:] == ["running", "beat"]


def test_row_23_with_0_seconds_a_preparation_may_take_any_time() -> None:
    work = Preparing()
    heartbeat = Heartbeat(Reports(), 0, Loop(turn_began=None), lambda: [work])
    heartbeat.beat(1e9)
    assert work.refused == []


def test_row_23_a_stopping_engine_sends_heartbeats_and_no_state() -> None:
    loop, reports = Loop(), Reports()
    heartbeat = Heartbeat(reports, 30, loop)
    heartbeat.beat(131.0)
    heartbeat.leave_state_alone()
    loop.turn_began = None
    heartbeat.beat(132.0)
    heartbeat.beat(132.5)
    assert reports.said == ["hung: a step of 0 tokens takes longer than 30 s", "beat", "beat"]


def test_row_23_silence_is_reported_as_hung_and_then_ends_the_engine() -> None:
    monitor = HeartbeatMonitor(5)
    assert not any(monitor.tick() for _ in range(100))  # before the first sign nothing is expected
    monitor.note_reports([])
    assert [monitor.tick() for _ in range(4)] == [False, False, True, False]
    assert monitor.is_stale
    monitor.note_reports([])
    assert not monitor.is_stale
    assert [bool(monitor.tick() or monitor.abort_reason) for _ in range(5)] == [False, False, True, False, True]


def test_row_23_an_engine_that_reports_a_hang_is_aborted_at_once() -> None:
    monitor = HeartbeatMonitor(30)
    monitor.note_reports([{"state": "running", "message": ""}])
    assert not monitor.abort_reason
    monitor.note_reports([{"state": "hung", "message": "a step takes too long"}])
    assert monitor.abort_reason == "a step takes too long"


def test_row_23_an_engine_that_recovers_before_the_supervisor_reads_is_left_running() -> None:
    monitor = HeartbeatMonitor(30)
    monitor.note_reports([{"state": "hung", "message": "a step takes too long"}, {"state": "running", "message": ""}])
    assert not monitor.abort_reason


def test_row_23_with_0_seconds_silence_is_never_a_hang() -> None:
    monitor = HeartbeatMonitor(0)
    monitor.note_reports([])
    assert not any(monitor.tick() or monitor.abort_reason for _ in range(1000))


def test_a_load_may_take_any_time() -> None:
    monitor = HeartbeatMonitor(5)
    monitor.note_reports([{"state": "starting", "message": "the model is being loaded"}])
    assert not any(monitor.tick() for _ in range(100))
    assert monitor.abort_reason == ""
    monitor.note_reports([{"state": "running"}])
    assert [monitor.tick() for _ in range(5)].count(True) == 1
    assert monitor.abort_reason


def test_the_delay_of_restarts_doubles_until_an_engine_lasts() -> None:
    backoff = Backoff()
    delays = [backoff.after(0.0) for _ in range(9)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [backoff.after(30.0), backoff.after(0.0)] == [0.1, 0.2]
