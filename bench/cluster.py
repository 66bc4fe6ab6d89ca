"""Cost of a cluster: a server over replicas on Ray beside one with an engine of its own, in turns, all on this machine.

`python -m bench.cluster` prints five rows, each with its limit, and ends with status 1 if one is beyond it:

- the time to the first token and the time of a step, n = 8, over one replica with FakeModel at 100 steps a second;
- the rate of new tokens of two replicas with one thread each, over that of one engine with two threads;
- the tokens a second that one bridge passes on from two replicas with FakeModel, read as a web worker reads them, and the
  tokens for a second of its CPU time.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from bench.scenarios import Target, ask
from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Done, Failed, Rejected
from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.processes import Worker, wait_for
from tests.servers import Server
from tools.real_models import model_option

N = 8
STEADY, STEPS = "fake:100", 50  # FakeModel with 100 steps a second, and the steps of a request
WRITERS, PAGES, PAGE_TOKENS = 8, 6, 64  # of a turn with the real model: requests of each writer, one after another
REQUESTS, LENGTH = 8, 1000  # of a turn through a bridge: requests at once, and tokens of a branch
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """A measured number and its limit."""

    name: str
    own: str  # of the server with its own engine
    value: float
    unit: str
    limit: float
    is_most: bool  # else the limit is the least

    @property
    def holds(self) -> bool:
        return self.value <= self.limit if self.is_most else self.value >= self.limit

    def __str__(self) -> str:
        limit = f"{'≤' if self.is_most else '≥'} {self.limit:,g} {self.unit}"
        verdict = "ok" if self.holds else "BEYOND"
        return f"{self.name:<46} {self.own:>14} {self.value:>12,.2f} {self.unit:<9} {limit:<19} {verdict}"


@contextmanager
def pair(cluster: Cluster, count: int, of_replica: dict[str, object], **of_own: object) -> Iterator[list[Server]]:
    """Run a server with an engine of its own, with some other settings, and one over `count` replicas."""
    cluster.deploy(count, **of_replica)
    with Server(Path(tempfile.mkdtemp(dir=cluster.folder)), **of_replica | of_own) as own:
        own.start()
        over = cluster.server(Path(tempfile.mkdtemp(dir=cluster.folder))).start(wait=False)
        wait_for(lambda: replicas(over) == count, "the replicas are ready", START_SECONDS)
        yield [own, over]
        over.stop()


def in_turns(act: Callable[[int, Server], float], servers: list[Server], turns: int) -> list[list[float]]:
    """Return for each server what `act` returns in each turn; the first turn warms up."""
    found: list[list[float]] = [[] for _ in servers]
    for turn in range(turns + 1):
        for place in range(len(servers))[:: 1 if turn % 2 else -1]:
            value = act(turn, servers[place])
            if turn:
                found[place].append(value)
    return found


def latency(cluster: Cluster, turns: int) -> Iterator[Row]:
    """Yield what one replica adds to the time to the first token, and to a step."""
    steps: dict[str, list[float]] = {}

    def first_token(turn: int, server: Server) -> float:
        prompt = f"The keeper of lighthouse {turn} had not slept for nine days when the boat came. " * 3
        answer = ask(Target.srb(server.url), prompt, N, STEPS)  # type: ignore[arg-type]  # a text will do
        if turn:
            steps.setdefault(server.url, []).append((answer.total - answer.first_token) / (STEPS - 1))
        return answer.first_token

    with pair(cluster, 1, {"model": STEADY}) as servers:
        own, over = (statistics.median(times) * 1000 for times in in_turns(first_token, servers, turns))
        yield Row("time to first token, more with a replica", f"{own:.1f} ms", over - own, "ms", 5, is_most=True)
        own, over = (statistics.median(steps[server.url]) * 1000 for server in servers)
        yield Row(f"a step of {N} branches, more with a replica", f"{own:.2f} ms", over - own, "ms", 1, is_most=True)


def throughput(cluster: Cluster, turns: int, model: Path | None) -> Iterator[Row]:
    """Yield the rate of two replicas with a thread each, over that of one engine with two threads."""

    def rate(turn: int, server: Server) -> float:
        def write(writer: int) -> None:
            for page in range(PAGES):
                prompt = f"In the year {turn} the writer {writer} came to page {page}, and the sea was grey and old."
                ask(Target.srb(server.url), prompt, N, PAGE_TOKENS)  # type: ignore[arg-type]

        began = time.perf_counter()
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(write, range(WRITERS)))
        return WRITERS * PAGES * N * PAGE_TOKENS / (time.perf_counter() - began)

    settings: dict[str, object] = {"model": model or "storyteller", "n_ctx": Settings().n_ctx, "threads": 1}
    with pair(cluster, 2, settings, threads=2) as servers:
        own, over = in_turns(rate, servers, turns)
    ratio = statistics.median(b / a for a, b in zip(own, over, strict=True))
    alone = f"{statistics.median(own):,.0f} /s"
    yield Row("rate of 2 replicas over 1 engine, 2 threads", alone, ratio, "×", 0.9, is_most=False)


def passed_on(cluster: Cluster, turns: int) -> Iterator[Row]:
    """Yield the tokens a second through one bridge, and the tokens for each second of its CPU time."""
    numbers = itertools.count()
    cpu: list[float] = []

    def rate(turn: int, server: Server) -> float:
        sampling = SamplingParams(ignore_eos=True)
        specs = tuple(BranchSpec(seed, LENGTH, sampling=sampling) for seed in range(N))
        worker = Worker(server.runtime).ready()
        began, before = time.perf_counter(), cpu_seconds(server.engine)
        texts = [f"Story {next(numbers)} of a night that has no end. " * 3 for _ in range(REQUESTS)]
        worker.send(*(Generate(text, (text,), specs) for text in texts))
        for _ in range(REQUESTS):
            event = worker.next(Done, Failed, Rejected)
            if not isinstance(event, Done):
                raise RuntimeError(f"a request failed: {event}")
        seconds, used = time.perf_counter() - began, cpu_seconds(server.engine) - before
        worker.close()
        if turn and server is servers[1]:
            cpu.append(REQUESTS * N * LENGTH / max(used, 1 / _TICKS))
        return REQUESTS * N * LENGTH / seconds

    with pair(cluster, 2, {"model": "fake:", "n_seq_max": 64}) as servers:
        own, over = (statistics.median(rates) for rates in in_turns(rate, servers, turns))
    yield Row("tokens through one bridge, fake engines", f"{own:,.0f} /s", over, "/s", 20_000, is_most=False)
    yield Row("… for a second of the bridge's CPU time", "", statistics.median(cpu), "/CPU s", 20_000, is_most=False)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    """Print the rows; exit with 1 if a number is beyond its limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--turns", type=int, default=40, help="requests of each server for the times (default: 40)")
    parser.add_argument("--rates", type=int, default=7, help="turns of each server for the rates (default: 7)")
    parser.add_argument(
        "--model",
        type=model_option,
        help="name or GGUF file for the rate of two replicas (default: the bundled one)",
    )
    parser.add_argument("--only", choices=_PARTS, help="measure one part alone (default: all)")
    asked = parser.parse_args()
    noise = io.StringIO()  # the logs of all that was started, of which nobody asks unless it fails
    rows = []
    try:
        with redirect_stdout(noise):
            for row in measured(asked):
                print(row, file=sys.__stdout__, flush=True)
                rows.append(row)
    except BaseException:
        print(noise.getvalue(), file=sys.stderr)
        raise
    sys.exit(0 if all(row.holds for row in rows) else 1)


_PARTS: dict[str, Callable[[Cluster, argparse.Namespace], Iterator[Row]]] = {
    "latency": lambda cluster, asked: latency(cluster, asked.turns),
    "bridge": lambda cluster, asked: passed_on(cluster, asked.rates),
    "throughput": lambda cluster, asked: throughput(cluster, asked.rates, asked.model),
}


def measured(asked: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows."""
    with tempfile.TemporaryDirectory(prefix="srb-bench-") as folder, Cluster(Path(folder)) as cluster:
        cluster.start()
        print(f"{'':<46} {'own engine':>14} {'cluster':>12} {'':<9} limit", file=sys.__stdout__, flush=True)
        for name, part in _PARTS.items():
            if asked.only in (None, name):
                yield from part(cluster, asked)


if __name__ == "__main__":
    main()
