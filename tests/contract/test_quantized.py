"""Quantized weights: products with them are those with the same weights as floats, and the same in every batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as native
import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tests.contract.rounding import FLOATS, needs_own_products
from tests.models.random_gguf import TINY, WRITERS, write_llama

KINDS = {
    "Q4_0": native.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_1": native.LLAMA_FTYPE_MOSTLY_Q4_1,
    "Q5_0": native.LLAMA_FTYPE_MOSTLY_Q5_0,
    "Q5_1": native.LLAMA_FTYPE_MOSTLY_Q5_1,
    "Q8_0": native.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_K": native.LLAMA_FTYPE_MOSTLY_Q4_K_S,
    "Q5_K": native.LLAMA_FTYPE_MOSTLY_Q5_K_S,
    "Q6_K": native.LLAMA_FTYPE_MOSTLY_Q6_K,
    "IQ4_NL": native.LLAMA_FTYPE_MOSTLY_IQ4_NL,
    "IQ4_XS": native.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}
SHAPE = replace(TINY, dim=256, ffn=512)  # K-quants have blocks of 256 values
Load = Callable[..., LlamaModel]
TOKENS = [3 + place * 37 % 480 for place in range(64)]
SIZES = [1, 15, 16, 17, 33, 64]  # kernels compute 16 rows at once, and one row apart

# A kernel rounds each block of a column to integers up to 127, so to steps of d = max / 127: with 256 normal values about
# 0.023 of their deviation, of which the mean error is 0.29, so 0.7 % of a product. At most nine products follow each other
# (four in each of two layers, and the logits), and their errors are as good as independent: 0.7 % times the root of nine.
# A kernel that leaves out one block of eight is wrong by 35 %.
MOST = 0.05


def quantized(plain: Path, kind: str) -> Path:
    return _written(plain, plain.with_name(f"{kind}.gguf"), (KINDS | FLOATS)[kind])


def as_floats(path: Path) -> Path:
    """Write a model with the same weights as floats."""
    return _written(path, path.with_name("floats.gguf"), native.LLAMA_FTYPE_ALL_F32)


def _written(source: Path, path: Path, kind: int) -> Path:
    params = native.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure, params.allow_requantize = kind, 1, True, True
    assert native.llama_model_quantize(str(source).encode(), str(path).encode(), ctypes.byref(params)) == 0
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
def load() -> Iterator[Load]:
    """Return a function that loads a model for the CPU, with these settings."""
    loaded = []

    def one(path: Path, **more: Any) -> LlamaModel:
        settings = {
            "n_ctx": 256, "n_batch": 65, "n_seq_max": 64, "threads": 1, "n_gpu_layers": 0,
            "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32", **more,
        }  # fmt: skip
        loaded.append(LlamaModel.load(Settings(model=str(path), **settings)))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()


def error(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how far each row is from the expected one, in parts of its length."""
    wrong: np.ndarray[Any, Any] = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_same_weights_as_floats(load: Load, tmp_path: Path, kind: str) -> None:
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), kind)
    model = load(path)
    found = {size: logits(model, size) for size in SIZES}
    expected = logits(load(as_floats(path)), 1)
    for size, each in found.items():
        wrong = error(each, expected)
        assert wrong.max() < MOST, f"{size} tokens at once, row {wrong.argmax() % size} of a batch"


@needs_own_products
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_multiplied_as_they_are(load: Load, tmp_path: Path, kind: str) -> None:
    """llama.cpp's kernels round tokens to a matrix's F16 or BF16 first: by 2^-9 of a number and more."""
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), kind)
    found, expected = logits(load(path), 16), logits(load(as_floats(path)), 16)
    assert error(found, expected).max() < 1e-5


@needs_own_products
@pytest.mark.parametrize("kind", KINDS | FLOATS)
def test_a_token_is_the_same_to_the_last_bit_in_every_batch_and_with_any_threads(
    load: Load, tmp_path: Path, kind: str
) -> None:
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), kind)
    expected = None
    for threads in (1, 2):
        model = load(path, threads=threads, flash_attn="on", cache_type_k="f16", cache_type_v="f16")
        for size in SIZES:
            found = logits(model, size)
            expected = found if expected is None else expected
            np.testing.assert_array_equal(found, expected, err_msg=f"{size} tokens at once, {threads} threads")


def decode(model: LlamaModel, *chunks: tuple[int, int, list[int]]) -> np.ndarray[Any, Any]:
    """Compute chunks, each of a sequence from a position on; return the logits after each token of the first one."""
    batch = Batch()
    rows = [
        [batch.add(seq_id, start + place, [token], want_logits=True) for place, token in enumerate(tokens)]
        for seq_id, start, tokens in chunks
    ]
    assert model.decode(batch) is DecodeStatus.OK
    return np.stack([model.logits(row).copy() for row in rows[0]])


def fill(model: LlamaModel) -> None:
    """Compute the text's first 20 tokens in sequence 0, and another one in sequence 1 that ends near the store's end.

    Between them 30 cells are free, and 20 behind them: too few for the rest of the text.
    """
    decode(model, (0, 0, TOKENS[:20]))
    decode(model, (2, 0, TOKENS[:30]))
    for start in range(0, 180, 60):
        decode(model, (1, start, TOKENS[:60]))
    decode(model, (1, 180, TOKENS[:6]))
    model.remove(2)


def beside_a_long_one(model: LlamaModel) -> list[np.ndarray[Any, Any]]:
    fill(model)
    return [decode(model, (0, 20 + step, [TOKENS[20 + step]]), (1, 186 + step, [step + 3])) for step in range(18)]


def after_a_long_one(model: LlamaModel) -> list[np.ndarray[Any, Any]]:
    fill(model)
    decode(model, (1, 186, TOKENS[:6]))
    decode(model, (3, 0, TOKENS[:20]))
    return [decode(model, (3, 20, TOKENS[20:38]))]


def restored_after_a_long_one(model: LlamaModel) -> list[np.ndarray[Any, Any]]:
    fill(model)
    decode(model, (1, 186, TOKENS[:6]))
    assert model.restore(3, model.save(0, 0))
    return [decode(model, (3, 20, TOKENS[20:38]))]


def a_fork_beside_a_long_one(model: LlamaModel) -> list[np.ndarray[Any, Any]]:
    fill(model)
    model.fork(0, 3)
    model.remove(0)
    return [decode(model, (3, 20 + step, [TOKENS[20 + step]]), (1, 186 + step, [step + 3])) for step in range(18)]


@needs_own_products
@pytest.mark.parametrize(
    "way", [beside_a_long_one, after_a_long_one, restored_after_a_long_one, a_fork_beside_a_long_one]
)
def test_a_text_is_the_same_to_the_last_bit_where_another_lies_at_the_end_of_the_store(
    load: Load, tmp_path: Path, way: Callable[[LlamaModel], list[np.ndarray[Any, Any]]]
) -> None:
    """Attention adds cells in the order of memory: a text's new ones lie behind its last one, as long as some are free."""
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), "Q8_0")
    model = load(path, flash_attn="on", cache_type_k="f16", cache_type_v="f16")
    expected = logits(model, 1)[20:38]
    model.clear()
    np.testing.assert_array_equal(np.concatenate(way(model)), expected)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0"])
@pytest.mark.parametrize("arch", WRITERS)
def test_branches_of_every_kind_of_model_are_those_of_the_same_weights_as_floats(
    load: Load, tmp_path: Path, arch: str, kind: str
) -> None:
    path = quantized(WRITERS[arch](tmp_path / "plain.gguf", SHAPE), kind)
    found, expected = (logits_of_branches(load(each)) for each in (path, as_floats(path)))
    # Where two experts are almost equally good for a token, rounding may choose the other one: of few tokens.
    assert np.quantile(error(found, expected), 0.9) < MOST
