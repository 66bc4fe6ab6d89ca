"""Request bodies: what is understood, what is refused, and in which words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from srb.config.sampling_params import DEFAULT_SAMPLERS, SamplingParams
from srb.config.settings import Settings
from srb.engine.branch_specs import check_branches
from srb.errors import InvalidRequest
from srb.web.bodies.completion import CompletionBody
from srb.wire.commands import ContextShift, Explore, Generate

SETTINGS = Settings()
INT32 = 2**31 - 1


def commands(*, default_n: int = 1, default_max_tokens: int = -1, **body: Any) -> list[Generate]:
    given = {name: value for name, value in {"prompt": "Once", **body}.items() if value is not None}
    return CompletionBody.parse(given).commands(SETTINGS, n=default_n, max_tokens=default_max_tokens)


def sampling(**body: Any) -> SamplingParams:
    return commands(**body)[0].branches[0].sampling


def refusal(**body: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        commands(**body)
    return refused.value


def test_a_bare_prompt_gets_llama_cpps_defaults_and_the_dialects() -> None:
    (command,) = commands(default_n=8, default_max_tokens=128)
    assert command.prompt == ("Once",)
    assert len(command.branches) == 8
    assert {branch.max_tokens for branch in command.branches} == {128}
    assert command.branches[0].sampling == SamplingParams()
    assert command.branches[0].stop == ()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n", 0, "Field 'n': Value must be between 1 <= value <= 64, but got 0"),
        ("n", -1, "Field 'n': Value must be between 1 <= value <= 64, but got -1"),
        ("n", 65, "Field 'n': Value must be between 1 <= value <= 64, but got 65"),
        ("n", 1.5, "Field 'n': Input should be a valid integer, but got 1.5"),
        ("n", True, "Field 'n': Input should be a valid integer, but got true"),
        ("n", "3", "Field 'n': Input should be a valid integer, but got \"3\""),
        ("n", 1e30, "Field 'n': Input should be a valid integer, but got 1e+30"),
        ("n_cmpl", 0, "Field 'n': Value must be between 1 <= value <= 64, but got 0"),
        ("max_tokens", -2, f"Field 'max_tokens': Value must be between -1 <= value <= {INT32}, but got -2"),
        ("n_predict", 2**40, f"Field 'n_predict': Value must be between -1 <= value <= {INT32}, but got {2**40}"),
        ("repeat_last_n", -2, f"Field 'repeat_last_n': Value must be between -1 <= value <= {INT32}, but got -2"),
        ("dry_penalty_last_n", -2, "Field \'dry_penalty_last_n\': Value must be between -1 <= value"),
        ("n_discard", -1, f"Field 'n_discard': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("n_keep", -2, f"Field 'n_keep': Value must be between -1 <= value <= {INT32}, but got -2"),
        ("min_keep", -1, f"Field 'min_keep': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("adaptive_decay", 1.0, "Field 'adaptive_decay': Value must be between 0 <= value <= 0.99, but got 1.0"),
        ("seed", -(2**63) - 1, f"Field 'seed': Value must be between {-(2**63)} <= value <= {2**64 - 1}"),
        ("seed", 2**64, f"Field 'seed': Value must be between {-(2**63)} <= value <= {2**64 - 1}"),
        ("seed", 1.5, "Field 'seed': Input should be a valid integer, but got 1.5"),
        ("repeat_penalty", 0, "Field 'repeat_penalty': must be more than 0, but got 0.0"),
        ("sampler_seed", 2**64, f"Field 'sampler_seed': Value must be between {-(2**63)} <= value <= {2**64 - 1}"),
        ("dynatemp_low", 1.5, "Field 'dynatemp_low': must not be more than dynatemp_high, which is 1.0, but got 1.5"),
        ("temperature", "hot", "Field 'temperature': Input should be a valid number, but got \"hot\""),
        ("temperature", True, "Field 'temperature': Input should be a valid number, but got true"),
        ("top_k", 40.5, "Field 'top_k': Input should be a valid integer, but got 40.5"),
        ("stop", 3, "Field 'stop': must be a string or a list of strings"),
        ("stop", ["a", 3], "Field 'stop': must be a list of strings"),
        ("stop", ["a"] * 257, "Field 'stop': has 257 entries; at most 256 are allowed"),
        ("stop", "a" * 8193, "Field 'stop': has more than 8192 characters"),
        ("samplers", {}, "Field 'samplers': must be a list of names or a string of letters"),
        ("samplers", ["top_k", 3], "Field 'samplers': must be a list of names or a string of letters"),
        ("samplers", "k" * 33, "Field 'samplers': has 33 entries; at most 32 are allowed"),
        ("samplers", ["temp"] * 33, "Field 'samplers': has 33 entries; at most 32 are allowed"),
        ("dry_sequence_breakers", [], "Field 'dry_sequence_breakers': must not be empty"),
        ("dry_sequence_breakers", "[" * 100_000, "Field 'dry_sequence_breakers': must be a list of strings"),
        ("logit_bias", "x", "Field 'logit_bias': must be an object or a list of [token, bias] pairs"),
        ("logit_bias", {"1": 1e300}, "Field 'logit_bias': Value must be between"),
        ("logit_bias", [[i, 1] for i in range(1025)], "Field 'logit_bias': has 1025 entries; at most 1024 are allowed"),
        ("logprobs", -1, "Field 'logprobs': Value must be between 0 <= value <= 256, but got -1"),
        ("grammar", "x" * 65537, "Field 'grammar': is longer than 65536 bytes"),
        ("grammar", 3, "Field 'grammar': Input should be a valid string, but got 3"),
        ("stream", "yes", "Field 'stream': Input should be a valid boolean, but got \"yes\""),
        ("stream_options", [], "Field 'stream_options': Input should be an object, but got a list"),
        ("json_schema", "{}", "Field 'json_schema': must be a JSON schema, an object or true, but got \"{}\""),
        ("json_schema", {"a": "x" * 65536}, "Field 'json_schema': is longer than 65536 bytes"),
        ("t_max_predict_ms", -2, f"Field 't_max_predict_ms': Value must be between -1 <= value <= {2**63 - 1}, but got -2"),
        ("n_indent", -1, f"Field 'n_indent': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("stop_at", "page", "Field 'stop_at': Input should be 'word', 'line', 'sentence' or 'paragraph', but got \"page\""),
        ("stop_at", "", "Field 'stop_at': Input should be 'word', 'line', 'sentence' or 'paragraph', but got \"\""),
        ("stop_after", 0, "Field 'stop_after': Value must be between 1 <= value <= 1000, but got 0"),
        ("stop_after", 1001, "Field 'stop_after': Value must be between 1 <= value <= 1000, but got 1001"),
        ("n_cache_reuse", -1, f"Field 'n_cache_reuse': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("sse_ping_interval", -2, f"Field 'sse_ping_interval': Value must be between -1 <= value <= {INT32}, but got -2"),
        ("dry_allowed_length", -1, f"Field 'dry_allowed_length': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("adaptive_decay", -0.1, "Field 'adaptive_decay': Value must be between 0 <= value <= 0.99, but got -0.1"),
        ("lora", {}, "Field 'lora': must be a list of objects with 'id' and 'scale'"),
        ("lora", [{"id": 0}], "Field 'lora': must be a list of objects with an integer 'id' and a number 'scale'"),
        ("lora", [{"id": True, "scale": 1}], "Field 'lora': must be a list of objects with an integer 'id'"),
        ("lora", [{"id": -1, "scale": 1}], f"Field 'lora': Value must be between 0 <= value <= {INT32}, but got -1"),
        ("lora", [{"id": i, "scale": 1} for i in range(65)], "Field 'lora': has 65 entries; at most 64 are allowed"),
        ("control_vectors", {}, "Field 'control_vectors': must be a list of objects with 'name' and 'scale'"),
        ("control_vectors", [{"scale": 1}], "Field 'control_vectors': must be a list of objects with a string 'name'"),
        ("control_vectors", [{"name": "a", "scale": 11}], "Field 'control_vectors': Value must be between -10 <= value"),
        ("control_vectors", [{"name": "a", "scale": True}], "Field 'control_vectors': must be a list of objects with"),
        ("control_vectors", [{"name": "a", "size": 1}], "Field 'control_vectors': must be a list of objects with"),
        ("control_vectors", [{"name": "a"}] * 2, "Field 'control_vectors': has 'a' twice"),
        ("control_vectors", [{"name": "a"}] * 9, "Field 'control_vectors': has 9 entries; at most 8 are allowed"),
        ("distinct_first", 1, "Field 'distinct_first': Input should be a valid boolean, but got 1"),
        ("distinct_words", "no", "Field 'distinct_words': Input should be a valid boolean, but got \"no\""),
        ("sibling_penalty", 101, "Field 'sibling_penalty': Value must be between 0 <= value <= 100.0, but got 101"),
        ("sibling_penalty", "2", "Field 'sibling_penalty': Input should be a valid number, but got \"2\""),
        ("explore", True, "Field 'explore': Input should be an object, but got true"),
        ("explore", {"cutoff": 0}, "Field 'explore.cutoff': Input should be greater than 0, but got 0"),
        ("explore", {"cutoff": "1"}, "Field 'explore.cutoff': Input should be a valid number, but got \"1\""),
        ("explore", {"depth": 1001}, "Field 'explore.depth': Value must be between 1 <= value <= 1000, but got 1001"),
        ("explore", {"max_branches": 0}, "Field 'explore.max_branches': Value must be between 1 <= value <="),
        ("explore", {"max_branches": 65}, "Field 'explore.max_branches': is 65; at most 64 are allowed (max_n)"),
        ("explore", {"width": 1}, "Field 'explore.width': Extra inputs are not permitted, but got 1"),
        ("prompt", [], "Field 'prompt': must not be empty"),
        ("prompt", [[]], "Field 'prompt': must not be empty"),
        ("prompt", None, "Field 'prompt': is required"),
        ("prompt", 3, "Field 'prompt': must be a string, a list of token ids and strings, or a list of such prompts"),
        ("prompt", {"a": 1}, "Field 'prompt': an object as a prompt must have a string \"prompt_string\""),
        ("prompt", {"prompt_string": "x", "multimodal_data": ["aa"]}, "Field 'prompt': \"prompt_string\" has 0 <__media__>"),
        ("prompt", [1, True], "Field 'prompt': a prompt consists of strings and token ids, but got true"),
        ("prompt", [1, -5], "Field 'prompt': a prompt consists of strings and token ids, but got -5"),
        ("prompt", [1, 2**31], "Field 'prompt': a prompt consists of strings and token ids, but got 2147483648"),
        ("prompt", [[[1]]], "Field 'prompt': a prompt consists of strings and token ids, but got a list"),
        ("prompt", ["x"] * 257, "Field 'prompt': has 257 prompts; at most 256 are allowed"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_naming_its_field(field: str, value: Any, message: str) -> None:
    error = refusal(**{field: value})
    assert error.message.startswith(message)
    assert error.http_status == 400
    assert error.extra["param"].split(".")[0] in (field, "n")


def test_a_request_that_explores_has_one_branch_which_ends_at_the_depth() -> None:
    [command] = commands(default_n=8, default_max_tokens=128, explore={"depth": 200})
    assert command.explore == Explore(0.1, 64, 200)
    assert [branch.max_tokens for branch in command.branches] == [200]
    [command] = commands(default_n=8, explore={"cutoff": 1, "max_branches": 3}, max_tokens=5, n=1)
    assert command.explore == Explore(1, 3, 8)
    assert [branch.max_tokens for branch in command.branches] == [5]


def test_the_context_of_a_request_that_explores_is_not_shifted() -> None:
    body = CompletionBody.parse({"prompt": "x", "explore": {}})
    [command] = body.commands(Settings(context_shift=True, max_n=10), 1, -1)
    assert command.shift is None
    assert command.explore == Explore(0.1, 10, 8)


@pytest.mark.parametrize(
    ("given", "prompts"),
    [
        ("", [("",)]),
        (["", ""], [("",), ("",)]),
        ([["", ""]], [("",)]),
        (["", "x"], [("",), ("x",)]),
        ([["", "x"], [7]], [("x",), (7,)]),
        ({"prompt_string": ""}, [("",)]),
    ],
)
def test_an_empty_text_is_a_prompt_of_nothing_else(given: Any, prompts: list[Any]) -> None:
    assert [command.prompt for command in commands(prompt=given)] == prompts


def test_a_seed_has_kobolds_name_too() -> None:
    assert [branch.seed for branch in commands(sampler_seed=7, n=2)[0].branches] == [7, 8]


def test_limits_reach_every_branch() -> None:
    (command,) = commands(n=2, t_max_predict_ms=500, n_indent=4, min_tokens=3, n_predict=9)
    for branch in command.branches:
        assert (branch.t_max_predict_ms, branch.n_indent, branch.min_tokens, branch.max_tokens) == (500, 4, 3, 9)


@pytest.mark.parametrize(
    ("body", "stop_at", "stop_after"),
    [({}, "", 1), ({"stop_at": "line"}, "line", 1), ({"stop_at": "word", "stop_after": 1000}, "word", 1000)],
)
def test_the_end_at_a_boundary_reaches_every_branch(body: dict[str, Any], stop_at: str, stop_after: int) -> None:
    for branch in commands(n=2, **body)[0].branches:
        assert (branch.stop_at, branch.stop_after) == (stop_at, stop_after)


def test_an_entry_of_branches_may_end_elsewhere_than_the_request_says() -> None:
    (command,) = commands(stop_at="word", stop_after=3, branches=[{}, {"stop_at": "line"}, {"stop_after": 5}])
    assert [(branch.stop_at, branch.stop_after) for branch in command.branches] == [
        ("word", 3),
        ("line", 3),
        ("word", 5),
    ]
    with pytest.raises(InvalidRequest, match="Field 'stop_after': needs stop_at"):
        commands(branches=[{"stop_at": "line"}, {"stop_after": 5}])


def test_a_number_of_ends_needs_their_kind() -> None:
    with pytest.raises(InvalidRequest, match="Field 'stop_after': needs stop_at, which is one of word, line"):
        commands(stop_after=2)


def test_the_context_is_shifted_only_where_the_server_does_so() -> None:
    body = {"prompt": "x", "n_keep": -1, "n_discard": 7}
    parsed = CompletionBody.parse(body)
    assert parsed.commands(Settings(), n=1, max_tokens=-1)[0].shift is None
    (command,) = parsed.commands(Settings(context_shift=True), n=1, max_tokens=-1)
    assert command.shift == ContextShift(n_keep=-1, n_discard=7)
    unsaid = CompletionBody.parse({"prompt": "x"})
    (command,) = unsaid.commands(Settings(context_shift=True), n=1, max_tokens=-1)
    assert command.shift == ContextShift(n_keep=0, n_discard=0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, None), ([], ()), ([{"id": 1, "scale": 2}, {"id": 0, "scale": 0.5}], ((1, 2.0), (0, 0.5)))],
)
def test_lora_scales_are_pairs(given: Any, expected: Any) -> None:
    assert commands(lora=given)[0].lora == expected


def test_progress_is_reported_only_into_a_stream() -> None:
    assert not commands(return_progress=True)[0].report_progress
    assert commands(return_progress=True, stream=True)[0].report_progress


@pytest.mark.parametrize(("given", "expected"), [(None, 15), (3, 3), (-1, None), (0, None)])
def test_a_stream_is_silent_as_long_as_the_body_says(given: int | None, expected: int | None) -> None:
    body = {"prompt": "x"} | ({} if given is None else {"sse_ping_interval": given})
    assert CompletionBody.parse(body).ping_interval(SETTINGS) == expected


def test_a_grammar_wins_over_a_json_schema_and_an_empty_schema_means_any_object() -> None:
    assert sampling(json_schema={}).json_schema == '{"type":"object"}'
    assert sampling(json_schema={"type": "string"}, grammar="").json_schema == '{"type":"string"}'
    both = sampling(json_schema={"type": "string"}, grammar='root ::= "a"')
    assert (both.grammar, both.json_schema) == ('root ::= "a"', "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"temperature": -1}, {"temperature": 0.0}),
        ({"top_k": -5}, {"top_k": 0}),
        ({"top_p": 1.5}, {"top_p": 1.0}),
        ({"min_p": -0.1}, {"min_p": 0.0}),
        ({"mirostat": 7}, {"mirostat": 2}),
        ({"adaptive_target": 3}, {"adaptive_target": 1.0}),
        ({"dry_base": 0.5}, {"dry_base": 1.75}),
        ({"typical": 0.9}, {"typical_p": 0.9}),
        ({"nsigma": 1}, {"top_n_sigma": 1.0}),
        ({"rep_pen": 1.1, "repetition_penalty": 1.2}, {"repeat_penalty": 1.2}),
        ({"dry_sequence_breakers": '["\\n", "x"]'}, {"dry_sequence_breakers": ("\n", "x")}),
        ({"dry_sequence_breakers": '"\\n", "x"'}, {"dry_sequence_breakers": ("\n", "x")}),
        ({"samplers": "kpt"}, {"samplers": ("top_k", "top_p", "temperature")}),
        ({"samplers": ["top-k", "nucleus", "k", "what", "Temp"]}, {"samplers": ("top_k", "top_p", "temperature")}),
        ({"samplers": ["topk", "minp", "topnsigma"]}, {"samplers": ("top_k", "min_p", "top_n_sigma")}),
        ({"samplers": "tzkt" + "z" * 99}, {"samplers": ("temperature", "top_k", "temperature")}),
        ({"samplers": ["temp", "top_k", "temp"]}, {"samplers": ("temperature", "top_k", "temperature")}),
        ({"repeat_last_n": -1, "dry_penalty_last_n": -1}, {"repeat_last_n": -1, "dry_penalty_last_n": -1}),
        ({"mirostat_mode": 2, "mirostat": 1}, {"mirostat": 1}),
        ({"grammar_string": ""}, {"grammar": ""}),
        ({"dynatemp_low": 0.5, "dynatemp_high": 1.5, "temperature": 0.7}, {"temperature": 1.0, "dynatemp_range": 0.5}),
        ({"dynatemp_high": 2}, {"temperature": 1.5, "dynatemp_range": 0.5}),
        ({"dynatemp_low": 1, "dynatemp_high": 1, "temperature": 0.7}, {"temperature": 0.7, "dynatemp_range": 0.0}),
        (
            {"dynatemp_low": 0, "dynatemp_high": 2, "dynamic_temperature": False, "temperature": 0.7},
            {"temperature": 0.7, "dynatemp_range": 0.0},
        ),
        (
            {"dynatemp_low": 0, "dynatemp_high": 2, "temperature": 0.7, "dynatemp_range": 0.3},
            {"temperature": 0.7, "dynatemp_range": 0.3},
        ),
        ({"n_probs": 5}, {"n_probs": 5}),
        ({"n_probs": 0}, {"n_probs": -1}),
        ({"logprobs": 0}, {"n_probs": 0}),
        ({"logprobs": 3}, {"n_probs": 3}),
        ({"logprobs": True}, {"n_probs": 0}),
        ({"logprobs": True, "top_logprobs": 20}, {"n_probs": 20}),
        ({"logprobs": False, "top_logprobs": 20}, {"n_probs": -1}),
        ({"ignore_eos": True, "grammar": 'root ::= "a"'}, {"ignore_eos": True, "grammar": 'root ::= "a"'}),
    ],
)
def test_samplings_aliases_and_clamps(given: dict[str, Any], expected: dict[str, Any]) -> None:
    params = sampling(**given)
    assert {name: getattr(params, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ()),
        ([], ()),
        ({"15": 2, "the": -1.5}, ((15, 2.0), ("the", -1.5))),
        ([[15, 2], [16, False], ["the", -1]], ((15, 2.0), (16, None), ("the", -1.0))),
        ([[15], "x", [True, 1], [1.5, 1], [1, True], ["", 1], [1, "2"]], ()),
        ([[-1, 1], [-(2**31), False], [15, 2]], ((15, 2.0),)),
        ({"-5": 1, "+7": 1, " 8": 1, "9 ": 1}, ((7, 1.0), (8, 1.0), ("9 ", 1.0))),
        ([[2**31, 1], [2**63 - 1, False]], ((2**31, 1.0), (2**63 - 1, None))),
        ({"4294967297": 1, "9" * 30: 1}, ((2**32 + 1, 1.0), (2**63 - 1, 1.0))),
    ],
)
def test_logit_bias_has_four_forms_and_skips_bad_entries(given: Any, expected: Any) -> None:
    assert sampling(logit_bias=given).logit_bias == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Once", [("Once",)]),
        ([1, 2, 3], [(1, 2, 3)]),
        ([1, "two", 3], [(1, "two", 3)]),
        (["Once"], [("Once",)]),
        (["Once", "Twice"], [("Once",), ("Twice",)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        ([[1, "a"], "b"], [(1, "a"), ("b",)]),
        ({"prompt_string": "Once"}, [("Once",)]),
        ([{"prompt_string": "Once"}, "Twice", [1]], [("Once",), ("Twice",), (1,)]),
        ([{"prompt_string": "Once", "multimodal_data": []}, 2], [("Once", 2)]),
    ],
)
def test_prompts_have_every_form_of_openai_and_llama_cpp(given: Any, expected: Any) -> None:
    assert [command.prompt for command in commands(prompt=given)] == expected


def test_n_predict_wins_over_max_tokens_and_n_cmpl_over_n() -> None:
    (command,) = commands(max_tokens=5, n_predict=7, n=3)
    assert command.branches[0].max_tokens == 7
    assert len(commands(n=2, n_cmpl=3)[0].branches) == 3


@pytest.mark.parametrize("name", ["stop", "stopping_strings", "stop_sequence"])
def test_stop_strings_come_alone_or_listed_and_empty_ones_are_dropped(name: str) -> None:
    assert commands(**{name: "\n"})[0].branches[0].stop == ("\n",)
    assert commands(**{name: ["\n", "", "END", "\n"]})[0].branches[0].stop == ("\n", "END")


def test_branch_i_has_seed_plus_i_and_never_the_word_for_random() -> None:
    seeds = [branch.seed for branch in commands(n=4, seed=2**32 - 3)[0].branches]
    assert seeds == [2**32 - 3, 2**32 - 2, 0, 1]


@pytest.mark.parametrize("seed", [None, -1, 2**32 - 1])
def test_an_unseeded_request_draws_a_real_seed_for_each_prompt(seed: int | None) -> None:
    first, second = commands(prompt=["x", "x"], n=2, seed=seed)
    drawn = [branch.seed for branch in first.branches + second.branches]
    assert all(0 <= value < 2**32 - 1 for value in drawn)
    assert drawn[1] == (drawn[0] + 1) % (2**32 - 1)
    assert drawn[2] != drawn[0]


@pytest.mark.parametrize("count", [300, 512, 1024])
@pytest.mark.parametrize("name", ["banned_strings", "banned_phrases", "banned_tokens"])
def test_as_many_strings_may_be_banned_as_clients_have_in_their_lists(name: str, count: int) -> None:
    strings = [f"phrase number {place}" for place in range(count)]
    (command,) = commands(**{name: strings})
    check_branches(command.branches)
    assert command.branches[0].banned_strings == tuple(strings)


@pytest.mark.parametrize("seed", [1764143100123, 2**32, 2**63 - 1, 2**64 - 1, -2, -(2**63)])
@pytest.mark.parametrize("name", ["seed", "sampler_seed"])
def test_a_seed_of_64_bits_is_folded_into_one_that_repeats(seed: int, name: str) -> None:
    (first,) = commands(n=2, **{name: seed})
    (again,) = commands(n=2, **{name: seed})
    used = [branch.seed for branch in first.branches]
    assert used == [branch.seed for branch in again.branches]
    assert used == [seed % (2**32 - 1), (seed + 1) % (2**32 - 1)]
    (by_used,) = commands(n=2, seed=used[0])
    assert [branch.seed for branch in by_used.branches] == used
    (entry,) = commands(branches=[{"seed": seed}])
    assert entry.branches[0].seed == used[0]


def test_a_given_seed_is_the_same_for_every_prompt_of_the_call() -> None:
    first, second = commands(prompt=["x", "y"], n=2, seed=5)
    assert [branch.seed for branch in first.branches] == [branch.seed for branch in second.branches] == [5, 6]


def test_unknown_fields_and_neutral_values_are_accepted() -> None:
    (command,) = commands(
        banned_tokens=[], tfs_z=1, guidance_scale=1.0, n=2, best_of=2, echo=False, suffix="", t_max_predict_ms=-1
    )
    assert command.branches[0].sampling == SamplingParams()


def test_what_a_request_leaves_unsaid_is_as_the_settings_say() -> None:
    settings = Settings(
        temperature=0.2, samplers="top_k;temperature", logit_bias="15+1.5,16-inf", seed=7, stop='["a", "b"]',
        cache_prompt=False, dry_sequence_breakers='["x"]', json_schema='{"type": "string"}',
    )  # fmt: skip
    (command,) = CompletionBody.parse({"prompt": "x"}).commands(settings, n=2, max_tokens=-1)
    assert [branch.seed for branch in command.branches] == [7, 8]
    assert command.branches[0].stop == ("a", "b")
    assert not command.cache_prompt
    assert command.branches[0].sampling == SamplingParams(
        temperature=0.2, samplers=("top_k", "temperature"), logit_bias=((15, 1.5), (16, None)),
        dry_sequence_breakers=("x",), json_schema='{"type":"string"}',
    )  # fmt: skip
    said = {"temperature": 1, "stop": "c", "cache_prompt": True, "grammar": 'root ::= "a"'}
    (command,) = CompletionBody.parse({"prompt": "x", **said}).commands(settings, n=1, max_tokens=-1)
    assert command.cache_prompt
    assert command.branches[0].stop == ("c",)
    params = command.branches[0].sampling
    assert (params.temperature, params.grammar, params.json_schema) == (1.0, 'root ::= "a"', "")


def test_a_whole_number_may_be_written_with_a_point() -> None:
    (command,) = commands(n=2.0, max_tokens=5.0, seed=7.0, top_k=40.0, repeat_last_n=8.0, logprobs=2.0)
    assert [branch.seed for branch in command.branches] == [7, 8]
    assert command.branches[0].max_tokens == 5
    assert (command.branches[0].sampling.top_k, command.branches[0].sampling.n_probs) == (40, 2)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"samplers": ["top_k", "temp"], "repeat_penalty": 1.2}, ("penalties", "top_k", "temperature")),
        ({"samplers": "kt", "frequency_penalty": 0.5}, ("penalties", "top_k", "temperature")),
        ({"samplers": [], "presence_penalty": -0.5}, ("penalties",)),
        ({"samplers": ["top_k", "penalties"], "repeat_penalty": 1.2}, ("top_k", "penalties")),
        ({"samplers": ["top_k"], "repeat_penalty": 1.0}, ("top_k",)),
        ({"samplers": ["top_k"]}, ("top_k",)),
    ],
)
def test_penalties_that_a_list_of_2024_leaves_out_run_first(given: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert sampling(**given).samplers == expected


def test_penalties_of_the_settings_run_beside_samplers_that_leave_them_out() -> None:
    def samplers(settings: Settings, **body: Any) -> tuple[str, ...]:
        (command,) = CompletionBody.parse({"prompt": "x", **body}).commands(settings, n=1, max_tokens=-1)
        return command.branches[0].sampling.samplers

    assert samplers(Settings(samplers="top_k;temp", repeat_penalty=1.1)) == ("penalties", "top_k", "temperature")
    assert samplers(Settings(repeat_penalty=1.1), samplers=["min_p"]) == ("penalties", "min_p")
    assert samplers(Settings(samplers="top_k"), repeat_penalty=1.1) == ("penalties", "top_k")


def test_defaults_are_written_once() -> None:
    params = sampling()
    assert params.samplers == DEFAULT_SAMPLERS
    assert all(not isinstance(v, float) or math.isfinite(v) for v in (params.temperature, params.top_p))


def test_an_entry_of_branches_has_its_own_fields_and_the_requests_for_the_rest() -> None:
    [command] = commands(
        seed=10,
        max_tokens=20,
        stop="END",
        top_k=7,
        grammar='root ::= "a"',
        branches=[
            {},
            {"temperature": 0.2, "max_tokens": 3, "seed": 99, "stop": ["x"], "min_tokens": 2, "n_indent": 4},
            {"append": "Anna: ", "json_schema": {"type": "object"}, "t_max_predict_ms": 5, "logit_bias": {"5": False}},
            {"append": [5, 6], "stop": None},
        ],
    )
    same, other, appended, ids = command.branches
    assert (same.seed, same.max_tokens, same.stop, same.sampling.top_k, same.append) == (10, 20, ("END",), 7, ())
    assert (other.seed, other.max_tokens, other.stop, other.min_tokens, other.n_indent) == (99, 3, ("x",), 2, 4)
    assert (other.sampling.temperature, other.sampling.top_k) == (0.2, 7)
    assert (appended.seed, appended.append, appended.t_max_predict_ms) == (12, ("Anna: ",), 5)
    assert (appended.sampling.grammar, appended.sampling.json_schema) == ("", '{"type":"object"}')
    assert appended.sampling.logit_bias == ((5, None),)
    assert (ids.append, ids.stop, ids.sampling) == ((5, 6), ("END",), same.sampling)


def test_random_seeds_of_branches_are_drawn_for_each() -> None:
    [command] = commands(branches=[{"seed": -1}, {"seed": -1}, {}])
    assert all(0 <= branch.seed < 2**32 - 1 for branch in command.branches)
    assert command.branches[0].seed != command.branches[1].seed


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"branches": []}, "branches"),
        ({"branches": [{}] * 1000}, "branches"),
        ({"branches": {}}, "branches"),
        ({"branches": [5]}, "branches[0]"),
        ({"branches": [{}, {"temperatur": 1}]}, "branches[1].temperatur"),
        ({"branches": [{}, {"temperature": "hot"}]}, "branches[1].temperature"),
        ({"branches": [{"append": 5}]}, "branches[0].append"),
        ({"branches": [{"n": 2}]}, "branches[0].n"),
        ({"branches": [{"post_sampling_probs": True}]}, "branches[0].post_sampling_probs"),
        ({"branches": [{}, {}], "n": 3}, "n"),
    ],
)
def test_a_bad_entry_of_branches_is_named(body: dict[str, Any], field: str) -> None:
    assert refusal(**body).extra["param"] == field
