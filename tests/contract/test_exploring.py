"""Exploring on models of every memory kind: the leaves are those of a walk by requests of one token each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.model import Model
from srb.wire.commands import BranchSpec, Explore, Generate
from srb.wire.events import BranchAdded, BranchEnded, Delta, Event, FinishReason
from tests.contract.rounding import ROUNDING

PROMPT = (5, 9, 7, 11, 6)
ASKED = Explore(0.5, 12, 4)
N_TOP = 512  # all of a tiny vocabulary


def run(engine: Engine, command: Generate) -> list[Event]:
    request: Any = engine.prepare(command)
    events = engine.submit(request)
    while engine.has_work:
        events += engine.step()
        engine.check_invariants()
    return events


def engine_of(model: Model) -> Engine:
    ticks = iter(range(10**9))
    return Engine(
        model, EngineOptions(max_queue=10, cache_cells=10**6, cache_bytes=10**8), clock=lambda: next(ticks) / 1000
    )


def likeliest(engine: Engine, path: Sequence[int]) -> list[tuple[int, float]]:
    """Return tokens after the prompt and a path, likeliest first, with their log-probabilities if the text does not end."""
    spec = BranchSpec(1, 1, sampling=SamplingParams(temperature=0, n_probs=N_TOP, ignore_eos=True))
    events = run(engine, Generate("one", (*PROMPT, *path), (spec,), cache_prompt=False))
    [prob] = [prob for event in events if isinstance(event, Delta) for prob in event.probs or ()]
    others = [(top["id"], top["logprob"] or 0.0) for top in prob["top_logprobs"] if not engine.model.is_eog(top["id"])]
    total = math.log(sum(math.exp(logprob) for _, logprob in others))
    return [(token, logprob - total) for token, logprob in others]


def walk(engine: Engine, asked: Explore) -> tuple[dict[tuple[int, ...], float], int]:
    """Return the leaves with the log-probabilities of their paths, and the number of places; the likeliest fork first."""
    leaves: dict[tuple[int, ...], float] = {}
    candidates: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    places = 0
    while candidates and len(leaves) < asked.max_branches:
        total, path = candidates.pop(candidates.index(max(candidates)))
        while len(path) < asked.depth:
            places += 1
            (best, logprob), *others = likeliest(engine, path)
            assert others[-1][1] < logprob + math.log(asked.cutoff), "more tokens are likely than were asked for"
            candidates += [
                (total + it, (*path, other)) for other, it in others if it >= logprob + math.log(asked.cutoff)
            ]
            total, path = total + logprob, (*path, best)
        leaves[path] = total
    return leaves, places


def test_the_leaves_are_those_of_a_walk_by_single_requests(model: Model) -> None:
    spec = BranchSpec(1, sampling=SamplingParams(temperature=1.5, ignore_eos=True))
    engine = engine_of(model)
    events = run(engine, Generate("walk", PROMPT, (spec,), explore=ASKED))
    tokens: dict[int, list[int]] = {0: []}
    found: dict[tuple[int, ...], float] = {}
    for event in events:
        if isinstance(event, BranchAdded):
            tokens[event.index] = list(event.tokens)
        elif isinstance(event, Delta):
            tokens[event.index] += event.tokens
        elif isinstance(event, BranchEnded):
            assert event.reason == FinishReason.LIMIT
            assert event.path_logprob is not None
            found[tuple(tokens[event.index])] = event.path_logprob
    expected, _ = walk(engine, ASKED)
    assert len(expected) > 3, "the model does not hesitate"
    assert found.keys() == expected.keys()
    assert all(found[leaf] == pytest.approx(expected[leaf], abs=0.005 * ROUNDING) for leaf in found)
    engine.close()


@pytest.mark.parametrize("model_name", ["fake", "llama"], indirect=True)
def test_nothing_is_computed_twice(model: Model) -> None:
    engine, counted, decode = engine_of(model), [0], model.decode

    def count(batch: Any) -> Any:
        counted[0] += len(batch)
        return decode(batch)

    model.decode = count  # type: ignore[method-assign]
    spec = BranchSpec(1, sampling=SamplingParams(ignore_eos=True))
    asked = Explore(0.6, 6, 4)
    run(engine, Generate("walk", PROMPT, (spec,), explore=asked))
    computed = counted[0]
    _, places = walk(engine, asked)
    assert computed <= len(PROMPT) + places - 1
    model.decode = decode  # type: ignore[method-assign]
    engine.close()


def test_the_biases_of_a_model_are_those_of_its_samplers(model: Model) -> None:
    params = SamplingParams(logit_bias=((7, 2.5), (8, None), (7, 1.0)), ignore_eos=True)
    biases = model.biases(params)
    assert biases[7] == 3.5
    assert biases[8] == -math.inf
    ended = [token for token in range(model.n_vocab) if model.is_eog(token)]
    assert ended
    assert all(biases[token] == -math.inf for token in ended)
