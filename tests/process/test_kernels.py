"""Kernels in native/, each alone under sanitizers of memory and of undefined behaviour, for this processor and for AVX2."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import llama_cpp
import pytest

from tests.needs import need
from tools.llama_sources import pinned, sources

ROOT = Path(__file__).parents[2]
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
CASES = 40


@pytest.fixture(scope="module")
def ggml() -> Path:
    """Return the folder of ggml's sources, whose headers kernels include; fetched once."""
    need(shutil.which("g++"), "g++")
    try:
        return sources(pinned()) / "vendor/llama.cpp/ggml"
    except subprocess.CalledProcessError:
        need(False, "the sources of llama-cpp-python, from PyPI")
        raise


def run(ggml: Path, folder: Path, source: str, processor: str, *arguments: object) -> str:
    """Compile a program of tests/native with sanitizers, for a processor, and return what it prints."""
    if processor != "native" and platform.machine() != "x86_64":
        pytest.skip("kernels for AVX2 run on x86-64")
    program = folder / f"{source}-{processor}"
    libraries = Path(llama_cpp.llama_cpp._lib._name).parent
    includes = [f"-I{folder}" for folder in (ROOT / "native", ggml / "include", ggml / "src", ggml / "src/ggml-cpu")]
    command = [
        "g++",
        "-std=c++17",
        f"-march={processor}",
        *SANITIZE,
        *includes,
        str(ROOT / f"tests/native/{source}.cpp"),
    ]
    linked = [f"-L{libraries}", "-lggml-cpu", "-lggml-base", f"-Wl,-rpath,{libraries}", "-pthread", "-o", str(program)]
    subprocess.run([*command, *linked], check=True)
    done = subprocess.run([program, *map(str, arguments)], text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("processor", ["native", "x86-64-v3"])
def test_shared_keys_are_attention_and_stay_in_their_memory(ggml: Path, tmp_path: Path, processor: str) -> None:
    said = run(ggml, tmp_path, "shared_keys", processor, 0, CASES)
    assert f"{CASES} cases, {CASES} computed, 0 failed" in said


@pytest.mark.timeout(900)
def test_products_are_right_and_the_same_alone_with_any_threads_and_on_any_processor(
    ggml: Path, tmp_path: Path
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("native/mul_mat.cpp is for x86-64")
    said = {run(ggml, tmp_path, "mul_mat_alone", processor, 0, 10 * CASES) for processor in ("native", "x86-64-v3")}
    assert len(said) == 1, "vectors of another width have the same results"
    assert f"{10 * CASES} cases, 0 failed" in said.pop()
