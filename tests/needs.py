"""Programs that tests need and that a machine may lack; cases that need much time."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest


def need(there: object, what: str) -> None:
    """Skip the test unless `there` is true; in CI, which installs everything, fail it."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")


def chromium() -> str | None:
    """Return the path of Chromium, without windows of its own where it is there: those take three times the work."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def long(*values: Any) -> list[Any]:
    """Return parameters of cases that are left to `make test-long`: they take long, and say little that another does not.

    A case of several parameters is a tuple.
    """
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long) for value in values
    ]
