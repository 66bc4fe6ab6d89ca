"""What tests of one process leave behind for those that follow in it: nothing but what each of them would make alike."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srb.extensions import forget
from srb.web import request_log
from srb.web.chat.families import families


@pytest.fixture(autouse=True)
def own_refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count a test's requests without a key apart: a second later a line tells of them, which another test would read."""
    refusals = request_log._Refusals()
    monkeypatch.setattr(request_log, "_refusals", refusals)
    yield
    refusals._more = None


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)  # which invalidates what was found in folders
    for clear in (forget, families.cache_clear):
        clear()
    yield tmp_path
    for clear in (forget, families.cache_clear):
        clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)
