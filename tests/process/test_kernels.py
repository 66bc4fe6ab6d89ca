"""Kernels in native/, each alone: for this processor and for AVX2 under sanitizers of memory and of undefined behaviour, and
for ARM (NEON), compiled by a cross compiler and run by QEMU.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import pytest

from tests.needs import long, need
from tools.llama_sources import pinned, sources

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "kernels"  # programs, each with a name that all that it is made of decides
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
# Of products there are as many templates as types of weights: optimized, they compile for a minute and run for seconds.
OPTIMIZE = {"mul_mat_alone": "-O0", "row_operations": "-O1", "shared_keys": "-O1"}
ARM_FLAGS = ["-O1", "-march=armv8.2-a+dotprod+fp16", "-ffunction-sections", "-fdata-sections"]
CASES, FEW_CASES = 40, 10


@pytest.fixture(scope="module")
def ggml() -> Path:
    """Return the folder of ggml's sources, whose headers kernels include; fetched once."""
    need(shutil.which("g++"), "g++")
    try:
        return sources(pinned()) / "vendor/llama.cpp/ggml"
    except subprocess.CalledProcessError:
        need(False, "the sources of llama-cpp-python, from PyPI")
        raise


def includes(ggml: Path) -> list[str]:
    return [f"-I{folder}" for folder in (ROOT / "native", ggml / "include", ggml / "src", ggml / "src/ggml-cpu")]


def key(compiler: str, *made_of: object) -> str:
    """Return a name that changes with what a program is made of, its compiler, and the processor that is "native"."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    processor = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return hashlib.sha256(repr((version, processor, pinned(), made_of)).encode()).hexdigest()[:16]


def compiled(ggml: Path, source: str, compiler: str, *flags: str, linked: Sequence[str] = ()) -> Path:
    """Return a program of tests/native. It is compiled unless an earlier run did so from the same files in the same way."""
    file = ROOT / f"tests/native/{source}.cpp"
    command = [compiler, "-std=c++17", *flags, *includes(ggml), str(file), *linked]
    files = [each.read_bytes() for each in (file, *sorted((ROOT / "native").glob("*.*")))]
    program = BUILT / f"{source}-{key(compiler, command, files)}"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        scratch = program.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(scratch)], check=True)
        scratch.replace(program)
    return program


def run(ggml: Path, source: str, processor: str, *arguments: object) -> str:
    """Run a program of tests/native with sanitizers, for a processor; return what it prints."""
    if processor != "native" and platform.machine() != "x86_64":
        pytest.skip("kernels for AVX2 run on x86-64")
    libraries = Path(llama_cpp.llama_cpp._lib._name).parent
    linked = [f"-L{libraries}", "-lggml-cpu", "-lggml-base", f"-Wl,-rpath,{libraries}", "-pthread"]
    program = compiled(ggml, source, "g++", f"-march={processor}", OPTIMIZE[source], *SANITIZE, linked=linked)
    done = subprocess.run([program, *map(str, arguments)], text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def arm_libraries(ggml: Path) -> Path:
    """Return the folder of what kernels call of ggml, compiled for ARM by this run or an earlier one."""
    for program in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        need(shutil.which(program), program)
    folder = BUILT / f"arm-{key('aarch64-linux-gnu-gcc', ARM_FLAGS)}"
    if folder.exists():
        return folder
    BUILT.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=BUILT))
    (scratch / "ggml-version.h").write_text('#define GGML_VERSION ""\n#define GGML_COMMIT ""\n')
    names = ["ggml.c", "ggml-quants.c", "ggml-threading.cpp", "ggml-cpu/ggml-cpu.c", "ggml-cpu/vec.cpp"]
    command = ["aarch64-linux-gnu-gcc", "-c", *ARM_FLAGS, "-D_GNU_SOURCE", f"-I{scratch}", *includes(ggml)]
    subprocess.run([*command, *(str(ggml / "src" / name) for name in names)], check=True, cwd=scratch)
    return scratch.rename(folder)


def run_for_arm(ggml: Path, folder: Path, source: str, *arguments: object) -> str:
    # Of ggml's objects only what the kernel calls is linked; threads meet as the program says, not as ggml does.
    linked = ["-Wl,--gc-sections,-z,muldefs", "-static", "-pthread", *map(str, sorted(folder.glob("*.o")))]
    program = compiled(ggml, source, "aarch64-linux-gnu-g++", *ARM_FLAGS, linked=linked)
    return subprocess.run(["qemu-aarch64", program, *map(str, arguments)], text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("processor", ["native", *long("x86-64-v3")])
def test_shared_keys_are_attention_and_stay_in_their_memory(ggml: Path, processor: str) -> None:
    said = run(ggml, "shared_keys", processor, 0, CASES)
    assert f"{CASES} cases, {CASES} computed, 0 failed" in said


@pytest.mark.timeout(600)
def test_shared_keys_are_attention_on_arm(ggml: Path, arm_libraries: Path) -> None:
    said = run_for_arm(ggml, arm_libraries, "shared_keys", 0, FEW_CASES)
    assert f"{FEW_CASES} cases, {FEW_CASES} computed, 0 failed" in said


@pytest.mark.timeout(600)
@pytest.mark.parametrize("processor", ["native", "x86-64-v3"])
def test_norms_and_gelu_are_those_of_ggml_to_the_last_bit(ggml: Path, processor: str) -> None:
    assert f"{5 * CASES} cases, 0 failed" in run(ggml, "row_operations", processor, 0, 5 * CASES)


@pytest.mark.timeout(600)
def test_norms_and_gelu_are_those_of_ggml_on_arm(ggml: Path, arm_libraries: Path) -> None:
    assert f"{CASES} cases, 0 failed" in run_for_arm(ggml, arm_libraries, "row_operations", 0, CASES)


@pytest.mark.timeout(900)
def test_products_are_right_and_the_same_alone_with_any_threads_and_on_any_processor(
    ggml: Path,
) -> None:
    said = {run(ggml, "mul_mat_alone", processor, 0, 5 * CASES) for processor in ("native", "x86-64-v3")}
    assert len(said) == 1, "vectors of another width have the same results"
    assert f"{5 * CASES} cases, 0 failed" in said.pop()


@pytest.mark.timeout(900)
def test_products_are_the_same_on_arm(ggml: Path, arm_libraries: Path) -> None:
    said = run_for_arm(ggml, arm_libraries, "mul_mat_alone", 0, CASES)
    assert f"{CASES} cases, 0 failed" in said
    assert said == run(ggml, "mul_mat_alone", "native", 0, CASES)
