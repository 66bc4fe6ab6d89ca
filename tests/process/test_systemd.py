"""systemd: it finds nothing wrong with the units, and an engine that it starts tells it how it is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srb.cli import service
from tests.processes import (
    DEADLINE,
    PYTHON,
    ROOT,
    NoticeListener,
    Process,
    clean_environ,
    is_alive,
    process_state,
    status,
    wait_for,
)
from tests.servers import Server

UNITS = ROOT / "config" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
MAX_EXPOSURE = 20  # of systemd-analyze's 0 to 100, where 100 is a service without any of its limits


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with all units and the drop-in, made for programs that this machine has."""
    for path in UNITS.iterdir():
        if path.suffix == ".conf":
            for unit in ("srb.service", "srb-web.service"):
                (tmp_path / f"{unit}.d").mkdir(exist_ok=True)
                shutil.copy(path, tmp_path / f"{unit}.d")
        else:
            (tmp_path / path.name).write_text(path.read_text().replace("/opt/srb/.venv/bin/srb", "/bin/true"))
    for path in tmp_path.glob("*.service"):
        path.write_text(path.read_text().replace("/opt/srb/.venv/bin/python", "/bin/true"))
    return tmp_path


def analyze(*arguments: str, units: Path) -> str:
    """Run systemd-analyze on units in a folder; return all that it wrote."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    environ = os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:", "XDG_RUNTIME_DIR": str(units), "HOME": str(units)}
    done = subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments], env=environ, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# The units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [path.name for path in UNITS.iterdir() if path.suffix != ".conf"])
def test_systemd_analyze_verify_reports_nothing(installed: Path, name: str) -> None:
    assert analyze("verify", "--man=no", str(installed / name), units=installed) == ""


def test_systemd_analyze_verify_reports_nothing_of_a_persons_own_unit(tmp_path: Path) -> None:
    text = (ROOT / "config/systemd-user/srb-user.service").read_text()
    unit = tmp_path / "srb.service"
    (tmp_path / ".local/bin").mkdir(parents=True)
    (tmp_path / ".local/bin/srb").symlink_to("/bin/true")
    unit.write_text(text)  # whose %h is the home folder
    assert analyze("verify", "--user", "--man=no", str(unit), units=tmp_path) == ""


def test_a_unit_that_the_command_writes_finds_its_program_also_below_odd_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "a földer 100% $HOME" / "srb"
    program.parent.mkdir()
    for path in (program, program.with_name("python")):
        path.symlink_to("/bin/true")
    monkeypatch.setattr(service.sys, "executable", str(program.with_name("python")))
    unit = tmp_path / "srb.service"
    unit.write_bytes(service._of_systemd().text)
    assert analyze("verify", "--user", "--man=no", str(unit), units=tmp_path) == ""


def test_systemd_analyze_reports_an_unknown_setting(installed: Path) -> None:
    with (installed / "srb.service").open("a") as unit:
        unit.write("NoSuchThing=1\n")
    assert "NoSuchThing" in analyze("verify", "--man=no", str(installed / "srb.service"), units=installed)


@pytest.mark.parametrize("name", [path.name for path in SERVICES])
def test_a_services_sandbox_has_a_low_exposure(installed: Path, name: str) -> None:
    unit = str(installed / name)
    analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", unit, units=installed)


# What an engine tells it ----------------------------------------------------------------------------------------------


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[NoticeListener]:
    listener = NoticeListener(str(tmp_path / "notify"))
    with listener.sock:
        yield listener


StartEngine = Callable[..., Process]


@pytest.fixture
def start_engine(tmp_path: Path, listener: NoticeListener) -> Iterator[StartEngine]:
    """Start the engine as the unit does, watched closely."""
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    started: list[Process] = []

    def start(**settings: object) -> Process:
        command = (PYTHON, "-m", "srb.engine.process")
        settings = {"model": "fake:", "runtime_dir": tmp_path / "run", **settings}
        started.append(Process(command, clean_environ(**settings) | environ, tmp_path / "log"))
        return started[-1]

    yield start
    for process in started:
        process.__exit__()


def test_an_engine_notifies_systemd_of_readiness_heartbeats_and_its_stop(
    start_engine: StartEngine, listener: NoticeListener, tmp_path: Path
) -> None:
    engine = start_engine()
    assert "READY=1" not in listener.until("STATUS=the model is being loaded")
    listener.until("READY=1")
    assert status(tmp_path / "run")["state"] == "running"
    for _ in range(3):
        listener.until("WATCHDOG=1")
    assert engine.stop() == 0
    listener.until("STOPPING=1")
    assert status(tmp_path / "run")["state"] == ""


def test_the_watchdog_works_without_a_time_limit_for_steps(start_engine: StartEngine, listener: NoticeListener) -> None:
    start_engine(stall_timeout=0)
    listener.until("READY=1")
    listener.until("WATCHDOG=1")


def test_an_engine_without_a_model_reports_it_in_status_json(
    start_engine: StartEngine, listener: NoticeListener, tmp_path: Path
) -> None:
    engine = start_engine(model="/nowhere.gguf")
    assert engine.wait() == 3
    assert "READY=1" not in listener.until("STATUS=cannot read the model /nowhere.gguf: No such file or directory")
    left = status(tmp_path / "run")
    assert (left["state"], "/nowhere.gguf" in left["message"]) == ("failed", True)


def test_a_stopped_engine_sends_no_heartbeat(start_engine: StartEngine, listener: NoticeListener) -> None:
    engine = start_engine()
    listener.until("WATCHDOG=1")
    engine.send(signal.SIGSTOP)
    wait_for(lambda: process_state(engine.pid) == "T", "it stands still")
    listener.sock.settimeout(0)
    wait_for(lambda: is_silent(listener.sock), "what was sent before is read")
    listener.sock.settimeout(1.5)  # five times what systemd would wait
    with pytest.raises(TimeoutError):
        listener.sock.recv(4096)
    engine.send(signal.SIGCONT)
    listener.sock.settimeout(DEADLINE)
    listener.until("WATCHDOG=1")
    assert is_alive(engine.pid)


def is_silent(sock: socket.socket) -> bool:
    try:
        return not sock.recv(4096)
    except BlockingIOError:
        return True


def test_the_status_of_a_server_names_its_models(listener: NoticeListener, tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(10)]
    with Server(tmp_path, model="", models=",".join(f"{name}=fake:" for name in names)) as server:
        server.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        server.start()
        shown = ", ".join(names[:8])
        listener.until(f"STATUS=listening on {server.url}; models: {shown} and 2 more")
