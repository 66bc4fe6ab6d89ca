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
CHANGES_ALL = re.compile(r"globalThis|mock\.timers|(?<![\w.])(before|after)(Each)?\(")  # what files share
IMPORT_ALL = "for (const file of process.argv.slice(1)) await import(file);"


def node_version() -> tuple[int, ...]:
    """Return Node's version; nothing where it is not installed."""
    if shutil.which("node") is None:
        return ()
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)))


def test_the_pages_pure_modules_pass_their_tests() -> None:
    """Most files run in one process: to begin one for each takes longer than their tests do."""
    need(node_version() >= OLDEST, "Node 20.19 or newer")
    alone = [file for file in TESTS if CHANGES_ALL.search(file.read_text())]
    together = [file for file in TESTS if file not in alone]
    assert len(together) > len(alone) > 0
    for command in (["--input-type=module", "-e", IMPORT_ALL, "--", *together], ["--test", *alone]):
        run = subprocess.run(["node", *command], cwd=ROOT, capture_output=True, text=True, timeout=5 * DEADLINE)
        assert run.returncode == 0, run.stdout + run.stderr
