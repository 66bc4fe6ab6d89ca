"""Rounding: a server says that a token's logits do not depend on what is computed beside it only where they do not."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as native
import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama import rounding
from srb.engine.llama.devices import DeviceType, system_info
from srb.engine.llama.memory_estimate import memory_estimate
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.rounding import OWN_TYPES, tensors_of
from srb.engine.model import Batch, DecodeStatus
from tests.contract.rounding import FLOATS, needs_own_products
from tests.models.random_gguf import TINY, WRITERS, write_llama, write_lora

SHAPE = replace(TINY, dim=256, ffn=512)  # K-quants have blocks of 256 values
TOKENS = [3 + place * 37 % 480 for place in range(40)]
SIZES = [1, 3, 16, 33]  # kernels compute one row, four columns or 16 rows at once
OTHERS = 3  # texts that are written beside
ARCHS = [arch for arch in WRITERS if arch != "lfm2, windows"]  # whose cache of windows is small in any case
Q3_K = native.LLAMA_FTYPE_MOSTLY_Q3_K_S  # that SRB has no kernel for
Load = Callable[..., LlamaModel]


@pytest.fixture
def load() -> Iterator[Load]:
    """Return a function that loads a model for the CPU, with these settings."""
    loaded = []

    def one(path: Path, **more: Any) -> LlamaModel:
        on_cpu = {"n_gpu_layers": 0}
        settings = {"n_ctx": 512, "n_batch": 64, "n_seq_max": 31, "threads": 1, "swa_full": "on", **on_cpu}
        loaded.append(LlamaModel.load(Settings(model=str(path), **(settings | more))))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()


def quantized(plain: Path, kind: int, embeddings: int | None = None) -> Path:
    """Write a model with weights of another type, and the rows of its tokens as `embeddings`, a type of ggml."""
    path = plain.with_name("quantized.gguf")
    params = native.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure, params.allow_requantize = kind, 1, True, True
    if embeddings is not None:
        params.token_embedding_type = embeddings
    assert native.llama_model_quantize(str(plain).encode(), str(path).encode(), ctypes.byref(params)) == 0
    return path


def why(model: LlamaModel) -> str:
    return model.info("a model").nondeterminism


def logits(model: LlamaModel, size: int, others: int) -> np.ndarray[Any, Any]:
    """Compute the text in batches of so many tokens, a token of each other text beside; return the logits after each."""
    model.clear()
    found = []
    for start in range(0, len(TOKENS), size):
        batch, text = Batch(), TOKENS[start : start + size]
        for other in range(1, others + 1):
            batch.add(other, start // size, [TOKENS[start] + other], want_logits=True)
        rows = [batch.add(0, start + place, [token], want_logits=True) for place, token in enumerate(text)]
        assert model.decode(batch) is DecodeStatus.OK
        found += [model.logits(row).copy() for row in rows]
    return np.stack(found)


@needs_own_products
@pytest.mark.parametrize(("arch", "kind"), [(arch, "Q8_0") for arch in ARCHS] + [("llama", kind) for kind in FLOATS])
def test_a_model_that_is_deterministic_computes_a_token_alike_in_every_batch(
    load: Load, tmp_path: Path, arch: str, kind: str
) -> None:
    """Routers of experts and some other matrices stay floats, whatever the others are."""
    ftype = FLOATS.get(kind, native.LLAMA_FTYPE_MOSTLY_Q8_0)
    model = load(quantized(WRITERS[arch](tmp_path / "plain.gguf", SHAPE), ftype))
    assert why(model) == ""
    expected = logits(model, 1, 0)
    for size in SIZES:
        for others in (0, OTHERS):
            found = logits(model, min(size, model.n_seq_max - others), others)
            np.testing.assert_array_equal(found, expected, err_msg=f"{size} at once, {others} other texts")


@needs_own_products
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
@pytest.mark.parametrize(
    ("arch", "more"),
    [*((arch, {}) for arch in ARCHS), ("llama", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"})],
    ids=[*ARCHS, "llama, keys of 8 bits"],
)
def test_a_text_is_the_same_in_a_store_that_is_all_but_full(
    load: Load, tmp_path: Path, arch: str, more: dict[str, str], seed: int
) -> None:
    """Other texts come, grow and go, so that the only free cells are before the text's own; once it is cut and restored."""
    model = load(
        quantized(WRITERS[arch](tmp_path / "plain.gguf", SHAPE), native.LLAMA_FTYPE_MOSTLY_Q8_0), n_ctx=256, **more
    )
    assert why(model) == ""
    pick = np.random.default_rng(seed)
    text = pick.integers(3, 480, 120).tolist()
    alone = [one_more(model, {0: (place, [token])}) for place, token in enumerate(text)]
    model.clear()
    found: list[np.ndarray[Any, Any]] = []
    others: dict[int, int] = {}  # the length of each other text, by its sequence
    while len(found) < len(text):
        while (free := model.n_ctx - len(found) - sum(others.values())) < 6:
            gone = int(pick.choice(sorted(others)))
            model.remove(gone)
            del others[gone]
        new = next(seq_id for seq_id in range(1, 20) if seq_id not in others)
        grown = int(pick.choice([*others, new]))
        count = int(pick.integers(1, max(2, free - 4)))
        start = others.get(grown, 0)
        one_more(model, {grown: (start, pick.integers(3, 480, min(count, 60)).tolist())})
        others[grown] = start + min(count, 60)
        if len(found) == 60 and model.supports_partial_reuse and not model.has_states:
            saved = model.save(0, 20)
            model.fork(0, 25, 20)
            model.remove(0)
            assert model.restore(25, saved)
            model.fork(25, 0, 60)
            model.remove(25)
        found.append(one_more(model, {0: (len(found), [text[len(found)]])}))
    np.testing.assert_array_equal(np.stack(found), np.stack(alone))


def one_more(model: LlamaModel, texts: dict[int, tuple[int, list[int]]]) -> np.ndarray[Any, Any]:
    """Compute tokens of each text from a place on; return the logits after the first text's last one, shape (n_vocab,)."""
    batch = Batch()
    rows = [batch.add(seq_id, start, tokens, want_logits=True) for seq_id, (start, tokens) in texts.items()]
    assert model.decode(batch) is DecodeStatus.OK
    return model.logits(rows[0]).copy()


@needs_own_products
@pytest.mark.parametrize("arch", ["gemma3", "lfm2, windows"])
def test_windows_whose_cells_are_used_again_are_told(load: Load, tmp_path: Path, arch: str) -> None:
    plain = WRITERS[arch](tmp_path / "plain.gguf", replace(SHAPE, window=8, context=2048))
    given: dict[str, Any] = {"n_ctx": 2048, "n_batch": 32, "n_seq_max": 4, "swa_full": "off"}
    model = load(quantized(plain, native.LLAMA_FTYPE_MOSTLY_Q8_0), **given)
    assert why(model).startswith("in the small cache of sliding windows")
    assert memory_estimate(model._settings).nondeterminism == why(model)


@needs_own_products
def test_weights_of_another_type_are_named_to_doctor_too(load: Load, tmp_path: Path) -> None:
    model = load(quantized(write_llama(tmp_path / "plain.gguf", SHAPE), Q3_K))
    assert why(model) == "weights of type q3_K (output.weight and 14 others) are multiplied by llama.cpp's own kernels"
    assert memory_estimate(model._settings).nondeterminism == why(model)
    assert not np.array_equal(logits(model, 1, 0), logits(model, 16, 0))


@needs_own_products
def test_rows_that_are_only_looked_up_may_have_any_type(load: Load, tmp_path: Path) -> None:
    q3_k = 11
    plain = write_llama(tmp_path / "plain.gguf", SHAPE)
    path = quantized(plain, native.LLAMA_FTYPE_MOSTLY_Q8_0, embeddings=q3_k)
    assert {each.type for each in tensors_of(path) if each.name == "token_embd.weight"} == {"q3_K"}
    assert why(load(path)) == ""


@needs_own_products
def test_weights_of_an_adapter_count(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), native.LLAMA_FTYPE_MOSTLY_Q8_0)
    adapter = write_lora(tmp_path / "verse.gguf", SHAPE)
    model = load(path, lora=str(adapter))
    assert why(model) == ""
    monkeypatch.setattr(rounding, "OWN_TYPES", OWN_TYPES - {"f32"})
    assert why(model).startswith("weights of the adapter verse.gguf of type f32 (")


@needs_own_products
@pytest.mark.parametrize(
    ("shape", "settings", "words"),
    [
        ({}, {"flash_attn": "off"}, "flash_attn is off"),
        ({"heads": 32, "kv_heads": 32}, {}, "heads of 8 values are no multiple of 16"),
        ({"heads": 16, "kv_heads": 8}, {}, ""),
        ({}, {"flash_attn": "on", "cache_type_k": "q8_0", "cache_type_v": "q8_0"}, ""),
    ],
)
def test_attention_that_sums_in_another_order_is_told(
    load: Load,
    tmp_path: Path,
    shape: dict[str, int],
    settings: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "no multiple of 16" in words:
        monkeypatch.setattr(rounding, "system_info", lambda: f"{system_info()} | AVX512 = 1")
    plain = write_llama(tmp_path / "plain.gguf", replace(SHAPE, **shape))
    found = why(load(quantized(plain, native.LLAMA_FTYPE_MOSTLY_Q8_0), **settings))
    assert found.startswith(words) if words else not found


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("uses_gpu", lambda settings: True, "a GPU computes"),
        ("device_types", lambda: [DeviceType.CPU, DeviceType.ACCEL], "an accelerator beside the CPU"),
        ("system_info", lambda: system_info().replace("mul-mat,", ""), "llama.cpp was built without mul-mat of SRB's"),
        (
            "system_info",
            lambda: "CPU : AVX2 = 1 | ",
            "llama.cpp was built without shared-keys, mul-mat, cells-behind of",
        ),
        (
            "system_info",
            lambda: re.sub("(F16C|DOTPROD) = 1", "", system_info()),
            "SRB's kernels need AVX2, FMA, F16C or NEON",
        ),
        ("system_info", lambda: system_info().replace("SHARED_KEYS = 1", ""), "SRB's attention has no kernel"),
    ],
)
@needs_own_products
def test_a_build_or_a_machine_with_other_kernels_is_told(
    load: Load, tmp_path: Path, name: str, value: Callable[[], Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = quantized(write_llama(tmp_path / "plain.gguf", SHAPE), native.LLAMA_FTYPE_MOSTLY_Q8_0)
    model = load(path)
    assert why(model) == ""
    monkeypatch.setattr(rounding, name, value)
    assert why(model).startswith(words)


def test_the_own_types_are_those_of_the_kernel() -> None:
    kernel = (Path(__file__).parents[2] / "native" / "mul_mat.cpp").read_text()
    found = re.findall(r"case GGML_TYPE_(\w+): return &", kernel)
    assert found
    assert {name.lower() for name in found} == {name.lower() for name in OWN_TYPES}


def test_a_file_that_is_no_gguf_has_no_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("no model")
    with pytest.raises(ValueError, match="is no GGUF file"):
        tensors_of(path)
