"""Requests that people get wrong, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_bad_input

globals().update(suite(test_bad_input))
