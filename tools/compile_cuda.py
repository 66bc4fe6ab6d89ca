"""Compile llama.cpp's CUDA kernels for one generation of cards, on a machine without a card or a CUDA toolkit.

    python -m tools.compile_cuda                    four files, in minutes
    python -m tools.compile_cuda --files 'mmq*.cu'  others
    python -m tools.compile_cuda --all              all of ggml-cuda: hours on two cores

For by hand. The compiler and its headers come as wheels from PyPI (0.9 GB) into build/cuda. Nothing is linked or run: this
shows that the sources of the pinned llama-cpp-python compile. Each file's seconds are printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.llama_sources import pinned, sources

FOLDER = Path("build/cuda")
# CUDA 13.0: nvcc, what it needs, and the headers that ggml-cuda includes.
WHEELS = [
    f"nvidia-{name}>=13.0,<13.1" for name in ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl", "cublas")
]
FILES = ("getrows.cu", "rope.cu", "scale.cu", "top-k.cu")
DEFINES = (
    "GGML_BACKEND_BUILD",
    "GGML_BACKEND_SHARED",
    "GGML_SHARED",
    "GGML_CUDA_NO_VMM",
    "GGML_CUDA_PEER_MAX_BATCH_SIZE=128",
)


def toolkit() -> Path:
    """Return the folder of the toolkit, made from wheels if it is missing."""
    root = FOLDER / "site/nvidia/cu13"
    if not (root / "bin/nvcc").exists():
        _pip("install", "--no-deps", "--target", str(FOLDER / "site"), *WHEELS)
    return root.absolute()


def compile_file(nvcc: Path, ggml: Path, file: Path, arch: str) -> float:
    """Compile one file for an architecture, such as 86; return the seconds. Raise CalledProcessError with its output."""
    out = (FOLDER / "objects" / f"{file.stem}-{arch}.o").absolute()
    out.parent.mkdir(exist_ok=True)
    options = [
        "-std=c++17",
        "-O3",
        "--use_fast_math",
        "--extended-lambda",
        "--expt-relaxed-constexpr",
        "-Xcompiler=-fPIC",
    ]
    includes = [f"-I{ggml / 'include'}", f"-I{ggml / 'src'}", f"-I{ggml / 'src/ggml-cuda'}"]
    command = [nvcc, *options, f"-arch=sm_{arch}", *includes, *(f"-D{name}" for name in DEFINES), "-c", file, "-o", out]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - began


def _pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.compile_cuda", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--arch", default="86", help="compute capability without its point (default: %(default)s)")
    parser.add_argument("--files", action="append", help="names of files, with * and ?; may be given several times")
    parser.add_argument("--all", action="store_true", help="all files of ggml-cuda")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="files at once")
    options = parser.parse_args()
    patterns = ["*.cu", "template-instances/*.cu"] if options.all else options.files or list(FILES)
    nvcc, ggml = toolkit() / "bin/nvcc", sources(pinned()) / "vendor/llama.cpp/ggml"
    files = sorted({file for pattern in patterns for file in (ggml / "src/ggml-cuda").glob(pattern)})
    if not files:
        parser.error(f"no file is named {' or '.join(patterns)}")

    failed, began = [], time.monotonic()

    def compiled(file: Path) -> None:
        try:
            seconds = compile_file(nvcc, ggml, file, options.arch)
            print(f"{file.name:<40} {seconds:>8.1f} s", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(file.name)
            print(f"{file.name}: failed\n{error.stderr}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(compiled, files))
    print(f"{len(files) - len(failed)} of {len(files)} files for sm_{options.arch}: {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
