"""The short form of `python -m tests.soak`: random load with an engine that is killed, and requests that make no sense."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.needs import long
from tests.processes import DEADLINE
from tests.servers import MakeServer
from tests.soak.runs import SETTINGS, fuzz, soak

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(10 * DEADLINE)]

SECONDS = float(os.environ.get("SRB_TEST_SOAK_SECONDS", "28"))
REQUESTS = int(os.environ.get("SRB_TEST_FUZZ", "300"))


@pytest.mark.parametrize("requests", [REQUESTS, *long(10 * REQUESTS)])
def test_row_37_no_request_is_an_internal_error_or_ends_the_engine(
    make_server: MakeServer, tmp_path: Path, requests: int
) -> None:
    server = make_server(**SETTINGS, model="storyteller", workers=2, state_dir=tmp_path).start()
    report = fuzz(server, requests, clients=8, seed=1)
    assert not report.problems, report.text()


@pytest.mark.parametrize("seconds", [SECONDS, *long(7 * SECONDS)])
def test_row_38_under_load_with_kills_nothing_leaks_and_every_request_ends_once(
    make_server: MakeServer, seconds: float
) -> None:
    server = make_server(**SETTINGS, model="storyteller", workers=2).start()
    report = soak(server, seconds, kill_every=seconds / 4, clients=12, seed=1)
    print(report.text())
    assert not report.problems, report.text()
