"""The memory check before a second engine: free memory, mapped files, and needs that llama.cpp has told."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.files.native_facts import Build, Device, MemoryEstimate, MemoryUse, NativeFacts
from srb.host.memory import free_memory
from srb.models import memory_check
from srb.models.memory_check import EstimateChild, MemoryCheck, bytes_needed, is_checked, room_beside
from tests.logs import lines_of
from tests.machines import GIB, FakeRoot

GPU = Device("CUDA0", "a card", "gpu", 8 * GIB, 8 * GIB)
NEEDS = MemoryEstimate(
    description="", memory="attention", n_params=1, n_layers=1, n_ctx_train=1, weights=2 * GIB, n_ctx=1024, n_seq_max=1,
    threads=1, threads_batch=1, kv_types=(), bytes_per_cell=1024.0**2, states=0, compute=0, compute_per_cell=0.0,
)  # fmt: skip


def on(machine: int, **gpus: int) -> MemoryEstimate:
    """Return needs with these bytes in the machine's memory and on GPUs."""
    return dataclasses.replace(NEEDS, places=MemoryUse(machine, gpus))


def facts(*devices: Device, model: MemoryEstimate | None = NEEDS) -> NativeFacts:
    return NativeFacts(Build("0", "0", "", is_debug=False, devices=devices), model)


def free(monkeypatch: pytest.MonkeyPatch, count: int | None) -> None:
    monkeypatch.setattr(memory_check, "free_memory", lambda: count)


def test_free_memory_is_the_machines_or_its_groups(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path)
    assert free_memory(tmp_path) == 6 * GIB
    root.write("sys/fs/cgroup/memory.max", f"{4 * GIB}\n")
    root.write("sys/fs/cgroup/memory.current", f"{GIB}\n")
    assert free_memory(tmp_path) == 3 * GIB
    assert free_memory(tmp_path / "nowhere") is None


def test_all_counts_on_a_cpu_and_with_a_gpu_each_part_where_llama_cpp_puts_it() -> None:
    settings, there = Settings(model="/m/a.gguf"), on(GIB, CUDA0=2 * GIB)
    assert bytes_needed(facts(), settings) == MemoryUse(3 * GIB)
    assert bytes_needed(facts(GPU, model=there), settings) == MemoryUse(GIB, {"CUDA0": 2 * GIB})
    assert bytes_needed(facts(GPU), settings) is None, "llama.cpp has not told"
    assert bytes_needed(None, settings) is None
    assert bytes_needed(facts(model=None), settings) is None
    assert bytes_needed(facts(model=dataclasses.replace(NEEDS, refused="no")), settings) is None


def test_what_is_in_places_can_be_added() -> None:
    assert MemoryUse(1, {"CUDA0": 2}) + MemoryUse(3, {"CUDA1": 4, "CUDA0": 5}) == MemoryUse(4, {"CUDA0": 7, "CUDA1": 4})


def test_fakes_and_models_on_other_machines_are_not_checked() -> None:
    assert is_checked(Settings(model="/m/a.gguf"))
    assert not is_checked(Settings(model="fake:25"))
    assert not is_checked(Settings(model="/m/a.gguf", rpc="10.0.0.2:50052"))


def test_a_mapped_file_is_not_free_for_another_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free(monkeypatch, 1_000_000)
    path = tmp_path / "a.gguf"
    path.write_bytes(bytes(100_000))
    mapped = Settings(model=str(path), mmap="on")
    assert room_beside([mapped]) == 850_000
    assert room_beside([mapped.model_copy(update={"mmap": "off"}), Settings(model="fake:")]) == 950_000
    path.unlink()
    assert room_beside([mapped]) == 950_000
    free(monkeypatch, None)
    assert room_beside([]) is None


def test_a_model_without_room_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check, settings, others = MemoryCheck(), Settings(model="/m/b.gguf"), {"a": Settings(model="fake:")}
    free(monkeypatch, 2 * GIB)
    with caplog.at_level(logging.WARNING):
        assert [check.has_room("b", settings, facts(), others) for _ in range(3)] == [False] * 3
    told = ["model b needs 3.00 GiB, and 1.90 GiB are free beside a: one of them gives way first"]
    assert lines_of("srb.supervisor", caplog) == told
    free(monkeypatch, 4 * GIB)
    assert check.has_room("b", settings, facts(), others)


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        (on(GIB, CUDA0=7 * GIB), ""),
        (on(GIB, CUDA0=8 * GIB), "model b needs 8.00 GiB on CUDA0, and 7.60 GiB are free there beside a: "),
        (on(GIB, CUDA0=GIB, CUDA1=GIB), "model b needs 1.00 GiB on CUDA1, and 486 MiB are free there beside a: "),
        (on(3 * GIB, CUDA0=GIB), "model b needs 3.00 GiB, and 1.90 GiB are free beside a: "),
        (on(GIB, Other0=90 * GIB), "the system does not tell how much memory is free on Other0"),
    ],
)
def test_each_gpu_and_the_machine_have_to_have_room(
    needs: MemoryEstimate, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free(monkeypatch, 2 * GIB)
    second = Device("CUDA1", "a card", "gpu", GIB // 2, 8 * GIB)
    cpu = Device("CPU", "cores", "cpu", 0, 0)
    others = {"a": Settings(model="fake:")}
    with caplog.at_level(logging.WARNING):
        has_room = MemoryCheck().has_room(
            "b", Settings(model="/m/b.gguf"), facts(cpu, GPU, second, model=needs), others
        )
    assert has_room is (not told.startswith("model b needs"))
    assert [message.startswith(told) for message in lines_of("srb.supervisor", caplog)] == [True] * bool(told)


def test_the_file_of_a_model_on_a_gpu_is_not_needed_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free(monkeypatch, 1_000_000)
    path = tmp_path / "a.gguf"
    path.write_bytes(bytes(100_000))
    mapped = Settings(model=str(path), mmap="on")
    assert room_beside([mapped], has_gpu=True) == 950_000
    assert room_beside([mapped.model_copy(update={"n_gpu_layers": 0})], has_gpu=True) == 850_000


class Printing(EstimateChild):
    """A child that prints facts at once."""

    def __init__(self, found: NativeFacts) -> None:
        self._printed = orjson.dumps(found)
        self.is_outdated = False


def test_memory_of_a_gpu_is_asked_for_again_after_engines_took_or_left_some() -> None:
    there, here = Printing(facts(GPU, model=on(GIB, CUDA0=GIB))), Printing(facts())
    assert there.facts == facts(GPU, model=on(GIB, CUDA0=GIB)), "facts are the same after their way through JSON"
    assert [each.has_to_ask_again for each in (there, here)] == [False, False]
    there.is_outdated = here.is_outdated = True
    assert [each.has_to_ask_again for each in (there, here)] == [True, False]


def test_what_cannot_be_known_is_said_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check, settings, others = MemoryCheck(), Settings(model="/m/b.gguf"), {"a": Settings(model="fake:")}
    free(monkeypatch, 0)
    known: list[Any] = [facts(GPU), None, facts(GPU)]
    with caplog.at_level(logging.WARNING):
        assert all(check.has_room("b", settings, each, others) for each in known)
    [said] = lines_of("srb.supervisor", caplog)
    assert said == "the memory that model b needs is not known, so it is not checked"
    assert check.has_room("b", settings, facts(), {}), "alone it is loaded as any model is"
