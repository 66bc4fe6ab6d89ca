"""Tokens that become text during the next decode are llama.cpp's own, as on a GPU."""

from __future__ import annotations

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import BranchEnded, Delta
from tests.contract.test_model import tokens_of


def texts(model: LlamaModel) -> tuple[list[list[int]], list[tuple[str, int]]]:
    """Return tokens and ends of branches of which some end by their text."""
    model.clear()
    engine = Engine(model, EngineOptions(max_queue=10), clock=iter(range(10**6)).__next__)
    specs = tuple(
        BranchSpec(seed, 24, stop=stop, stop_at=stop_at, sampling=SamplingParams(ignore_eos=True, n_probs=probs))
        for seed, (stop, stop_at, probs) in enumerate([((), "", 0), (("a", "e"), "", 0), ((), "word", 0), ((), "", 2)])
    )
    engine.submit(engine.prepare(Generate("r", tuple(tokens_of(model)), specs)))
    tokens: list[list[int]] = [[] for _ in specs]
    ends: dict[int, tuple[str, int]] = {}
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                tokens[event.index] += event.tokens
            elif isinstance(event, BranchEnded):
                ends[event.index] = event.reason, event.length
        engine.check_invariants()
    return tokens, [ends[index] for index in range(len(specs))]


def test_tokens_are_the_same_whenever_they_are_read(llama: LlamaModel) -> None:
    expected = texts(llama)
    llama.decodes_ahead = True
    try:
        assert texts(llama) == expected
    finally:
        llama.decodes_ahead = False
