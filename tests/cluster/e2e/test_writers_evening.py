"""A long evening of one writer, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_writers_evening

globals().update(suite(test_writers_evening))
