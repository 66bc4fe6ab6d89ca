"""Requests of front ends and libraries, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_front_ends

globals().update(suite(test_front_ends))
