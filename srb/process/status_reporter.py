"""Reports of the engine's state, to the supervisor, or to systemd and status.json.

The states are those of status.json (starting, running, hung, failed) and `stopping`. `percent` is the part of the model
that is loaded. A beat is one heartbeat.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Protocol

import orjson

from srb.host.systemd import notify, watchdog_seconds
from srb.status import remove_status, touch_status, write_status


class Reporter(Protocol):
    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None: ...
    def beat(self) -> None: ...


class ToSupervisor:
    """Reports as lines on the supervisor's pipe: JSON, or empty for a heartbeat. The supervisor writes status.json."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        self._write(orjson.dumps({"state": state, "message": message, "percent": percent}) + b"\n")

    def beat(self) -> None:
        self._write(b"\n")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the supervisor is gone, and its death has its own signal
            os.write(self._fd, line)


class ToSystemd:
    """Reports of an engine without a supervisor: status.json for the web server, and sd_notify for systemd."""

    def __init__(self, runtime_path: Path) -> None:
        self._runtime_path = runtime_path
        self._watchdog = watchdog_seconds()
        self._next_beat = 0.0

    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        if state == "stopping":
            remove_status(self._runtime_path)
            notify("STOPPING=1")
            return
        write_status(self._runtime_path, state, message, percent=percent, is_touched=state == "running")
        act = {"running": ["READY=1"], "hung": ["WATCHDOG=trigger"]}.get(state, [])
        notify(*act, f"STATUS={message or state}")

    def beat(self) -> None:
        """Touch status.json, and notify systemd's watchdog three times in its period."""
        touch_status(self._runtime_path)
        if self._watchdog is not None and (now := time.monotonic()) >= self._next_beat:
            self._next_beat = now + self._watchdog / 3
            notify("WATCHDOG=1")
