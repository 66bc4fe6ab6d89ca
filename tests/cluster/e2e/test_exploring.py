"""Requests that fork by themselves, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_exploring

globals().update(suite(test_exploring))
