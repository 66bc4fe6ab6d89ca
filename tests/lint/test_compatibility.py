"""docs/compatibility.md is complete: nothing of llama-server's is left out, and nothing is made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srb.cli.flags import FLAGS
from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.sampling import BranchBody
from srb.web.bodies.unread import field_names
from srb.web.openapi import body_models
from tools import compatibility

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
THERE = {"same", "different", "no effect"}
STATES = THERE | {"not yet", "no"}
OF_COMPLETIONS, OF_OTHERS = "Fields of completions and chats", "Fields of other endpoints"
PARSED_BY_HAND = {"id", "scale"}  # /lora-adapters takes a list
ADDITIONS = re.compile(  # routes of ours and of other servers than llama-server: docs/api.md has them
    r"/(v1/srb|api|page|v1/internal)/|/v1/token|/v2/rerank|/v1/model(/list)?$|(/v1)?/models/<name>|/stream$|/openapi.json|/livez"
)

# All that llama-server's request schema has (tools/server/server-schema.cpp at 0c1e570), and what its routes read besides.
LLAMA_SERVER = re.findall(
    r"\S+",
    """
    prompt verbose timings_per_token stream stream_options cache_prompt return_tokens return_progress
    sse_ping_interval n_predict max_completion_tokens max_tokens n_indent n_keep n_discard n_cmpl n
    n_cache_reuse t_max_predict_ms response_fields top_k top_p min_p top_n_sigma xtc_probability xtc_threshold
    typical_p temperature dynatemp_range dynatemp_exponent repeat_last_n repeat_penalty frequency_penalty
    presence_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n mirostat mirostat_tau
    mirostat_eta adaptive_target adaptive_decay seed n_probs logprobs min_keep backend_sampling
    post_sampling_probs speculative.n_max speculative.n_min speculative.p_min speculative.type lora
    dry_sequence_breakers json_schema grammar grammar_lazy grammar_type chat_format reasoning_format
    generation_prompt parse_tool_calls chat_parser continue_final_message echo preserved_tokens
    grammar_triggers reasoning_control reasoning_budget_tokens reasoning_budget_start_tag
    reasoning_budget_end_tags reasoning_budget_end_tag reasoning_budget_message message_delimiters logit_bias
    ignore_eos stop samplers id_slot messages tools tool_choice parallel_tool_calls response_format
    chat_template_kwargs reasoning_effort thinking_budget_tokens add_generation_prompt top_logprobs model
    documents input_prefix input_suffix input_extra
    """,
)
LLAMA_SERVER_ELSEWHERE = re.findall(
    r"\S+",
    """
    content add_special parse_special with_pieces tokens input encoding_format embd_normalize query documents
    texts top_n return_text filename id scale model
    """,
)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def states(heading: str) -> dict[str, str]:
    """Return the state of each name in a table of fields."""
    found: dict[str, str] = {}
    for names, state, _ in rows(heading):
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in found, f"{name} is listed twice"
            found[name] = state
    return found


def known(of_completions: bool) -> set[str]:
    """Return every name of a field that the bodies of completions, or those of other routes, know."""
    models = body_models(create_app(Settings()))
    names = set() if of_completions else set(PARSED_BY_HAND)
    for model in models:
        if (issubclass(model, CompletionBody) or model.__name__ in ("InfillBody", "StreamBody")) == of_completions:
            names |= {name for names in field_names(model).values() for name in names}
    if not of_completions:  # branches that are added have the fields of an entry of `branches`
        kept = {"max_tokens", "stop", "stop_at", "stop_after"}  # also of the route that changes a branch
        names -= {name for names in field_names(BranchBody).values() for name in names} - kept
    return names


@pytest.mark.parametrize("heading", ["Endpoints", OF_COMPLETIONS, OF_OTHERS])
def test_states_are_the_ones_that_are_explained_and_what_differs_says_how(heading: str) -> None:
    assert rows(heading)
    for *names, state, note in rows(heading):
        assert state in STATES, names
        assert note or state in ("same", "not yet"), names


def test_every_route_that_is_no_addition_is_listed_and_no_other_is_claimed() -> None:
    listed = {(method, path.strip("`")): state for method, path, state, _ in rows("Endpoints")}
    routes = {
        (method, rule.rule.replace("<path:", "<"))
        for rule in create_app(Settings()).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    claimed = {route for route, state in listed.items() if state in THERE}
    assert claimed == {(method, path) for method, path in routes if not ADDITIONS.match(path)}


@pytest.mark.parametrize(("heading", "of_completions"), [(OF_COMPLETIONS, True), (OF_OTHERS, False)])
def test_no_field_is_claimed_that_the_schemas_do_not_know(heading: str, of_completions: bool) -> None:
    claimed = {name for name, state in states(heading).items() if state in THERE}
    assert claimed <= known(of_completions)


@pytest.mark.parametrize(("heading", "theirs"), [(OF_COMPLETIONS, LLAMA_SERVER), (OF_OTHERS, LLAMA_SERVER_ELSEWHERE)])
def test_every_field_of_llama_server_is_listed(heading: str, theirs: list[str]) -> None:
    assert set(theirs) - set(states(heading)) == set()


def test_the_options_are_those_of_the_command_line() -> None:
    assert compatibility.render() in PAGE.read_text(), "run: python -m tools.generated"


def test_what_an_option_is_said_to_set_is_a_setting() -> None:
    for flag in FLAGS:
        assert flag.why or flag.sets in Settings.model_fields or flag.sets in compatibility.BEFORE_START, flag.names
