"""The pause of branches while a picture is encoded and read beside them: `python -m bench.pictures`, which takes a minute.

An engine in this process steps eight branches; another thread has pictures encoded, as the lane of a connection does: in
turns one that gives way to the decodes, as the lane's, and one that does not. The counts of steps do not depend on other
programs; times do, so read them as the ratios that they are.
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import time
from base64 import b64encode
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.request import Request
from srb.host.cores import give_way
from srb.wire.commands import BranchSpec, Generate
from tests.models.random_gguf import BENCH_110M, write_qwen2vl
from tests.models.random_projectors import write_merging_projector

FOLDER = Path("build/bench")
N_CTX = 16384
WIDTH, LAYERS = 512, 6  # of the encoder: 13 million parameters
SIDE = 192  # pixels of a picture, of 576 tokens: 2,304 patches, which see each other in every layer


def picture(seed: int) -> str:
    """Return a BMP of noise as base64."""
    pixels = random.Random(seed).randbytes(3 * SIDE * SIDE)
    form = 40, SIDE, SIDE, 1, 24, 0, len(pixels), 2835, 2835, 0, 0
    header = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + len(pixels), 0, 54, *form)
    return b64encode(header + pixels).decode()


class Desk:
    """An engine with running branches; the times of its steps."""

    def __init__(self, model: LlamaModel, n: int) -> None:
        self.engine = Engine(model, EngineOptions(max_queue=100, cache_bytes=2**31), clock=time.monotonic)
        specs = tuple(BranchSpec(seed, 1000, sampling=SamplingParams(ignore_eos=True)) for seed in range(n))
        self.story = self.engine.prepare(Generate("story", (" the old king",), specs))
        assert isinstance(self.story, Request)
        self.engine.submit(self.story)
        self.steps(16)

    def step(self) -> float:
        """Take a step; return its seconds."""
        began = time.perf_counter()
        self.engine.step()
        return time.perf_counter() - began

    def steps(self, count: int) -> list[float]:
        return [self.step() for _ in range(count)]

    def steps_until(self, prepared: Future[object]) -> list[float]:
        """Step while another thread prepares a request; return the seconds of each step."""
        taken: list[float] = []
        while not prepared.done():
            taken.append(self.step())
        return taken


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pictures", description=__doc__)
    parser.add_argument("--n", type=int, default=8, help="running branches (default: %(default)s)")
    parser.add_argument("--pictures", type=int, default=3, help="pictures of each way (default: %(default)s)")
    return parser.parse_args()


def _measure(desk: Desk, encoder: ThreadPoolExecutor, way: str, seed: int) -> None:
    """Have one picture encoded and read beside the branches, and print what that took."""
    alone = statistics.median(desk.steps(32))
    spec = BranchSpec(0, 1000, sampling=SamplingParams(ignore_eos=True))
    command = Generate(f"p{seed}", (-1, " said"), (spec,), media=(picture(seed),))
    began = time.perf_counter()
    prepared = encoder.submit(desk.engine.prepare, command)
    beside = desk.steps_until(prepared)
    seconds = time.perf_counter() - began
    request = prepared.result()
    assert isinstance(request, Request)
    desk.engine.submit(request)
    reading: list[float] = []
    while not request.prefix.is_complete:
        reading.append(desk.step())
    tokens = len(request.prefix.tokens)
    desk.engine.cancel(request.request_id)
    print(
        f"picture {seed}, {way}: a step alone {alone * 1000:.1f} ms; encoded in {seconds:.2f} s, beside {len(beside)} steps "
        f"(median {statistics.median(beside) / alone:.2f}, longest {max(beside) / alone:.2f} of one alone); "
        f"{tokens} tokens read in {len(reading)} steps, longest {max(reading) * 1000:.0f} ms",
        flush=True,
    )


def main() -> None:
    options = _parse()
    FOLDER.mkdir(parents=True, exist_ok=True)
    shape = replace(BENCH_110M, context=N_CTX)
    paths = FOLDER / "seeing-110m.gguf", FOLDER / f"mmproj-{WIDTH}-{LAYERS}.gguf"
    if not paths[0].exists():
        write_qwen2vl(paths[0], shape)
    if not paths[1].exists():
        write_merging_projector(paths[1], shape, width=WIDTH, layers=LAYERS)
    model = LlamaModel.load(Settings(model=str(paths[0]), mmproj=str(paths[1]), n_ctx=N_CTX))
    desk = Desk(model, options.n)
    ways = {"gives way": ThreadPoolExecutor(1, initializer=give_way), "equal": ThreadPoolExecutor(1)}
    for seed in range(options.pictures):
        for number, (way, encoder) in enumerate(ways.items()):
            _measure(desk, encoder, way, seed * len(ways) + number)
    for encoder in ways.values():
        encoder.shutdown()
    desk.engine.close()


if __name__ == "__main__":
    main()
