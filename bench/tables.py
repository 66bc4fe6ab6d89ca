"""`python -m bench.tables`: the tables of docs/using/speed.md, of SmolLM2 and of Gemma 3, as finished Markdown.

Needs a quiet machine. `speed` compares the server with bare llama.cpp and with n requests one after another, `steps` times a
step after long texts, and `long` runs the ratios of long siblings; with `--llama-server`, its path, also those beside one.
`beside` is the time of prompts and branches to a llama-server's, in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import long
from bench.__main__ import measure, random_model
from bench.llama_server import llama_server as run_llama_server
from bench.scenarios import REST_SECONDS, Target, ask
from srb.bench import speed
from srb.bench.client import Server
from srb.bench.server import server
from tools.real_models import model_file

MODELS = {"SmolLM2 135M Instruct": "smollm2", "Gemma 3 270M": "gemma3"}
NS = (1, 8, 32, 64)
NS_BESIDE = (1, 8, 32)
SHARED = (512, 2048, 6144)  # tokens of a text before its branches
_TOKENS, _STEPS = 64, 24  # of each branch, for speed and for steps
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
    """Return the milliseconds of a step of n branches after a known prompt."""
    steps = []
    for _ in range(rounds + 1):  # the first time the prompt is computed
        times = long.stream(url, prompt, n, _STEPS).times(0)
        steps.append((times[-1] - times[0]) / (len(times) - 1))
    return statistics.median(steps[1:]) * 1000


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


def beside(rounds: int, llama_server: Path | None) -> None:
    """Print SRB's time to that of a llama-server: of a new prompt, and of n branches after one of 512 tokens."""
    if llama_server is None:
        return
    head("time to llama-server's", ["a prompt of 1,024 tokens", *(f"n = {n}" for n in NS_BESIDE)])
    models = {**{title: model_file(name) for title, name in MODELS.items()}, "random 110M Q8_0": random_model()}
    for title, file in models.items():
        model = file.absolute()
        with (
            run_llama_server(
                llama_server, model, 0, "-np", str(max(NS_BESIDE)), "--kv-unified", "--no-repack"
            ) as theirs,
            server(environ_of(model)) as ours,
        ):
            both = Target.srb(ours), Target.peer(theirs)
            ratios = [_ratio(lambda target: ask(target, long.words(long.fresh(), 1024), 1, 1).total, both, rounds)]
            for n in NS_BESIDE:
                ratios.append(_ratio(lambda target, n=n: _decode_seconds(target, n), both, rounds))
        row(title, *(f"{ratio:.2f}" for ratio in ratios))


def _decode_seconds(target: Target, n: int) -> float:
    answer = ask(target, long.words(512, 512), n, _TOKENS)
    return answer.total - answer.first_token


def _ratio(seconds: Callable[[Target], float], both: tuple[Target, Target], rounds: int) -> float:
    """Return the first one's median to the second's; the first turn warms up."""
    turns = [[_rested(seconds, target) for target in both] for _ in range(rounds + 1)][1:]
    ours, theirs = (statistics.median(times) for times in zip(*turns, strict=True))
    return ours / theirs


def _rested(seconds: Callable[[Target], float], target: Target) -> float:
    time.sleep(REST_SECONDS)
    return seconds(target)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=__doc__)
    parser.add_argument(
        "tables",
        nargs="*",
        default=["speed", "steps", "long", "beside"],
        help="speed, steps, long, beside (default: all)",
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="turns, of which medians are reported (default: %(default)s)"
    )
    parser.add_argument("--llama-server", type=Path, help="the program, for the ratios beside it")
    options = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "speed": lambda: speeds(options.rounds),
        "steps": lambda: steps(options.rounds),
        "long": lambda: longs(options.rounds, options.llama_server),
        "beside": lambda: beside(options.rounds, options.llama_server),
    }
    for name in options.tables:
        print(f"\n{name}\n", flush=True)
        began = time.monotonic()
        tables[name]()
        print(f"\n({time.monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
