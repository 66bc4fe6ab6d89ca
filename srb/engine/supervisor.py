"""Keeps exactly one engine process alive: start, watch, start again. Imports neither llama_cpp nor gevent.

`python -m srb.engine.supervisor` is started by gunicorn's arbiter and ends with it. It is a process of its own because
the arbiter's waitpid(-1) takes the exit status of any child it has.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time

import orjson

from srb import logs
from srb.engine.lifeline import die_with_parent, ignore_reloads
from srb.engine.runtime import EXIT_CONFIG, EXIT_MODEL, clean_up, make_runtime_dir
from srb.errors import ConfigError
from srb.settings import Settings
from srb.status import WORRY_SECONDS, remove_status, write_status
from srb.welcome import first_screen

log = logging.getLogger("srb.supervisor")

_FIRST_DELAY = 0.1  # seconds before the first restart; doubles each time
_LONGEST_DELAY = 10.0
_HEALTHY_SECONDS = 30.0  # an engine that was ready this long starts the doubling anew
_KILL_SECONDS = 5.0  # from SIGTERM to SIGKILL; the engine's own deadline is earlier
_TICK_SECONDS = 1.0  # the engine beats twice in it
_WORRY_TICKS = int(WORRY_SECONDS / _TICK_SECONDS)


class Backoff:
    """How long to wait before the next start."""

    def __init__(self) -> None:
        self._next = _FIRST_DELAY

    def after(self, healthy_seconds: float) -> float:
        """Return the delay after an engine that had been ready for `healthy_seconds`."""
        if healthy_seconds >= _HEALTHY_SECONDS:
            self._next = _FIRST_DELAY
        delay, self._next = self._next, min(self._next * 2, _LONGEST_DELAY)
        return delay


class Watch:
    """What one engine's signs of life say, from the first of them on; loading a model gives none.

    Silence is counted in our own ticks: where the whole machine was asleep, no time has passed for us either.
    """

    def __init__(self, stall_timeout: int) -> None:
        """Allow so many ticks of silence; 0: any number."""
        self._most = stall_timeout
        self._silent: int | None = None  # ticks; None before the first sign
        self.complaint = ""  # why the engine has to be ended

    @property
    def is_worried(self) -> bool:
        """Whether it has been silent for longer than is well."""
        return self._silent is not None and self._silent >= min(_WORRY_TICKS, self._most)

    def heard(self, reports: list[dict[str, str]]) -> None:
        """Note a sign of life, and what it said."""
        if self._most and not any(report["state"] == "starting" for report in reports):
            self._silent = 0
        self.complaint = next((report["message"] for report in reports if report["state"] == "hung"), "")

    def tick(self) -> bool:
        """Note a tick of silence; return whether it is the one that makes us worry."""
        if self._silent is None:
            return False
        was_worried = self.is_worried
        self._silent += 1
        if self._silent >= self._most:
            self.complaint = f"no sign of life for {self._silent} s"
        return self.is_worried and not was_worried


class EngineChild:
    """One run of the engine process and the pipe on which it reports."""

    def __init__(self) -> None:
        self.reports, engine_end = os.pipe()
        command = [
            sys.executable,
            "-m",
            "srb.engine.process",
            "--parent",
            str(os.getpid()),
            "--report",
            str(engine_end),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[engine_end])
        os.close(engine_end)
        self._unread = b""

    def read_reports(self) -> list[dict[str, str]] | None:
        """Return the reports that have arrived, none of them for mere signs of life; None when the engine has ended."""
        chunk = os.read(self.reports, 65536)
        if not chunk:
            return None
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        return [orjson.loads(line) for line in lines if line]

    def end(self, *tell: int) -> int:
        """Wait for the exit status, after sending these signals, and killing what does not leave in time."""
        for signum in tell:
            self._process.send_signal(signum)
        try:
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the engine does not end by itself and is killed")
            self._process.kill()
            self._process.wait()
        os.close(self.reports)
        return self._process.returncode


class Supervisor:
    """Runs engines one after another until it is told to stop or sees that no start can succeed."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._url = url  # where the web server listens, for the first screen; empty: do not show it
        self._wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        self._stopping = False
        self._restarts = 0
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._on_signal)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)  # a signal ends select() below

    def run(self) -> int:
        """Keep an engine alive; return the exit status."""
        make_runtime_dir(self._settings.runtime_path)
        backoff = Backoff()
        try:
            while not self._stopping:
                status, healthy_seconds = self._run_engine()
                if status in (EXIT_MODEL, EXIT_CONFIG):
                    self._wait(None)  # the reason is in status.json; a restart would find the same
                elif not self._stopping:
                    delay = backoff.after(healthy_seconds)
                    reason = f"the engine ended ({_describe(status)})"
                    log.error("%s; it is started again in %.1f s", reason, delay)
                    self._restarts += 1
                    self._say("restarting", reason)
                    self._wait(delay)
        finally:
            clean_up(self._settings.runtime_path)
        return 0

    def _run_engine(self) -> tuple[int, float]:
        """Run one engine to its end; return its exit status and for how many seconds it was ready."""
        child = EngineChild()
        watch = Watch(self._settings.stall_timeout)
        ready_at: float | None = None
        state = ""
        while not self._stopping and not watch.complaint:
            readable, _, _ = select.select([child.reports, self._wake], [], [], _TICK_SECONDS)
            if child.reports in readable:
                reports = child.read_reports()
                if reports is None:
                    break
                if watch.is_worried:
                    self._say(state)
                watch.heard(reports)
                for report in reports:
                    state = report["state"]
                    self._say(**report)
                    if state == "running":
                        ready_at = time.monotonic()
                        self._welcome()
            elif watch.tick():
                self._say("hung", "the engine gives no sign of life")
        return self._end(child, watch.complaint), time.monotonic() - ready_at if ready_at is not None else 0.0

    def _end(self, child: EngineChild, complaint: str) -> int:
        if self._stopping:
            remove_status(self._settings.runtime_path)  # before the next engine, which waits for our lock, has its own
            return child.end(signal.SIGTERM)
        if complaint:
            log.error("the engine hangs and is ended: %s", complaint)
            return child.end(signal.SIGABRT, signal.SIGCONT)  # a process that was stopped wakes up only to abort
        return child.end()

    def _say(self, state: str, message: str = "") -> None:
        write_status(self._settings.runtime_path, state, message, self._restarts)

    def _wait(self, seconds: float | None) -> None:
        """Wait for `seconds`, or for ever, or until told to stop."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._stopping:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            if select.select([self._wake], [], [], left)[0]:
                os.read(self._wake, 64)
        remove_status(self._settings.runtime_path)

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _welcome(self) -> None:
        if self._url:
            print(first_screen(self._url, self._settings), flush=True)
            self._url = ""


def _describe(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor."""
    parser = argparse.ArgumentParser(prog="python -m srb.engine.supervisor", description="Keeps an SRB engine alive.")
    parser.add_argument("--parent", type=int, help="pid of the web server; everything ends when it does")
    parser.add_argument("--url", default="", help="the web server's address, shown once the model is loaded")
    options = parser.parse_args(argv)
    ignore_reloads()
    try:
        settings = Settings.load()
        logs.configure(settings)
        supervisor = Supervisor(settings, options.url)
        if options.parent is not None:
            die_with_parent(options.parent)
        return supervisor.run()
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr, flush=True)
        return EXIT_CONFIG


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # between the interpreter's start and the signal handler
        sys.exit(main())
