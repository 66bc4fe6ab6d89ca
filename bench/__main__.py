"""`make bench`: the raw loop of llama.cpp and the server, in turns, for several numbers of branches.

Prints a table and then one line of JSON. Read the ratio: both sides run in turns on the same machine, so other load
affects both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from bench import load
from bench.scenarios import HEAD as HEAD_OF_SCENARIOS
from bench.scenarios import REST_SECONDS, SCENARIOS, Target, compare, one_requests
from srb.bench import client
from srb.bench.client import Measure, Work
from srb.bench.server import server
from srb.config.settings import Settings
from tests.models.random_gguf import SHAPES, write_llama
from tools.real_models import model_option

RANDOM_MODELS = Path("build/bench")
PROMPT = "Once upon a time, the old king said to the girl in the boat that the sea was"


class RawLoop:
    """A child process of bench.raw, which keeps the model loaded."""

    def __init__(self, environ: dict[str, str]) -> None:
        command = [sys.executable, "-m", "bench.raw"]
        self._child = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        if self._read() != "ready":
            raise RuntimeError("the raw loop did not start")

    def run(self, work: Work) -> Measure:
        assert self._child.stdin
        self._child.stdin.write(orjson.dumps(asdict(work)).decode() + "\n")
        return Measure(**orjson.loads(self._read()))

    def close(self) -> None:
        assert self._child.stdin
        self._child.stdin.close()
        self._child.wait()

    def _read(self) -> str:
        assert self._child.stdout
        return self._child.stdout.readline().strip()


def measure(
    model: Path, ns: Sequence[int], tokens: int, rounds: int, show: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """Return one row for each n, with the medians of `rounds` turns of both sides; `show` gets each as a line."""
    environ = {**os.environ, "SRB_MODEL": str(model), "PYTHONPATH": os.getcwd()}
    # All branches are computed at once, for which models with sliding windows have too few sequences by default.
    raw = RawLoop(environ | {"SRB_N_SEQ_MAX": str(max(ns) + 1)})
    rows = []
    try:
        with server(environ) as url:
            for n in ns:
                work = Work(PROMPT, n, tokens)
                turns = [(_rested(raw.run, work), _rested(client.run, url, work)) for _ in range(rounds + 1)]
                turns = turns[1:]  # the first warms up
                rows.append(_row(n, turns))
                show(_line(rows[-1]))
    finally:
        raw.close()
    return rows


def _rested(run: Callable[..., Measure], *arguments: Any) -> Measure:
    """Run one turn after a pause: the other side's idle threads spin for some milliseconds."""
    time.sleep(REST_SECONDS)
    return run(*arguments)


def _row(n: int, turns: list[tuple[Measure, Measure]]) -> dict[str, Any]:
    median = statistics.median
    return {
        "n": n,
        "raw_tokens_per_second": median(raw.tokens_per_second for raw, _ in turns),
        "server_tokens_per_second": median(served.tokens_per_second for _, served in turns),
        "raw_first_token_ms": median(raw.first_token for raw, _ in turns) * 1000,
        "server_first_token_ms": median(served.first_token for _, served in turns) * 1000,
        "ratio": median(served.tokens_per_second / raw.tokens_per_second for raw, served in turns),
    }


HEAD = f"{'n':>4} {'raw tok/s':>10} {'server tok/s':>13} {'ratio':>6} {'raw first ms':>13} {'server first ms':>16}"


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['n']:>4} {row['raw_tokens_per_second']:>10.0f} {row['server_tokens_per_second']:>13.0f} {row['ratio']:>6.2f}"
        f" {row['raw_first_token_ms']:>13.1f} {row['server_first_token_ms']:>16.1f}"
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--model",
        type=model_option,
        action="append",
        help="smollm2, gemma3 or a GGUF file; several times for several (default: storyteller and random, of 110M)",
    )
    parser.add_argument(
        "--n", default="", help="numbers of branches (default: 1,8,32); of --scenarios, the one request that is timed"
    )
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each branch (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of turns, of which the median is reported (default: %(default)s)"
    )
    parser.add_argument(
        "--scenarios", action="store_true", help="run the scenarios of writers on the last model, instead of the loop"
    )
    parser.add_argument(
        "--peer", default="", help="base URL of a llama-server on which the scenarios run in turns with SRB"
    )
    parser.add_argument(
        "--load",
        nargs="?",
        const="",
        metavar="URL",
        help="run many streaming clients at once, on the server at URL or, without URL, on a new one",
    )
    parser.add_argument("--clients", type=int, default=200, help="number of clients of --load (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    options = _parse()
    if options.load is not None:
        _load(options)
        return
    models = options.model or [Settings().model_path, random_model()]
    if options.scenarios or options.peer:
        environ = {**os.environ, "SRB_MODEL": str(models[-1].absolute()), "SRB_N_CTX": "16384"}
        with server(environ) as url:
            targets = [Target.srb(url)] + ([Target.peer(options.peer)] if options.peer else [])
            print(f"\n{models[-1]}\n{HEAD_OF_SCENARIOS}", flush=True)
            scenarios = one_requests(map(int, options.n.split(","))) if options.n else SCENARIOS
            results: Any = compare(targets, options.rounds, scenarios)
    else:
        results = {}
        for model in models:
            print(f"\n{model}\n{HEAD}", flush=True)
            ns = [int(n) for n in (options.n or "1,8,32").split(",")]
            results[model.name] = measure(model.absolute(), ns, options.tokens, options.rounds)
    print("\n" + orjson.dumps({"tokens": options.tokens, "rounds": options.rounds, "results": results}).decode())


def _load(options: argparse.Namespace) -> None:
    """Run the load on the named server or a new one, then on the peer; n is 2 unless a single one is given."""
    n = int(options.n) if options.n.isdecimal() else 2
    model = (options.model or [Settings().model_path])[-1].absolute()
    with contextlib.ExitStack() as stack:
        url = options.load or stack.enter_context(server({**os.environ, "SRB_MODEL": str(model)}))
        targets = [Target.srb(url)] + ([Target.peer(options.peer)] if options.peer else [])
        print(load.HEAD, flush=True)
        rows = []
        for target in targets:
            rows.append(load.run(target, options.clients, n, options.tokens))
            print(load.line(rows[-1]), flush=True)
    print("\n" + orjson.dumps(rows).decode())


def random_model(shape: str = "110m") -> Path:
    """Return the file of a model of random weights, which is written once."""
    path = RANDOM_MODELS / f"random-{shape}{'-q8_0' * SHAPES[shape].q8}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write_llama(partial, SHAPES[shape])
        partial.rename(path)
    return path


if __name__ == "__main__":
    main()
