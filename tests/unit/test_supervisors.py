"""What a supervisor does where the machine is short of something, input by input; walks of it are among the properties."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srb import welcome
from srb.config.settings import Settings
from srb.exit_codes import EXIT_MACHINE, EXIT_MODEL
from srb.models import supervisor as models_supervisor
from srb.models.control import Load, Look, Refused, Want
from srb.models.supervisor import ModelsSupervisor
from srb.process import engine_child
from srb.process import supervisor as one_supervisor
from srb.process.engine_child import EngineChild
from srb.process.supervisor import Supervisor
from srb.status import read_status
from tests.logs import lines_of
from tests.short_machine import PASSING, Replaced, ShortMachine, open_descriptors

Moves = list[Callable[[], object]]


class Machine(ShortMachine):
    """A machine on which one thing after another happens, and then SIGTERM."""

    moves: Moves = []

    def act(self) -> None:
        if self.moves:
            self.moves.pop(0)()
        else:
            self.stop()

    @property
    def status(self) -> tuple[str, str]:
        found = read_status(self.folder, is_connected=True)
        return found["state"], found["message"]


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="srb") as name:  # a socket's path is short
        yield Machine(Path(name) / "run")


def nothing() -> None:
    """Let time pass."""


def supervise(machine: Machine, moves: Moves, **given: Any) -> None:
    """Run the supervisor of one engine until the moves are over."""
    machine.moves = moves
    settings = Settings(model="fake:", runtime_dir=str(machine.folder), **given)
    with machine.around(lambda: Supervisor(settings, "http://here")) as supervisor:
        assert supervisor.run() == 0


# A child ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(PASSING)))
@pytest.mark.parametrize("short", ["pipe", "pipe of native code", "fork", "thread"])
def test_an_engine_that_cannot_be_started_leaves_nothing_and_the_next_one_starts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, short: str, number: int
) -> None:
    before = open_descriptors()
    machine.patch(monkeypatch)
    machine.number_of_error = number
    if short == "pipe of native code":
        monkeypatch.setattr(engine_child, "os", os)  # the engine's own is had
        short = "pipe"
    machine.short[short] = 1
    with pytest.raises(OSError):
        EngineChild()
    assert machine.living == []
    assert open_descriptors() == before
    assert EngineChild().end(signal.SIGTERM) == 0
    assert open_descriptors() == before


GARBAGE = [b"{", b"[]", b"1", b'{"state": 1, "message": ""}', b'{"state": "running"}', b"\xff", b'"running"']


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_report_is_logged_and_the_reports_beside_it_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    machine.patch(monkeypatch)
    child = EngineChild()
    [process] = machine.processes
    process.say("starting", "before")
    process.report(garbage)
    process.say("running")
    reports = child.read_reports()
    assert reports is not None
    assert [each["state"] for each in reports] == ["starting", "running"]
    assert lines_of("srb.supervisor", caplog) == [f"the engine has sent what is no report: {garbage!r}"]
    process.report(b"")
    assert child.read_reports() == [], "a heartbeat"
    child.end(signal.SIGTERM)


# One engine -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", ["fork", "pipe", "thread"])
def test_a_start_that_fails_is_told_and_tried_again_after_a_delay_that_doubles(
    machine: Machine, caplog: pytest.LogCaptureFixture, short: str
) -> None:
    machine.short[short] = 3
    statuses: list[tuple[str, str]] = []
    began = machine.now
    supervise(
        machine, [lambda: statuses.append(machine.status)] * 3 + [lambda: statuses.append(("", str(machine.now)))]
    )
    assert [state for state, _ in statuses[:3]] == ["restarting"] * 3
    assert all(message.startswith("the engine cannot be started: ") for _, message in statuses[:3])
    assert float(statuses[3][1]) - began == pytest.approx(0.1 + 0.2 + 0.4, abs=1e-3)
    lines = lines_of("srb.supervisor", caplog)
    assert [line.rpartition("; ")[2] for line in lines] == [f"restarting in {delay} s" for delay in (0.1, 0.2, 0.4)]


def test_a_start_that_fails_is_no_crash_of_the_model(machine: Machine) -> None:
    """Two engines crash while they load, a start fails between, and the third engine's crash is the last."""

    def crash() -> None:
        machine.living[0].exit(-signal.SIGSEGV)

    def crash_then_fail() -> None:
        crash()
        machine.short["fork"] = 1

    found: list[str] = []
    supervise(
        machine, [crash_then_fail, nothing, nothing, crash, nothing, crash, lambda: found.append(machine.status[0])]
    )
    assert found == ["failed"]
    assert len(machine.processes) == 3


def test_a_reason_without_room_on_the_disk_is_written_when_there_is_some_though_nothing_else_happens(
    machine: Machine,
) -> None:
    def fail() -> None:
        machine.living[0].say("failed", "it is no model")
        machine.is_full = True

    def make_room() -> None:
        machine.is_full = False

    found: list[tuple[str, str]] = []
    look = lambda: found.append(machine.status)  # noqa: E731
    exit_ = lambda: machine.living[0].exit(EXIT_MODEL)  # noqa: E731
    supervise(machine, [fail, exit_, look, make_room, look])
    assert found == [("", ""), ("failed", "it is no model")]


@pytest.mark.parametrize("disk", ["is_full", "is_read_only"])
def test_a_stop_on_a_disk_that_takes_nothing_ends_the_engine_all_the_same(machine: Machine, disk: str) -> None:
    def spoil() -> None:
        machine.living[0].say("running")
        setattr(machine, disk, True)

    supervise(machine, [spoil])
    assert machine.processes[0].returncode == 0


def test_a_stop_while_an_engine_is_waited_for_leaves_no_status(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang() -> None:
        machine.living[0].say("hung", "a step takes too long")

    monkeypatch.setattr(machine, "while_waited_for", lambda process: machine.stop())
    supervise(machine, [hang])
    assert not machine.folder.exists()


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_first_screen_that_cannot_be_printed_harms_nothing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(welcome, "print", fail, raising=False)
    welcome.print_first_screen("http://here", Settings(model="fake:"))


@pytest.mark.parametrize("models", ["", "a=fake:,b=fake:"])
def test_a_supervisor_that_cannot_have_its_pipe_is_one_line_and_an_exit_status(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: str
) -> None:
    def fail() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    for module in (one_supervisor, models_supervisor):
        monkeypatch.setattr(module, "os", Replaced(os, pipe=fail))
    settings = Settings(runtime_dir=str(machine.folder), models=models, model="" if models else "fake:")
    monkeypatch.setattr(Settings, "load", lambda: settings)
    for name in ("ignore_reloads", "logs"):
        monkeypatch.setattr(
            one_supervisor, name, Replaced(os, configure=lambda _: None) if name == "logs" else lambda: None
        )
    module = models_supervisor if models else one_supervisor
    assert module.main([]) == EXIT_MACHINE
    assert capsys.readouterr().err == "srb: the supervisor cannot be started: Too many open files\n"


# Several models ---------------------------------------------------------------------------------------------------------


class Worker:
    """A worker's connection as the supervisor of several models has it, which notes what it is told."""

    def __init__(self, *commands: Any) -> None:
        self.commands = list(commands)
        self.told: list[Any] = []
        self.ids: set[str] = set()
        self.is_gone = False

    def receive(self) -> list[Any]:
        return self.commands

    def send(self, event: Any) -> None:
        if self.is_gone:
            raise BrokenPipeError
        self.told.append(event)

    def close(self) -> None:
        self.is_gone = True


@pytest.fixture
def several(machine: Machine) -> Iterator[ModelsSupervisor]:
    settings = Settings(runtime_dir=str(machine.folder), models="a=fake:,b=fake:", model="", stall_timeout=5)
    with machine.around(lambda: ModelsSupervisor(settings, "")) as supervisor:
        yield supervisor


def run_several(machine: Machine, supervisor: ModelsSupervisor, moves: Moves) -> None:
    machine.moves = moves
    assert supervisor.run() == 0


def test_a_model_whose_engine_cannot_be_started_has_not_failed_and_is_tried_again(
    machine: Machine, several: ModelsSupervisor, caplog: pytest.LogCaptureFixture
) -> None:
    machine.short["fork"] = 5
    run_several(machine, several, [nothing] * 12)
    assert [each.environ["SRB_ALIAS"] for each in machine.processes] == ["a"]
    assert sum("model a: its engine cannot be started: " in line for line in lines_of("srb.supervisor", caplog)) == 5


@pytest.mark.parametrize(
    ("number", "waits"),
    [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ECONNABORTED, False), (errno.EAGAIN, False)],
)
def test_a_connection_that_cannot_be_taken_is_tried_again_after_a_second_and_not_without_end(
    machine: Machine, several: ModelsSupervisor, number: int, waits: bool
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    several._listener = Replaced(None, accept=fail)  # type: ignore[assignment]
    several._accept()
    assert (several._accept_at > machine.now) == waits
    assert several._peers == {}


def test_an_engine_that_cannot_be_asked_for_want_of_a_socket_counts_as_busy_and_is_asked_again(
    machine: Machine, several: ModelsSupervisor
) -> None:
    machine.folder.mkdir()
    several._begin("a")
    engine = several._engines["a"]
    engine.state = "running"
    machine.short["socket"] = 1
    assert not engine.may_end(machine.now)
    assert not engine.may_end(machine.now + 0.1)
    assert engine.acts_at == pytest.approx(machine.now + 0.2)
    assert engine.may_end(machine.now + 0.3), "nobody listens there"
    several._end_all()


def test_a_command_that_fails_is_refused_and_those_beside_it_are_carried_out(
    machine: Machine, several: ModelsSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(several, "_look", fail)
    worker = Worker(Load("1", "a"), Look("2"), Load("3", "b"), Want("4", "c"))
    several._peers[-1] = worker  # type: ignore[assignment]
    several._receive(worker)  # type: ignore[arg-type]
    assert [each.id for each in worker.told] == ["1", "2", "3", "4"]
    assert [each.code for each in worker.told if isinstance(each, Refused)] == ["internal_error", "model_not_found"]


def test_a_worker_that_is_gone_wishes_for_nothing_more(machine: Machine, several: ModelsSupervisor) -> None:
    worker = Worker(Load("1", "a"), Want("2", "a"))
    worker.is_gone = True
    several._peers[-1] = worker  # type: ignore[assignment]
    several._receive(worker)  # type: ignore[arg-type]
    assert several._peers == {}
    assert several._wishers == {}
    assert several._turns.waiting == 0
