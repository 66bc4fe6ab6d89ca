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
from srb.engine.lifeline import die_with_parent
from srb.engine.runtime import EXIT_CONFIG, EXIT_MODEL, clean_up, make_runtime_dir, remove_status, write_status
from srb.errors import ConfigError
from srb.settings import Settings
from srb.welcome import first_screen

log = logging.getLogger("srb.supervisor")

_FIRST_DELAY = 0.1  # seconds before the first restart; doubles each time
_LONGEST_DELAY = 10.0
_HEALTHY_SECONDS = 30.0  # an engine that was ready this long starts the doubling anew
_KILL_SECONDS = 5.0  # from SIGTERM to SIGKILL; the engine's own deadline is earlier


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
        """Return the reports that have arrived; None when the engine has closed its end, that is, ended."""
        chunk = os.read(self.reports, 65536)
        if not chunk:
            return None
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        return [orjson.loads(line) for line in lines]

    def end(self, *, asked: bool) -> int:
        """Wait for the exit status, killing what does not leave in time; `asked` says it has to be told first."""
        if asked:
            self._process.terminate()
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
                    write_status(self._settings.runtime_path, "restarting", reason)
                    self._wait(delay)
        finally:
            clean_up(self._settings.runtime_path)
        return 0

    def _run_engine(self) -> tuple[int, float]:
        """Run one engine to its end; return its exit status and for how many seconds it was ready."""
        child = EngineChild()
        ready_at: float | None = None
        while not self._stopping:
            readable, _, _ = select.select([child.reports, self._wake], [], [])
            if child.reports in readable:
                reports = child.read_reports()
                if reports is None:
                    break
                for report in reports:
                    write_status(self._settings.runtime_path, **report)
                    if report["state"] == "running":
                        ready_at = time.monotonic()
                        self._welcome()
        if self._stopping:
            remove_status(self._settings.runtime_path)  # before the next engine, which waits for our lock, has its own
        status = child.end(asked=self._stopping)
        return status, time.monotonic() - ready_at if ready_at is not None else 0.0

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
    try:
        settings = Settings.load()
        logs.configure(settings.log_level)
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
