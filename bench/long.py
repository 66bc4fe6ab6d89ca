"""Long branches and long prompts, as ratios of one run: `python -m bench.long`, which takes some minutes.

Each row has a number and the bound that it should keep. `--peer` names a llama-server with the same model, with which SRB
takes turns: `llama-server -c 16384 -np 32 --kv-unified`. A known prompt is timed on the fake model, whose step takes 1 ms,
and on llama.cpp with hardly any weights, so that everything else is seen: there its copies of cells, too.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import re
import statistics
import time
import urllib.request
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llama_cpp as lib
import orjson

from bench.__main__ import random_model
from bench.replay import Recording, prompts_first
from bench.scenarios import FIRST_WORD, N_WORDS, REST_SECONDS, Target, ask
from srb.bench.client import post
from srb.bench.server import server
from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.engine.llama.batch import NativeBatch
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from srb.engine.request import Request
from srb.wire.commands import BranchSpec, Generate
from tests.models.random_gguf import WRITERS, Shape
from tools.real_models import model_option

N_CTX, N_UBATCH = 16384, 512
PROMPT = 512  # tokens before long siblings
SIBLINGS = ((8, 768), (32, 256))
KNOWN = (12_000, 100_000)
NO_WEIGHTS = Shape(dim=64, layers=2, heads=1, kv_heads=1, ffn=64, vocab=32000, context=2**17, q8=True)
FAKE_CELLS = 450_000
PARKED = 256  # tokens of a parked part of a text
BESIDE = 3072  # tokens of the prompt that comes beside running branches
FAKE_WORDS = (
    "the",
    "old",
    "small",
    "grey",
    "river",
    "boat",
    "garden",
    "keeper",
    "girl",
    "king",
    "found",
    "opened",
    "near",
)


@dataclass
class Report:
    """The rows of the table, each with its value and bound: shown as they come."""

    failed: int = 0
    rows: list[tuple[str, float, float]] = field(default_factory=list)
    show: Callable[[str], None] = print

    def row(self, name: str, value: float, bound: float, unit: str = "", note: str = "") -> None:
        """Print a value that should be at most `bound`."""
        good = value <= bound
        self.failed += not good
        self.rows.append((name, value, bound))
        self.show(f"{name:<58} {value:>9.2f} <= {bound:>7.2f} {unit:<3} {'' if good else 'MISSED':<6} {note}")


@dataclass(frozen=True)
class Stream:
    """The events of one streamed answer, each with the seconds from the request to its arrival."""

    events: list[tuple[float, dict[str, Any]]]
    ended: float

    def times(self, index: int | None = None) -> list[float]:
        """Return the arrival of each token, of one branch or of all."""
        return [
            at
            for at, event in self.events
            if event["event"] == "stream" and index in (None, event["index"])
            for _ in event["tokens"]
        ]

    @property
    def first(self) -> float:
        return self.times()[0]


def stream(
    url: str, prompt: str | list[int], n: int, tokens: int, arrived: Callable[[int], None] = lambda size: None
) -> Stream:
    """Stream one completion of SRB; `arrived` is called with the bytes received so far."""
    body = {"prompt": prompt, "n": n, "max_tokens": tokens, "seed": 1, "ignore_eos": True, "return_tokens": True}
    data, received = orjson.dumps(body), bytearray()
    ends, times = [], []
    began = time.perf_counter()
    with post(url, "/v1/srb/completions", data) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            ends.append(len(received))
            times.append(time.perf_counter() - began)
            arrived(len(received))
            if chunk.endswith(b"0\r\n\r\n"):
                break
    if b" 200 " not in received[:20]:
        raise RuntimeError(f"the server answered {bytes(received[:300])!r}")
    return Stream([(times[bisect_left(ends, end)], event) for end, event in _events(bytes(received))], times[-1])


def _events(received: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each event with the position of its end."""
    start = 0
    while (start := received.find(b"data: {", start)) >= 0:
        end = received.index(b"\n", start)
        yield end, orjson.loads(received[start + 6 : end])
        start = end


def words(seed: int, count: int) -> list[int]:
    """Return a prompt of token ids that no server has seen."""
    pick = random.Random(seed)
    return [1] + [FIRST_WORD + pick.randrange(N_WORDS) for _ in range(count - 1)]


def fresh(counter: Iterator[int] = iter(range(time.time_ns() // 10**6 % 10**9, 2**62))) -> int:  # noqa: B008
    return next(counter)


def rested(run: Callable[..., Any], *arguments: Any) -> Any:
    """Run after a pause, in which idle threads of the other sides stop to spin."""
    time.sleep(REST_SECONDS)
    return run(*arguments)


# Long siblings ----------------------------------------------------------------------------------------------------


def siblings(report: Report, desk: Desk, n: int, tokens: int, rounds: int) -> None:
    """Measure whether long branches slow down more than llama.cpp itself does with as many cells."""
    ours, bare, whole, last = [], [], [], []
    for _ in range(rounds):
        prompt = words(fresh(), PROMPT)
        bare.append(bare_steps(desk, prompt, n, tokens))
        ours.append(engine_steps(desk, prompt, n, tokens))
        whole.append(sum(ours[-1]) / sum(bare[-1]))
        last.append(_quarters(ours[-1])[1] / _quarters(bare[-1])[1])
    name, floor = f"n = {n} x {tokens}", statistics.median(map(_last_to_first, bare))
    note = f"speed to the first: {statistics.median(map(_last_to_first, ours)):.2f}, bare {floor:.2f}"
    report.row(f"{name}: last quarter's time to bare llama_decode's", statistics.median(last), 1.1, "", note)
    report.row(f"{name}: time to bare llama_decode's", statistics.median(whole), 1.1, "", f"{sum(bare[-1]):.1f} s")


def engine_steps(desk: Desk, prompt: list[int], n: int, tokens: int) -> list[float]:
    """Return the CPU seconds of each step in which all branches run."""
    request, times = desk.submit(prompt, n, tokens), []
    while not request.branches[-1].tokens:
        desk.step()
    while any(branch.is_active for branch in request.branches):
        times.append(desk.step())
    desk.end(request)
    return times


def bare_steps(desk: Desk, prompt: list[int], n: int, tokens: int) -> list[float]:
    """Return the CPU seconds of each step of a loop around llama_decode and llama_sampler_sample, with the same cells."""
    model, times = desk.model, []
    samplers = [model.new_sampler(SamplingParams(ignore_eos=True), seed, prompt) for seed in range(n)]
    batch = Batch()
    row = batch.add(n, 0, prompt, want_logits=True)
    assert model.decode(batch) is DecodeStatus.OK
    newest = [sampler.sample(row) for sampler in samplers]
    for seq_id in range(n):
        model.fork(n, seq_id)
    model.flush()
    native, chains = NativeBatch(model.n_batch), [sampler._chain for sampler in samplers]
    for position in range(len(prompt), len(prompt) + tokens - 1):
        batch = Batch()
        for seq_id, token in enumerate(newest):
            batch.add(seq_id, position, [token], want_logits=True)
        began = time.thread_time()
        assert lib.llama_decode(model._context, native.fill(batch)) == 0
        newest = [lib.llama_sampler_sample(chain, model._context, row) for row, chain in enumerate(chains)]
        times.append(time.thread_time() - began)
    model.clear()
    for sampler in samplers:
        sampler.close()
    return times


def _last_to_first(steps: Sequence[float]) -> float:
    """Return the speed in the last quarter of the steps as a part of that in the first."""
    first, last = _quarters(steps)
    return first / last


def _quarters(steps: Sequence[float]) -> tuple[float, float]:
    """Return the seconds of the first and of the last quarter of the steps."""
    count = len(steps) // 4
    return sum(steps[:count]), sum(steps[-count:])


# Known prompts ----------------------------------------------------------------------------------------------------


def known(report: Report, rounds: int) -> None:
    """Time eight branches of a prompt that was computed before, on a model whose step takes a millisecond."""
    environ = {**os.environ, "SRB_MODEL": "fake:1000", "SRB_N_CTX": str(FAKE_CELLS), "SRB_N_BATCH": "2048"}
    for count in KNOWN:
        pick = random.Random(count)
        text = " " + " ".join(pick.choices(FAKE_WORDS, k=count))
        ids, restore = [1, *(pick.randrange(2, 40) for _ in range(count))], fake_restore(count) * 1000
        for form, prompt in (("text", text), ("ids", ids)):
            name = f"{count:,} tokens as {form}"
            _known(report, f"{name}, in the KV store", environ, prompt, rounds, cells=FAKE_CELLS)
            _known(report, f"{name}, parked", environ, prompt, rounds, cells=0, restore=restore)


def known_by_llama(report: Report, rounds: int) -> None:
    """Time them on llama.cpp, in which each branch is a copy of all cells of the prompt."""
    model = Path("build/bench/cells.gguf").absolute()
    if not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        WRITERS["llama"](model, NO_WEIGHTS)
    environ = {**os.environ, "SRB_MODEL": str(model), "SRB_N_CTX": str(NO_WEIGHTS.context), "SRB_N_UBATCH": "2048"}
    for count in KNOWN:
        prompt = words(count, count)
        _known(report, f"{count:,} tokens on llama.cpp", environ, prompt, rounds, cells=NO_WEIGHTS.context)
        _known(report, f"{count:,} tokens on llama.cpp, the newest text", environ, prompt, rounds, cells=0)


def _known(
    report: Report,
    name: str,
    environ: dict[str, str],
    prompt: str | list[int],
    rounds: int,
    *,
    cells: int,
    restore: float = 0.0,
) -> None:
    """Time the first token of a prompt with `cells` for idle texts; with `restore`, in ms, another text is sent between."""
    count, firsts = len(prompt.split()) if isinstance(prompt, str) else len(prompt), []
    with server({**environ, "SRB_CACHE_CELLS": str(cells)}) as url:
        stream(url, prompt, 8, 2)
        for _ in range(rounds):
            if restore:
                stream(url, [1, 2, 3], 1, 2)
                _wait_until_parked(url, count)
            firsts.append(rested(stream, url, prompt, 8, 2).first * 1000)
    first, note = statistics.median(firsts), f"longest {max(firsts):.0f}"
    if restore:
        note += f"; without the fake's own restore, {restore:.0f} of {first:.0f}"
    report.row(f"{name}: first token", first - restore, 60 + count / 1000, "ms", note)


def _wait_until_parked(url: str, count: int, seconds: float = 60.0) -> None:
    """Wait until so many tokens are in host memory."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            found = re.search(rb"^srb:tree_tokens_parked (\S+)$", answer.read(), re.MULTILINE)
        if found and float(found[1]) >= count:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the prompt was not parked within {seconds:.0f} s")


def fake_restore(count: int) -> float:
    """Return the CPU seconds in which the fake restores so many tokens: it makes each cell anew, where llama.cpp copies."""
    model, times = FakeModel(n_ctx=FAKE_CELLS), []
    for position in range(count):
        batch = Batch()
        batch.add(0, position, [position % 40 + 2], want_logits=False)
        model.decode(batch)
    blobs = []
    for start in range(count // PARKED * PARKED, -1, -PARKED):  # parts as the tree parks them
        if start < count:
            blobs.append(model.save(0, start))
            model.truncate(0, start)
    gc.disable()  # as the engine's, while requests run
    for _ in range(3):
        model.remove(0)
        began = time.thread_time()
        for blob in reversed(blobs):
            model.restore(0, blob)
        times.append(time.thread_time() - began)
    gc.enable()
    return min(times)


# A long prompt beside running branches ----------------------------------------------------------------------------


class Desk:
    """An engine in this process, with one thread, whose steps are measured by their CPU time, as if it ran alone."""

    def __init__(self, model: Path) -> None:
        settings = Settings(model=str(model), n_ctx=N_CTX, threads=1, threads_batch=1)
        self.model = LlamaModel.load(settings)
        self.engine = Engine(self.model, EngineOptions(max_queue=100, cache_bytes=2**31), clock=time.monotonic)
        self._count = 0

    def submit(self, prompt: list[int], n: int, tokens: int) -> Request:
        """Queue a request; return it, so that its branches can be looked at between steps."""
        self._count += 1
        params = SamplingParams(ignore_eos=True)
        specs = tuple(BranchSpec(seed, tokens, sampling=params) for seed in range(n))
        request = self.engine.prepare(Generate(f"r{self._count}", tuple(prompt), specs))
        assert isinstance(request, Request)
        self.engine.submit(request)
        return request

    def step(self) -> float:
        """Take a step; return its CPU seconds."""
        began = time.thread_time()
        self.engine.step()
        return time.thread_time() - began

    def end(self, *requests: Request) -> None:
        """Cancel requests, and empty the KV store."""
        for request in requests:
            self.engine.cancel(request.request_id)
        while self.engine.has_work:
            self.engine.step()
        self.engine._tree.clear()  # the newest text keeps its cells, else, which a recording does not know of

    def prefill(self, others: Request | None = None) -> tuple[float, list[float]]:
        """Compute a long prompt; return its CPU seconds, and those between two tokens of each branch of `others`."""
        request, total, gaps = self.submit(words(fresh(), BESIDE), 1, 2), 0.0, []
        running = others.branches if others else []
        since, lengths = [0.0] * len(running), [len(branch.tokens) for branch in running]
        while not request.branches[0].tokens:
            seconds = self.step()
            total += seconds
            for place, branch in enumerate(running):
                since[place] += seconds
                if len(branch.tokens) > lengths[place]:
                    gaps.append(since[place])
                    since[place], lengths[place] = 0.0, len(branch.tokens)
        self.end(request, *([others] if others else []))
        return total, gaps


def beside(report: Report, desk: Desk, n: int, rounds: int) -> None:
    """Measure a long prompt alone and beside running branches, and the longest gap between two of their tokens.

    The floor is bare llama_decode with the same batches: n tokens of each belong to the branches, whose cells every token
    of the prompt looks at, since all sequences share the KV store.
    """
    alone, together, gaps, floors = [], [], [], []
    for _ in range(rounds):
        with Recording(desk.model) as recording:
            alone.append(desk.prefill()[0])
        floor_alone = recording.replay()
        with Recording(desk.model) as recording:
            others = desk.submit(words(fresh(), 32), n, 1000)
            while len(others.branches[-1].tokens) < 4:
                desk.step()
            before = recording.n_decodes
            seconds, found = desk.prefill(others)
        floors.append(recording.replay(before) / floor_alone)
        together.append(seconds)
        gaps += found
    step = min(alone) / (BESIDE / N_UBATCH)  # least times, since other programs on the cores' caches only add to them
    name = f"a prompt of {BESIDE} tokens beside {n} branches"
    note = f"a step of one ubatch: {step * 1000:.0f} ms; {len(gaps)} gaps, median {statistics.median(gaps) / step:.2f}"
    report.row(f"{name}: longest gap, in steps", max(gaps) / step, 2.0, "", note)
    floor = statistics.median(floors)
    note = f"alone {min(alone):.2f} s; bare llama_decode, same batches: {floor:.2f}"
    report.row(f"{name}: its time to that alone", min(together) / min(alone), max(1.15, 1.02 * floor), "", note)


# Many requests at once, in the engine alone ------------------------------------------------------------------------


def crowds(report: Report, desk: Desk, rounds: int) -> None:
    """Compare requests that arrive at once with bare llama_decode: of the same batches, and with all prompts first."""
    independent, orders, common = [], [], []
    for _ in range(rounds):
        prompts = [words(fresh(), 128) for _ in range(24)]
        seconds, alone = crowd(desk, prompts, 1, 48)
        floor = alone.replay()
        independent.append(seconds / floor)
        orders.append(floor / prompts_first(desk.model, prompts, 48))
        beginning = words(fresh(), 1024)
        seconds, shared = crowd(desk, [beginning + words(fresh(), 33)[1:] for _ in range(8)], 4, 32)
        common.append(seconds / shared.replay())
    note = f"{alone.n_decodes} decodes of {alone.n_tokens} tokens; their time to that of all prompts first: "
    note += f"{statistics.median(orders):.2f}"
    report.row("24 independent prompts: time to bare llama_decode", statistics.median(independent), 1.05, "", note)
    note = f"{shared.n_decodes} decodes of {shared.n_tokens} tokens"
    report.row("8 x n = 4 on a common beginning: time to bare llama_decode", statistics.median(common), 1.05, "", note)


def crowd(desk: Desk, prompts: list[list[int]], n: int, tokens: int) -> tuple[float, Recording]:
    """Compute requests that arrive at once; return the CPU seconds, and what was computed."""
    seconds = 0.0
    with Recording(desk.model) as recording:
        requests = [desk.submit(prompt, n, tokens) for prompt in prompts]
        while desk.engine.has_work:
            seconds += desk.step()
        desk.end(*requests)
    return seconds, recording


# Many requests at once --------------------------------------------------------------------------------------------


def together(report: Report, srb: Target, peer: Target, rounds: int) -> None:
    """Compare requests that arrive at once: independent ones, and some with a common beginning."""
    totals, firsts, common = [], [], []
    for _ in range(rounds):
        prompts = [words(fresh(), 128) for _ in range(24)]
        ours, theirs = (rested(_at_once, target, prompts, 1, 48) for target in (srb, peer))
        totals.append(ours[0] / theirs[0])
        firsts.append(ours[1] / theirs[1])
        beginning = words(fresh(), 1024)
        prompts = [beginning + words(fresh(), 33)[1:] for _ in range(8)]
        ours, theirs = (rested(_at_once, target, prompts, 4, 32) for target in (srb, peer))
        common.append(ours[0] / theirs[0])
    report.row("24 independent prompts: total time to llama-server's", statistics.median(totals), 1.0)
    report.row(
        "24 independent prompts: first token to llama-server's", statistics.median(firsts), 1 / 3, "", "median of all"
    )
    report.row("8 x n = 4 on a common beginning: total to llama-server's", statistics.median(common), 0.25)
    for n, tokens in SIBLINGS:
        prompt = words(fresh(), PROMPT)
        ours, theirs = (rested(_at_once, target, [prompt], n, tokens) for target in (srb, peer))
        report.row(f"n = {n} x {tokens}: time to llama-server's", ours[0] / theirs[0], 1.0)


def _at_once(target: Target, prompts: list[list[int]], n: int, tokens: int) -> tuple[float, float]:
    """Send all prompts at once; return the seconds to the last end, and to the first token of any."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: ask(target, prompt, n, tokens), prompts))
    return time.perf_counter() - began, min(answer.first_token for answer in answers)


PARTS = ("known", "beside", "siblings", "crowds", "together")


def alone(report: Report, model: Path, parts: Collection[str], rounds: int) -> None:
    """Measure the parts that need an engine in this process."""
    desk = Desk(model)
    for n in (1, 8, 32) if "beside" in parts else ():
        beside(report, desk, n, rounds)
    for n, tokens in SIBLINGS if "siblings" in parts else ():
        siblings(report, desk, n, tokens, rounds)
    if "crowds" in parts:
        crowds(report, desk, rounds)
    desk.engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.long", description=__doc__)
    parser.add_argument(
        "--model",
        type=model_option,
        help="smollm2, gemma3 or a GGUF file (default: random, of 110M)",
    )
    parser.add_argument("--peer", default="", help="base URL of a llama-server with the same model")
    parser.add_argument("--rounds", type=int, default=3, help="turns, of which the median is reported (default: 3)")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure (default: %(default)s)")
    options = parser.parse_args()
    parts, report = options.parts.split(","), Report()
    if "known" in parts:
        known(report, max(5, options.rounds))
        known_by_llama(report, max(5, options.rounds))
    model = None if parts == ["known"] else (options.model or random_model()).absolute()
    if model and {"beside", "siblings", "crowds"} & set(parts):
        alone(report, model, parts, options.rounds)
    if model and options.peer and "together" in parts:
        with server({**os.environ, "SRB_MODEL": str(model), "SRB_N_CTX": str(N_CTX)}) as url:
            together(report, Target.srb(url), Target.peer(options.peer), options.rounds)
    print(f"\n{report.failed} of the bounds were missed" if report.failed else "\nall bounds were kept")


if __name__ == "__main__":
    main()
