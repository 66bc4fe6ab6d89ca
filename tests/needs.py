"""Programs that tests need and that a machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest


def need(there: object, what: str) -> None:
    """Skip the test unless `there` is true; in CI, which installs everything, fail it."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")


def chromium() -> str | None:
    """Return the path of Chromium, without windows of its own where it is there: those take three times the work."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")
