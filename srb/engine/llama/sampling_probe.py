"""The choice, by measurement, between sampling on the CPU and on the device that computes the model.

Which is faster depends on the card, its link, its driver, the vocabulary and the CPU: a device saves the copy of the
logits and the CPU's work, and pays with many small operations for each branch.
"""

from __future__ import annotations

import logging
import statistics
import time
from typing import TYPE_CHECKING, Literal

from srb.config.sampling_params import SamplingParams
from srb.engine.llama.devices import free_gpu_memory
from srb.engine.model import Batch, DecodeStatus

if TYPE_CHECKING:
    from srb.engine.llama.model import LlamaModel
    from srb.engine.llama.sampler import LlamaSampler

log = logging.getLogger("srb.llama")

BRANCHES = 16  # a request's usual number or more: what a device gains grows with it, so fewer would speak for the CPU
STEPS = 8  # in a row; of these, the first are not counted: llama.cpp plans its graphs, and a card wakes up
UNCOUNTED = 3
TURNS = 2  # on each side, in turns, so that a machine that becomes slower meanwhile slows both
SECONDS = 2.0  # a slower device gets no second turn: the server's start waits for the probe
GAIN = 1.05  # a smaller one is noise, and the device keeps memory for each chain
COPIES_OF_LOGITS = 4  # of every sequence, that the GPU must have room for; without it llama.cpp would end the process


def choose_sampling(model: LlamaModel, setting: Literal["auto", "on", "off"]) -> None:
    """Let the model sample where the setting says; with "auto", on a GPU only if that is faster in some steps."""
    if not model.can_generate or setting == "off" or (setting == "auto" and not model.is_on_gpu):
        return
    if setting == "on":
        model.samples_on_device = True
        return
    if free_gpu_memory() < COPIES_OF_LOGITS * model.n_seq_max * model.n_vocab * 4:
        log.info("sampling on the CPU: the GPU's memory is too full for more (backend_sampling)")
        return
    log.info("trying to sample on the GPU; backend_sampling = off leaves this out")
    count = min(BRANCHES, model.n_seq_max, model.n_ctx // STEPS)
    try:
        on_cpu, on_device = measure(model, count)
    finally:
        model.samples_on_device = False
        model.clear()
    model.samples_on_device = on_device * GAIN < on_cpu
    log.info(
        "sampling on the %s: a step of %d branches takes %.2f ms with sampling on the GPU, %.2f ms on the CPU "
        "(backend_sampling)",
        "GPU" if model.samples_on_device else "CPU", count, on_device * 1000, on_cpu * 1000,
    )  # fmt: skip


def measure(model: LlamaModel, count: int) -> tuple[float, float]:
    """Return the median seconds of a step of `count` branches with sampling on the CPU and on the device."""
    samplers = [model.new_sampler(SamplingParams(), seed, []) for seed in range(count)]
    seconds: dict[bool, list[float]] = {False: [], True: []}
    try:
        began = time.perf_counter()
        for turn, is_on in enumerate((False, True) * TURNS):
            if turn >= 2 and time.perf_counter() - began > SECONDS:  # both sides had a turn
                break
            model.samples_on_device = is_on
            model.clear()
            for position in range(STEPS):
                took = _step(model, samplers, position)
                seconds[is_on] += [took] if position >= UNCOUNTED else []
    finally:
        for sampler in samplers:
            sampler.close()
    return statistics.median(seconds[False]), statistics.median(seconds[True])


def _step(model: LlamaModel, samplers: list[LlamaSampler], position: int) -> float:
    """Compute and sample one token of each branch as the engine does; return the seconds."""
    began = time.perf_counter()
    batch = Batch()
    rows = [batch.add_newest(seq_id, position, 0) for seq_id in range(len(samplers))]
    batch.samplers = dict(zip(rows, samplers, strict=True))
    status = model.decode(batch)
    assert status is DecodeStatus.OK, status
    if model.samples_in_threads(len(rows)):
        model.sample_ahead(list(zip(samplers, rows, strict=True)))
    for sampler, row in zip(samplers, rows, strict=True):
        sampler.sample(row)
    return time.perf_counter() - began
