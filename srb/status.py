"""status.json in the runtime folder: the engine's state, for processes that cannot reach it."""

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Any

import orjson

from srb.atomic import write_atomically

BEAT_SECONDS = 0.5  # between two heartbeats
STALE_SECONDS = 3.0  # seconds without a heartbeat before /health reports the engine as hung
LOADING = "the model is being loaded"  # the message while nothing but that is waited for
_NAME = "status.json"
_unwritten: dict[Path, dict[str, Any]] = {}  # by runtime folder, the status that could not be written

log = logging.getLogger("srb.status")


def write_status(
    runtime_path: Path,
    state: str,
    message: str = "",
    restarts: int = 0,
    *,
    percent: int | None = None,
    is_touched: bool = False,
) -> None:
    """Write the engine's state (starting, running, hung, restarting, failed); atomic.

    `percent` is the part of the model that is loaded, while it starts. `is_touched` promises `touch_status` every
    BEAT_SECONDS. Set by an engine without a supervisor: if its file gets old, the engine has stopped.

    Without room on the disk there is none until `rewrite_status` finds some, since an old state would be believed; the log
    says so once.
    """
    status = {"state": state, "message": message, "restarts": restarts, "percent": percent, "is_touched": is_touched}
    _write(runtime_path, status)


def rewrite_status(runtime_path: Path) -> None:
    """Try again to write a status for which there was no room; whoever writes it calls this every second or so."""
    if status := _unwritten.get(runtime_path):
        _write(runtime_path, status)


def _write(runtime_path: Path, status: dict[str, Any]) -> None:
    path = runtime_path / _NAME
    try:
        write_atomically(path, orjson.dumps(status))
        _unwritten.pop(runtime_path, None)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if runtime_path not in _unwritten:
            log.warning("cannot write the state of the engine, %s: %s: %s", status["state"], path, error.strerror)
        _unwritten[runtime_path] = status


def touch_status(runtime_path: Path) -> None:
    """Confirm that status.json is still true, by its modification time."""
    rewrite_status(runtime_path)
    with contextlib.suppress(OSError):  # it is missing, or the disk takes no change
        os.utime(runtime_path / _NAME)


def read_status(runtime_path: Path, *, is_connected: bool) -> dict[str, Any]:
    """Return the latest state, message, restarts and percent; "", "", 0 and None if there are none.

    `is_silent` says that a running engine should have touched the file and has not. It is reported as `hung` if we are
    connected to it; otherwise it may be gone.
    """
    path = runtime_path / _NAME
    try:
        status, silence = orjson.loads(path.read_bytes()), time.time() - path.stat().st_mtime
        state, message = status["state"], status["message"]
        is_silent = state == "running" and bool(status.get("is_touched")) and silence > STALE_SECONDS
        if is_connected and is_silent:
            state, message = "hung", f"no heartbeat for more than {STALE_SECONDS:.0f} s"
        return {
            "state": state,
            "message": message,
            "restarts": status.get("restarts", 0),
            "percent": status.get("percent"),
            "is_silent": is_silent,
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {"state": "", "message": "", "restarts": 0, "percent": None, "is_silent": False}


def remove_status(runtime_path: Path) -> None:
    """Remove status.json; may be called again. On a disk that takes no change it stays, which the log says."""
    _unwritten.pop(runtime_path, None)
    path = runtime_path / _NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        if path.exists():  # a disk that can only be read refuses before it looks
            log.warning("cannot remove the state of the engine: %s: %s", path, error.strerror)
