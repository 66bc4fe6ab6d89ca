"""SRB as systemd runs it, in one unit or with web server and engine apart; systemd's part is played by the test.

The test holds the listening socket and starts the web server with it (LISTEN_FDS), and starts engines.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.processes import DEADLINE, PYTHON, Process, children, clean_environ, engine_with, status, wait_for

pytestmark = pytest.mark.e2e

# What systemd does between fork and exec: the socket becomes descriptor 3, and the variables name this process.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "srb.cli.main", "serve"])
"""
BODY = {"prompt": "Once upon a time,", "n": 2, "max_tokens": 4, "stream": False}


class Units:
    """A machine's two units, in a folder."""

    environ_of_web: dict[str, str]

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.runtime = folder / "run"
        self._folder = folder
        self._stack = stack
        self.socket = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        self.notices = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self.notices.bind(str(folder / "notify"))
        self.notices.settimeout(DEADLINE)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def start_engine(self, *command: object, **settings: object) -> Process:
        return self._start(command or (PYTHON, "-m", "srb.engine.process"), "engine", **settings)

    def start_web(self) -> Process:
        """Start the web server and wait until it says that it is ready."""
        return self.start_both(engine_managed="false")

    def start_both(self, **settings: object) -> Process:
        """Start web server and engine, as one unit, and wait until it says that it is ready."""
        number = self.socket.fileno()
        server = self._start((PYTHON, "-c", ACTIVATE, number), "web", pass_fds=(number,), **settings)
        self.wait_ready()
        return server

    def wait_ready(self) -> None:
        while "READY=1" not in self.notices.recv(4096).decode().split("\n"):
            pass

    def _start(
        self, command: tuple[object, ...], name: str, pass_fds: tuple[int, ...] = (), **settings: object
    ) -> Process:
        environ = clean_environ(**{"model": "fake:", "runtime_dir": self.runtime, "graceful_timeout": 2, **settings})
        if name == "web":
            environ["NOTIFY_SOCKET"] = str(self._folder / "notify")
        if settings.get("engine_managed") == "false":  # a unit that may write in no folder of the engine's
            environ["RUNTIME_DIRECTORY"] = str(self._folder / "unit")
            (self._folder / "unit").mkdir(exist_ok=True)
            self.environ_of_web = environ
        return self._stack.enter_context(Process(command, environ, self._folder / f"{name}.log", pass_fds))

    def health(self) -> requests.Response:
        return requests.get(f"{self.url}/health", timeout=DEADLINE)

    def wait_healthy(self) -> None:
        wait_for(lambda: self.health().status_code == 200, "GET /health answers 200")

    def is_hung(self) -> bool:
        """Whether GET /metrics shows the engine as hung."""
        return 'srb:engine_state{state="hung"} 1' in requests.get(f"{self.url}/metrics", timeout=DEADLINE).text

    def complete(self) -> Any:
        return requests.post(f"{self.url}/v1/srb/completions", json=BODY, timeout=DEADLINE)


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Units]:
    with ExitStack() as stack:
        yield Units(tmp_path, stack)


def test_one_unit_is_ready_when_it_listens(units: Units) -> None:
    both = units.start_both()
    assert units.health().status_code in (503, 200)
    units.wait_healthy()
    assert units.complete().status_code == 200
    assert both.stop() == 0
    assert not units.runtime.exists()


def test_the_web_server_waits_for_an_engine_and_finds_the_next_one(units: Units) -> None:
    web = units.start_web()
    assert units.health().status_code == 503
    engine = units.start_engine()
    units.wait_healthy()
    assert len(units.complete().json()["completions"]) == 2
    workers = children(web.pid)
    engine.stop(signal.SIGKILL)
    wait_for(lambda: units.health().status_code == 503, "the web server sees that it is gone")
    units.start_engine()
    units.wait_healthy()
    assert children(web.pid) == workers


def test_the_web_server_says_that_no_engine_runs(units: Units) -> None:
    def message() -> str:
        return str(units.health().json().get("error", {}).get("message", ""))

    gone = f"No engine gives a sign of life in {units.runtime}"
    units.start_web()
    assert message() == gone
    for signum in (signal.SIGTERM, signal.SIGKILL):  # the second leaves its status behind
        engine = units.start_engine()
        units.wait_healthy()
        engine.stop(signum)
        wait_for(lambda: message() == gone, "the end of the engine is told")


def test_the_web_server_says_why_the_engine_does_not_start(units: Units) -> None:
    units.start_web()
    assert units.start_engine(model="/nowhere.gguf").wait() == 3
    assert status(units.runtime)["state"] == "failed"
    answer = units.health()
    assert answer.status_code == 503
    assert "/nowhere.gguf" in answer.json()["error"]["message"]
    assert "/nowhere.gguf" in units.complete().json()["error"]["message"]
    units.start_engine()
    units.wait_healthy()


def test_the_web_server_sees_that_an_engine_by_itself_was_stopped(units: Units) -> None:
    engine = units.start_engine()
    units.start_web()
    units.wait_healthy()
    os.kill(engine.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: units.health().status_code == 503, "an engine that gives no sign of life is unhealthy")
        assert "hung" in units.health().json()["error"]["message"]
        assert units.is_hung()
    finally:
        os.kill(engine.pid, signal.SIGCONT)
    units.wait_healthy()
    assert units.complete().status_code == 200


def test_row_23_an_engine_by_itself_whose_step_ends_after_all_is_healthy_again(units: Units, tmp_path: Path) -> None:
    """The first decode waits for a byte from the test, like a decode that is stuck for a while."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = f"""
    model = FakeModel()
    decode = model.decode
    def decode_late(batch):
        model.decode = decode
        open({str(gate)!r}).read()
        return decode(batch)
    model.decode = decode_late
    """
    units.start_engine(*engine_with(slow), stall_timeout=1)
    units.start_web()
    units.wait_healthy()
    answers: list[requests.Response] = []
    asked = threading.Thread(target=lambda: answers.append(units.complete()))
    asked.start()
    wait_for(lambda: status(units.runtime)["state"] == "hung", "the engine says that it hangs")
    wait_for(lambda: units.health().status_code == 503 and units.is_hung(), "the web server says so too")
    gate.write_text("go")
    wait_for(lambda: status(units.runtime)["state"] == "running", "the engine says that it runs again")
    units.wait_healthy()
    assert not units.is_hung()
    asked.join(DEADLINE)
    assert [answer.status_code for answer in answers] == [200]


def test_a_restart_of_the_web_server_refuses_no_connection_and_keeps_the_engine(units: Units) -> None:
    engine = units.start_engine()
    web = units.start_web()
    units.wait_healthy()
    assert web.stop() == 0
    answers: list[requests.Response] = []
    asked = threading.Thread(target=lambda: answers.append(units.complete()))
    asked.start()  # nobody serves: it waits in the socket's queue
    units.start_web()
    asked.join(DEADLINE)
    assert [answer.status_code for answer in answers] == [200]
    assert engine.popen.poll() is None


def test_a_reload_replaces_the_workers_on_the_same_socket(units: Units) -> None:
    units.start_engine()
    web = units.start_web()
    units.wait_healthy()
    before = set(children(web.pid))
    command = [PYTHON, "-P", "-m", "srb.serve.reload", str(web.pid)]  # the units' ExecReload
    done = subprocess.run(command, env=units.environ_of_web, capture_output=True, text=True, timeout=DEADLINE)
    assert (done.returncode, done.stderr) == (0, "")
    assert not units.runtime.joinpath("reload.json").exists()
    wait_for(lambda: children(web.pid) and not before & set(children(web.pid)), "there are other workers")
    units.wait_healthy()
    assert units.complete().status_code == 200
