"""OpenAI's client, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_openai_clients

LEFT_OUT = {
    "test_a_full_queue_is_a_rate_limit_error",  # another replica has room; tests/unit/test_cluster_relay.py fills all
}

globals().update(suite(test_openai_clients, LEFT_OUT))
