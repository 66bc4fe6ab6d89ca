"""Responses and Messages, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_responses_and_messages

globals().update(suite(test_responses_and_messages))
