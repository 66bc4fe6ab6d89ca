"""Bodies that native code must never see, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_faults_bodies

# It counts the steps of one engine, which the stream and the other branches share.
ONE_ENGINES = ["test_row_10_a_stream_gets_a_token_in_every_step_beside_64_branches_with_costly_grammars"]

globals().update(suite(test_faults_bodies, ONE_ENGINES))
