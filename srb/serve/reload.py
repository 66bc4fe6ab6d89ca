"""A reload from outside, as systemd's units ask for it: `python -P -m srb.serve.reload PID` returns when it is in force.

PID is gunicorn's master. It leaves the outcome of each reload in a folder that both know, with the time when it began to
read the settings: a reload that began before this command was called may have read others.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import orjson

from srb.atomic import write_atomically
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.exit_codes import EXIT_CONFIG, EXIT_FAILED, fail
from srb.serve.engine_environ import runtime_path_of

_NAME = "reload.json"
_LOOK_SECONDS = 0.05


def outcome_folder(settings: Settings) -> Path:
    """Return the folder: the runtime folder, or the unit's own if it has one, since the engine's may be another unit's.

    systemd lets a unit write in no other.
    """
    own = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return Path(own) if own else runtime_path_of(settings)


def write_outcome(folder: Path, began: float, error: str) -> None:
    """Note that a reload which began then, on time.monotonic()'s clock, is in force, or why it is not. Raise OSError."""
    write_atomically(folder / _NAME, orjson.dumps([began, error]))


def remove_outcome(folder: Path) -> None:
    (folder / _NAME).unlink(missing_ok=True)


def main(arguments: list[str]) -> NoReturn:
    """Reload the server whose process is named, wait, and end with status 0, or say why it goes on as it was."""
    if len(arguments) != 1 or not arguments[0].isdecimal():
        fail("usage: python -P -m srb.serve.reload PID")
    pid, asked = int(arguments[0]), time.monotonic()
    try:
        folder = outcome_folder(Settings.load())
        os.kill(pid, signal.SIGHUP)
        while folder.is_dir():
            began, error = _outcome(folder)
            if began >= asked:
                sys.exit(0) if not error else fail(f"not reloaded: {error}", EXIT_CONFIG)
            os.kill(pid, 0)
            time.sleep(_LOOK_SECONDS)
    except ConfigError as error:
        fail(f"not reloaded: {error.message}")
    except OSError as error:
        fail(f"process {pid}: {error.strerror}", EXIT_FAILED)
    fail(f"{folder} is missing; the server's log says whether it reloads", EXIT_FAILED)


def _outcome(folder: Path) -> tuple[float, str]:
    try:
        began, error = orjson.loads((folder / _NAME).read_bytes())
    except FileNotFoundError:
        return 0.0, ""
    return began, error


if __name__ == "__main__":
    main(sys.argv[1:])
