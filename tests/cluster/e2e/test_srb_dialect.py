"""The srb dialect, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_srb_dialect

LEFT_OUT = {
    "test_more_branches_than_sequences_run_in_waves_on_a_model_of_ones_own",  # other replicas help
}

globals().update(suite(test_srb_dialect, LEFT_OUT))
