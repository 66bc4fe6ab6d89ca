"""`python -m bench.tables`: the tables of docs/using/speed.md, of SmolLM2 and of Gemma 3, as finished Markdown.

Needs a quiet machine. `speed` compares the server with bare llama.cpp and with n requests one after another, `steps` times a
step after long texts, and `long` runs the ratios of long siblings; with `--llama-server`, its path, also those beside one.
`beside` is the time of prompts and branches to that of others, in turns: of a llama-server, and with `--ik` of the bare
model in ik_llama.cpp, by its llama-batched-bench. `cells` is what smaller cells of the KV store cost, `where` (by perf) on
what the time of a step is spent, and `floor` how near that comes to what the machine can do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import batched_bench, long, machine, where
from bench.__main__ import measure, random_model
from bench.llama_server import llama_server as run_llama_server
from bench.perplexity import surprises_of
from bench.scenarios import Target, ask
from srb.bench import speed
from srb.bench.client import Server
from srb.bench.server import server
from srb.host.cores import usable_cores
from tools.real_models import ROOT, model_file

MODELS = {"SmolLM2 135M Instruct": "smollm2", "Gemma 3 270M": "gemma3"}
NS = (1, 8, 32, 64)
NS_BESIDE = (1, 8, 32)
NS_OF_CELLS = (8, 32)
CELLS = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}  # bytes of a number
SHARED = (512, 2048, 6144)  # tokens of a text before its branches
_LONG = SHARED[-1]
_TOKENS, _STEPS = 64, 24  # of each branch, for speed and for steps
_LARGE_TOKENS = 16  # of each branch of a large model
_WATCHED = 96  # of each branch, where perf takes samples
_TOKENS_OF_CELLS = 256  # of each branch, after a long text
_LETTERS = 30_000  # of the text that is foretold: some 15 chunks
_N_CTX = "12288"


def environ_of(model: Path) -> dict[str, str]:
    return {**os.environ, "SRB_MODEL": str(model), "SRB_N_CTX": _N_CTX, "SRB_STORIES": ""}


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(first: str, columns: Sequence[object]) -> None:
    row(first, *columns)
    print("|---" * (len(columns) + 1) + "|")


def speeds(rounds: int) -> None:
    head("", [f"n = {n}" for n in NS])
    for title, name in MODELS.items():
        model = model_file(name).absolute()
        beside_bare = measure(model, list(NS), _TOKENS, rounds, show=lambda line: None)
        with server(environ_of(model)) as url:
            plan = speed.Plan(NS, _TOKENS, rounds)
            rows = speed.measure(Server(url), plan, int(_N_CTX), lambda done, name: None).rows
        row(f"{title}: tokens a second", *(f"{each['server_tokens_per_second']:.0f}" for each in beside_bare))
        row("… to those of bare llama.cpp", *(f"{each['ratio']:.2f}" for each in beside_bare))
        row("… ms to the first token, new prompt", *(f"{each.first_token_cold * 1000:.0f}" for each in rows))
        row("… the same, known prompt", *(f"{each.first_token_warm * 1000:.0f}" for each in rows))
        row("… times faster than n requests", *(f"{each.gain:.1f}" for each in rows))


def step_ms(url: str, prompt: list[int], n: int, rounds: int) -> float:
    """Return the milliseconds of a step of n branches after a known prompt, the median of some turns."""
    turns = [_step_ms(url, prompt, n) for _ in range(rounds + 1)]
    return statistics.median(turns[1:])  # the first time the prompt is computed


def _step_ms(url: str, prompt: list[int], n: int) -> float:
    times = long.stream(url, prompt, n, _STEPS).times(0)
    return (times[-1] - times[0]) / (len(times) - 1) * 1000


def steps(rounds: int) -> None:
    head("ms of a step after a text of", [f"n = {n}" for n in NS])
    for title, name in MODELS.items():
        with server(environ_of(model_file(name).absolute())) as url:
            for count in SHARED:
                prompt = long.words(count, count)
                row(f"{title}: {count:,} tokens", *(f"{step_ms(url, prompt, n, rounds):.0f}" for n in NS))


def longs(rounds: int, llama_server: Path | None) -> None:
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name in MODELS.values():
        report = long.Report(show=lambda line: None)
        model = model_file(name).absolute()
        long.alone(report, model, ("siblings",), rounds)
        if llama_server is not None:
            with (
                run_llama_server(llama_server, model, 0, "-np", "32", "--kv-unified") as theirs,
                server(environ_of(model) | {"SRB_N_CTX": str(long.N_CTX)}) as ours,
            ):
                long.together(report, Target.srb(ours), Target.peer(theirs), rounds)
        for title, value, bound in report.rows:
            found.setdefault(title, {})[name] = value, bound
    head("", [*MODELS, "bound"])
    for title, values in found.items():
        bound = max(bound for _, bound in values.values())  # of a ratio whose floor is llama.cpp's own
        row(title, *(f"{values[name][0]:.2f}" for name in MODELS.values()), f"{bound:.2f}")


@dataclass(frozen=True)
class Side:
    """A program that is measured: seconds of a new prompt of 1,024 tokens, and of n branches after one of 512."""

    name: str
    prompt: Callable[[], float]
    decode: Callable[[int], float]

    @classmethod
    def served(cls, target: Target, tokens: int) -> Side:
        def decode(n: int) -> float:
            answer = ask(target, long.words(512, 512), n, tokens)
            return answer.total - answer.first_token

        return cls(target.name, lambda: ask(target, long.words(long.fresh(), 1024), 1, 1).total, decode)

    @classmethod
    def bare(cls, program: Path, model: Path, tokens: int) -> Side:
        """Return ik_llama.cpp's bare model, of which one step fewer counts: a server's first token is its prompt's."""
        run = partial(batched_bench.run, program, model, threads=usable_cores())
        steps = (tokens - 1) / tokens
        return cls("ik_llama.cpp, bare", lambda: run(1024, 1, 1).prompt, lambda n: steps * run(512, n, tokens).decode)


def beside(rounds: int, llama_server: Path | None, ik: Path | None, is_large: bool) -> None:
    """Print SRB's time to that of others: of a new prompt, and of n branches after one of 512 tokens."""
    if llama_server is None and ik is None:
        return
    head("time to that of", ["a prompt of 1,024 tokens", *(f"n = {n}" for n in NS_BESIDE)])
    models = {**{title: model_file(name) for title, name in MODELS.items()}, "random 110M Q8_0": random_model()}
    if is_large:
        models = {"random 1B Q8_0": random_model("1b"), "random 1B Q4_K_M": random_model("1b-q4_k_m")}
    tokens = _LARGE_TOKENS if is_large else _TOKENS
    for title, file in models.items():
        model = file.absolute()
        with ExitStack() as stack:
            sides = [Side.served(Target.srb(stack.enter_context(server(environ_of(model)))), tokens)]
            if llama_server is not None:
                options = "-np", str(max(NS_BESIDE)), "--kv-unified", "--no-repack"
                url = stack.enter_context(run_llama_server(llama_server, model, 0, *options))
                sides.append(replace(Side.served(Target.peer(url), tokens), name="llama-server"))
            if ik is not None:
                sides.append(Side.bare(ik, model, tokens))
            measured = [_in_turns([side.prompt for side in sides], rounds)]
            measured += [_in_turns([partial(side.decode, n) for side in sides], rounds) for n in NS_BESIDE]
        for place, side in enumerate(sides[1:], 1):
            row(f"{title}: {side.name}", *(f"{seconds[0] / seconds[place]:.2f}" for seconds in measured))


def _in_turns(runs: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """Return the median of each one's seconds; the first turn warms up."""
    turns = [[long.rested(run) for run in runs] for _ in range(rounds + 1)][1:]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def cells(rounds: int, text: str) -> None:
    """Print what smaller cells of the KV store cost: perplexity, steps, and branches that have room in the same memory."""
    columns = [f"ms of a step, n = {n}" for n in NS_OF_CELLS]
    head(f"cells; steps after {_LONG:,} tokens", ["perplexity", *columns, f"branches of {_TOKENS_OF_CELLS} tokens"])
    for title, name in MODELS.items():
        model = model_file(name).absolute()
        settings = {kind: {"cache_type_k": kind, "cache_type_v": kind} for kind in CELLS}
        told = {kind: np.exp(surprises_of(model, text, **each).mean()) for kind, each in settings.items()}
        with ExitStack() as stack:
            urls = []
            for each in settings.values():
                own = {f"SRB_{setting.upper()}": value for setting, value in each.items()}
                urls.append(stack.enter_context(server(environ_of(model) | own)))
            prompt = long.words(_LONG, _LONG)
            runs = [[partial(_step_ms, url, prompt, n) for url in urls] for n in NS_OF_CELLS]
            steps = [_in_turns(each, rounds) for each in runs]
        for place, (kind, size) in enumerate(CELLS.items()):
            room = int(int(_N_CTX) * CELLS["f16"] / size) - _LONG
            times = (f"{each[place]:.0f}" for each in steps)
            row(f"{title}: {kind}", f"{told[kind]:.3f}", *times, room // _TOKENS_OF_CELLS)


def where_time_goes() -> None:
    """Print the milliseconds of the decode thread in a step, and in a prompt, by what it computes or waits for."""
    if shutil.which("perf") is None:
        print("perf is missing, which takes samples of the engine.")
        return
    head("ms of the decode thread", ["all", *where.PARTS, where.ASLEEP])
    for title, name in MODELS.items():
        with server(environ_of(model_file(name).absolute())) as url:
            engine = where.Engine()

            def show(
                of: str, run: Callable[[], tuple[float, float]], times: int, engine: where.Engine = engine
            ) -> None:
                run()  # warms up, and computes the prompt
                parts = {part: seconds * 1000 / times for part, seconds in engine.watch(run).items()}
                row(of, *(f"{ms:.{2 if ms < 10 else 0}f}" for ms in (sum(parts.values()), *parts.values())))

            show(f"{title}: a prompt of 1,024 tokens", partial(_prompt_times, url, 1024), 1)
            for count in (512, _LONG):
                for n in NS_BESIDE:
                    show(f"{title}: n = {n} after {count:,}", partial(_branch_times, url, count, n), _WATCHED - 1)


def _prompt_times(url: str, count: int) -> tuple[float, float]:
    """Return when a new prompt was sent, and when its first token came."""
    began = time.perf_counter()
    return began, began + long.stream(url, long.words(long.fresh(), count), 1, 2).first


def _branch_times(url: str, count: int, n: int) -> tuple[float, float]:
    """Return when the first and the last tokens of branches after a known prompt came."""
    began = time.perf_counter()
    times = long.stream(url, long.words(count, count), n, _WATCHED).times(0)
    return began + times[0], began + times[-1]


def floor(rounds: int) -> None:
    """Print how near a step comes to reading its weights, and a prompt to the most products of 8-bit numbers."""
    threads = usable_cores()
    columns = [
        "MB of weights",
        "ms to read them",
        "ms of a step, n = 1",
        "share",
        "billion products a second of a prompt",
        "share",
    ]
    with TemporaryDirectory() as folder:
        program = machine.build(Path(folder))
        most = machine.peak(program, threads)
        head("", columns)
        for title, name in MODELS.items():
            model = model_file(name).absolute()
            weights = machine.weights_of(model)
            with server(environ_of(model)) as url:
                side = Side.served(Target.srb(url), _TOKENS)
                read_file = partial(machine.read_seconds, program, model, threads)
                runs: list[Callable[[], float]] = [partial(side.decode, 1), side.prompt, read_file]
                branch, prompt, reading = _in_turns(runs, rounds)
            step = branch / (_TOKENS - 1)
            read, done = reading * weights.bytes / model.stat().st_size, 1024 * weights.products / prompt
            shares = f"{read / step:.2f}", f"{done / 1e9:.0f}", f"{done / most.vectors:.2f}"
            row(title, f"{weights.bytes / 1e6:.0f}", f"{read * 1000:.1f}", f"{step * 1000:.1f}", *shares)
    tiles = f", and {most.tiles / 1e9:,.0f} by AMX, which SRB does not use" if most.tiles else ""
    print(f"\nThe most: {most.vectors / 1e9:,.0f} billion products a second by vectors{tiles}; {threads} threads.")


def _text(given: Path | None) -> str:
    if given is not None:
        return given.read_text()
    texts = [path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(texts)[:_LETTERS]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=__doc__)
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help="speed, steps, long, beside, cells, where or floor (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="turns, of which medians are reported (default: %(default)s)"
    )
    parser.add_argument("--llama-server", type=Path, help="the program, for the ratios beside it")
    parser.add_argument("--ik", type=Path, help="llama-batched-bench of ik_llama.cpp, for the ratios beside it")
    parser.add_argument("--large", action="store_true", help="beside: models of the size of a 1B's, with fewer tokens")
    parser.add_argument(
        "--text", type=Path, help="cells: the text that is foretold (default: this project's documentation)"
    )
    options = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "speed": lambda: speeds(options.rounds),
        "steps": lambda: steps(options.rounds),
        "long": lambda: longs(options.rounds, options.llama_server),
        "beside": lambda: beside(options.rounds, options.llama_server, options.ik, options.large),
        "cells": lambda: cells(options.rounds, _text(options.text)),
        "where": where_time_goes,
        "floor": lambda: floor(options.rounds),
    }
    if unknown := set(options.tables) - set(tables):
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    for name in options.tables or tables:
        print(f"\n{name}\n", flush=True)
        began = time.monotonic()
        tables[name]()
        print(f"\n({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
