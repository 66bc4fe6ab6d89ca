"""Defaults for a GPU are for models that lie on one, whatever the build of llama.cpp could do."""

from __future__ import annotations

import ctypes
import logging
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp as lib
import pytest

from srb.config.rpc_nodes import Node
from srb.config.settings import Settings
from srb.engine.llama import devices as llama_devices
from srb.engine.llama import memory_estimate, params
from srb.engine.llama.devices import DeviceType, device_types
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.params import CPU_SEQUENCES, MAX_SEQUENCES, changed_settings, uses_gpu
from srb.engine.llama.rpc import add_nodes
from srb.errors import ConfigError, ModelLoadFailed
from srb.files.native_facts import PATCHES, patches_of, read_facts
from srb.host import cores
from tests.contract.processor import needs_one_processor

CPU, GPU, IGPU, ACCEL = DeviceType.CPU, DeviceType.GPU, DeviceType.IGPU, DeviceType.ACCEL


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the devices of a build that could offload to a GPU."""

    def have(*kinds: int) -> None:
        monkeypatch.setattr(lib, "llama_supports_gpu_offload", lambda: True)
        monkeypatch.setattr(params, "device_types", lambda: list(kinds))

    return have


@pytest.mark.parametrize(
    ("kinds", "n_gpu_layers", "expected"),
    [
        ((CPU,), -1, False),  # as a build with RPC finds it, where no server is given
        ((), -1, False),
        ((ACCEL, CPU), -1, False),
        ((GPU, CPU), -1, True),
        ((GPU, GPU, CPU), 7, True),
        ((IGPU, CPU), -1, True),
        ((GPU, CPU), 0, False),
    ],
)
def test_a_gpu_counts_only_if_ggml_finds_one(
    devices: Callable[..., None], kinds: tuple[int, ...], n_gpu_layers: int, expected: bool
) -> None:
    devices(*kinds)
    assert uses_gpu(Settings(n_gpu_layers=n_gpu_layers)) is expected


@pytest.mark.parametrize(("kinds", "most"), [((CPU,), CPU_SEQUENCES), ((GPU, CPU), MAX_SEQUENCES - 1)])
def test_a_build_that_could_offload_has_the_defaults_of_the_devices_it_finds(
    devices: Callable[..., None], gguf: Callable[[str], Path], kinds: tuple[int, ...], most: int
) -> None:
    devices(*kinds)
    model = LlamaModel.load(Settings(model=str(gguf("llama")), n_ctx=1024, threads=1))
    try:
        assert model.n_seq_max == most
        assert model.is_on_gpu is (GPU in kinds)
    finally:
        model.close()


@pytest.mark.parametrize(
    ("kinds", "n_gpu_layers", "told"),
    [((CPU,), 33, True), ((CPU,), -1, False), ((CPU,), 0, False), ((GPU, CPU), 33, False)],
)
def test_layers_for_a_gpu_that_there_is_not_are_told(
    devices: Callable[..., None], kinds: tuple[int, ...], n_gpu_layers: int, told: bool
) -> None:
    devices(*kinds)
    remarks = list(changed_settings(Settings(n_gpu_layers=n_gpu_layers), n_batch=2048, n_ctx_seq=8192))
    assert [each.text.partition(":")[0] for each in remarks] == ["n_gpu_layers 33 has no effect"] * told


def test_a_small_batch_and_a_context_beyond_the_models_are_told(
    gguf: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    def told(**settings: Any) -> list[str]:
        caplog.clear()
        model = LlamaModel.load(Settings(model=str(gguf("llama")), threads=1, n_seq_max=20, **settings))
        model.close()
        return [record.getMessage() for record in caplog.records if record.name == "srb.llama"]

    caplog.set_level(logging.WARNING, "srb.llama")
    assert told() == [], "by default, the cells are more than the longest text"
    [line] = told(n_ctx=2048)
    assert "n_ctx 2048" in line
    assert "one text has at most 512 tokens" in line
    assert told(n_ctx=512) == []
    [line] = told(n_batch=8)
    assert line.startswith("n_batch 8 is raised to 21, one token for each sequence")


def test_the_devices_of_this_machine_are_found() -> None:
    kinds = device_types()
    assert CPU in kinds
    assert set(kinds) <= set(DeviceType)


def test_devices_match_ggmls_search_by_type() -> None:
    by_type = lib.llama_cpp._lib.ggml_backend_dev_by_type
    by_type.restype, by_type.argtypes = ctypes.c_void_p, [ctypes.c_int]
    assert {kind for kind in DeviceType if by_type(kind)} == set(device_types())


def test_rpc_without_a_build_for_it_is_one_line_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lib, "llama_supports_rpc", lambda: False)
    with pytest.raises(ConfigError) as raised:
        add_nodes([Node("127.0.0.1", 50052)])
    assert raised.value.message == (
        "rpc: llama.cpp was built without RPC; llama-srb-native has it, and so has `make install` in a clone of SRB"
    )
    add_nodes([])


def test_llama_cpp_has_all_patches_and_tells_their_names() -> None:
    assert patches_of(llama_devices.system_info()) == set(PATCHES), "llama.cpp was not built by make install"
    assert not llama_devices.has_faulty_amx()


def test_kernels_for_amx_are_faulty_without_those_that_take_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for info, is_faulty in ((b"CPU : AVX2 = 1 | AMX_INT8 = 1 |", True), (b"CPU : AVX2 = 1 |", False)):
        monkeypatch.setattr("llama_cpp.llama_print_system_info", lambda info=info: info)
        assert llama_devices.has_faulty_amx.__wrapped__() is is_faulty


def test_a_build_without_patches_is_told_in_one_line_however_many_models_are_loaded(
    monkeypatch: pytest.MonkeyPatch, gguf: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        caplog.clear()
        llama_devices.tell_library.cache_clear()
        for _ in range(2):
            LlamaModel.load(Settings(model=str(gguf("llama")), n_ctx=64, n_seq_max=4, threads=1)).close()
        return [record.getMessage() for record in caplog.records if "SRB's patches" in record.getMessage()]

    caplog.set_level(logging.INFO)
    assert told() == [f"llama.cpp of llama-cpp-python {lib.__version__}, with SRB's patches"]
    monkeypatch.setattr(llama_devices, "system_info", lambda: "CPU : AVX2 = 1 | ")
    [line] = told()
    assert line.startswith("llama.cpp was built without SRB's patches (native/patches): ")
    assert f"(llama-cpp-python {lib.__version__}); pip install llama-srb-native has it with them" in line
    llama_devices.tell_library.cache_clear()


@pytest.fixture
def begun_anew() -> Iterator[None]:
    """Let the library be looked at again, in this test and after it."""
    llama_devices.ggml.cache_clear()
    yield
    llama_devices.ggml.cache_clear()


@needs_one_processor
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are x86's")
@pytest.mark.parametrize(("has", "lacks"), [(("sse4_2", "avx"), "AVX2"), (("avx", "avx2", "f16c", "bmi2"), "FMA")])
def test_a_build_for_other_processors_is_refused_in_one_line(
    has: tuple[str, ...], lacks: str, begun_anew: None, monkeypatch: pytest.MonkeyPatch, gguf: Callable[[str], Path]
) -> None:
    monkeypatch.setattr(llama_devices, "instructions", lambda _: frozenset(has))
    with pytest.raises(ModelLoadFailed, match=f"for processors with {lacks}.*, which this one lacks") as refused:
        LlamaModel.load(Settings(model=str(gguf("llama")), n_ctx=64, n_seq_max=4, threads=1))
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("has", [cores.instructions(cores.cpu_info()), frozenset()], ids=["this one", "not known"])
def test_a_build_for_this_processor_is_used(
    has: frozenset[str], begun_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_devices, "instructions", lambda _: has)
    assert llama_devices.ggml() is lib.llama_cpp._lib


@needs_one_processor
def test_the_doctor_tells_of_a_build_for_other_processors(
    begun_anew: None, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(llama_devices, "instructions", lambda _: frozenset({"sse4_2"}))
    memory_estimate.main()
    assert "which this one lacks" in read_facts(capfdbinary.readouterr().out).error


class Plugins:
    """A library of llama.cpp that finds devices only in a folder that it is told."""

    _name = "/somewhere/lib/libllama.so"

    def __init__(self, registered: int) -> None:
        self.loaded: list[bytes] = []

        def count() -> int:
            return registered

        def load(folder: bytes) -> None:
            self.loaded.append(folder)

        self.ggml_backend_reg_count, self.ggml_backend_load_all_from_path = count, load


@pytest.mark.parametrize(("registered", "loaded"), [(0, [b"/somewhere/lib"]), (1, []), (2, [])])
def test_devices_in_plugins_are_loaded_from_the_librarys_folder_where_there_are_no_others(
    monkeypatch: pytest.MonkeyPatch, registered: int, loaded: list[bytes]
) -> None:
    plugins = Plugins(registered)
    monkeypatch.setattr(lib.llama_cpp, "_lib", plugins)
    assert llama_devices.ggml.__wrapped__() is plugins
    assert plugins.loaded == loaded
