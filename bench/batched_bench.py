"""ik_llama.cpp's llama-batched-bench: a bare model computes a prompt and tokens of n branches, without a server."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from srb.bench.client import BenchFailed

_COLUMNS = ("PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s")  # as its table begins
_SECONDS = 600  # a program that takes longer has no end


@dataclass(frozen=True)
class Bare:
    """Seconds of a prompt, and of all branches after it."""

    prompt: float
    decode: float


def run(program: Path, model: Path, prompt: int, n: int, tokens: int, threads: int) -> Bare:
    """Time a prompt of `prompt` tokens, and n branches of `tokens` tokens that share it. Raise BenchFailed."""
    sizes = {
        "-npp": prompt,
        "-ntg": tokens,
        "-npl": n,
        "-t": threads,
        "-c": prompt + n * tokens,
        "-b": 2048,
        "-ub": 512,
    }
    command = [str(program.absolute()), "-m", str(model.absolute()), "-pps", "-fa", "on"]
    command += [str(part) for option in sizes.items() for part in option]
    with tempfile.TemporaryDirectory() as folder:  # it writes a log where it is
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS, cwd=folder
        )
    rows = rows_of(done.stdout)
    if done.returncode or len(rows) != 1:
        last = done.stdout.strip().splitlines()[-1:]
        raise BenchFailed(f"{program} ended with {done.returncode} and {len(rows)} rows: {''.join(last)}")
    return rows[0]


def rows_of(output: str) -> list[Bare]:
    """Return the rows of the program's table. Raise BenchFailed if it has none, or another one."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in output.splitlines() if line.startswith("|")
    ]
    if not lines or tuple(lines[0][: len(_COLUMNS)]) != _COLUMNS:
        raise BenchFailed("no table of llama-batched-bench")
    return [Bare(float(row[4]), float(row[6])) for row in lines[1:] if row[0].isdecimal()]
