"""The examples of the documentation, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_readme

globals().update(suite(test_readme))
