"""Large answers, and clients that leave, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_faults_calls

globals().update(suite(test_faults_calls))
