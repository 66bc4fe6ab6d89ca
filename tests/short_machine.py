"""A machine of the tests' own around a supervisor: its clock and processes, and what it is short of.

The supervisor's code runs as it is, in the thread of the test, on real pipes and sockets; only its modules' names for the
clock, select() and processes are replaced. Each select() lets the machine act first, and time passes in it where nothing
is there to be read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb import welcome
from srb.models import engine_question, memory_check
from srb.models import supervisor as models_supervisor
from srb.process import engine_child, native_output
from srb.process import supervisor as one_supervisor

PASSING = [errno.EAGAIN, errno.ENOMEM, errno.EMFILE]  # of fork and pipe, where something is short for a while
SHORTAGES = ["fork", "pipe", "thread", "socket", "accept", "print"]


class Replaced:
    """A module of which some names are others."""

    def __init__(self, module: Any, **others: Any) -> None:
        self._module = module
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def open_descriptors() -> set[str]:
    """Return this process's descriptors with what they are open for."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return found


class FakeProcess:
    """One process as Popen shows it. Its own ends of pipes are other descriptors than its supervisor's, as in life."""

    def __init__(self, machine: ShortMachine, pipes: list[int], environ: dict[str, str]) -> None:
        self.machine = machine
        self.pid = 10_000 + len(machine.processes)
        self.environ = environ
        self.returncode: int | None = None  # as the supervisor knows it
        self.status: int | None = None  # as it ended
        self.pipes = [os.dup(pipe) for pipe in pipes]
        self.told: list[int] = []  # signals
        self.is_deaf = False  # it takes SIGKILL alone
        self.reported: tuple[str, str] | None = None  # what status.json has to say; None: that is not known
        self.has_beaten = False
        self.quiet = 0  # select() calls in a row without a report
        self.listener: socket.socket | None = None
        self.stdout: Any = None

    def report(self, line: bytes) -> None:
        if self.pipes:
            os.write(self.pipes[0], line + b"\n")
            self.quiet = 0
            self.has_beaten |= b"starting" not in line

    def say(self, state: str, message: str = "") -> None:
        if self.pipes:
            self.reported = (state, message)
        self.report(orjson.dumps({"state": state, "message": message, "percent": None}))

    def listen(self, path: Path) -> None:
        if self.listener is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(str(path))
            self.listener.listen(1)
            self.listener.setblocking(False)

    def close_pipes(self) -> None:
        while self.pipes:
            os.close(self.pipes.pop())

    def exit(self, status: int) -> None:
        if self.status is None:
            self.status = status
            if status < 0 and len(self.pipes) > 1:
                os.write(self.pipes[1], b"a stack\n")
            self.close_pipes()
            if self.listener is not None:
                self.listener.close()

    def obey(self) -> None:
        """End, if a signal has said so."""
        deadly = [signum for signum in self.told if signum in (signal.SIGTERM, signal.SIGABRT)]
        if deadly and not self.is_deaf:
            self.exit(0 if deadly[0] == signal.SIGTERM else -deadly[0])

    # Popen ----------------------------------------------------------------------------------------------------------

    def send_signal(self, signum: int) -> None:
        if self.returncode is None:
            self.told.append(signum)
            if signum == signal.SIGKILL:
                self.exit(-signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and self.status is not None:
            self.returncode = self.status
            if not self.machine.is_starting:
                self.machine.note_end(self)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self.machine.while_waited_for(self)
        self.obey()
        if self.poll() is None:
            assert timeout is not None, "it waits for ever"
            self.machine.now += timeout
            raise subprocess.TimeoutExpired("engine", timeout)
        assert self.returncode is not None
        return self.returncode


class ShortMachine:
    """The machine; a test says in `act` what happens in each select()."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.processes: list[FakeProcess] = []
        self.short: Counter[str] = Counter()  # how many of the next attempts at each fail
        self.number_of_error = 0
        self.is_full = self.is_read_only = False  # its disk
        self.is_starting = False  # an engine: what is ended meanwhile was none yet

    # What tests say -------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Let something happen."""

    def note_end(self, process: FakeProcess) -> None:
        """Note that the supervisor knows of a process's end."""

    def while_waited_for(self, process: FakeProcess) -> None:
        """Let something happen while the supervisor waits for a process's end."""

    def note_start(self, name: str) -> None:
        """Note an attempt to start an engine."""

    def note_no_start(self, name: str) -> None:
        """Note that it failed."""

    # ----------------------------------------------------------------------------------------------------------------

    @property
    def living(self) -> list[FakeProcess]:
        """The processes that have not been waited for."""
        return [each for each in self.processes if each.returncode is None]

    def stop(self) -> None:
        signal.raise_signal(signal.SIGTERM)

    def plenty(self) -> None:
        self.short.clear()
        self.is_full = self.is_read_only = False

    def clock(self) -> float:
        self.now += 1e-6  # two looks at a clock differ
        return self.now

    def select(self, reading: Any, writing: Any, _: Any, seconds: float | None) -> Any:
        until = self.now + (1.0 if seconds is None else seconds)
        for process in self.living:
            process.obey()
        self.act()
        found = select.select(reading, writing, [], 0)
        if not any(found):
            self.now = max(self.now, until)
        return found

    def take(self, kind: str, error: Exception | None = None) -> None:
        if self.short[kind] > 0:
            self.short[kind] -= 1
            number = PASSING[self.number_of_error % len(PASSING)]
            raise error or OSError(number, os.strerror(number))

    def popen(self, command: Any, *, pass_fds: list[int], env: dict[str, str], **_: Any) -> FakeProcess:
        self.take("fork")
        self.processes.append(FakeProcess(self, pass_fds, env))
        return self.processes[-1]

    def popen_printing(self, command: Any, *, env: dict[str, str], **_: Any) -> FakeProcess:
        self.take("fork")
        reading, writing = os.pipe()
        process = FakeProcess(self, [writing], env)
        os.close(writing)
        process.stdout = open(reading, "rb", buffering=0)  # noqa: SIM115
        self.processes.append(process)
        return process

    def pipe(self) -> tuple[int, int]:
        self.take("pipe")
        return os.pipe()

    def socket(self, *options: Any) -> socket.socket:
        self.take("socket")
        return socket.socket(*options)

    def print(self, *_: Any, **__: Any) -> None:
        self.take("print", BrokenPipeError(errno.EPIPE, "Broken pipe"))

    def listen(self, listen: Callable[[Path], socket.socket], path: Path) -> Any:
        sock = listen(path)

        def accept() -> Any:
            self.take("accept")
            return sock.accept()

        return Replaced(sock, accept=accept)

    @contextlib.contextmanager
    def around(self, make: Callable[[], Any]) -> Iterator[Any]:
        """Make a supervisor on this machine; release what an abandoned one leaves."""
        handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
        wakeup = signal.set_wakeup_fd(-1)
        with pytest.MonkeyPatch.context() as patch:
            self.patch(patch)
            supervisor = make()
            try:
                yield supervisor
            finally:
                os.close(signal.set_wakeup_fd(wakeup))
                os.close(supervisor._wake)
                for signum, handler in handlers.items():
                    signal.signal(signum, handler)
                for process in self.processes:
                    process.exit(-signal.SIGKILL)

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        machine = self

        class Thread:
            """What native code writes is read when its process has ended, by whoever joins the thread."""

            def __init__(self, target: Callable[[], None], **_: Any) -> None:
                self.run = target

            def start(self) -> None:
                machine.take("thread", RuntimeError("can't start new thread"))

            def join(self, seconds: float) -> None:
                self.run()

        class Child(engine_child.EngineChild):
            def __init__(self, *options: Any, name: str = "", **named: Any) -> None:
                machine.note_start(name)
                machine.is_starting = True
                try:
                    super().__init__(*options, name=name, **named)
                except OSError:
                    machine.note_no_start(name)
                    raise
                finally:
                    machine.is_starting = False

        short_os = Replaced(os, pipe=self.pipe)
        patch.setattr(engine_child, "os", short_os)
        patch.setattr(native_output, "os", short_os)
        patch.setattr(native_output, "threading", Replaced(threading, Thread=Thread))
        patch.setattr(engine_child, "subprocess", Replaced(subprocess, Popen=self.popen))
        patch.setattr(memory_check, "subprocess", Replaced(subprocess, Popen=self.popen_printing))
        patch.setattr(engine_question, "socket", Replaced(socket, socket=self.socket))
        listen = models_supervisor.listen
        patch.setattr(models_supervisor, "listen", lambda path: self.listen(listen, path))
        patch.setattr(welcome, "print", self.print, raising=False)
        for module in (one_supervisor, models_supervisor):
            patch.setattr(module, "select", Replaced(select, select=self.select))
            patch.setattr(module, "time", Replaced(time, monotonic=self.clock))
            patch.setattr(module, "EngineChild", Child)
        self._patch_disk(patch)

    def _patch_disk(self, patch: pytest.MonkeyPatch) -> None:
        open_, write, unlink = os.open, Path.write_bytes, Path.unlink

        def refuse(path: Any) -> None:
            if (self.is_full or self.is_read_only) and Path(path).is_relative_to(self.folder):
                number = errno.EROFS if self.is_read_only else errno.ENOSPC
                raise OSError(number, os.strerror(number))

        def open_one(path: Any, *given: Any, **more: Any) -> int:
            if str(path).endswith(".partial"):
                refuse(path)
            return open_(path, *given, **more)

        def write_bytes(path: Path, data: bytes) -> int:
            refuse(path)
            return write(path, data)

        def unlink_one(path: Path, missing_ok: bool = False) -> None:
            if self.is_read_only and path.is_relative_to(self.folder):
                raise OSError(errno.EROFS, "Read-only file system")
            unlink(path, missing_ok=missing_ok)

        patch.setattr(os, "open", open_one)
        patch.setattr(Path, "write_bytes", write_bytes)
        patch.setattr(Path, "unlink", unlink_one)
