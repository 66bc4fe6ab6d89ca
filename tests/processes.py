"""Real processes in tests: start them, wait for what they should do, and leave none behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson

from srb.config.sampling_params import SamplingParams
from srb.config.settings import SOCKET_NAME
from srb.wire.codec import decode, encode
from srb.wire.commands import BranchSpec, Generate, GetStats
from srb.wire.events import Ready, Reply
from srb.wire.framing import FrameSocket

ROOT = Path(__file__).parents[1]
DEADLINE = 120.0  # seconds: far more than anything here takes, on a machine that does much else

T = TypeVar("T")


def wait_for(what: Callable[[], T], why: str, deadline: float = DEADLINE) -> T:
    """Return the first true value of `what`, asked again and again: at first every 10 ms, after some seconds every 50 ms."""
    began = time.monotonic()
    while not (value := what()):
        waited = time.monotonic() - began
        if waited > deadline:
            raise AssertionError(f"waited {deadline:.0f} s in vain: {why}")
        time.sleep(min(0.01 + waited / 50, 0.05))
    return value


def process_state(pid: int) -> str:
    """Return the letter for what a process does, as in proc(5); "X" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet reaped does not."""
    return process_state(pid) not in "ZX"


def began_at(pid: int) -> str:
    """Return when a process began, by which it is told from a later one with its pid; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid: int) -> list[int]:
    """Return the pids of the processes that `pid` has started and that still run."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def clean_environ(**settings: object) -> dict[str, str]:
    """Return this process's environment with these settings and no others."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SRB_")}
    environ["SRB_CACHE_DISK_MIB"] = "0"  # no test finds the texts of another
    return environ | {f"SRB_{name.upper()}": str(value) for name, value in settings.items()}


class Process:
    """A started program whose output goes to a file; `stop` and leaving a `with` block end it for sure.

    Leaving the block sends `farewell`.
    """

    def __init__(
        self,
        command: Sequence[object],
        environ: Mapping[str, str],
        log_path: Path,
        pass_fds: Sequence[int] = (),
        farewell: int = signal.SIGTERM,
    ) -> None:
        self.log_path = log_path
        self._farewell = farewell
        words = [str(word) for word in command]
        with log_path.open("ab") as log:
            self.popen = subprocess.Popen(words, cwd=ROOT, env=dict(environ), stdout=log, stderr=log, pass_fds=pass_fds)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def logs(self) -> str:
        return self.log_path.read_text()

    def send(self, signum: int) -> None:
        self.popen.send_signal(signum)

    def wait(self) -> int:
        """Return the exit status."""
        return self.popen.wait(DEADLINE)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send a signal, wait and return the exit status."""
        self.send(signum)
        return self.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        print(f"---- output of {self.popen.args!r}\n{self.logs}")  # pytest shows it where a test has failed
        below = {pid: began_at(pid) for pid in (descendants(self.pid) if self.popen.poll() is None else ())}
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.popen.poll() is None:
                self.popen.send_signal(self._farewell)
            self.popen.wait(DEADLINE / 2)
        for pid, began in below.items():
            if began and began_at(pid) == began:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.popen.kill()
        self.popen.wait(DEADLINE)


def descendants(pid: int) -> list[int]:
    """Return the pids of all processes below `pid`."""
    return [below for child in children(pid) for below in (child, *descendants(child))]


class Worker:
    """The web worker's end of the engine's socket, blocking and bare."""

    def __init__(self, runtime_path: Path) -> None:
        self.sock = wait_for(lambda: _connect(runtime_path / SOCKET_NAME), "the engine listens")
        self.sock.settimeout(DEADLINE)
        self.frames = FrameSocket(self.sock)
        self._events: list[Any] = []

    def send(self, *commands: Any) -> None:
        self.frames.send(encode(commands))

    def next(self, *kinds: type) -> Any:
        """Return the next event of one of these classes, dropping others before it."""
        for event in self.events():
            if isinstance(event, kinds):
                return event
        raise AssertionError("unreachable: events() ends by EOFError only")

    def events(self) -> Iterator[Any]:
        while True:
            if not self._events:
                self._events = decode(self.frames.receive())
            yield self._events.pop(0)

    def ready(self) -> Worker:
        self.next(Ready)
        return self

    def stats(self) -> dict[str, float]:
        self.send(GetStats("stats"))
        values: dict[str, float] = self.next(Reply).value
        return values

    def is_closed(self) -> bool:
        try:
            while True:
                self.frames.receive()
        except (EOFError, ConnectionError):
            return True

    def close(self) -> None:
        self.frames.close()


def _connect(path: Path) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(os.fspath(path))
    except OSError:
        sock.close()
        return None
    return sock


class NoticeListener:
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


def endless(request_id: str, n: int = 2) -> Generate:
    """A request that runs until it is cancelled, or for minutes."""
    sampling = SamplingParams(ignore_eos=True)
    return Generate(request_id, ("Once upon a time,",), tuple(BranchSpec(seed, sampling=sampling) for seed in range(n)))


def brief(request_id: str, n: int = 2) -> Generate:
    """A request that ends soon."""
    return Generate(request_id, ("Once upon a time,",), tuple(BranchSpec(seed, 5) for seed in range(n)))


def engine_with(load: str) -> tuple[str, ...]:
    """Return the command of an engine process whose model is loaded by the body of a function of `settings` and `report`."""
    script = """
    import os, time
    from srb.engine.process import __main__ as process
    from srb.engine.engine import Engine, EngineOptions
    from srb.engine.fake import FakeModel
    from srb.engine.model import DecodeStatus
    from srb.errors import ModelLoadFailed

    def load(settings, report):
    {load}
        engine = Engine(model, EngineOptions(max_queue=2), clock=time.monotonic)
        return engine, model.info("fake"), engine.close

    process.exit_now(process.main(load=load))
    """
    return PYTHON, "-c", textwrap.dedent(script).format(load=textwrap.indent(textwrap.dedent(load), "    "))


def status(runtime_path: Path) -> dict[str, str]:
    """Return what status.json says, or nothing where there is none."""
    try:
        return dict(orjson.loads((runtime_path / "status.json").read_bytes()))
    except FileNotFoundError:
        return {"state": "", "message": ""}


PYTHON = sys.executable


def self_signed(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Make a key and a certificate for a host name; return the paths of key and certificate."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True, timeout=DEADLINE,
    )  # fmt: skip
    return key, certificate
