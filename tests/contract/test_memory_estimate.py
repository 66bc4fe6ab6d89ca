"""The memory that a model is said to need is the memory that llama.cpp takes once the model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGUFReader

from srb.config.settings import Settings
from srb.engine.llama.memory_estimate import build, memory_estimate
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from srb.errors import ConfigError, ModelLoadFailed
from srb.files.native_facts import MemoryEstimate
from tests.models.random_gguf import TINY, write_llama
from tests.models.random_projectors import write_projector

SHAPE = dataclasses.replace(TINY, heads=2, kv_heads=1)  # heads of 32 values, which every data type can hold
BYTES_OF_BLOCK = {  # of 32 values: ggml's block sizes
    "f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q4_0": 18, "q4_1": 20, "iq4_nl": 18, "q5_0": 22, "q5_1": 24,
}  # fmt: skip
_OF_A_TOKEN = 12  # bytes that a saved sequence has for each token beside its KV: its position and its sequences
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("wide") / "wide.gguf", SHAPE)


def per_cell(found: MemoryEstimate) -> dict[str, float]:
    return {size.type: size.bytes_per_cell for size in found.kv_types if not size.refused}


def saved_bytes(settings: Settings, tokens: int) -> int:
    """Return the size of a sequence of some tokens that llama.cpp has computed and saved."""
    model = LlamaModel.load(settings)
    try:
        batch = Batch()
        batch.add(0, 0, [3 + number % 250 for number in range(tokens)], want_logits=False)
        assert model.decode(batch) is DecodeStatus.OK
        return len(model.save(0, 0))
    finally:
        model.close()


def test_every_data_type_takes_the_bytes_of_its_blocks(wide: Path) -> None:
    found = per_cell(memory_estimate(Settings(model=str(wide), n_ctx=1024)))
    values = SHAPE.layers * SHAPE.kv_heads * (SHAPE.dim // SHAPE.heads) * 2  # keys and values
    assert found == {name: values / 32 * size for name, size in BYTES_OF_BLOCK.items()}


@pytest.mark.parametrize("kind", ["f32", "f16", "q8_0", "q4_0"])
def test_a_computed_text_takes_what_was_foretold(wide: Path, kind: str) -> None:
    settings = Settings(model=str(wide), n_ctx=1024, threads=1, cache_type_k=kind, cache_type_v=kind)
    foretold = memory_estimate(settings).bytes_per_cell
    measured = (saved_bytes(settings, 96) - saved_bytes(settings, 32)) / 64
    assert measured == foretold + _OF_A_TOKEN


def test_the_needs_are_those_of_the_model_that_is_loaded(wide: Path) -> None:
    settings = Settings(model=str(wide), n_ctx=1024, threads=3)
    found, model = memory_estimate(settings), LlamaModel.load(settings)
    try:
        info = model.info("wide")
        assert (found.n_ctx, found.n_seq_max, found.n_ctx_train) == (model.n_ctx, model.n_seq_max, model.n_ctx_train)
        assert (found.weights, found.n_params, found.description) == (info.size, info.n_params, info.description)
        assert (found.memory, found.n_layers, found.threads) == (model.memory_kind, SHAPE.layers, 3)
    finally:
        model.close()
    assert 0 < found.weights <= wide.stat().st_size
    assert found.compute > 0
    assert found.total == found.weights + found.store + found.compute


def test_all_of_it_has_a_place(wide: Path, tmp_path: Path) -> None:
    """llama.cpp pads buffers, and tells sizes in hundredths of a MiB; without a GPU all is in one memory."""
    projector = write_projector(tmp_path / "projector.gguf", SHAPE)
    for settings in (
        Settings(model=str(wide), n_ctx=1024),
        Settings(model=str(wide), n_ctx=1024, spec_draft_model=str(wide), mmproj=str(projector)),
    ):
        found = memory_estimate(settings)
        assert found.places is not None
        assert sum((found.places.machine, *found.places.gpus.values())) == pytest.approx(found.total, rel=0.02)
        if not any(device.has_own_memory for device in build().devices):
            assert not found.places.gpus


def test_a_recurrent_model_needs_states_and_no_cells(gguf: Callable[[str], Path]) -> None:
    found = memory_estimate(Settings(model=str(gguf("mamba")), n_ctx=1024))
    assert (found.memory, found.bytes_per_cell, set(per_cell(found).values())) == ("recurrent", 0.0, {0.0})
    assert found.states > 0


def test_a_hybrid_model_needs_both(gguf: Callable[[str], Path]) -> None:
    found = memory_estimate(Settings(model=str(gguf("lfm2")), n_ctx=1024))
    assert found.memory == "hybrid"
    assert found.states > 0
    attention = 1 * TINY.kv_heads * (TINY.dim // TINY.heads) * 2  # in one of the two layers
    assert found.bytes_per_cell == attention * 2


def test_the_small_cache_of_windows_is_told_beside_the_full_size(gguf: Callable[[str], Path]) -> None:
    small, full = (
        memory_estimate(Settings(model=str(gguf("gemma3")), n_ctx=4096, swa_full=size)) for size in ("off", "on")
    )
    assert (small.windows, full.windows, memory_estimate(Settings(model=str(gguf("llama")))).windows) == (
        "small",
        "full",
        "",
    )
    assert small.store < small.full_store == full.store
    assert full.full_store == 0


def test_a_type_that_llama_cpp_refuses_has_its_reason(gguf: Callable[[str], Path]) -> None:
    found = memory_estimate(Settings(model=str(gguf("llama")), n_ctx=1024, cache_type_k="q8_0", cache_type_v="q8_0"))
    assert "does not divide" in found.refused
    assert {size.type for size in found.kv_types if size.refused} == set(BYTES_OF_BLOCK) - {"f32", "f16", "bf16"}


@pytest.mark.parametrize(
    ("size", "reason"), [(-100, "model: {} cannot be loaded: "), (5000, "the model {} is incomplete")]
)
def test_a_file_that_was_cut_is_refused_in_one_line(wide: Path, tmp_path: Path, size: int, reason: str) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(wide.read_bytes()[:size])
    with pytest.raises(ModelLoadFailed) as raised:
        memory_estimate(Settings(model=str(cut)))
    assert raised.value.message.startswith(reason.format(cut))
    assert "\n" not in raised.value.message


@pytest.fixture(scope="module")
def projector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")
    return write_projector(tmp_path_factory.mktemp("projector") / "mmproj.gguf", SHAPE)


def test_a_projector_takes_its_weights_and_buffers(wide: Path, projector: Path) -> None:
    blind = memory_estimate(Settings(model=str(wide), n_ctx=1024))
    seeing = memory_estimate(Settings(model=str(wide), n_ctx=1024, mmproj=str(projector)))
    weights = sum(int(tensor.n_bytes) for tensor in GGUFReader(projector).tensors)
    assert weights < seeing.projector < weights + 512 * 2**20
    assert (blind.projector, seeing.total - blind.total) == (0, seeing.projector)
    assert (seeing.projector_refused, seeing.is_projector_apart) == ("", False)


def test_a_file_that_is_no_projector_is_refused_in_one_line(wide: Path, projector: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.gguf"
    empty.write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    found = memory_estimate(Settings(model=str(wide), n_ctx=1024, mmproj=str(empty)))
    assert found.projector == 0
    assert found.projector_refused.startswith(f"mmproj: {empty} cannot be loaded: ")
    assert "\n" not in found.projector_refused
    header = tmp_path / "header.gguf"
    header.write_bytes(projector.read_bytes()[:500])
    for path, reason in (
        (tmp_path / "missing.gguf", "mmproj: cannot read"),
        (wide, "mmproj: .* is a model"),
        (header, "mmproj: .* is incomplete"),
    ):
        with pytest.raises(ConfigError, match=reason):
            memory_estimate(Settings(model=str(wide), mmproj=str(path)))


def test_a_projector_beyond_the_gpus_memory_is_refused_before_llama_cpp_aborts(
    wide: Path, projector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srb.engine.llama.model.uses_gpu", lambda settings: True)
    monkeypatch.setattr("srb.engine.llama.model.free_gpu_memory", lambda: 2**20 // 2)
    with pytest.raises(ModelLoadFailed, match="0 MiB are free on the GPU; --no-mmproj-offload"):
        LlamaModel.load(Settings(model=str(wide), n_ctx=1024, threads=1, mmproj=str(projector)))


def test_the_build_has_a_cpu_and_its_features() -> None:
    found = build()
    assert any(device.kind == "cpu" and device.total > 0 for device in found.devices)
    assert found.features
    assert found.package.startswith("llama-cpp-python ")
    assert found.ggml


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell a process's memory")
def test_a_store_takes_the_memory_of_the_cells_that_were_used(wide: Path) -> None:
    settings = Settings(model=str(wide), n_ctx=1 << 19, cache_type_k="f32", cache_type_v="f32", threads=1)
    whole = memory_estimate(settings).bytes_per_cell * settings.n_ctx
    before = anonymous_bytes()
    model = LlamaModel.load(settings)
    try:
        batch = Batch()
        batch.add(0, 0, [3 + number % 250 for number in range(96)], want_logits=False)
        assert model.decode(batch) is DecodeStatus.OK
        assert anonymous_bytes() - before < whole / 4
    finally:
        model.close()


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="the system has no huge pages for memory of a process")
def test_weights_that_are_not_mapped_may_have_huge_pages(wide: Path) -> None:
    for mmap in ("on", "off"):
        before = advised_bytes()
        model = LlamaModel.load(Settings(model=str(wide), n_ctx=256, threads=1, mmap=mmap))
        try:
            after = advised_bytes()  # in memory that another model has left, they were asked for before
            assert ((after - before if mmap == "on" else after) > wide.stat().st_size / 2) is (mmap == "off")
        finally:
            model.close()


def advised_bytes() -> int:
    """Return the size of this process's memory for which huge pages were asked."""
    total = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) * 1024
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total


def anonymous_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
