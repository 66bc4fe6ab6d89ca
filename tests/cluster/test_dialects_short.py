"""Of the suites of the srb and openai dialects the tests that hold for any model, over the replicas that all tests share."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.servers import Server

pytestmark = pytest.mark.timeout(300)

globals().update(suite())


@pytest.fixture
def tiny(web: Server) -> Server:
    return web


@pytest.fixture
def storyteller(web: Server) -> Server:
    return web
