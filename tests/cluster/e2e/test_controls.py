"""Running requests that are steered, over a cluster."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.cluster.e2e.conftest import Machines
from tests.e2e import test_controls
from tests.servers import Server

LEFT_OUT = {
    "test_each_reader_gets_one_error_when_the_engine_dies",  # a bridge dies, and the replica keeps what lingers
}

globals().update(suite(test_controls, LEFT_OUT))


@pytest.fixture
def pair(machines: Machines) -> Server:
    return machines.share("pair", workers=2)
