"""Branches that spread, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_diversity

globals().update(suite(test_diversity))
