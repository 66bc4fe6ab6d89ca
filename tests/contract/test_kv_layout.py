"""Saved sequences have two layouts, with flash attention and without; either is read, and bytes of another form are not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama.kv_layout import Form, in_other_layout
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, Blob, DecodeStatus, Logits

N_CTX = 2048
TEXT = [2 + place * 7 % 40 for place in range(1200)]
TOLERANCE = 2e-2  # flash attention rounds queries to f16

Load = Callable[..., LlamaModel]


@pytest.fixture
def load(gguf: Callable[[str], Path]) -> Iterator[Load]:
    loaded: list[LlamaModel] = []

    def one(arch: str = "llama", **given: Any) -> LlamaModel:
        on_cpu = {"n_gpu_layers": 0, "n_ctx": N_CTX, "n_seq_max": 8, "threads": 1}
        settings = Settings(model=str(gguf(arch)), **(on_cpu | given))
        loaded.append(LlamaModel.load(settings))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()


@pytest.fixture(params=["llama", "gemma3", "lfm2", "falcon-h1", "qwen35", "qwen2vl"])
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def batch_of(*spans: tuple[int, int, int]) -> Batch:
    """A batch of spans of TEXT, each of a sequence, with the logits of each one's last token wanted."""
    batch = Batch()
    for seq_id, start, end in spans:
        batch.add(seq_id, start, TEXT[start:end], want_logits=True)
    return batch


def compute(model: LlamaModel, *spans: tuple[int, int, int]) -> list[Logits]:
    batch = batch_of(*spans)
    assert model.decode(batch) is DecodeStatus.OK
    return [model.logits(row).copy() for row, wanted in enumerate(batch.wanted) if wanted]


def close(given: list[Logits], wanted: list[Logits]) -> bool:
    return len(given) == len(wanted) and np.allclose(given, wanted, atol=TOLERANCE)


def test_the_saved_text_of_keys_alone_has_either_layout(load: Load) -> None:
    saved = {}
    for flash_attn in ("on", "off"):
        model = load("deepseek2", flash_attn=flash_attn)
        compute(model, (0, 0, 100))
        saved[flash_attn] = model.save(0, 0)
        for blob in saved.values():
            other = model._sequences.in_other_layout(blob)
            assert other is not None
            assert len(other) == len(blob)
            model.clear()
            assert model.restore(1, blob)


def test_a_saved_text_can_be_restored_in_either_layout(load: Load, arch: str, caplog: pytest.LogCaptureFixture) -> None:
    both = [load(arch, swa_full="on", flash_attn=flash_attn) for flash_attn in ("on", "off")]
    saved = []
    for each in both:
        compute(each, (0, 0, 700))
        saved.append((each.save(0, 100), each.save_state(0)))
    for each in both:
        each.clear()
        for seq_id, (blob, state) in enumerate(saved, start=1):
            compute(each, (seq_id, 0, 100))
            assert each.restore(seq_id, blob)
            if each.has_states:
                assert each.restore_state(seq_id, state)
    found = [compute(each, (1, 700, 720), (2, 700, 720)) for each in both]
    assert close(found[0], found[1])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("cache_type", ["f16", "f32"])
def test_layouts_are_converted_both_ways(load: Load, arch: str, cache_type: str) -> None:
    blobs = []
    for flash_attn in ("on", "off"):
        each = load(arch, swa_full="on", flash_attn=flash_attn, cache_type_k=cache_type, cache_type_v=cache_type)
        compute(each, (0, 0, 70))
        blobs.append(each.save(0, 0))
    for blob in blobs:
        other = each._sequences.in_other_layout(blob)
        assert other is not None
        assert not np.array_equal(other, blob)
        back = each._sequences.in_other_layout(other)
        assert back is not None
        assert np.array_equal(back, blob)


def test_bytes_that_are_no_saved_text_have_no_layout(load: Load) -> None:
    for flash_attn in ("on", "off"):
        model = load(flash_attn=flash_attn)
        compute(model, (0, 0, 70))
        blob = model.save(0, 0)
        damaged: list[Blob] = [blob[:0], blob[:10], blob[:15], blob[:300], blob[: len(blob) // 2], blob[:-1]]
        for each in damaged:
            assert in_other_layout(each, Form()) is None
        for start in (8, 12):  # streams, cells
            other = blob.copy()
            other[start : start + 4] = 255
            assert in_other_layout(other, Form()) is None
        assert in_other_layout(blob, Form(num_caches=2)) is None
        empty = model.save(5, 0)
        assert np.array_equal(in_other_layout(empty, Form()), empty)
