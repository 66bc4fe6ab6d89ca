"""The examples of the servers whose clients this one serves, over a cluster."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.cluster.e2e.conftest import Machines
from tests.e2e import test_seeds
from tests.servers import Server

globals().update(suite(test_seeds))


@pytest.fixture
def everything(machines: Machines) -> Server:
    return machines.share(
        "everything", model="storyteller", embedding=True, pooling="mean", threads=1, default_max_tokens=200
    )
