"""Of the suites of the srb and openai dialects the tests that hold for any model, over the replicas that all tests share."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.servers import Server

pytestmark = pytest.mark.timeout(300)

# Tests that know their model: its name, vocabulary, context, what it can do, or the limit of branches that goes with it.
OF_A_MODEL = {
    "test_eight_choices_and_their_usage_summed",
    "test_models_lists_the_one_that_answers",
    "test_a_bad_value_is_a_bad_request_error_that_names_it",
    "test_a_prompt_beyond_the_context_is_a_bad_request_error_with_both_numbers",
    "test_what_the_engine_refuses_is_a_bad_request_error_that_names_it",
    "test_prompt_tokens_are_evaluated_once_whatever_n_is",
    "test_what_has_been_computed_is_not_computed_again",
    "test_a_suffix_is_led_up_to_by_a_model_that_can",
}

TESTS = suite()
assert TESTS.keys() >= OF_A_MODEL
globals().update({name: test for name, test in TESTS.items() if name not in OF_A_MODEL})


@pytest.fixture
def tiny(web: Server) -> Server:
    return web


@pytest.fixture
def storyteller(web: Server) -> Server:
    return web
