"""OpenAI's package for Node, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_node_client

globals().update(suite(test_node_client))
