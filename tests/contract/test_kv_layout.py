"""Saved sequences have two layouts, with flash attention and without: a text of the other one is refused, and computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus, Logits

TEXT = [2 + place * 7 % 40 for place in range(120)]


def compute(model: LlamaModel, seq_id: int, start: int, end: int) -> Logits:
    batch = Batch()
    batch.add(seq_id, start, TEXT[start:end], want_logits=True)
    assert model.decode(batch) is DecodeStatus.OK
    return model.logits(end - start - 1).copy()


@pytest.mark.parametrize("arch", ["llama", "gemma3", "qwen2vl"])
def test_a_text_of_the_other_layout_is_refused_and_leaves_no_trace(gguf: Callable[[str], Path], arch: str) -> None:
    given = {"n_gpu_layers": 0, "n_ctx": 512, "n_seq_max": 8, "threads": 1, "swa_full": "on", "model": str(gguf(arch))}
    models = [LlamaModel.load(Settings(**given, flash_attn=flash_attn)) for flash_attn in ("on", "off")]
    try:
        saved = []
        for model in models:
            compute(model, 0, 0, 100)
            saved.append(model.save(0, 0))
        for model, own, other in zip(models, saved, reversed(saved), strict=True):
            alone = compute(model, 0, 100, 120)
            model.clear()
            assert not model.restore(1, other)
            model.remove(1)
            assert model.restore(2, own)
            assert np.allclose(compute(model, 2, 100, 120), alone, atol=1e-4)
    finally:
        for model in models:
            model.close()
