"""The tests of the page's pure modules, run by Node: tests/page/unit/*.test.js."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.needs import need
from tests.processes import DEADLINE, ROOT

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(6 * DEADLINE)]

TESTS = sorted((ROOT / "tests" / "page" / "unit").glob("*.test.js"))
OLDEST = (20, 19)  # reads .js files as modules


def node_version() -> tuple[int, ...]:
    """Return Node's version; nothing where it is not installed."""
    if shutil.which("node") is None:
        return ()
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)))


def test_the_pages_pure_modules_pass_their_tests() -> None:
    need(node_version() >= OLDEST, "Node 20.19 or newer")
    assert TESTS
    run = subprocess.run(["node", "--test", *TESTS], cwd=ROOT, capture_output=True, text=True, timeout=5 * DEADLINE)
    assert run.returncode == 0, run.stdout + run.stderr
