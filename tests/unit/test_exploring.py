"""Requests that explore, in the engine: the leaves of a walk that is computed apart, whatever runs when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.fake import EOS, FakeModel
from srb.engine.model import Batch
from srb.errors import InvalidRequest
from srb.wire.codec import decode, encode
from srb.wire.commands import AddBranches, BranchSpec, ContextShift, Explore, Generate, StopBranches
from srb.wire.events import BranchAdded, Delta, FinishReason
from tests.engine_helpers import Driver

PROMPT = "the old king said"
HESITANT = {3: 5.0, 5: 4.0, 7: 3.5, EOS: 7.5}  # biases: a few tokens take nearly all of the probability
BIASES = tuple(HESITANT.items())

Leaf = tuple[tuple[int, ...], bool]  # tokens, and whether the model ended the text


def next_logprobs(path: Sequence[int], biases: dict[int, float]) -> np.ndarray[Any, Any]:
    """Return the log-probabilities after the prompt and a path, from a model of its own."""
    model = FakeModel(n_ctx=1000, n_batch=500)
    tokens = [*model.tokenize(PROMPT, True, True), *path]
    batch = Batch()
    row = batch.add(0, 0, tokens, want_logits=True)
    model.decode(batch)
    scores = model.logits(row).astype(np.float64)
    for token, bias in biases.items():
        scores[token] += bias
    return scores - scores.max() - math.log(np.exp(scores - scores.max()).sum())


def walk(asked: Explore, biases: dict[int, float] = HESITANT) -> tuple[dict[Leaf, float], int]:
    """Return the leaves of a walk with the log-probabilities of their paths, and the number of computed places.

    Brute force: a branch goes to its end before the likeliest candidate of all becomes the next one.
    """
    leaves: dict[Leaf, float] = {}
    candidates: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    places: set[tuple[int, ...]] = set()
    for _ in range(asked.max_branches):
        if not candidates:
            break
        total, path = candidates.pop(candidates.index(max(candidates)))
        while len(path) < asked.depth and path[-1:] != (EOS,):
            places.add(path)
            logprobs = next_logprobs(path, biases)
            best = int(logprobs.argmax())
            for other in np.flatnonzero(logprobs >= logprobs[best] + math.log(asked.cutoff)):
                if other != best:
                    candidates.append((total + logprobs[other], (*path, int(other))))
            total, path = total + logprobs[best], (*path, best)
        leaves[path[:-1] if path[-1:] == (EOS,) else path, path[-1:] == (EOS,)] = total
    return leaves, len(places)


def leaves_of(driver: Driver, request_id: str) -> dict[Leaf, float]:
    """Return the leaves of a request: each branch's tokens, with those of its beginning, and its path's probability."""
    outcome = driver.result(request_id)
    assert all(e.predicted_ms > 0 for e in outcome.events if isinstance(e, BranchAdded))
    tokens = {0: []} | {e.index: list(e.tokens) for e in outcome.events if isinstance(e, BranchAdded)}
    for event in outcome.events:
        if isinstance(event, Delta):
            tokens[event.index] += event.tokens
    found: dict[Leaf, float] = {}
    for index, end in outcome.ends.items():
        assert end.length == len(tokens[index])
        assert end.path_logprob is not None
        found[tuple(tokens[index]), end.reason == FinishReason.EOS] = end.path_logprob
    assert len(found) == len(outcome.ends), "two branches are the same leaf"
    return found


def explore(driver: Driver, asked: Explore, **options: Any) -> dict[Leaf, float]:
    options = {"logit_bias": BIASES} | options
    request_id = driver.submit(PROMPT, 1, 1, -1, explore=asked, **options)
    driver.run()
    return leaves_of(driver, request_id)


def same(found: dict[Leaf, float], expected: dict[Leaf, float]) -> bool:
    return found.keys() == expected.keys() and all(abs(found[leaf] - expected[leaf]) < 1e-4 for leaf in found)


ASKED = [
    Explore(0.1, 64, 4),
    Explore(0.1, 10, 6),
    Explore(0.3, 64, 6),
    Explore(0.01, 7, 3),
    Explore(0.2, 1, 5),
    Explore(0.2, 2, 9),
    Explore(1.0, 64, 5),
    Explore(1e-6, 30, 1),
]


@pytest.mark.parametrize("asked", ASKED)
def test_the_leaves_are_those_of_a_walk_by_brute_force(asked: Explore) -> None:
    expected, places = walk(asked)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256))
    assert same(explore(driver, asked), expected)
    prompt = len(driver.model.tokenize(PROMPT, True, True))
    assert driver.model.n_tokens_decoded <= prompt + places, "something was computed twice"


def test_a_walk_without_biases_is_found_as_well() -> None:
    asked = Explore(0.5, 40, 3)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=100, n_batch=256))
    assert same(explore(driver, asked, logit_bias=()), walk(asked, {})[0])


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    "model",
    [
        {"n_ctx": 1000, "n_seq_max": 2},
        {"n_ctx": 1000, "n_seq_max": 5},
        {"n_ctx": 40, "n_seq_max": 16},
        {"n_ctx": 1000, "n_seq_max": 8, "supports_partial_reuse": False},
        {"n_ctx": 1000, "n_seq_max": 8, "has_states": True},
    ],
    ids=["two sequences", "five sequences", "few cells", "whole texts", "states"],
)
def test_pressure_changes_no_leaf(asked: Explore, model: dict[str, Any]) -> None:
    assert same(explore(Driver(FakeModel(**model)), asked), walk(asked)[0])


def test_no_leaf_changes_if_the_tree_keeps_nothing() -> None:
    asked = Explore(0.1, 20, 4)
    assert same(explore(Driver(cache_cells=0, cache_bytes=0), asked), walk(asked)[0])
    assert same(explore(Driver(FakeModel(n_ctx=2000)), asked, cache_prompt=False), walk(asked)[0])


def test_a_second_walk_finds_everything_computed() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.1, 10, 6)
    first = explore(driver, asked)
    count = driver.model.n_tokens_decoded
    assert same(explore(driver, asked), first)
    assert driver.model.n_tokens_decoded - count <= len(first) * asked.depth


def test_usage_counts_each_token_of_the_tree_once() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.1, 12, 6)
    found = explore(driver, asked)
    paths = {tokens[: end + 1] for tokens, _ in found for end in range(len(tokens))}
    [done] = driver.result("r0").terminal
    assert done.completion_tokens == len(paths)
    assert done.prompt_tokens == len(driver.model.tokenize(PROMPT, True, True))
    assert done.cached_tokens == 0


def test_a_branch_tells_where_it_left_its_origin() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.1, 12, 6)
    explore(driver, asked)
    outcome = driver.result("r0")
    tokens: dict[int, list[int]] = {0: []}
    added = 0
    for event in outcome.events:
        if isinstance(event, BranchAdded):
            added += 1
            assert event.origin is not None
            assert event.token is not None
            assert event.logprob is not None
            assert event.tokens == tokens[event.origin][: event.token]
            assert event.text == b"".join(map(driver.model.piece, event.tokens)).decode()
            tokens[event.index] = list(event.tokens)
        elif isinstance(event, Delta):
            tokens[event.index] += event.tokens
    assert added == 11


def test_the_mean_is_that_of_the_text_and_the_path_includes_its_end() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.02, 40, 4)
    explore(driver, asked)
    ends = driver.result("r0").ends.values()
    assert {end.reason for end in ends} == {FinishReason.EOS, FinishReason.LIMIT}
    for end in ends:
        assert end.path_logprob is not None
        if end.length and end.reason == FinishReason.LIMIT:
            assert end.logprob == pytest.approx(end.path_logprob / end.length)
        elif end.length:
            assert end.logprob is not None
            assert end.logprob * end.length > end.path_logprob


def test_each_token_has_its_probability_if_asked_for() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.1, 12, 4)
    explore(driver, asked, logit_bias=(), n_probs=2)
    outcome = driver.result("r0")
    probs: dict[int, list[Any]] = {0: []}
    for event in outcome.events:
        if isinstance(event, BranchAdded):
            assert event.origin is not None
            probs[event.index] = probs[event.origin][: len(event.tokens)]
        elif isinstance(event, Delta):
            assert event.probs is not None
            assert [prob["id"] for prob in event.probs] == event.tokens
            probs[event.index] = probs[event.index] + event.probs
    for index, end in outcome.ends.items():
        assert end.reason == FinishReason.LIMIT
        assert sum(prob["logprob"] for prob in probs[index]) == pytest.approx(end.path_logprob, abs=1e-4)


def test_a_fork_inside_a_character_keeps_the_part_before() -> None:
    """Bytes alone are likely, those of two characters that begin alike."""
    model = FakeModel(n_ctx=1000)
    first = model.tokenize("é", False, False)
    assert [model.piece(token) for token in first] == [b"\xc3", b"\xa9"]
    other = model.tokenize("è", False, False)[1]
    biases = ((first[0], 20.0), (first[1], 20.0), (other, 20.0))
    driver = Driver(model)
    explore(driver, Explore(1e-3, 40, 3), logit_bias=biases)
    outcome = driver.result("r0")
    text = {0: ""} | {e.index: e.text for e in outcome.events if isinstance(e, BranchAdded)}
    for event in outcome.events:
        if isinstance(event, Delta):
            text[event.index] += event.text
    for (tokens, _), index in zip(leaves_of(driver, "r0"), outcome.ends, strict=True):
        assert text[index] == b"".join(map(model.piece, tokens)).decode(errors="replace")
    assert any("é" in said for said in text.values())
    assert any("è" in said for said in text.values())


def test_a_stop_string_across_a_fork_ends_the_branch() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256)), Explore(0.1, 40, 4)
    found = explore(driver, asked)
    tokens = next(tokens for tokens in sorted(leaf for leaf, _ in found) if len(tokens) == asked.depth)
    piece = driver.model.piece
    stop = (piece(tokens[1]) + piece(tokens[2])).decode()
    again = Driver(FakeModel(n_ctx=4000, n_seq_max=160, n_batch=256))
    again.submit(PROMPT, 1, 1, -1, explore=asked, logit_bias=BIASES, stop=(stop,))
    again.run()
    outcome = again.result("r0")
    assert any(end.reason == FinishReason.WORD and end.stopping_word == stop for end in outcome.ends.values())
    assert all(stop not in outcome.texts[index] for index in outcome.ends)


def test_min_tokens_and_ignore_eos_forbid_the_end() -> None:
    biases = ((EOS, 30.0), (3, 5.0), (5, 5.0))
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=60, n_batch=256))
    early = explore(driver, Explore(0.1, 30, 5), logit_bias=biases, min_tokens=2)
    assert {len(tokens) for tokens, _ in early} == {2}
    assert all(is_eos for _, is_eos in early)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=60, n_batch=256))
    never = explore(driver, Explore(0.1, 30, 5), logit_bias=biases, ignore_eos=True)
    assert {len(tokens) for tokens, _ in never} == {5}


def test_a_request_with_no_allowed_token_fails_as_any_other() -> None:
    driver = Driver()
    banned = tuple((token, None) for token in range(driver.model.n_vocab))
    request_id = driver.submit(PROMPT, 1, 1, -1, explore=Explore(), logit_bias=banned)
    driver.run()
    assert driver.result(request_id).ends[0].code == "grammar_dead_end"


def test_max_tokens_below_the_depth_ends_branches_earlier() -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=60))
    request_id = driver.submit(PROMPT, 1, 1, 2, explore=Explore(0.5, 8, 6), ignore_eos=True)
    driver.run()
    assert {end.length for end in driver.result(request_id).ends.values()} == {2}


def test_a_cancel_ends_the_walk_and_a_stopped_branch_does_not() -> None:
    driver, asked = Driver(FakeModel(n_ctx=4000, n_seq_max=60)), Explore(0.1, 30, 20)
    cancelled = driver.submit(PROMPT, 1, 1, -1, explore=asked, logit_bias=BIASES)
    while len(driver.result(cancelled).events) < 40:
        driver.step()
    driver.cancel(cancelled)
    assert driver.result(cancelled).terminal
    stopped = driver.submit(PROMPT, 1, 1, -1, explore=Explore(0.1, 3, 20), logit_bias=BIASES, ignore_eos=True)
    while not any(isinstance(event, Delta) for event in driver.result(stopped).events):
        driver.step()
    driver.engine.control(StopBranches("c", stopped, index=0))
    driver.run()
    assert len(driver.result(stopped).ends) == 2  # and the one whose end the reply has


def test_walks_and_other_requests_run_together() -> None:
    asked = Explore(0.1, 12, 5)
    driver = Driver(FakeModel(n_ctx=400, n_seq_max=6))
    ids = [driver.submit(PROMPT, 1, 1, -1, explore=asked, logit_bias=BIASES) for _ in range(2)]
    plain = driver.submit(PROMPT, 4, 7, 12)
    driver.run()
    alone = Driver(FakeModel(n_ctx=4000, n_seq_max=6))
    same_plain = alone.submit(PROMPT, 4, 7, 12)
    alone.run()
    assert driver.result(plain).tokens == alone.result(same_plain).tokens
    for request_id in ids:
        assert same(leaves_of(driver, request_id), walk(asked)[0])


def test_branches_are_added_by_the_walk_alone() -> None:
    driver = Driver(FakeModel(n_ctx=4000))
    request_id = driver.submit(PROMPT, 1, 1, -1, explore=Explore(0.1, 12, 5), can_grow=True)
    with pytest.raises(Exception, match="adds its branches by itself"):
        driver.engine.prepare(AddBranches("a", request_id, ((None, (), (), ()),)))
    driver.run()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"explore": Explore(cutoff=0)}, "explore.cutoff"),
        ({"explore": Explore(cutoff=1.5)}, "explore.cutoff"),
        ({"explore": Explore(max_branches=0)}, "explore.max_branches"),
        ({"explore": Explore(depth=0)}, "explore.depth"),
        ({"explore": Explore(depth=1001)}, "explore.depth"),
        ({"n": 2}, "n"),
        ({"append": ("x",)}, "append"),
        ({"banned_strings": ("x",)}, "banned_strings"),
        ({"grammar": "root ::= .*"}, "grammar"),
        ({"json_schema": "{}"}, "json_schema"),
        ({"shift": ContextShift()}, "context_shift"),
        ({"distinct_first": True}, "distinct_first"),
        ({"distinct_words": True}, "distinct_words"),
        ({"sibling_penalty": 1.0}, "sibling_penalty"),
        ({"prompt_logprobs": True}, "echo"),
        ({"post_sampling_probs": True, "n_probs": 1}, "post_sampling_probs"),
    ],
)
def test_the_engine_refuses_what_does_not_go_with_a_walk(options: dict[str, Any], name: str) -> None:
    driver = Driver()
    with pytest.raises(InvalidRequest, match=f"'{name}'" if "." in name else f"'explore': .*{name}"):
        driver.submit(PROMPT, options.pop("n", 1), 1, -1, **{"explore": Explore(), **options})


def test_an_exploration_crosses_the_socket() -> None:
    command = Generate("r", ("x",), (BranchSpec(1, sampling=SamplingParams()),), explore=Explore(0.25, 3, 4))
    assert decode(encode([command])) == [command]
