"""Sampling on the device gives the tokens of sampling on the CPU, whatever else a step computes.

The CPU is a device too, so all but its speed can be shown without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.llama import device_sampling, sampling_probe
from srb.engine.llama.device_sampling import device_stages
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.sampling_probe import choose_sampling, measure
from srb.engine.model import Batch, DecodeStatus
from srb.engine.sampling import Stage, chain
from tests.contract.test_model import compute, generate, new_engine, tokens_of

ON_DEVICE: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"min_p": 0, "top_k": 12},
    {"top_p": 0.5, "min_p": 0.2, "temperature": 2.5},
    {"repeat_penalty": 1.5, "repeat_last_n": 8},
    {"presence_penalty": 2.0, "frequency_penalty": 0.5},
    {"ignore_eos": True, "logit_bias": ((300, 3.0), (301, None))},
]
ON_CPU: list[dict[str, Any]] = [
    {"top_k": 0},
    {"top_k": 2000},
    {"top_p": 1.0},
    {"min_keep": 3},
    {"dynatemp_range": 0.5},
    {"typical_p": 0.5},
    {"top_n_sigma": 1.0},
    {"xtc_probability": 0.5},
    {"dry_multiplier": 0.8},
    {"mirostat": 2},
    {"samplers": ("top_p", "top_k", "temperature")},
    {"samplers": ("top_k", "top_k", "top_p", "temperature")},
    {"samplers": ("infill", "temperature")},
    {"samplers": ("top_k", "top_p", "adaptive_p")},
    {"post_sampling_probs": True},
    {"grammar": 'root ::= ("a" | "b")+'},
]
BRANCHES, STEPS = 5, 12


@pytest.fixture
def device(gguf: Callable[[str], Path]) -> Iterator[LlamaModel]:
    model = LlamaModel.load(
        Settings(model=str(gguf("llama")), n_ctx=256, n_batch=64, n_seq_max=16, threads=1, backend_sampling="on")
    )
    yield model
    model.close()


def run(model: LlamaModel, options: list[dict[str, Any]], on_device: Callable[[int], bool]) -> list[list[int]]:
    """Sample a text for each of the options from one prompt; `on_device` says for each step where."""
    model.clear()
    prompt = tokens_of(model)
    samplers = [model.new_sampler(SamplingParams(**each), seed, prompt) for seed, each in enumerate(options)]
    last = len(options)
    logits = compute(model, last, prompt)
    texts = [[sampler.sample_from(logits)] for sampler in samplers]
    for seq_id in range(last):
        model.fork(last, seq_id)
    for step in range(STEPS):
        model.samples_on_device = on_device(step)
        batch = Batch()
        rows = [batch.add_newest(seq_id, len(prompt) + step, text[-1]) for seq_id, text in enumerate(texts)]
        batch.samplers = dict(zip(rows, samplers, strict=True))
        assert model.decode(batch) is DecodeStatus.OK
        for sampler, row, text in zip(samplers, rows, texts, strict=True):
            text.append(sampler.sample(row))
    for sampler in samplers:
        sampler.close()
    return texts


def always(_step: int) -> bool:
    return True


def never(_step: int) -> bool:
    return False


def is_for_device(model: LlamaModel, options: dict[str, Any]) -> bool:
    sampler = model.new_sampler(SamplingParams(**options), 1, [])
    try:
        return sampler.device_stages is not None
    finally:
        sampler.close()


@pytest.mark.parametrize("options", ON_DEVICE, ids=lambda options: "-".join(options) or "defaults")
def test_a_seed_gives_the_same_tokens_on_the_device(device: LlamaModel, options: dict[str, Any]) -> None:
    assert is_for_device(device, options)
    branches = [options] * BRANCHES
    assert run(device, branches, always) == run(device, branches, never)


def test_branches_with_other_settings_share_a_decode(device: LlamaModel) -> None:
    options = [*ON_DEVICE, {"top_k": 0}, {"mirostat": 2}]
    assert run(device, options, always) == run(device, options, never)


def test_a_text_goes_on_alike_when_the_side_changes(device: LlamaModel) -> None:
    branches = [*ON_DEVICE]
    assert run(device, branches, lambda step: step % 3 == 1) == run(device, branches, never)


@pytest.mark.parametrize("options", ON_CPU, ids=lambda options: "-".join(options))
def test_a_chain_that_the_device_would_run_otherwise_stays_on_the_cpu(
    device: LlamaModel, options: dict[str, Any]
) -> None:
    assert not is_for_device(device, options)


def test_a_branch_that_may_not_end_yet_samples_on_the_cpu_until_it_may(device: LlamaModel) -> None:
    tokens = tokens_of(device)
    logits = compute(device, 0, tokens)
    sampler = device.new_sampler(SamplingParams(), 1, tokens, min_tokens=2)
    for _ in range(2):
        assert sampler.device_stages is None
        sampler.sample_from(logits)
    assert sampler.device_stages is not None
    sampler.close()


def test_biases_of_tokens_that_the_vocabulary_lacks_stay_on_the_cpu() -> None:
    stages = chain(SamplingParams(), 1)
    assert device_stages(stages, {511: 1.0}, 512) is not None
    assert device_stages(stages, {512: 1.0}, 512) is None
    assert device_stages(stages, {-1: 1.0}, 512) is None


def test_a_row_without_a_sampler_has_its_logits_in_a_sequence_that_had_one(device: LlamaModel) -> None:
    tokens = tokens_of(device)
    expected = compute(device, 0, tokens)
    for on_same_sequence in (False, True):
        device.clear()
        sampler = device.new_sampler(SamplingParams(), 1, [])
        batch = Batch()
        row = batch.add(0, 0, tokens, want_logits=True)
        batch.samplers = {row: sampler}
        assert device.decode(batch) is DecodeStatus.OK
        with pytest.raises(AssertionError, match="keeps its logits"):
            device.logits(row)
        device.clear()
        assert (compute(device, 0 if on_same_sequence else 1, tokens) == expected).all()
        sampler.close()


def test_a_refused_decode_draws_nothing(device: LlamaModel) -> None:
    sampler, other = (device.new_sampler(SamplingParams(temperature=2.0), 3, []) for _ in range(2))
    tokens = tokens_of(device)
    for number in range(20):
        batch = Batch()
        row = batch.add(1 + number % 15, 250 + number, [300] * 60, want_logits=True)
        batch.samplers = {row: sampler}
        if device.decode(batch) is DecodeStatus.NO_ROOM:
            break
        sampler.sample(row)
        other.sample_from(compute_again(device, batch))
    else:
        pytest.fail("the cells were never full")
    device.clear()
    logits = compute(device, 0, tokens)
    assert sampler.sample_from(logits) == other.sample_from(logits)


def compute_again(model: LlamaModel, batch: Batch) -> Any:
    """Return the logits of a batch's last row, computed without samplers."""
    model.remove(batch.seq_ids[0])
    batch.samplers = {}
    assert model.decode(batch) is DecodeStatus.OK
    return model.logits(len(batch) - 1)


def test_a_rewound_sampler_draws_the_same_again(device: LlamaModel) -> None:
    sampler = device.new_sampler(SamplingParams(temperature=2.0, presence_penalty=1.0), 3, [])
    sampler.remember()

    def draw(position: int) -> int:
        batch = Batch()
        row = batch.add_newest(0, position, 300)
        batch.samplers = {row: sampler}
        assert device.decode(batch) is DecodeStatus.OK
        return sampler.sample(row)

    first = [draw(position) for position in range(6)]
    sampler.rewind(4)
    device.truncate(0, 2)
    assert [draw(position) for position in range(2, 6)] == first[2:]
    sampler.close()


def test_requests_have_the_same_texts_wherever_they_are_sampled(gguf: Callable[[str], Path]) -> None:
    texts = []
    for side in ("off", "on"):
        model = LlamaModel.load(
            Settings(model=str(gguf("llama")), n_ctx=512, n_seq_max=16, threads=1, backend_sampling=side)
        )
        engine = new_engine(model)
        texts.append([
            generate(engine, list(range(6))),
            generate(engine, [7, 8], n_probs=2),
            generate(engine, [7, 8], temperature=0, repeat_penalty=1.2),
            generate(engine, list(range(9, 13)), banned=("the", "a")),
        ])  # fmt: skip
        model.close()
    assert texts[0] == texts[1]


def test_idle_chains_are_detached(device: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_sampling, "IDLE_DECODES", 3)
    sampling = device._device_sampling
    samplers = [device.new_sampler(SamplingParams(), seed, []) for seed in range(8)]
    for position, seq_ids in enumerate([range(8), *[range(1)] * 5, [0, 9]]):
        batch = Batch()
        for sampler, seq_id in zip(samplers, seq_ids, strict=False):
            row = batch.add(seq_id, position if seq_id == 0 else 0, [300], want_logits=True)
            batch.samplers[row] = sampler
        assert device.decode(batch) is DecodeStatus.OK
    assert set(sampling._attached) == {0, 9}


def test_a_chain_that_the_device_refuses_is_sampled_on_the_cpu(
    device: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(device, [{}] * 3, never)
    built: list[tuple[Stage, ...]] = []
    new_chain = device.new_chain

    def only_partly_known(stages: tuple[Stage, ...]) -> Any:
        built.append(stages)
        return new_chain([Stage("typical", (0.5, 1)), *stages[1:]])  # which no device computes

    monkeypatch.setattr(device, "new_chain", only_partly_known)
    assert run(device, [{}] * 3, always) == expected
    assert len(built) == 1, "it is asked once"


@pytest.mark.parametrize(
    ("setting", "on_gpu", "times", "is_on"),
    [
        ("auto", True, (2.0, 1.0), True),
        ("auto", True, (1.0, 2.0), False),
        ("auto", True, (1.0, 0.99), False),
        ("auto", False, None, False),
        ("on", False, None, True),
        ("on", True, None, True),
        ("off", True, None, False),
    ],
)
def test_the_side_that_is_faster_at_the_start_samples(
    llama: LlamaModel, monkeypatch: pytest.MonkeyPatch, setting: Any, on_gpu: bool, times: Any, is_on: bool
) -> None:
    def timed(*_: Any) -> Any:
        assert times, "nothing is to be measured"
        return times

    monkeypatch.setattr(sampling_probe, "measure", timed)
    monkeypatch.setattr(sampling_probe, "free_gpu_memory", lambda: 10**12)
    llama.is_on_gpu = on_gpu
    choose_sampling(llama, setting)
    assert llama.samples_on_device is is_on


def test_nothing_is_tried_on_a_gpu_whose_memory_is_full(llama: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_probe, "free_gpu_memory", lambda: 10**4)
    llama.is_on_gpu = True
    choose_sampling(llama, "auto")
    assert not llama.samples_on_device


def test_both_sides_are_measured_and_nothing_of_it_stays(llama: LlamaModel) -> None:
    expected = run(llama, [{}], never)
    on_cpu, on_device = measure(llama, 4)
    assert min(on_cpu, on_device) > 0
    llama.samples_on_device = False
    assert run(llama, [{}], never) == expected
