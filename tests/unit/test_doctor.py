"""`srb doctor`: facts from /proc and /sys, what fits, and findings that name the setting to change."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.doctor.activity import Activity, Program, watch
from srb.doctor.checkup import Checkup, Neighbour
from srb.doctor.findings import Finding, Level, findings
from srb.doctor.machine import Card, Machine, read_machine
from srb.doctor.places import Obstacle
from srb.doctor.report import as_json, as_text
from srb.doctor.units import cores_text
from srb.files.gguf import model_files
from srb.files.native_facts import PATCHES, Build, Device, KVSize, MemoryEstimate, Remark
from srb.host.memory import size_text
from tests.machines import GIB, FakeRoot

MIB = 1 << 20
GPU = Device("CUDA0", "a card", "gpu", 8 * GIB, 8 * GIB)

QUIET = Activity(seconds=1, load=0.1, busy=0, stolen=0, programs=(), throttled=0, swapped_in=0, engines=())
PATCHED = f"SRB_PATCHES = {','.join(PATCHES)}"
BUILD = Build(
    "llama-srb-native 0.3",
    "0.25",
    f"CPU : AVX = 1 | AVX2 = 1 | FMA = 1 | F16C = 1 | {PATCHED}",
    is_debug=False,
    devices=(),
)
MODEL = MemoryEstimate(
    description="llama 1B Q8_0", memory="attention", n_params=10**9, n_layers=16, n_ctx_train=8192, weights=GIB,
    n_ctx=8192, n_seq_max=96, threads=4, threads_batch=4,
    kv_types=(KVSize("f16", 65536.0), KVSize("q8_0", 34816.0), KVSize("q4_0", 0, "it does not divide")),
    bytes_per_cell=65536.0, states=0, compute=100 * MIB, compute_per_cell=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_texts_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A quiet machine with four cores, 8 GiB of memory and 6 GiB free."""
    return read_machine(FakeRoot(tmp_path).path, range(4))


def checkup(machine: Machine, **changed: Any) -> Checkup:
    facts: dict[str, Any] = {
        "settings": Settings(model="/models/one.gguf"), "machine": machine, "activity": QUIET, "build": BUILD,
        "model": MODEL, "file_size": GIB, "cached": 1.0,
    }  # fmt: skip
    return Checkup(**{**facts, **changed})


def only(found: list[Finding], level: Level) -> Finding:
    [finding] = found
    assert finding.level is level
    return finding


# The machine ---------------------------------------------------------------------------------------------------------


def test_what_lies_on_the_disk_is_told(machine: Machine, tmp_path: Path) -> None:
    settings = Settings(model="/models/one.gguf", cache_disk=str(tmp_path / "texts"), cache_disk_mib=64)
    assert "(cache_disk_mib)\n" in as_text(checkup(machine, settings=settings), [])
    for model in "ab":
        (tmp_path / "texts" / model).mkdir(parents=True)
        (tmp_path / "texts" / model / "index").write_bytes(bytes(1 << 20))
    assert "(cache_disk_mib); 2.00 MiB are there, in 2 files" in as_text(checkup(machine, settings=settings), [])


def test_a_machine_is_read_from_its_files(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path, cpus=4, siblings=True)
    fake.write("sys/fs/cgroup/cpu.max", "150000 100000\n")
    fake.write("sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    fake.write("sys/fs/cgroup/memory.current", f"{GIB}\n")
    fake.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    fake.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    fake.write("sys/class/drm/card0/device/vendor", "0x1002\n")
    found = read_machine(tmp_path, [0, 1, 2])
    assert (found.cpu, found.cpus, found.allowed, found.cores, found.quota, found.usable) == (
        "Test CPU",
        4,
        3,
        2,
        1.5,
        1,
    )
    assert (found.memory, found.memory_limit, found.memory_free) == (8 * GIB, 2 * GIB, GIB)
    assert (found.governor, found.huge_pages, found.swap) == ("powersave", "never", 0)
    assert "avx2" in found.instructions
    assert found.card == Card("a graphics chip", "vulkan")


def test_a_folder_without_any_facts_is_no_error(tmp_path: Path) -> None:
    found = read_machine(tmp_path, [0])
    assert (found.cpu, found.usable, found.memory, found.card) == ("", 1, None, None)
    assert (found.cpus, found.memory_free, found.swap) == (1, None, None)


def test_programs_are_named_by_the_cores_that_they_used_and_the_server_is_not_another_program(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path)
    hertz = os.sysconf("SC_CLK_TCK")
    for pid, name, command in ((10, "browser", "browser --tab"), (11, "python", "python -m srb.engine.process --x")):
        fake.write_process(pid, name, 100, command)
    fake.write_process(12, "idle one", 500)

    def a_busy_moment(_seconds: float) -> None:
        fake.write_ticks(user=300 * hertz, steal=50 * hertz)
        fake.write_process(10, "browser", 100 + 100 * hertz, "browser --tab")
        fake.write_process(11, "python", 100 + 200 * hertz, "python -m srb.engine.process --x")
        fake.write_process(13, "new", 900 * hertz)  # was not there before: its time is unknown
        fake.write("proc/vmstat", "pswpin 70\n")

    found = watch(tmp_path, 0, a_busy_moment)
    assert [(each.pid, each.name, each.is_srb) for each in found.programs] == [
        (11, "SRB", True),
        (10, "browser", False),
    ]
    ours, theirs = (each.cores * found.seconds for each in found.programs)
    assert ours == pytest.approx(200)
    assert theirs == pytest.approx(100)
    assert found.by_others * found.seconds == pytest.approx(100)
    assert found.stolen * found.seconds == pytest.approx(50)
    assert (found.swapped_in, found.load, found.engines) == (70, 1.5, (11,))


def test_all_parts_of_a_split_model_are_its_files(tmp_path: Path) -> None:
    names = [
        "m[1]-00001-of-00002.gguf",
        "m[1]-00002-of-00002.gguf",
        "m[1]-00001-of-00003.gguf",
        "m1-00002-of-00002.gguf",
    ]
    for name in names:
        (tmp_path / name).touch()
    assert model_files(tmp_path / names[0]) == [tmp_path / name for name in names[:2]]
    assert model_files(tmp_path / "whole.gguf") == [tmp_path / "whole.gguf"]


NODE = "10.0.0.2:50052"
REFUSED = f"the RPC node {NODE} does not answer (Connection refused)"
SILENT = (
    f"the RPC node {NODE} is silent: it serves another client (one at a time), is no RPC node, or its machine is away"
)
WITH_RPC = dataclasses.replace(BUILD, has_rpc=True)


def test_an_rpc_node_that_does_not_answer_is_a_problem_with_the_command_for_it(machine: Machine) -> None:
    """Where the model lies is not known then, so nothing is said of its memory."""
    large = dataclasses.replace(MODEL, weights=70 * GIB)
    found = checkup(machine, build=WITH_RPC, model=large, nodes={NODE: REFUSED, "b:1": ""})
    problem = only(findings(found), Level.PROBLEM)
    assert problem.text == REFUSED
    assert "srb rpc-node --host ITS-ADDRESS --port 50052" in problem.change
    text = as_text(found, [problem])
    assert f"RPC node      {REFUSED}" in text
    assert "RPC node      b:1 answers" in text
    assert as_json(found, [problem])["rpc_nodes"] == {NODE: REFUSED, "b:1": ""}


def test_an_rpc_node_that_serves_the_server_of_this_machine_is_no_problem(machine: Machine) -> None:
    running = dataclasses.replace(QUIET, engines=(12,))
    found = checkup(machine, build=WITH_RPC, activity=running, nodes={NODE: SILENT})
    assert only(findings(found), Level.NOTE).text.startswith(SILENT)
    assert only(findings(checkup(machine, build=WITH_RPC, nodes={NODE: SILENT})), Level.PROBLEM)


def test_rpc_nodes_need_a_build_with_rpc(machine: Machine) -> None:
    problem = only(findings(checkup(machine, nodes={NODE: ""})), Level.PROBLEM)
    assert problem.text == "rpc is set, and llama.cpp was built without RPC"
    assert findings(checkup(machine, build=WITH_RPC, nodes={NODE: ""})) == []


# What fits -----------------------------------------------------------------------------------------------------------


def test_the_cells_that_fit_are_those_beside_the_weights_and_buffers(machine: Machine) -> None:
    found = checkup(machine)
    rest = found.room - MODEL.weights - MODEL.compute
    assert found.room == int(6 * GIB * 0.95)
    assert found.cells(65536.0) == rest // 65536
    assert found.cells(0.0) is None


def test_more_cells_are_recommended_only_up_to_half_of_what_fits(machine: Machine) -> None:
    long = dataclasses.replace(MODEL, n_ctx_train=131072)
    found = checkup(machine, model=long)
    fit = found.cells(MODEL.bytes_per_cell)
    assert fit is not None
    assert found.recommended == fit // 2 // 1024 * 1024 > MODEL.n_ctx
    assert only(findings(found), Level.NOTE).change == f"n_ctx = {found.recommended}"
    assert checkup(machine, model=dataclasses.replace(MODEL, n_ctx_train=2048)).recommended == MODEL.n_ctx


# Findings ------------------------------------------------------------------------------------------------------------


def test_nothing_is_found_on_a_quiet_machine_with_room(machine: Machine) -> None:
    assert findings(checkup(machine)) == []
    assert "✓ Nothing stops the server" in as_text(checkup(machine), [])


def test_a_model_is_deterministic_or_the_reason_is_told(machine: Machine) -> None:
    found = checkup(machine)
    assert "  deterministic yes: a token's probabilities are the same" in as_text(found, [])
    assert as_json(found, [])["model"]["deterministic"] is True
    reason = "weights of type f16 (output.weight and 14 others) are multiplied by llama.cpp's own kernels"
    found = checkup(machine, model=dataclasses.replace(MODEL, nondeterminism=reason))
    assert f"deterministic no: {reason}" in " ".join(as_text(found, []).split())
    told = as_json(found, [])["model"]
    assert (told["deterministic"], told["nondeterminism"]) == (False, reason)


def test_a_kv_store_that_does_not_fit_is_a_problem_with_the_cells_that_do(machine: Machine) -> None:
    found = checkup(machine, model=dataclasses.replace(MODEL, n_ctx=200_000))
    finding = only(findings(found), Level.PROBLEM)
    assert finding.change == f"n_ctx = {found.recommended}"
    assert found.recommended * MODEL.bytes_per_cell + MODEL.weights + MODEL.compute <= found.room
    beside = dataclasses.replace(found, activity=dataclasses.replace(QUIET, engines=(12,)))
    assert "are free beside the SRB engine that runs (pid 12)" in only(findings(beside), Level.PROBLEM).text
    several = dataclasses.replace(found, activity=dataclasses.replace(QUIET, engines=(12, 13, 99)))
    assert "are free beside the 3 SRB engines that run" in only(findings(several), Level.PROBLEM).text


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        ("llama ?B Q8_0", "llama Q8_0"),
        ("llama 256M Q4_K - Medium", "llama Q4_K - Medium"),
        ("gemma3 270M all F32 (guessed)", "gemma3 all F32 (guessed)"),
    ],
)
def test_the_size_that_llama_cpp_guesses_is_not_repeated_beside_the_true_one(
    machine: Machine, described: str, kind: str
) -> None:
    found = checkup(machine, model=dataclasses.replace(MODEL, description=described))
    assert f"kind          {kind}, 1,000,000,000 parameters in 16 layers" in as_text(found, [])


def test_a_place_that_cannot_be_used_is_a_problem_and_a_server_of_ours_a_note(machine: Machine) -> None:
    taken = Obstacle("port 9090 is already in use", "another")
    assert only(findings(checkup(machine, obstacles=(taken,))), Level.PROBLEM).text == "port 9090 is already in use"
    ours = dataclasses.replace(taken, is_ours=True)
    assert only(findings(checkup(machine, obstacles=(ours,))), Level.NOTE).change == "another"


def together(machine: Machine, *totals: int | None, **changed: Any) -> Checkup:
    """A server of several models, of which two may be loaded at once; the largest need so many bytes."""
    largest = tuple(Neighbour(f"m{number}", total) for number, total in enumerate(totals))
    settings = Settings(model="/models/one.gguf", max_engines=2)
    return checkup(machine, settings=settings, largest=largest, **changed)


def test_models_that_have_no_room_together_are_told_of(machine: Machine) -> None:
    assert findings(together(machine, 3 * GIB, 2 * GIB)) == []
    note = only(findings(together(machine, 4 * GIB, 3 * GIB)), Level.NOTE)
    assert "the largest models (m0, m1) need 7.00 GiB together, where 5.70 GiB are free" in note.text
    assert findings(together(machine, 40 * GIB, None)) == [], "nothing is guessed"
    text = as_text(together(machine, 3 * GIB, None), [])
    assert "m0              3.00 GiB" in text
    assert "m1            not known" in text
    assert as_json(together(machine, 5), [])["largest_models"] == [{"name": "m0", "total": 5}]


def test_models_that_share_a_gpu_are_told_of_where_they_have_no_room_there(machine: Machine) -> None:
    build = dataclasses.replace(BUILD, devices=(GPU,))
    assert findings(together(machine, 4 * GIB, 3 * GIB, build=build)) == []
    note = only(findings(together(machine, 40 * GIB, GIB, build=build)), Level.NOTE)
    assert "need 41.0 GiB together, where 7.60 GiB are free on the GPU" in note.text


def test_weights_that_do_not_fit_are_slow_if_they_are_mapped_and_else_a_problem(machine: Machine) -> None:
    large = dataclasses.replace(MODEL, weights=7 * GIB)
    assert "a smaller model" in only(findings(checkup(machine, model=large)), Level.SLOW).change
    settings = Settings(model="/models/one.gguf", mmap="off")
    assert only(findings(checkup(machine, model=large, settings=settings)), Level.PROBLEM)


def test_a_model_that_does_not_fit_on_the_gpu_is_told_how_many_layers_do(machine: Machine) -> None:
    build = dataclasses.replace(BUILD, devices=(GPU,))
    large = dataclasses.replace(MODEL, weights=12 * GIB)
    change = only(findings(checkup(machine, model=large, build=build)), Level.PROBLEM).change
    layers = int(change.split()[2].rstrip(","))
    assert change.startswith("n_gpu_layers = ")
    assert 0 < layers < MODEL.n_layers


def test_a_projector_is_counted_beside_the_model(machine: Machine) -> None:
    seeing = checkup(machine, model=dataclasses.replace(MODEL, projector=GIB))
    bytes_per_cell = MODEL.bytes_per_cell
    fewer = checkup(machine).cells(bytes_per_cell) - seeing.cells(bytes_per_cell)  # type: ignore[operator]
    assert fewer == pytest.approx(GIB / bytes_per_cell, abs=1)
    assert seeing.model.total == MODEL.total + GIB
    assert "projector       1.00 GiB" in as_text(seeing, [])
    assert "projector" not in as_text(checkup(machine), [])
    assert as_json(seeing, [])["model"]["projector"] == GIB


def test_a_projector_that_does_not_fit_says_what_to_change(machine: Machine) -> None:
    large = dataclasses.replace(MODEL, projector=6 * GIB)
    finding = only(findings(checkup(machine, model=large)), Level.PROBLEM)  # llama.cpp does not map its file
    assert finding.text.startswith("the model and its projector need")
    assert "without mmproj" in finding.change
    build = dataclasses.replace(BUILD, devices=(GPU,))
    on_gpu = dataclasses.replace(MODEL, weights=7 * GIB, n_ctx=1024, projector=GIB)
    assert "mmproj_offload = false" in only(findings(checkup(machine, model=on_gpu, build=build)), Level.PROBLEM).change


def test_a_projector_on_the_cpu_takes_no_memory_of_the_gpu(machine: Machine) -> None:
    build = dataclasses.replace(BUILD, devices=(GPU,))
    apart = dataclasses.replace(MODEL, projector=GIB, is_projector_apart=True)
    assert apart.total == MODEL.total
    assert findings(checkup(machine, model=apart, build=build)) == []
    assert "on the CPU" in as_text(checkup(machine, model=apart, build=build), [])
    larger = dataclasses.replace(apart, projector=7 * GIB)
    text = only(findings(checkup(machine, model=larger, build=build)), Level.PROBLEM).text
    assert text == "the projector needs 7.00 GiB in memory, and 6.00 GiB are free"


def test_a_file_that_is_no_projector_is_a_problem_in_llama_cpps_words(machine: Machine) -> None:
    refused = dataclasses.replace(MODEL, projector_refused="mmproj: a.gguf cannot be loaded: no key")
    finding = only(findings(checkup(machine, model=refused)), Level.PROBLEM)
    assert finding.text == "the projector a.gguf cannot be loaded: no key"
    assert "text only" in finding.change


def test_a_data_type_that_llama_cpp_refuses_is_a_problem_in_its_words(machine: Machine) -> None:
    settings = Settings(model="/models/one.gguf", cache_type_k="q4_0", cache_type_v="q4_0")
    refused = dataclasses.replace(MODEL, refused="K cache type q4_0 does not divide")
    finding = only(findings(checkup(machine, settings=settings, model=refused)), Level.PROBLEM)
    assert "K cache type q4_0 does not divide" in finding.text
    assert finding.change == "cache_type_k = f16 and cache_type_v = f16"


def test_a_program_on_a_core_is_named_with_the_threads_that_are_left(machine: Machine) -> None:
    program = Program(77, "browser", 1.0, is_srb=False)
    busy = dataclasses.replace(QUIET, busy=1.0, programs=(program,))
    fixed = Settings(model="/models/one.gguf", threads=4)
    finding = only(findings(checkup(machine, activity=busy, settings=fixed)), Level.SLOW)
    assert "browser (pid 77) 100% of a core" in finding.text
    assert "threads = 3" in finding.change
    silent = dataclasses.replace(machine, tells_waits=False)
    assert "threads = 3" in only(findings(checkup(silent, activity=busy)), Level.SLOW).change
    ours = dataclasses.replace(program, is_srb=True)
    assert findings(checkup(machine, activity=dataclasses.replace(busy, programs=(ours,)))) == []
    idle = dataclasses.replace(MODEL, threads=2, threads_batch=2)
    assert findings(checkup(machine, activity=busy, model=idle)) == []


def test_cores_that_the_server_leaves_to_other_programs_need_no_setting(machine: Machine) -> None:
    busy = dataclasses.replace(QUIET, busy=1.0, programs=(Program(77, "browser", 1.0, is_srb=False),))
    finding = only(findings(checkup(machine, activity=busy)), Level.SLOW)
    assert "as many threads as have a core of their own" in finding.text
    assert "threads" not in finding.change
    report = as_text(checkup(machine, activity=busy), [finding])
    assert "4, one for each usable core that other programs leave" in report


@pytest.mark.parametrize(
    ("changed", "words", "change"),
    [
        ({"governor": "powersave"}, "save power", "performance"),
        ({"governor": "powersave", "preference": "power"}, "save power", "performance"),
        ({"card": Card("an NVIDIA card", "cuda")}, "an NVIDIA card", "make install GPU=cuda"),
        ({"instructions": frozenset({"avx", "avx2", "avx512f"})}, "without AVX512", "make install"),
        ({"huge_pages": "never"}, "huge pages", "transparent_hugepage"),
        ({"numa_nodes": 2}, "NUMA", "numactl"),
    ],
)
def test_a_fact_of_the_machine_that_slows_the_server_comes_with_its_change(
    machine: Machine, changed: dict[str, Any], words: str, change: str
) -> None:
    [finding] = findings(checkup(dataclasses.replace(machine, **changed)))
    assert words in finding.text
    assert change in finding.change


def test_a_driver_that_chooses_the_frequency_by_itself_may_be_called_powersave(machine: Machine) -> None:
    changed = dataclasses.replace(machine, governor="powersave", preference="balance_performance")
    assert findings(checkup(changed)) == []


@pytest.mark.parametrize(
    ("activity", "words", "change"),
    [
        ({"throttled": 8}, "stopped 8 times", "threads = 4"),
        ({"stolen": 1.0}, "other virtual machines", "fewer threads"),
    ],
)
def test_time_that_the_system_takes_away_is_found(
    machine: Machine, activity: dict[str, Any], words: str, change: str
) -> None:
    [finding] = findings(checkup(machine, activity=dataclasses.replace(QUIET, **activity)))
    assert words in finding.text
    assert change in finding.change


def test_swap_in_use_is_slow_only_while_pages_come_back(machine: Machine) -> None:
    swapping = dataclasses.replace(machine, swap=GIB, swap_used=GIB // 2)
    assert findings(checkup(swapping)) == []
    active = dataclasses.replace(QUIET, swapped_in=5000)
    assert "mlock" in only(findings(checkup(swapping, activity=active)), Level.SLOW).change


def test_more_threads_than_cores_are_slow_and_fewer_are_noted(machine: Machine) -> None:
    settings = Settings(model="/models/one.gguf", threads=8)
    many = dataclasses.replace(MODEL, threads=8)
    assert only(findings(checkup(machine, settings=settings, model=many)), Level.SLOW).change.startswith("threads = 0")
    settings = Settings(model="/models/one.gguf", threads=2)
    few = dataclasses.replace(MODEL, threads=2, threads_batch=2)
    assert only(findings(checkup(machine, settings=settings, model=few)), Level.NOTE).change.startswith("threads = 0")


def test_patches_that_are_missing_are_found_and_those_that_are_there_are_shown(machine: Machine) -> None:
    info = BUILD.system_info.replace("mul-mat,", "")
    for system_info, text in (
        (info, "without mul-mat of SRB's patches: "),
        (info + " | AMX_INT8 = 1", "; its kernels for AMX are faulty, and not used"),
        (BUILD.system_info.partition(" | SRB_")[0], "without SRB's patches (native/patches): "),
    ):
        build = dataclasses.replace(BUILD, system_info=system_info)
        assert text in only(findings(checkup(machine, build=build)), Level.SLOW).text
    shown = as_text(checkup(machine), [])
    assert "patches       cells-behind, cells-in-order" in shown
    assert "SRB_PATCHES" not in shown
    assert all(name in shown for name in PATCHES), "a name is not divided among lines"
    assert as_json(checkup(machine), [])["build"]["patches"] == sorted(PATCHES)


def test_a_debug_build_and_a_file_outside_of_the_page_cache_are_found(machine: Machine) -> None:
    debug = dataclasses.replace(BUILD, is_debug=True)
    assert "debug build" in only(findings(checkup(machine, build=debug)), Level.SLOW).text
    assert "mlock" in only(findings(checkup(machine, cached=0.5)), Level.NOTE).change
    assert findings(checkup(machine, cached=None)) == []


def test_a_small_cache_of_windows_is_told_with_what_the_full_size_takes(machine: Machine) -> None:
    small = dataclasses.replace(MODEL, memory="sliding_window", windows="small", n_seq_max=4, full_store=2 * GIB)
    note = only(findings(checkup(machine, model=small)), Level.NOTE)
    assert "4 sequences are computed at once" in note.text
    assert note.change == "swa_full = on, whose KV store takes 2.00 GiB"
    large = dataclasses.replace(small, full_store=60 * GIB)
    change = only(findings(checkup(machine, model=large)), Level.NOTE).change
    assert change == "n_seq_max = 9, a window for each of 8 branches and for the prompt"
    full = dataclasses.replace(small, windows="full", full_store=0)
    assert findings(checkup(machine, model=full)) == []
    assert "partly in a sliding window (full cache)" in as_text(checkup(machine, model=full), [])


def test_a_setting_with_another_effect_comes_with_the_value_to_set(machine: Machine) -> None:
    remark = Remark("n_batch 8 is raised to 96", "n_batch = 96")
    note = only(findings(checkup(machine, model=dataclasses.replace(MODEL, remarks=(remark,)))), Level.NOTE)
    assert note == Finding(Level.NOTE, remark.text, remark.change)


def test_problems_come_first(machine: Machine) -> None:
    found = checkup(
        dataclasses.replace(machine, huge_pages="never", governor="powersave"),
        model=dataclasses.replace(MODEL, n_ctx=200_000),
    )
    assert [each.level for each in findings(found)] == [Level.PROBLEM, Level.SLOW, Level.NOTE]


# The report ----------------------------------------------------------------------------------------------------------


def test_a_draft_model_takes_its_part_of_the_memory(machine: Machine) -> None:
    alone = checkup(machine)
    both = checkup(machine, model=dataclasses.replace(MODEL, draft=GIB, draft_per_cell=16384.0))
    assert both.model.total == alone.model.total + GIB
    text = as_text(both, [])
    assert f"{size_text(GIB)}  weights, KV store and computing" in text
    assert "draft model" not in as_text(alone, [])
    fits, less = alone.cells(65536.0), both.cells(65536.0)
    assert fits is not None
    assert less is not None
    assert less == int((both.room - MODEL.weights - MODEL.compute - GIB + MODEL.n_ctx * 16384) / (65536 + 16384)) < fits


def test_a_head_of_the_model_takes_no_weights_of_its_own(machine: Machine) -> None:
    settings = Settings(model="/models/one.gguf", spec_type="mtp")
    lines = as_text(checkup(machine, settings=settings, model=dataclasses.replace(MODEL, draft=GIB)), []).splitlines()
    told = [line.split(maxsplit=1) for line in lines if line.startswith("  head")]
    assert told == [["head", f"{size_text(GIB)}  KV store and computing"]]


def test_the_report_names_every_type_with_its_size_and_the_cells_that_fit(machine: Machine) -> None:
    lines = as_text(checkup(machine), []).splitlines()
    rows = {line.split()[0]: line for line in lines if line.startswith(("  f16", "  q8_0", "  q4_0"))}
    assert "62.5 MiB" in rows["f16"]
    assert f"{checkup(machine).cells(34816.0):,} cells fit" in rows["q8_0"]
    assert "not with this model: it does not divide" in rows["q4_0"]
    assert max(map(len, lines)) <= 120


def test_the_object_for_programs_has_the_same_facts(machine: Machine) -> None:
    found = checkup(machine, model=dataclasses.replace(MODEL, n_ctx=200_000))
    said = orjson.loads(orjson.dumps(as_json(found, findings(found))))
    assert said["machine"]["usable"] == 4
    assert [each["cells_that_fit"] is None for each in said["model"]["kv_types"]] == [False, False, True]
    assert said["findings"][0]["level"] == "problem"
    assert said["fits"]["recommended_n_ctx"] == found.recommended


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "0.98 KiB"), (16 * MIB, "16.0 MiB"), (GIB, "1.00 GiB")],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert size_text(count) == text


def test_one_core_is_a_core() -> None:
    assert [cores_text(count) for count in (1.0, 1.5, 2.0)] == ["1 core", "1.5 cores", "2 cores"]


def test_a_device_of_a_node_is_no_gpu_of_this_machine(machine: Machine) -> None:
    node = Device("RPC0", "10.0.0.2:50052", "gpu", 4 * GIB, 8 * GIB)
    for devices, has_own in (((node,), False), ((node, GPU), True)):
        lines = as_text(checkup(machine, build=dataclasses.replace(BUILD, devices=devices)), []).splitlines()
        named = [line.split()[:2] for line in lines if "CUDA0" in line or "RPC0" in line]
        assert named == [["RPC", "RPC0,"], *([["GPU", "CUDA0,"]] if has_own else [])]
        assert any("none that this build can use" in line for line in lines) is not has_own


def test_memory_that_the_system_does_not_tell_is_not_taken_for_none(machine: Machine) -> None:
    unknown = dataclasses.replace(machine, memory=None, memory_free=None, swap=None)
    found = checkup(unknown, activity=dataclasses.replace(QUIET, stolen=9, busy=9, is_told=False))
    assert findings(found) == []
    report = as_text(found, [])
    assert "not known free of not known" in " ".join(report.split())
    assert "cells fit" not in report
    assert found.recommended == MODEL.n_ctx
    assert as_json(found, [])["fits"]["room"] is None
