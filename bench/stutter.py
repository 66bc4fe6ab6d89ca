"""`make bench-stutter`: the gaps between a writer's tokens while a long prompt of somebody else is computed.

One writer streams n branches; after some tokens a prompt that nobody has seen comes, and its first token is waited for. Two
servers take turns, of which one has `step_ms` as it is by default and the other 0: a step takes as many prompt tokens as
fit, for which everybody waits. `--peer` adds a llama-server with the same model. Read the ratios.

`--beside 64` measures what so many branches of one person cost another one, who asks for 16 tokens.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.__main__ import random_model
from bench.long import fresh, words
from bench.scenarios import REST_SECONDS, Target, ask
from srb.bench.client import post
from srb.bench.server import server
from tools.real_models import model_option

N_CTX = 16_384
ALONE_SECONDS = 3.0  # of the writer's stream before the prompt comes
ALICE, BOB = "alices-key", "bobs-key"  # two people, whom the server knows by their keys
ASKS = 8  # of another person in each round of `--beside`
ASK_TOKENS = 16
HEAD = (
    f"{'':<22} {'gap before':>10} {'during p50':>10} {'p99':>7} {'max':>7}   {'prompt s':>8} {'to alone':>8} "
    f"{'tokens/s':>8}"
)


@dataclass(frozen=True)
class Round:
    """Seconds of one prompt and of the writer beside it."""

    before: list[float]  # gaps between the writer's events
    during: list[float]
    alone: float  # of the prompt and its first token, without the writer
    beside: float
    tokens: int  # of both, while the prompt was computed

    @property
    def rate(self) -> float:
        return self.tokens / self.beside


class Writer:
    """A stream of n endless branches, read by a thread of its own."""

    def __init__(self, target: Target, n: int) -> None:
        body = {"prompt": words(fresh(), 64), "n_predict": N_CTX // (2 * n), "stream": True, "ignore_eos": True}
        body["n_cmpl"] = n  # also 1: SRB's own number would be another
        self.times: list[float] = []  # of all that arrived
        self._ends = False
        self._sock = post(target.url, target.path, orjson.dumps(body), key=ALICE)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._sock:
            while not self._ends and self._sock.recv(65536):
                self.times.append(time.perf_counter())

    def gaps(self, began: float, ended: float) -> list[float]:
        """Return the gaps of which a part lies between two times."""
        pairs = zip(self.times, [*self.times[1:], time.perf_counter()], strict=True)
        return [after - before for before, after in pairs if after >= began and before <= ended]

    def stop(self) -> None:
        self._ends = True
        self._thread.join()


def play(target: Target, n: int, tokens: int) -> Round:
    """Let a writer stream n branches, and compute a prompt of so many tokens beside them."""
    time.sleep(REST_SECONDS)
    alone = ask(target, words(fresh(), tokens), 1, 1, key=BOB).total
    writer = Writer(target, n)
    while len(writer.times) < 3:
        time.sleep(0.05)
    quiet = time.perf_counter()
    time.sleep(ALONE_SECONDS)
    began = time.perf_counter()
    ask(target, words(fresh(), tokens), 1, 1, key=BOB)
    ended = time.perf_counter()
    time.sleep(0.5)  # the gap in which the prompt ended is a part of it
    writer.stop()
    during = writer.gaps(began, ended)
    return Round(writer.gaps(quiet, began), during, alone, ended - began, tokens + n * len(during))


def beside(target: Target, n: int) -> tuple[float, float]:
    """Return the seconds of ASK_TOKENS tokens of one person: alone, and while another person's n branches are written."""
    time.sleep(REST_SECONDS)
    alone = statistics.median(_seconds(target) for _ in range(ASKS))
    writer = Writer(target, n)
    while len(writer.times) < 3:
        time.sleep(0.05)
    _seconds(target)  # the first one lets the server see how long steps take
    together = statistics.median(_seconds(target) for _ in range(ASKS))
    writer.stop()
    return alone, together


def _seconds(target: Target) -> float:
    time.sleep(0.05)
    return ask(target, words(fresh(), 32), 1, ASK_TOKENS, key=BOB).total


def print_beside(targets: dict[str, Target], n: int, rounds: int) -> None:
    print(f"{ASK_TOKENS} tokens of one person beside {n} branches of another; seconds")
    print(f"{'':<22} {'alone':>8} {'beside':>8} {'ratio':>6}", flush=True)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in targets}
    for _ in range(rounds):
        for name, target in targets.items():
            measured[name].append(beside(target, n))
    for name, pairs in measured.items():
        alone, together = (statistics.median(each) for each in zip(*pairs, strict=True))
        print(f"{name:<22} {alone:>8.3f} {together:>8.3f} {together / alone:>6.2f}", flush=True)


def line(name: str, rounds: list[Round]) -> str:
    """Return a row of the table: gaps of all rounds in milliseconds, medians of the rest."""
    before = sorted(gap for each in rounds for gap in each.before)
    during = sorted(gap for each in rounds for gap in each.during)
    p50, p99 = (during[min(len(during) - 1, len(during) * part // 100)] for part in (50, 99))
    beside, ratio, rate = (
        statistics.median(values)
        for values in zip(*((each.beside, each.beside / each.alone, each.rate) for each in rounds), strict=True)
    )
    gaps = f"{statistics.median(before) * 1000:>10.0f} {p50 * 1000:>10.0f} {p99 * 1000:>7.0f} {during[-1] * 1000:>7.0f}"
    return f"{name:<22} {gaps}   {beside:>8.1f} {ratio:>8.2f} {rate:>8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stutter", description=__doc__)
    parser.add_argument("--model", type=model_option, help="a GGUF file or a name; random weights of 110M by default")
    parser.add_argument("--prompt", type=int, default=6000, help="tokens of the prompt (6000)")
    parser.add_argument("--branches", default="1,8", help="branches of the writer (1,8)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-ms", default="-1,0", help="values of step_ms, each a server (-1,0)")
    parser.add_argument(
        "--beside", type=int, help="measure 16 tokens of a person beside so many branches of another instead"
    )
    parser.add_argument("--peer", help="URL of a llama-server with the same model")
    given = parser.parse_args()
    common = {**os.environ, "SRB_MODEL": str(given.model or random_model()), "SRB_N_CTX": str(N_CTX), "SRB_STORIES": ""}
    with contextlib.ExitStack() as stack:
        keys = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "keys"
        keys.write_text(f"alice:{ALICE}\nbob:{BOB}\n")
        common["SRB_API_KEY_FILE"] = str(keys)
        targets = {
            f"step_ms {value}": Target.srb(stack.enter_context(server({**common, "SRB_STEP_MS": value})))
            for value in given.step_ms.split(",")
        }
        if given.peer:
            targets["peer"] = Target.peer(given.peer)
        if given.beside:
            print_beside(targets, given.beside, given.rounds)
            return
        for n in map(int, given.branches.split(",")):
            print(f"n = {n}, a prompt of {given.prompt} tokens; gaps in ms\n{HEAD}", flush=True)
            rounds: dict[str, list[Round]] = {name: [] for name in targets}
            for _ in range(given.rounds):
                for name, target in targets.items():
                    rounds[name].append(play(target, n, given.prompt))
            for name, played in rounds.items():
                print(line(name, played), flush=True)


if __name__ == "__main__":
    main()
