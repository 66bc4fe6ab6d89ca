"""Quantized weights: llama.cpp lays them out for this CPU, and its kernels for that compute what its plain ones do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as native
import numpy as np
import pytest

from srb.engine.llama import model as llama_model
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from srb.settings import Settings
from tools.random_gguf import TINY, WRITERS, write_llama

KINDS = {
    "Q4_0": native.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_1": native.LLAMA_FTYPE_MOSTLY_Q4_1,
    "Q8_0": native.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_K": native.LLAMA_FTYPE_MOSTLY_Q4_K_S,
    "Q5_K": native.LLAMA_FTYPE_MOSTLY_Q5_K_S,
    "Q6_K": native.LLAMA_FTYPE_MOSTLY_Q6_K,
    "IQ4_XS": native.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}
SHAPE = replace(TINY, dim=256, ffn=512)  # K-quants have blocks of 256 values
Load = Callable[[Path, bool], LlamaModel]
TOKENS = [3 + place * 37 % 480 for place in range(64)]
SIZES = [1, 15, 16, 17, 33, 64]  # kernels compute 16 rows at once, and one row apart

# Every kernel rounds each block of a row to integers up to 127, so to steps of d = max / 127: with 256 normal values about
# 0.023 of their deviation. Two kernels may round each value to neighbours, which differ by 0.4 d in the mean square: 1 % of
# a product. At most nine products follow each other (four in each of two layers, and the logits), and their errors are as
# good as independent: 1 % times the root of nine. A kernel that leaves out one block of eight is wrong by 35 %.
MOST = 0.05


def quantized(plain: Path, kind: str) -> Path:
    path = plain.with_name(f"{kind}.gguf")
    params = native.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure = KINDS[kind], 1, True
    assert native.llama_model_quantize(str(plain).encode(), str(path).encode(), ctypes.byref(params)) == 0
    return path


def logits(model: LlamaModel, size: int) -> np.ndarray[Any, Any]:
    """Compute the text in batches of so many tokens; return the logits after each token, shape (tokens, n_vocab)."""
    model.clear()
    found = []
    for start in range(0, len(TOKENS), size):
        batch = Batch()
        rows = [
            batch.add(0, start + place, [token], want_logits=True)
            for place, token in enumerate(TOKENS[start : start + size])
        ]
        assert model.decode(batch) is DecodeStatus.OK
        found += [model.logits(row).copy() for row in rows]
    return np.stack(found)


def logits_of_branches(model: LlamaModel) -> np.ndarray[Any, Any]:
    """Compute three texts, a token of each in a batch; return the logits after each token, shape (tokens, n_vocab)."""
    found = []
    for start in range(0, len(TOKENS) - 2, 3):
        batch = Batch()
        rows = [batch.add(row, start // 3, [TOKENS[start + row]], want_logits=True) for row in range(3)]
        assert model.decode(batch) is DecodeStatus.OK
        found += [model.logits(row).copy() for row in rows]
    return np.stack(found)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, bool], LlamaModel]]:
    """Return a function that loads a model, with weights laid out for this CPU or as they are in the file."""
    own_params, loaded = llama_model.model_params, []

    def one(path: Path, laid_out: bool) -> LlamaModel:
        def params(settings: Settings) -> Any:
            made, keep_alive = own_params(settings)
            made.use_extra_bufts &= laid_out
            return made, keep_alive

        monkeypatch.setattr(llama_model, "model_params", params)
        settings = Settings(
            model=str(path), n_ctx=256, n_batch=65, n_seq_max=64, threads=1, n_gpu_layers=0,
            flash_attn="off", cache_type_k="f32", cache_type_v="f32",
        )  # fmt: skip
        loaded.append(LlamaModel.load(settings))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()


def error(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how far each row is from the expected one, in parts of its length."""
    wrong: np.ndarray[Any, Any] = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_of_this_cpu_compute_what_plain_ones_do(load: Load, tmp_path: Path, kind: str) -> None:
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), kind)
    model = load(path, True)
    found = {size: logits(model, size) for size in SIZES}
    expected = logits(load(path, False), 1)
    for size, each in found.items():
        wrong = error(each, expected)
        assert wrong.max() < MOST, f"{size} tokens at once, row {wrong.argmax() % size} of a batch"


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0"])
@pytest.mark.parametrize("arch", WRITERS)
def test_branches_of_every_kind_of_model_are_computed_as_by_plain_kernels(
    load: Load, tmp_path: Path, arch: str, kind: str
) -> None:
    path = quantized(WRITERS[arch](tmp_path / "plain.gguf", SHAPE), kind)
    found, expected = (logits_of_branches(load(path, laid_out)) for laid_out in (True, False))
    assert error(found, expected).max() < MOST
