"""`make bench-busy`: speed with adapted threads and with fixed ones, on a quiet machine and beside busy programs.

All servers run from the start and are measured in turns, so that other load affects them alike. A server that waits uses no
core. Read the ratios: the adapted server over each other one, medians of the turns. `--spins` adds servers whose
threads look for work that many times before they sleep (GOMP_SPINCOUNT), one for each number of threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

import orjson

from bench.__main__ import random_model
from bench.scenarios import Target, ask
from srb.bench.server import server
from srb.host.cores import usable_cores
from tools.real_models import model_option

PROMPT = list(range(1, 33))
_FEW = 4  # tokens of the request that tells how many take the wanted time
_MOST = 512
_BUSY = "while True: pass"
HEAD = f"{'threads':<20} {'quiet':>9} {'ratio':>6} {'busy':>9} {'ratio':>6}   (tokens per second)"


def rate(target: Target, n: int, seconds: float) -> float:
    """Return tokens per second over all branches, of a request that takes about `seconds`."""
    few = ask(target, PROMPT, n, _FEW)
    tokens = max(_FEW, min(_MOST, int(seconds * _FEW / few.total)))
    return n * tokens / ask(target, PROMPT, n, tokens).total


@contextlib.contextmanager
def busy_programs(count: int) -> Iterator[None]:
    """Keep cores busy, each by a process in a session of its own, as a browser's would be."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for child in started:
            child.kill()
            child.wait()


def turns(targets: dict[str, Target], n: int, seconds: float, rounds: int, busy: int) -> dict[str, list[list[float]]]:
    """Return for each target the rates on the quiet machine and those beside `busy` programs."""
    rates: dict[str, list[list[float]]] = {name: [[], []] for name in targets}
    for turn in range(rounds):
        for place, count in enumerate((0, busy)):
            with busy_programs(count):
                for name, target in targets.items():
                    rates[name][place].append(rate(target, n, seconds))
        print(f"turn {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return rates


def line(name: str, rates: list[list[float]], adapted: list[list[float]]) -> str:
    """Return a server's medians, and those of the adapted server over it in the same turn."""
    parts = []
    for own, ours in zip(rates, adapted, strict=True):
        ratio = statistics.median(a / b for a, b in zip(ours, own, strict=True))
        parts.append(f"{statistics.median(own):>9.1f} {ratio:>6.2f}")
    return f"{name:<20} " + " ".join(parts)


def servers(threads: list[str], spins: list[str]) -> dict[str, dict[str, str]]:
    """Return the variables of each server by its name: adapted and fixed numbers of threads, with each of `spins`."""
    counts = {"adapted": {}} | {count: {"SRB_THREADS": count} for count in threads}
    found: dict[str, dict[str, str]] = dict(counts)
    for spin in filter(None, spins):
        found |= {f"{name} spin {spin}": {**variables, "GOMP_SPINCOUNT": spin} for name, variables in counts.items()}
    return found


def _parse() -> argparse.Namespace:
    cores = usable_cores()
    parser = argparse.ArgumentParser(prog="python -m bench.busy", description=__doc__)
    parser.add_argument(
        "--model",
        type=model_option,
        help="smollm2, gemma3 or a GGUF file (default: random, of 110M)",
    )
    parser.add_argument("--n", type=int, default=8, help="branches of a request (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=1, help="programs that keep a core busy (default: %(default)s)")
    parser.add_argument(
        "--threads", default=f"{max(1, cores - 1)},{cores}", help="fixed numbers (default: %(default)s)"
    )
    parser.add_argument("--spins", default="", help="values of GOMP_SPINCOUNT to compare, e.g. 2000,300000")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each request (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="number of turns (default: %(default)s)")
    parser.add_argument("--peer", default="", help="base URL of a llama-server that is measured in turns with SRB")
    return parser.parse_args()


def main() -> None:
    options = _parse()
    environ = {**os.environ, "SRB_MODEL": str((options.model or random_model()).absolute())}
    with contextlib.ExitStack() as stack:
        targets = {
            name: Target.srb(stack.enter_context(server({**environ, **variables})))
            for name, variables in servers(options.threads.split(","), options.spins.split(",")).items()
        }
        if options.peer:
            targets["peer"] = Target.peer(options.peer)
        rates = turns(targets, options.n, options.seconds, options.rounds, options.busy)
    print(HEAD)
    for name in targets:
        print(line(name, rates[name], rates["adapted"]), flush=True)
    print("\n" + orjson.dumps({"busy": options.busy, "n": options.n, "rates": rates}).decode())


if __name__ == "__main__":
    main()
