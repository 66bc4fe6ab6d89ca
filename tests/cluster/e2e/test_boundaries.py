"""Texts that end at a boundary, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_boundaries

globals().update(suite(test_boundaries))
