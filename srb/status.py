"""status.json in the runtime folder: how the engine is, for whoever cannot reach it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import orjson

BEAT_SECONDS = 0.5  # between two signs of life of an engine that gets on
WORRY_SECONDS = 3.0  # without one, after which an engine counts as hung, though it may yet come round
_NAME = "status.json"


def write_status(
    runtime_path: Path, state: str, message: str = "", restarts: int = 0, *, is_touched: bool = False
) -> None:
    """Say how the engine is (starting, running, hung, restarting, failed); atomic.

    `is_touched` promises `touch_status` every BEAT_SECONDS: nobody but the engine itself keeps the file, so one that
    grows old tells of an engine that was stopped.
    """
    path = runtime_path / _NAME
    scratch = path.with_suffix(f".{os.getpid()}")
    status = {"state": state, "message": message, "restarts": restarts, "is_touched": is_touched}
    scratch.write_bytes(orjson.dumps(status))
    scratch.replace(path)


def touch_status(runtime_path: Path) -> None:
    """Say that what status.json says still holds."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(runtime_path / _NAME)


def read_status(runtime_path: Path, *, is_connected: bool) -> dict[str, Any]:
    """Return what `write_status` wrote last: state, message and restarts; "" and 0 where nobody has written yet.

    A running engine that should have touched the file and has not is `hung`, if we are connected to it: else it died.
    """
    path = runtime_path / _NAME
    try:
        status, silence = orjson.loads(path.read_bytes()), time.time() - path.stat().st_mtime
        state, message = status["state"], status["message"]
        if is_connected and state == "running" and status.get("is_touched") and silence > WORRY_SECONDS:
            state, message = "hung", "it has given no sign of life for some seconds"
        return {"state": state, "message": message, "restarts": status.get("restarts", 0)}
    except (OSError, ValueError, TypeError, KeyError):
        return {"state": "", "message": "", "restarts": 0}


def remove_status(runtime_path: Path) -> None:
    """Remove status.json; may be called again."""
    (runtime_path / _NAME).unlink(missing_ok=True)
