"""OpenAI's client in conversation, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_chat_clients

globals().update(suite(test_chat_clients))
