"""One engine process as its supervisor sees it: its reports, its heartbeats and its end."""

import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import orjson

from srb.process.native_output import NativeOutput
from srb.python import module_command
from srb.status import STALE_SECONDS

log = logging.getLogger("srb.supervisor")

KILL_SECONDS = 5.0  # from SIGTERM to SIGKILL; the engine's own deadline is earlier
_LOG_SECONDS = 0.5  # for the last lines of an engine that has ended: a child of it may keep the pipe open
_MAX_SHOWN = 100  # bytes of a line that is no report
TICK_SECONDS = 1.0  # two heartbeats: one may be late
_STALE_TICKS = int(STALE_SECONDS / TICK_SECONDS)
ENGINE, BRIDGE = "srb.engine.process", "srb.cluster.bridge"  # the modules that are run; no supervisor imports either


class HeartbeatMonitor:
    """The heartbeats of one engine, from the first one on; there are none while a model loads.

    Silence is counted in our own ticks: while the whole machine sleeps, there are none.
    """

    def __init__(self, stall_timeout: int) -> None:
        """Allow `stall_timeout` ticks of silence; 0: any number."""
        self._max_silent = stall_timeout
        self._silent: int | None = None  # ticks without a heartbeat; None before the first one
        self.abort_reason = ""  # why the engine has to be aborted; "" if it need not

    @property
    def is_stale(self) -> bool:
        """Whether the engine counts as hung."""
        return self._silent is not None and self._silent >= min(_STALE_TICKS, self._max_silent)

    def note_reports(self, reports: list[dict[str, Any]]) -> None:
        """Note a heartbeat, and the states reported with it."""
        if self._max_silent and not any(report["state"] == "starting" for report in reports):
            self._silent = 0
        last = reports[-1] if reports else None  # an engine may have hung and recovered before we looked
        self.abort_reason = last["message"] if last is not None and last["state"] == "hung" else ""

    def tick(self) -> bool:
        """Count one second without a heartbeat; return True if the engine has just become stale."""
        if self._silent is None:
            return False
        was_stale = self.is_stale
        self._silent += 1
        if self._silent >= self._max_silent:
            self.abort_reason = f"no heartbeat for {self._silent} s"
        return self.is_stale and not was_stale


class EngineChild:
    """One engine process, and the pipe on which it reports. With a cluster it is the bridge to the cluster's engines."""

    def __init__(self, module: str = ENGINE, environ: Mapping[str, str] | None = None, name: str = "") -> None:
        """Start the module, with `environ` added to this process's variables; `name` is that of one of several models.

        Raise OSError, and leave nothing behind, where the machine has no process, thread, memory or descriptor left.
        """
        self._unread = b""
        with contextlib.ExitStack() as undo:
            self.reports, engine_end = os.pipe()
            undo.callback(os.close, self.reports)
            undo.callback(os.close, engine_end)
            self._output = NativeOutput()
            undo.callback(self._output.close)
            pipes = ("--report", str(engine_end), "--native-stderr", str(self._output.engine_end))
            command = module_command(module, "--parent", str(os.getpid()), *pipes)
            variables = {**os.environ, **(environ or {})}
            passed = [engine_end, self._output.engine_end]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=passed, env=variables)
            undo.callback(self._kill)
            self._output.start(f"engine {self._process.pid}" + (f" of {name}" if name else ""))
            undo.pop_all()  # all of it is this object's from now on
        os.close(engine_end)

    def read_reports(self) -> list[dict[str, Any]] | None:
        """Return the reports that have arrived, which may be none (heartbeats); None if the engine has ended."""
        chunk = os.read(self.reports, 65536)
        if not chunk:
            return None
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        return [report for line in lines if line and (report := _report(line)) is not None]

    def send(self, *signals: int) -> None:
        """Send signals and do not wait; the end of the process is the end of its reports."""
        for signum in signals:
            self._process.send_signal(signum)

    def poll(self) -> int | None:
        """Return the exit status of a process that has ended, and None while it has not; does not wait."""
        return self._process.poll()

    def end(self, *signals: int, more_seconds: float = 0.0) -> int:
        """Send `signals`, wait for the exit status, and kill a process that does not end in time."""
        self.send(*signals)
        try:
            self._process.wait(KILL_SECONDS + more_seconds)
        except subprocess.TimeoutExpired:
            log.warning("the engine did not exit in time and is killed")
            self._kill()
        self._output.join(_LOG_SECONDS)  # before the log says how it ended
        os.close(self.reports)
        return self._process.returncode

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _report(line: bytes) -> dict[str, Any] | None:
    """Return one report of `ToSupervisor`; None, and a line in the log, for anything else."""
    try:
        given = orjson.loads(line)
        report = {"state": given["state"], "message": given["message"], "percent": given.get("percent")}
        if all(isinstance(report[key], str) for key in ("state", "message")):
            return report
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    log.warning("the engine has sent what is no report: %r", line[:_MAX_SHOWN])
    return None


def describe(status: int) -> str:
    """Return an exit status, or the signal that ended a process, in words."""
    if status >= 0:
        return f"exit status {status}"
    if status == -signal.SIGILL:  # one that this processor lacks; the file of the model has no part in it
        return "SIGILL: llama.cpp was built for another processor; build it here, or with PROCESSORS=all"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
