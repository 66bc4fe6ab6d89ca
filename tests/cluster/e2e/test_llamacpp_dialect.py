"""The llamacpp dialect, over a cluster."""

from __future__ import annotations

from tests.cluster.dialects import suite
from tests.e2e import test_llamacpp_dialect

LEFT_OUT = {
    "test_the_number_of_computing_threads_is_a_metric",  # metrics are sums over all replicas
    "test_a_slots_text_outlives_the_server_under_the_name_of_a_file",  # without id_slot the text decides, not the slot
    "test_each_conversation_is_saved_from_the_slot_that_it_asked_for",  # each replica numbers its own slots
    "test_a_limit_of_requests_is_told_and_kept",  # `parallel` is a limit of each replica
    "test_a_server_says_that_it_is_full_while_a_request_would_wait",  # one request fills one replica
}

globals().update(suite(test_llamacpp_dialect, LEFT_OUT))
