"""The loop in Firefox: load, continue, take, write, undo, reload.

It runs where Firefox (firefox-esr of Debian) and puppeteer-core are installed, the latter below build/firefox:
`npm install --prefix build/firefox puppeteer-core@25.16.0`. The variable FIREFOX_PACKAGES names another folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.servers import Server

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
PACKAGES = Path(os.environ.get("FIREFOX_PACKAGES", ROOT / "build" / "firefox"))
IS_THERE = FIREFOX is not None and (PACKAGES / "node_modules" / "puppeteer-core").is_dir()

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not IS_THERE, reason="needs Firefox and puppeteer-core")]


def test_the_loop_works_in_firefox(slow: Server) -> None:
    command = ["node", ROOT / "tools" / "page" / "firefox.mjs", PACKAGES, str(FIREFOX), slow.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
