"""The supervisor: starts the engine, watches it, and starts it again. Imports neither llama_cpp nor gevent.

gunicorn's arbiter starts `python -m srb.process.supervisor`, or `srb.models.supervisor` for several models, and it ends
with the arbiter. It is a process of its own because the arbiter's waitpid(-1) takes the exit status of any of its children.
"""

import argparse
import contextlib
import logging
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from srb import logs
from srb.backoff import Backoff
from srb.config.settings import Settings
from srb.errors import ConfigError, MachineError
from srb.exit_codes import EXIT_CONFIG, EXIT_MACHINE, EXIT_MODEL
from srb.process.child import exit_now, exit_with_parent, ignore_reloads
from srb.process.engine_child import BRIDGE, ENGINE, TICK_SECONDS, EngineChild, HeartbeatMonitor, describe
from srb.process.runtime_folder import EngineLock, clean_up, take_folder
from srb.status import remove_status, rewrite_status, write_status
from srb.version import version
from srb.welcome import print_first_screen

log = logging.getLogger("srb.supervisor")

_LOCK_NAME = "server.lock"
_MAX_CRASHES = 3  # of native code while a model loads, in a row: once may be memory, thrice is the file
_CRASHES = tuple(-signum for signum in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))


class Supervisor:
    """One engine after another, until stopped; after an error that a restart cannot mend, it only waits."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._url = url  # the web server's address, for the first screen; empty: do not print it
        self._wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        self._stopping = False
        self._restarts = 0
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._on_signal)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)  # ends select() below

    def run(self) -> int:
        """Keep an engine alive; return the exit status."""
        lock = EngineLock(self._settings.runtime_path, _LOCK_NAME, _LOCK_NAME)
        if not take_folder(lock, self._settings, self._goes_on):
            return 0
        backoff, crashes = Backoff(), 0
        try:
            while not self._stopping:
                try:
                    child = EngineChild(BRIDGE if self._settings.has_replicas else ENGINE)
                except OSError as error:  # no process, memory or descriptor is left, which passes
                    self._restart_after(backoff.after(0.0), f"the engine cannot be started: {error.strerror or error}")
                    continue
                status, healthy_seconds = self._watch(child)
                crashes = crashes + 1 if status in _CRASHES and not healthy_seconds else 0
                if crashes == _MAX_CRASHES:
                    what = "no engine can run here" if status == -signal.SIGILL else "the model cannot be loaded"
                    self._give_up(f"{what}: {crashes} ended while it was loaded ({describe(status)})")
                elif status in (EXIT_MODEL, EXIT_CONFIG):
                    log.error("the engine is not started again; the server says why in /health until you stop it")
                    self._wait(None)
                elif not self._stopping:
                    self._restart_after(backoff.after(healthy_seconds), f"the engine exited ({describe(status)})")
        finally:
            lock.release()
            clean_up(self._settings.runtime_path)
        return 0

    def _goes_on(self) -> bool:
        """Wait a moment for another supervisor; return whether this one was not stopped."""
        select.select([self._wake], [], [], TICK_SECONDS)
        return not self._stopping

    def _watch(self, child: EngineChild) -> tuple[int, float]:
        """Watch one engine until it ends; return its exit status, and the seconds for which it was ready."""
        monitor = HeartbeatMonitor(self._settings.stall_timeout)
        ready_at: float | None = None
        last: dict[str, Any] = {"state": "starting"}  # report
        while not self._stopping and not monitor.abort_reason:
            readable, _, _ = select.select([child.reports, self._wake], [], [], TICK_SECONDS)
            rewrite_status(self._settings.runtime_path)
            if child.reports in readable:
                reports = child.read_reports()
                if reports is None:
                    break
                if monitor.is_stale:
                    self._write_status(**last)
                monitor.note_reports(reports)
                for last in reports:
                    self._write_status(**last)
                    if last["state"] == "running" and ready_at is None:
                        ready_at = time.monotonic()
                        self._welcome()
            elif monitor.tick():
                self._write_status("hung", "the engine sends no heartbeat")
        return self._end(child, monitor.abort_reason), time.monotonic() - ready_at if ready_at is not None else 0.0

    def _end(self, child: EngineChild, abort_reason: str) -> int:
        was_stopping = self._stopping
        if was_stopping:
            remove_status(self._settings.runtime_path)  # before the next engine writes its own
            return child.end(signal.SIGTERM, more_seconds=self._settings.state_seconds)
        if abort_reason:
            log.error("the engine hangs and is aborted: %s", abort_reason)
            status = child.end(signal.SIGABRT, signal.SIGCONT)  # a stopped process takes the first with the second
        else:
            status = child.end()
        if self._stopping:  # it was stopped meanwhile
            remove_status(self._settings.runtime_path)
        return status

    def _write_status(self, state: str, message: str = "", percent: int | None = None) -> None:
        write_status(self._settings.runtime_path, state, message, self._restarts, percent=percent)

    def _restart_after(self, delay: float, reason: str) -> None:
        """Say why there is no engine, and wait until the next one may start."""
        log.error("%s; restarting in %.1f s", reason, delay)
        self._restarts += 1
        self._write_status("restarting", reason)
        self._wait(delay)

    def _give_up(self, reason: str) -> None:
        """Wait until stopped: another start would end as the last ones did."""
        log.error("%s", reason)
        self._write_status("failed", reason)
        self._wait(None)

    def _wait(self, seconds: float | None) -> None:
        """Wait for `seconds`, or for ever if None, or until stopped."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._stopping:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            tick = TICK_SECONDS if left is None else min(left, TICK_SECONDS)
            if select.select([self._wake], [], [], tick)[0]:
                os.read(self._wake, 64)
            rewrite_status(self._settings.runtime_path)
        remove_status(self._settings.runtime_path)

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _welcome(self) -> None:
        if self._url:
            print_first_screen(self._url, self._settings)
            self._url = ""


class Supervising(Protocol):
    """A supervisor: of one engine, or of several models' engines."""

    def run(self) -> int: ...


def supervise(make: Callable[[Settings, str], Supervising], argv: list[str] | None) -> int:
    """Run the supervisor that `make` makes of the settings and the server's address; return the exit status."""
    parser = argparse.ArgumentParser(description="Start the engine of an SRB server, and restart it when it ends.")
    parser.add_argument("--parent", type=int, help="pid of the web server; supervisor and engine exit when it does")
    parser.add_argument("--url", default="", help="address of the web server, printed when the model is loaded")
    parser.add_argument("--temporary", action="store_true", help="remove the runtime folder at the end")
    options = parser.parse_args(argv)
    ignore_reloads()
    try:
        settings = Settings.load()
        logs.configure(settings)
        log.info("SRB %s", version())
        try:
            supervisor = make(settings, options.url)
        except OSError as error:
            raise MachineError(f"the supervisor cannot be started: {error.strerror}") from None
        if options.parent is not None:
            exit_with_parent(options.parent)
        status = supervisor.run()
        if options.temporary:
            shutil.rmtree(settings.runtime_path, ignore_errors=True)
        return status
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr, flush=True)
        return EXIT_MACHINE if isinstance(error, MachineError) else EXIT_CONFIG


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor of one engine; return the exit status."""
    return supervise(Supervisor, argv)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C before the signal handler is installed
        exit_now(main())
