"""systemd: its units are right and strict, and an engine that it starts tells it how it is."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srb import systemd
from srb.settings import Settings
from tests.processes import DEADLINE, PYTHON, ROOT, Process, clean_environ, is_alive, status, wait_for

UNITS = ROOT / "config" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
MOST_EXPOSED = 20  # of systemd-analyze's 0 to 100, where 100 is a service without any of its limits


@pytest.fixture(params=SERVICES, ids=lambda path: path.name)
def service(request: pytest.FixtureRequest) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(request.param)
    return parser["Service"]


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
    environ = os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"}
    done = subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments], env=environ, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# The units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [path.name for path in UNITS.iterdir() if path.suffix != ".conf"])
def test_systemd_finds_nothing_to_say_about_a_unit(installed: Path, name: str) -> None:
    assert analyze("verify", "--man=no", str(installed / name), units=installed) == ""


def test_systemd_says_what_it_does_not_know(installed: Path) -> None:
    with (installed / "srb.service").open("a") as unit:
        unit.write("NoSuchThing=1\n")
    assert "NoSuchThing" in analyze("verify", "--man=no", str(installed / "srb.service"), units=installed)


@pytest.mark.parametrize("name", [path.name for path in SERVICES])
def test_a_service_may_do_little_beyond_what_it_has_to(installed: Path, name: str) -> None:
    unit = str(installed / name)
    analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit, units=installed)


def test_units_use_settings_that_exist_and_agree_on_their_folders(service: configparser.SectionProxy) -> None:
    environ = dict(word.split("=", 1) for word in service["Environment"].replace("\\\n", " ").split())
    environ.pop("SRB_CONFIG")
    settings = Settings.load({}, environ)
    assert settings.runtime_path == Path("/run/srb")
    assert settings.state_dir == "/var/lib/srb"


def test_units_let_streams_end_and_the_engine_load(service: configparser.SectionProxy) -> None:
    settings = Settings()
    if "srb serve" in service["ExecStart"]:
        assert service["KillMode"] == "mixed"
        assert int(service["TimeoutStopSec"]) > settings.graceful_timeout + 10
    else:
        assert service["TimeoutStartSec"] == "1h"
        assert int(service["WatchdogSec"]) > 0


def test_the_socket_unit_listens_where_the_settings_say() -> None:
    settings = Settings()
    text = (UNITS / "srb-web.socket").read_text()
    assert f"\nListenStream={settings.host}:{settings.port}\n" in text


# What an engine tells it ----------------------------------------------------------------------------------------------


class Listener:
    """systemd's end: the datagrams that a service sends, one assignment after another."""

    def __init__(self, address: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(address)
        self.sock.settimeout(DEADLINE)
        self.heard: list[str] = []

    def until(self, assignment: str) -> list[str]:
        """Return what is heard before an assignment and with it."""
        heard: list[str] = []
        while assignment not in heard:
            heard += self.sock.recv(4096).decode().split("\n")
        return heard


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(str(tmp_path / "notify"))
    with listener.sock:
        yield listener


StartEngine = Callable[..., Process]


@pytest.fixture
def start_engine(tmp_path: Path, listener: Listener) -> Iterator[StartEngine]:
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


def test_an_engine_says_when_it_is_ready_that_it_gets_on_and_when_it_stops(
    start_engine: StartEngine, listener: Listener, tmp_path: Path
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


def test_an_engine_is_watched_also_where_its_steps_may_take_for_ever(
    start_engine: StartEngine, listener: Listener
) -> None:
    start_engine(stall_timeout=0)
    listener.until("READY=1")
    listener.until("WATCHDOG=1")


def test_an_engine_without_a_model_leaves_word_for_the_web_server(
    start_engine: StartEngine, listener: Listener, tmp_path: Path
) -> None:
    engine = start_engine(model="/nowhere.gguf")
    assert engine.wait() == 3
    assert "READY=1" not in listener.until("STATUS=cannot read the model /nowhere.gguf: No such file or directory")
    left = status(tmp_path / "run")
    assert (left["state"], "/nowhere.gguf" in left["message"]) == ("failed", True)


def test_a_stopped_engine_is_silent(start_engine: StartEngine, listener: Listener) -> None:
    engine = start_engine()
    listener.until("WATCHDOG=1")
    engine.send(signal.SIGSTOP)
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


def test_nothing_is_said_where_nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    systemd.notify("READY=1")


def test_a_status_is_one_line_and_a_name_may_have_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listener = Listener(f"\0srb-{os.getpid()}-{tmp_path.name}")
    with listener.sock:
        monkeypatch.setenv("NOTIFY_SOCKET", f"@srb-{os.getpid()}-{tmp_path.name}")
        systemd.notify("STATUS=two\nREADY=1", "STOPPING=1")
        assert listener.until("STOPPING=1") == ["STATUS=two READY=1", "STOPPING=1"]


@pytest.mark.parametrize(
    ("microseconds", "pid", "seconds"),
    [("", None, None), ("0", None, None), ("-3", None, None), ("1500000", None, 1.5), ("1500000", "me", 1.5),
     ("1500000", "1", None)],
)  # fmt: skip
def test_the_watchdog_is_meant_for_one_process(
    monkeypatch: pytest.MonkeyPatch, microseconds: str, pid: str | None, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "me" else pid)
    assert systemd.watchdog_seconds() == seconds
