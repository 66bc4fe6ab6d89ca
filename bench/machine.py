"""Speeds of this machine that no program exceeds (machine.cpp), beside which a model's steps and prompts are measured."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gguf import GGUFReader

SOURCE = Path(__file__).with_suffix(".cpp")
_FLAGS = ("-std=c++17", "-O3", "-pthread")
_WIDE = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
_EMBEDDINGS, _OUTPUT = "token_embd.weight", "output.weight"


@dataclass(frozen=True)
class Peak:
    """Products of 8-bit numbers a second, each with its addition: by vectors, and by AMX's tiles, 0 where there are none."""

    vectors: float
    tiles: float


@dataclass(frozen=True)
class Weights:
    """As much of a model as a token takes."""

    bytes: int  # that are read for it
    products: int  # of its own, without those of the vocabulary, which a prompt's last token has alone


def build(folder: Path, processor: str = "native") -> Path:
    """Compile the program for a processor, by its name for GCC's -march."""
    program = folder / "machine"
    subprocess.run(["g++", f"-march={processor}", *_FLAGS, *_WIDE, str(SOURCE), "-o", str(program)], check=True)
    return program


def read_seconds(program: Path, file: Path, threads: int) -> float:
    """Return the seconds in which so many threads read a file that is in memory."""
    return file.stat().st_size / _said(program, "read", file, threads)


def peak(program: Path, threads: int) -> Peak:
    return Peak(_said(program, "products", threads), _said(program, "tiles", threads))


def _said(program: Path, *arguments: object) -> float:
    command = [str(part) for part in (program, *arguments)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def weights_of(model: Path) -> Weights:
    """Return the weights that a token of a dense model takes: embeddings count if they are the output's matrix, too."""
    tensors = {tensor.name: tensor for tensor in GGUFReader(model).tensors}
    layers = [each for name, each in tensors.items() if name.startswith("blk.")]
    output = tensors.get(_OUTPUT, tensors[_EMBEDDINGS])
    matrices = [each for each in layers if len(each.shape) > 1]
    return Weights(sum(int(each.n_bytes) for each in (*layers, output)), sum(int(each.n_elements) for each in matrices))
