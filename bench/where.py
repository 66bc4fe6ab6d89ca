"""The time of the engine's decode thread by what it is spent on, as perf samples it.

llama.cpp's libraries have the names of what they export alone. Code without one stands before the first name of its source
file that has one: that of products before `srb_mul_mat_size`, that of attention before `ggml_compute_forward_dup`.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.editing import children
from srb.bench.client import BenchFailed

PARTS = (
    "products",
    "attention",
    "other operations",
    "barriers",
    "llama_decode around them",
    "sampling",
    "Python",
    "system",
)
ASLEEP = "asleep"
_EVERY = 250_000  # nanoseconds of a thread between two of its samples
_KERNELS = "libggml-cpu"  # whose process is the engine
_SAMPLE = re.compile(r"\s*(\d+)\s+([\d.]+):\s+([0-9a-f]+)\s.*\((.*)\)$")
_BEFORE = "before "
_SAMPLERS = re.compile(r"sampler|token_data|likeliest")
_ATTENTION = re.compile(rf"srb::|flash_attn|soft_max|fp16_to_fp32|{_BEFORE}ggml_compute_forward_dup")
_PRODUCTS = re.compile(r"mul_mat|sgemm|vec_dot|ggml_quantize|^quantize_")


@dataclass(frozen=True)
class Sample:
    thread: int
    at: float  # seconds of the monotonic clock
    address: int
    file: str


class Library:
    """A library of llama.cpp in a process: where it is, and the names of its code."""

    def __init__(self, path: Path, base: int, names: Sequence[tuple[int, int, str]]) -> None:
        """`names`: address in the file, size and name of each function that has one, in their order."""
        self.path, self.base, self._names = path, base, names
        self._begins = [begin for begin, _, _ in names]

    @classmethod
    def load(cls, path: Path, base: int) -> Library:
        command = ["nm", "-D", "-C", "-S", "-n", "--defined-only", str(path)]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        fields = [line.split(None, 3) for line in lines]
        names = [
            (int(each[0], 16), int(each[1], 16), each[3]) for each in fields if len(each) == 4 and each[2] in "TtWw"
        ]
        return cls(path, base, names)

    def name_at(self, address: int) -> str:
        """Return the name of the function at an address of the process; without one, `before` the next one that has one."""
        place = bisect_right(self._begins, address - self.base)
        if place:
            begin, size, name = self._names[place - 1]
            if address - self.base < begin + size or place == len(self._names):
                return name
        return _BEFORE + self._names[place][2]


def part_of(file: str, name: str) -> str:
    """Return which of the parts a sample belongs to, by its file and, in libraries of llama.cpp, by the name there."""
    library = Path(file).name
    if library.startswith(_KERNELS):
        if _PRODUCTS.search(name):
            return "products"
        if _ATTENTION.search(name):
            return "attention"
        return "barriers" if "barrier" in name else "other operations"
    if library.startswith("libgomp"):
        return "barriers"
    if library.startswith("libm"):
        return "other operations"
    if library.startswith("libllama"):
        return "sampling" if _SAMPLERS.search(name) else "llama_decode around them"
    if library.startswith("libggml"):
        return "llama_decode around them"
    return "system" if library.startswith(("[", "libc.", "libc-", "libstdc++")) else "Python"


def decode_thread(samples: Sequence[Sample]) -> int:
    """Return the thread that calls llama.cpp: of those that compute, the one that is in libllama most."""
    counts = Counter(each.thread for each in samples if Path(each.file).name.startswith("libllama"))
    if not counts:
        raise BenchFailed("perf has seen no thread in libllama")
    return counts.most_common(1)[0][0]


class Engine:
    """The engine's process, of a server that this process has started."""

    def __init__(self) -> None:
        found = [pid for pid in _descendants(os.getpid()) if _KERNELS in _maps(pid)]
        if len(found) != 1:
            raise BenchFailed(f"{len(found)} processes below this one have loaded llama.cpp's kernels, and not one")
        self.pid = found[0]
        self._libraries = _libraries(self.pid)

    def watch(self, run: Callable[[], tuple[float, float]]) -> dict[str, float]:
        """Return the seconds of each part between the two times of time.perf_counter that `run` returns.

        The parts are those of the decode thread, with `ASLEEP` for the rest of the time.
        """
        with TemporaryDirectory() as folder:
            data = Path(folder, "perf.data")
            with _perf(self.pid, data):
                begin, end = run()
            samples = [each for each in _samples(data) if begin <= each.at <= end]
        thread = decode_thread(samples)
        parts = Counter(self._part(each) for each in samples if each.thread == thread)
        seconds = {part: parts[part] * _EVERY / 1e9 for part in PARTS}
        return seconds | {ASLEEP: max(0.0, end - begin - sum(seconds.values()))}

    def _part(self, sample: Sample) -> str:
        library = self._libraries.get(sample.file)
        return part_of(sample.file, library.name_at(sample.address) if library else "")


@contextmanager
def _perf(pid: int, data: Path) -> Iterator[None]:
    """Sample the threads of a process while the block runs."""
    control, answers = data.with_name("control"), data.with_name("answers")
    os.mkfifo(control)
    os.mkfifo(answers)
    command = ["perf", "record", "-q", "-p", str(pid), "-e", "cpu-clock", "-c", str(_EVERY), "-k", "CLOCK_MONOTONIC"]
    command += ["-D", "-1", "--control", f"fifo:{control},{answers}", "-o", str(data)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        try:
            # Read and write, so that no open waits for a perf that has failed.
            with control.open("r+b", 0) as asking, answers.open("r+b", 0) as answering:
                asking.write(b"enable\n")
                while not select.select([answering], [], [], 0.1)[0]:
                    if child.poll() is not None:
                        assert child.stderr is not None
                        raise BenchFailed(f"perf ended with {child.returncode}: {child.stderr.read().strip()}")
                yield
        finally:
            child.send_signal(signal.SIGINT)


def _samples(data: Path) -> Iterator[Sample]:
    command = ["perf", "script", "-i", str(data), "-F", "tid,time,ip,sym,dso", "--ns"]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for found in filter(None, map(_SAMPLE.match, said.splitlines())):
        yield Sample(int(found[1]), float(found[2]), int(found[3], 16), found[4])


def _descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from _descendants(child)


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it has ended
        return ""


def _libraries(pid: int) -> dict[str, Library]:
    """Return llama.cpp's libraries in a process by their paths."""
    first = [
        line.split(None, 5) for line in _maps(pid).splitlines() if re.search(r" 0+ .*/lib(ggml|llama)[^/]*$", line)
    ]
    return {
        path: Library.load(Path(path), int(fields[0].split("-")[0], 16)) for fields in first for path in [fields[5]]
    }
