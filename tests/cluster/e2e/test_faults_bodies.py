"""Bodies that native code must never see, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_faults_bodies

globals().update(suite(test_faults_bodies))
