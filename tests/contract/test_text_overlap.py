"""Tokens that become text during the next decode are llama.cpp's own; the probe finds whether a device computes on."""

from __future__ import annotations

from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama import overlap_probe
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.overlap_probe import choose_overlap, measure_waiting
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


@pytest.mark.parametrize(
    ("setting", "on_gpu", "times", "is_on"),
    [
        ("auto", True, (0.002, 0.006), True),
        ("auto", True, (0.008, 0.0001), False),
        ("auto", False, None, False),
        ("on", False, None, True),
        ("off", True, None, False),
    ],
)
def test_a_device_that_computes_on_by_itself_is_not_waited_for(
    llama: LlamaModel, monkeypatch: pytest.MonkeyPatch, setting: Any, on_gpu: bool, times: Any, is_on: bool
) -> None:
    def timed(*_: Any) -> Any:
        assert times, "nothing is to be measured"
        return times

    monkeypatch.setattr(overlap_probe, "measure_waiting", timed)
    monkeypatch.setattr(llama, "is_on_gpu", on_gpu)
    monkeypatch.setattr(llama, "decodes_ahead", False)
    choose_overlap(llama, setting)
    assert llama.decodes_ahead is is_on


def test_nothing_of_the_measurement_stays(llama: LlamaModel) -> None:
    expected = texts(llama)
    submits, waits = measure_waiting(llama, 4)
    assert submits > 0
    assert waits >= 0
    assert texts(llama) == expected
