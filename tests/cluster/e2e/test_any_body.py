"""Bodies made from /openapi.json, over a cluster."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.e2e import test_any_body
from tests.servers import Server

globals().update(suite(test_any_body))


@pytest.fixture
def own(storyteller: Server) -> Server:
    return storyteller
