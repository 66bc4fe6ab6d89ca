"""What tests of one process leave behind for those that follow in it: nothing."""

from collections.abc import Iterator

import pytest

from srb.web import request_log


@pytest.fixture(autouse=True)
def own_refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count a test's requests without a key apart: a second later a line tells of them, which another test would read."""
    refusals = request_log._Refusals()
    monkeypatch.setattr(request_log, "_refusals", refusals)
    yield
    refusals._more = None
