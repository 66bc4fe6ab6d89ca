"""The choice, by measurement, whether tokens become text during the decode after them.

Most devices compute on by themselves once a decode is submitted, and the thread that submitted it only waits for the
logits. Others, and a CPU, return from a decode when all is computed.
"""

from __future__ import annotations

import logging
import statistics
import time
from typing import TYPE_CHECKING, Literal

from srb.engine.llama.sampling_probe import BRANCHES, STEPS, UNCOUNTED
from srb.engine.model import Batch, DecodeStatus

if TYPE_CHECKING:
    from srb.engine.llama.model import LlamaModel

log = logging.getLogger("srb.llama")

LEAST_SHARE = 0.05  # of a step; less is the logits' copy, or noise


def choose_overlap(model: LlamaModel, setting: Literal["auto", "on", "off"]) -> None:
    """Let the model decode ahead if the setting says so; with "auto", on a GPU only, if it computes on by itself."""
    if not model.can_generate or setting == "off" or (setting == "auto" and not model.is_on_gpu):
        return
    if setting == "on":
        model.decodes_ahead = True
        return
    count = min(BRANCHES, model.n_seq_max, model.n_ctx // STEPS)
    try:
        submits, waits = measure_waiting(model, count)
    finally:
        model.clear()
    model.decodes_ahead = waits > LEAST_SHARE * (submits + waits)
    log.info(
        "tokens become text %s: a step of %d branches is submitted in %.2f ms, and computed %.2f ms later (text_overlap)",
        "during the next decode" if model.decodes_ahead else "before the next decode", count, submits * 1000, waits * 1000,
    )  # fmt: skip


def measure_waiting(model: LlamaModel, count: int) -> tuple[float, float]:
    """Return the median seconds that a decode of `count` branches takes to return, and from then to its logits."""
    submits, waits = [], []
    model.clear()
    for position in range(STEPS):
        batch = Batch()
        rows = [batch.add_newest(seq_id, position, 0) for seq_id in range(count)]
        began = time.perf_counter()
        status = model.decode(batch)
        assert status is DecodeStatus.OK, status
        returned = time.perf_counter()
        model.logits(rows[0])
        if position >= UNCOUNTED:
            submits.append(returned - began)
            waits.append(time.perf_counter() - returned)
    return statistics.median(submits), statistics.median(waits)
