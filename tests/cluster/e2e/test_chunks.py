"""Chunks of streamed answers, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_chunks

globals().update(suite(test_chunks))
