"""`python -m bench.warm`: how long the first token of a story takes that is opened again, also after `kill -9` of all.

A story of so many tokens is computed, continued by 8 branches, and asked for again: by the server that wrote it, and by the
next one after all processes were killed, which has the texts from the disk (`cache_disk`). `--without` starts servers that
keep no texts on the disk. Each number is a request's seconds to its end, of one new token.

`--writers 8` measures instead what writing to the disk costs a step: so many writers go on with stories of their own, for
`--minutes` minutes on each of two servers in turns, of which one keeps no texts. The gaps between their tokens are read.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench.long import fresh, words
from bench.scenarios import FIRST_WORD, N_WORDS, Answer, Target, ask
from srb.bench.client import post
from srb.bench.server import server
from tools.real_models import model_option

BRANCHES, BRANCH_TOKENS = 8, 64
TURNS, BACK = 20, 10  # turns of the story, and how many of them are gone back
_WRITTEN_SECONDS = 3.0  # until all texts that rest are on the disk

STORY_TURNS, TURN_TOKENS, TURN_WORDS = 8, 40, 24  # of a writer's story: turns, new tokens of each, and words she adds
BEGINNING = 300  # tokens of a story's beginning
STINT_SECONDS = 60.0  # that the writers spend at one server before they go to the other


def seconds(target: Target, text: list[int]) -> float:
    return ask(target, text, 1, 1).total


def branches_of(answer: Answer) -> list[list[int]]:
    return [answer.tokens[index] for index in sorted(answer.tokens)]


def opened(target: Target, text: list[int], branches: list[list[int]]) -> Iterator[tuple[str, float]]:
    """Yield what is opened again, with its seconds."""
    yield "the story", seconds(target, text)
    turns = [seconds(target, text + branch) for branch in branches]
    yield f"the next turn of each of {len(branches)} branches, the longest", max(turns)
    yield f"{BACK} turns of {TURNS} back", seconds(target, text[: len(text) * (TURNS - BACK) // TURNS])


def kill(folder: str, module: str = "") -> None:
    """Kill every process that has the folder of texts in its environment, or only those that run a module."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_ours = entry.name != str(os.getpid()) and folder.encode() in (entry / "environ").read_bytes()
            if is_ours and module.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def write_stories(target: Target, seed: int, until: float, gaps: list[float]) -> None:
    """Write one story after another, and keep the seconds between the tokens of each turn."""
    pick = random.Random(seed)
    while time.perf_counter() < until:
        story = [1] + [FIRST_WORD + pick.randrange(N_WORDS) for _ in range(BEGINNING - 1)]
        for _turn in range(STORY_TURNS):
            body = {
                "prompt": story,
                "n_cmpl": 1,
                "n_predict": TURN_TOKENS,
                "seed": 1,
                "ignore_eos": True,
                "stream": True,
            }
            with post(target.url, target.path, orjson.dumps(body)) as sock:
                times = []
                while chunk := sock.recv(65536):
                    times.append(time.perf_counter())
                    if chunk.endswith(b"0\r\n\r\n"):
                        break
            gaps += [after - before for before, after in itertools.pairwise(times[1:])]
            story = story + [FIRST_WORD + pick.randrange(N_WORDS) for _ in range(TURN_TOKENS + TURN_WORDS)]
            if time.perf_counter() > until:
                return


def print_writers(environ: dict[str, str], writers: int, minutes: float) -> None:
    """Print the gaps between tokens of writers on two servers, and how much the one that keeps texts has written."""
    with contextlib.ExitStack() as stack:
        folder = Path(environ["SRB_CACHE_DISK"])
        targets = {
            name: Target.srb(stack.enter_context(server({**environ, "SRB_CACHE_DISK_MIB": mib})))
            for name, mib in (("texts kept on the disk", "8192"), ("none kept", "0"))
        }
        gaps: dict[str, list[float]] = {name: [] for name in targets}
        for stint in range(round(minutes * 60 / STINT_SECONDS)):
            for name, target in targets.items():
                until = time.perf_counter() + STINT_SECONDS
                threads = [
                    threading.Thread(target=write_stories, args=(target, stint * writers + each, until, gaps[name]))
                    for each in range(writers)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        for name, seconds in gaps.items():
            cuts = statistics.quantiles(seconds, n=1000)
            p50, p99, p999 = (cuts[part - 1] * 1000 for part in (500, 990, 999))
            print(f"{name}: {len(seconds)} gaps; ms p50 {p50:.1f}, p99 {p99:.1f}, p99.9 {p999:.1f}", flush=True)
        size = sum(path.stat().st_size for path in folder.rglob("*"))
        print(f"on the disk: {size / 1024**2:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.warm", description=__doc__)
    parser.add_argument(
        "--model", type=model_option, required=True, help="a GGUF file or a name, such as smollm2 or gemma3"
    )
    parser.add_argument("--tokens", type=int, default=6000, help="tokens of the story (6000)")
    parser.add_argument("--without", action="store_true", help="keep no texts on the disk")
    parser.add_argument("--writers", type=int, help="measure the gaps between tokens of so many writers instead")
    parser.add_argument("--minutes", type=float, default=10, help="that the writers write on each of two servers (10)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="srb-bench-warm-") as folder:
        environ = {**os.environ, "SRB_MODEL": str(given.model), "SRB_STORIES": "", "SRB_CACHE_DISK": folder}
        environ |= {"SRB_N_CTX": "16384", "SRB_CACHE_DISK_MIB": "0" if given.without else "8192"}
        if given.writers:
            print_writers(environ, given.writers, given.minutes)
            return
        text = words(fresh(), given.tokens)
        with server(environ) as url:
            target = Target.srb(url)
            print(f"computed: {seconds(target, text):.2f} s")
            branches = branches_of(ask(target, text, BRANCHES, BRANCH_TOKENS, return_tokens=True))
            for name, took in opened(target, text, branches):
                print(f"same server, {name}: {took:.2f} s", flush=True)
            time.sleep(_WRITTEN_SECONDS)
            size = sum(path.stat().st_size for path in Path(folder).rglob("*"))
            print(f"on the disk: {size / 1024**2:.0f} MiB")
            kill(folder)
        began = time.perf_counter()
        with server(environ) as url:
            print(f"start: {time.perf_counter() - began:.2f} s")
            for name, took in opened(Target.srb(url), text, branches):
                print(f"after kill -9, {name}: {took:.2f} s", flush=True)


if __name__ == "__main__":
    main()
