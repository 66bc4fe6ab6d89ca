"""`python -m bench.warm`: how long the first token of a story takes that is opened again, also after `kill -9` of all.

A story of so many tokens is computed, continued by 8 branches, and asked for again: by the server that wrote it, and by the
next one after all processes were killed, which has the texts from the disk (`cache_disk`). `--without` starts servers that
keep no texts on the disk. Each number is a request's seconds to its end, of one new token.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.long import fresh, words
from bench.scenarios import Answer, Target, ask
from srb.bench.server import server
from tools.real_models import model_option

BRANCHES, BRANCH_TOKENS = 8, 64
TURNS, BACK = 20, 10  # turns of the story, and how many of them are gone back
_WRITTEN_SECONDS = 3.0  # until all texts that rest are on the disk


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.warm", description=__doc__)
    parser.add_argument(
        "--model", type=model_option, required=True, help="a GGUF file or a name, such as smollm2 or gemma3"
    )
    parser.add_argument("--tokens", type=int, default=6000, help="tokens of the story (6000)")
    parser.add_argument("--without", action="store_true", help="keep no texts on the disk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="srb-bench-warm-") as folder:
        environ = {**os.environ, "SRB_MODEL": str(given.model), "SRB_STORIES": "", "SRB_CACHE_DISK": folder}
        environ |= {"SRB_N_CTX": "16384", "SRB_CACHE_DISK_MIB": "0" if given.without else "8192"}
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
