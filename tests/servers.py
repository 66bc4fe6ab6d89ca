"""A real server for tests: gunicorn, workers, supervisor and engine, on a free port and in a folder of its own."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests

from srb.config.settings import Settings
from srb.wire.events import Accepted
from tests.models.random_gguf import write_llama
from tests.processes import (
    DEADLINE,
    PYTHON,
    Process,
    Worker,
    children,
    clean_environ,
    command_line,
    descendants,
    endless,
    is_alive,
    status,
    wait_for,
)

GUNICORN = (PYTHON, "-m", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app")
SUPERVISORS = ("srb.process.supervisor", "srb.models.supervisor")  # the modules that they run
SETTINGS = {"model": "fake:", "n_ctx": 100_000, "graceful_timeout": 2}  # what a test's server has if it says nothing

PACED = (
    "fake:50"  # FakeModel with 50 steps a second: endless requests last, also unread, and leave processors to others
)

# Below the ports that the kernel gives to whoever asks for any: one of those may be taken again before its server has it.
_PORTS = range(20_000, 32_000)
_ports = count(os.getpid() * 7919)  # tests that run side by side begin at places of their own


def free_port() -> int:
    """Return a port at which nobody listens, another one at each call."""
    while True:
        port = _PORTS[next(_ports) % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Ports:
    """Ports for servers one after another, since a browser has the page's files by address, and loads them but once."""

    def __init__(self) -> None:
        self._free: list[int] = []

    def take(self) -> int:
        """Return the port of a server that has ended, or else a new one."""
        while self._free:
            port = self._free.pop()
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections hold it no more
                probe.bind(("127.0.0.1", port))
                return port
        return free_port()

    def give_back(self, port: int) -> None:
        self._free.append(port)


class Server:
    """One running server. `Server(path, n=4)` sets SRB_N=4; leave its `with` block and nothing of it is left."""

    def __init__(self, folder: Path, *, command: Sequence[object] = GUNICORN, **settings: object) -> None:
        self.port = int(str(settings.pop("port", free_port())))
        self.runtime = folder / "run"
        self.url = f"http://127.0.0.1:{self.port}"
        self._prefix = settings.get("api_prefix", "")
        own = {"port": self.port, "runtime_dir": self.runtime, "stories": folder / "stories.sqlite3"}
        self.environ = clean_environ(**{**own, **SETTINGS, **settings})
        self._command = command
        self._log_path = folder / "server.log"
        self._process: Process | None = None
        self._exits = ExitStack()
        self.numbers_age = 0.0  # seconds that the numbers of /metrics may be old

    def start(self, *, wait: bool = True) -> Server:
        """Start it and, with `wait`, return only when GET /health answers 200."""
        # Left by Ctrl-C, which ends a server more quickly than SIGTERM; tests of the end stop it themselves.
        process = Process(self._command, self.environ, self._log_path, farewell=signal.SIGINT)
        self._process = self._exits.enter_context(process)
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                self._exits.close()  # `with Server(...).start()` has not been entered
                raise
        return self

    def wait_ready(self, deadline: float = DEADLINE) -> None:
        wait_for(lambda: self.has_ended or self.health() == 200, "GET /health answers 200", deadline)
        assert not self.has_ended, f"the server ended:\n{self.logs}"

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send a signal to the arbiter, wait for its end and return its exit status."""
        return self.process.stop(signum)

    def wait(self) -> int:
        """Wait for the end of a server that ends by itself; return its exit status."""
        return self.process.wait()

    def kill(self) -> None:
        """Kill all processes at once, as a loss of power does: none of them has the time to tell of the others."""
        pids = [self.pid, *descendants(self.pid)]
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # the kernel may kill one with its parent
                    os.kill(pid, signum)
        self.wait()
        wait_for(lambda: not any(map(is_alive, pids)), "all processes of the server have ended")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._exits.__exit__(*raised)

    # what it is

    @property
    def process(self) -> Process:
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def has_ended(self) -> bool:
        return self.process.popen.poll() is not None

    @property
    def logs(self) -> str:
        return self.process.logs

    @property
    def status(self) -> dict[str, str]:
        return status(self.runtime)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def supervisor(self) -> int:
        [pid] = [pid for pid in children(self.pid) if any(name in command_line(pid) for name in SUPERVISORS)]
        return pid

    @property
    def workers(self) -> list[int]:
        return [pid for pid in children(self.pid) if not any(name in command_line(pid) for name in SUPERVISORS)]

    @property
    def engine(self) -> int:
        """The pid of the engine, waiting for it while it is started."""
        [pid] = wait_for(lambda: children(self.supervisor), "there is an engine")
        return pid

    def all_pids(self) -> list[int]:
        """Return the pids of everything that the server consists of."""
        return [self.pid, *self.workers, self.supervisor, self.engine]

    # what it does

    def health(self) -> int:
        """Return the status of GET /health, or 0 when nobody answers."""
        try:
            return self.get(f"{self._prefix}/health").status_code
        except (requests.ConnectionError, requests.Timeout):
            return 0

    def live(self) -> int:
        """Return the status of GET /livez, or 0 when nobody listens."""
        try:
            return self.get(f"{self._prefix}/livez").status_code
        except requests.ConnectionError:
            return 0

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.url + path, timeout=60, **options)

    def post(self, path: str, body: dict[str, Any], **options: Any) -> requests.Response:
        return requests.post(self.url + path, json=body, timeout=60, **options)

    def fill(self) -> Worker:
        """Hold the engine's sequences by endless requests, until one waits; return their worker.

        It is closed at the server's end, or earlier by the test.
        """
        worker = Worker(self.runtime).ready()
        self._exits.callback(worker.close)
        ids = (f"r{i}" for i in count())
        # A request that has just come is deferred, too, until the next step admits it: only without room does it stay so.
        while self._metric("branches_room") or not self._metric("requests_deferred"):
            worker.send(endless(next(ids), n=1))
            worker.next(Accepted)
        return worker

    def metric(self, name: str) -> float:
        """Return one value of GET /metrics, by the end of its name: `metric("requests_processing")`.

        They are of now, though a cluster's answer may be `numbers_age` seconds old. A busy engine's may be older or missing:
        then the next are read.
        """
        time.sleep(self.numbers_age)
        return self._metric(name)

    def _metric(self, name: str) -> float:
        asked_at = time.time()
        [value] = wait_for(lambda: self._metrics_named(name, asked_at), f"/metrics has {name}")
        return value

    def _metrics_named(self, name: str, asked_at: float) -> list[float]:
        response = self.get("/metrics")
        assert response.status_code == 200, response.text
        lines = [line.partition(" ") for line in response.text.splitlines() if not line.startswith("#")]
        [answered_at] = [float(value) for key, _, value in lines if key == ANSWERED] or [math.inf]
        found = [(key, float(value)) for key, _, value in lines if key.partition("{")[0].endswith(name)][:1]
        return [value for key, value in found if answered_at >= asked_at or NOT_THE_ENGINES.match(key)]


ANSWERED = "srb_engine_answer_timestamp_seconds"
NOT_THE_ENGINES = re.compile("srb[:_](engine|http|model|process|time_to|queue|request_seconds|tokens_per)")

MakeServer = Callable[..., Server]


@pytest.fixture
def make_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeServer]:
    """Make servers with settings of the test's own; they are ended after the test."""
    with ExitStack() as stack:

        def make(**options: Any) -> Server:
            return stack.enter_context(Server(tmp_path_factory.mktemp("srb"), **options))

        yield make


MOST_KEPT = 3  # servers that run side by side, each with four processes or more


@pytest.fixture(scope="session")
def server_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeServer]:
    """Return a running server with given settings, the same one for all tests that ask for it.

    Tests that only talk to it may use it, and those that compare its numbers with those of before; do not kill, reload or
    stop any part of it. A test may have as many of them as are kept: of more, the one that was asked for longest ago ends.
    """
    kept: dict[str, Server] = {}

    def share(**settings: Any) -> Server:
        key = repr(sorted(settings.items()))
        found = kept.pop(key, None)
        if found is None:
            while len(kept) >= MOST_KEPT:
                kept.pop(next(iter(kept))).__exit__(None, None, None)
            found = Server(tmp_path_factory.mktemp("kept"), **settings).start()
        kept[key] = found
        return found

    yield share
    for each in kept.values():
        each.__exit__(None, None, None)


@pytest.fixture
def paced(server_with: MakeServer) -> Server:
    """A server whose endless requests last, which many tests share; do not kill any part of it."""
    return server_with(model=PACED)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over FakeModel that many tests share; do not kill any part of it."""
    with Server(tmp_path_factory.mktemp("shared")) as shared:
        yield shared.start()


@pytest.fixture(scope="session")
def storyteller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the bundled model and default settings; shared, do not kill any part of it.

    One thread, since two threads that wait for each other are slow on busy cores.
    """
    with Server(
        tmp_path_factory.mktemp("storyteller"), model="storyteller", n_ctx=Settings().n_ctx, threads=1
    ) as shared:
        yield shared.start()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a random model whose texts can be compared; shared, do not kill any part of it.

    Sums of floating-point numbers depend on their order, so on what else is computed and where it lies. In 32 bits and
    without flash attention the difference is too small to change a text of the length that tests ask for.
    """
    folder = tmp_path_factory.mktemp("tiny")
    model = write_llama(folder / "tiny.gguf")
    with Server(folder, model=model, n_ctx=8192, threads=1, flash_attn="off", cache_type_k="f32",
                cache_type_v="f32") as shared:  # fmt: skip
        yield shared.start()


def openai_options(server: Server) -> dict[str, Any]:
    """Return the arguments of OpenAI's client for a server, without retries and key."""
    return {"base_url": f"{server.url}/v1", "api_key": "none", "max_retries": 0, "timeout": DEADLINE}


@contextlib.contextmanager
def everything_ends(server: Server) -> Iterator[None]:
    """Check that the block inside ends every process of the server and leaves no file."""
    pids = server.all_pids()
    yield
    wait_for(lambda: not any(map(is_alive, pids)), f"all of {pids} have ended")
    assert not server.runtime.exists()
