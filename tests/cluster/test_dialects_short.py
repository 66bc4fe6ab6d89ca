"""Of the suites of the srb and openai dialects the tests that hold for any model, over the replicas that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster
from tests.cluster.dialects import suite
from tests.e2e import test_controls, test_openai_clients, test_srb_dialect
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.timeout(300)

# Tests that know their model (its name, vocabulary, context, what it can do, or the limit of branches that goes with it), or
# that need a server of their own.
LEFT_OUT = {
    test_srb_dialect: (
        "test_prompt_tokens_are_evaluated_once_whatever_n_is",
        "test_what_has_been_computed_is_not_computed_again",
        "test_more_branches_than_sequences_run_in_waves_on_a_model_of_ones_own",
    ),
    test_openai_clients: (
        "test_eight_choices_and_their_usage_summed",
        "test_models_lists_the_one_that_answers",
        "test_a_bad_value_is_a_bad_request_error_that_names_it",
        "test_a_prompt_beyond_the_context_is_a_bad_request_error_with_both_numbers",
        "test_what_the_engine_refuses_is_a_bad_request_error_that_names_it",
        "test_a_suffix_is_led_up_to_by_a_model_that_can",
        "test_a_wrong_key_is_an_authentication_error",
        "test_a_full_queue_is_a_rate_limit_error",
        "test_a_server_without_its_engine_is_an_internal_server_error",
        "test_quadratic_sampling_changes_texts_and_repeats_them",  # the fake model has no chain of samplers
    ),
}
for module, names in LEFT_OUT.items():
    globals().update(suite(module, names))

# Of the controls those that need no model which writes fast.
test_row_45_a_request_without_readers_ends_when_it_has_lingered = (
    test_controls.test_row_45_a_request_without_readers_ends_when_it_has_lingered
)
test_another_keys_request_is_not_found_and_not_listed = (
    test_controls.test_another_keys_request_is_not_found_and_not_listed
)


@pytest.fixture
def tiny(web: Server) -> Server:
    return web


@pytest.fixture
def storyteller(web: Server) -> Server:
    return web


@pytest.fixture
def pair(web: Server) -> Server:
    return web


@pytest.fixture
def paced(web: Server) -> Server:
    return web


@pytest.fixture
def make_server(cluster: Cluster, tmp_path: Path) -> Iterator[MakeServer]:
    """Make a server with settings of a test's own over the shared replicas; it is ended after the test."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(cluster.server(tmp_path, **settings))
