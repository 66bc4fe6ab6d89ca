"""A writer who edits: tokens that are computed again, and time to the first token, beside a llama-server.

`python -m bench.editing` writes a random-weight hybrid (LFM2), starts the server with it, and measures four acts after a
few turns of one story: to continue, to take half of a branch, to edit a word 200 tokens back, and to go back three turns.
Two more edit a text that was pasted, in which no turn has ended.
With `--llama-server` it starts that program with the same file and its default options, and both are measured in turns.
The computed tokens do not depend on the load of the machine; read them first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from srb.bench.client import post
from srb.bench.server import server
from tools.random_gguf import WRITERS, Shape

FOLDER = Path("build/bench")
N_CTX = 16384
SHAPES = {
    "lfm2": Shape(dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, q8=True),
    "falcon-h1": Shape(
        dim=768, layers=8, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, state=128, q8=True
    ),
    "mamba2": Shape(dim=768, layers=24, heads=24, ffn=0, vocab=32000, context=N_CTX, state=128, q8=True),
    "gemma3": Shape(
        dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, window=1024, q8=True
    ),
}
PASTED = {"edit pasted text 200 back": 200, "edit pasted text 800 back": 800}
ACTS = ("continue", "take half", "edit 200 tokens back", "go back three turns", *PASTED)
STORY, BRANCH, WRITTEN, EDIT_BACK = 1500, 96, 20, 200  # tokens
_FIRST_WORD, _NUM_WORDS = 400, 20000  # token ids of normal words
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """Seconds to the first token, tokens of the prompt that were computed, and the tokens of the text."""

    first_token: float
    computed: int
    tokens: list[int]


def ask(url: str, prompt: list[int], tokens: int = BRANCH) -> Answer:
    """Stream one completion in llama-server's form, which both sides answer."""
    body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    data = orjson.dumps(body | {"return_tokens": True, "cache_prompt": True})
    began, first, received = time.perf_counter(), 0.0, bytearray()
    with post(url, "/completion", data) as sock:
        while chunk := sock.recv(65536):
            received += chunk
            if not first and b'"content":' in received:
                first = time.perf_counter() - began
            if chunk.endswith(b"0\r\n\r\n"):
                break
    if b" 200 " not in received[:20]:
        raise RuntimeError(f"{url} answered {bytes(received[:300])!r}")
    events = [orjson.loads(line[6:]) for line in bytes(received).split(b"\n") if line.startswith(b"data: {")]
    written = [token for event in events if not event.get("stop") for token in event.get("tokens", [])]
    return Answer(first, int(events[-1]["timings"]["prompt_n"]), written)


def acts(url: str, seed: int) -> dict[str, Answer]:
    """Write a story of four turns on a server, then measure each act; every seed is another story."""
    pick = random.Random(seed)

    def words(count: int) -> list[int]:
        return [_FIRST_WORD + pick.randrange(_NUM_WORDS) for _ in range(count)]

    story, turns = [1, *words(STORY)], []
    for _ in range(4):
        turns.append(story)
        story = [*story, *ask(url, story).tokens, *words(WRITTEN)]
    found = {"continue": ask(url, story)}
    half = [*story, *found["continue"].tokens[: BRANCH // 2]]
    found["take half"] = ask(url, half)
    edited = [*half[:-EDIT_BACK], *words(1), *half[1 - EDIT_BACK :]]
    found["edit 200 tokens back"] = ask(url, edited)
    found["go back three turns"] = ask(url, [*turns[-3], *words(WRITTEN)])
    for act, back in PASTED.items():
        pasted = [1, *words(STORY)]
        ask(url, pasted, 8)
        found[act] = ask(url, [*pasted[:-back], *words(1), *pasted[1 - back :]], 8)
    return found


@dataclass
class Side:
    """A server and what it took for each act, one entry a round."""

    name: str
    url: str
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {act: [] for act in ACTS})

    def measure(self, seed: int) -> None:
        for act, answer in acts(self.url, seed).items():
            self.answers[act].append(answer)

    def computed(self, act: str) -> float:
        return statistics.median(answer.computed for answer in self.answers[act])

    def first_token(self, act: str) -> float:
        return statistics.median(answer.first_token for answer in self.answers[act]) * 1000


def table(sides: list[Side]) -> str:
    """Return the medians of each act as lines, with the ratios of the first side to the second, if there is one."""
    lines = [f"{'':<26}" + "".join(f"{side.name + ': computed':>24} {'first token ms':>15}" for side in sides)]
    if len(sides) > 1:
        lines[0] += f" {'ratio of tokens':>16} {'of times':>9}"
    for act in ACTS:
        cells = "".join(f"{side.computed(act):>24.0f} {side.first_token(act):>15.1f}" for side in sides)
        if len(sides) > 1:
            ours, other = sides[0], sides[1]
            ratios = [
                statistics.median(one.first_token / two.first_token for one, two in zip(*pair, strict=True))
                for pair in [(ours.answers[act], other.answers[act])]
            ]
            cells += f" {ours.computed(act) / max(1, other.computed(act)):>16.2f} {ratios[0]:>9.2f}"
        lines.append(f"{act:<26}{cells}")
    return "\n".join(lines)


@contextlib.contextmanager
def llama_server(program: Path, model: Path, threads: int) -> Iterator[str]:
    """Run a llama-server with its default options on a free port, and yield its URL; `threads` 0: its own number."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "-m", str(model), "-c", str(N_CTX), "--port", str(port)]
    command += ["-t", str(threads)] if threads else []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, child)
            yield url
        finally:
            child.terminate()


def _wait(url: str, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.2)
    raise RuntimeError("the llama-server did not start")


def random_model(arch: str) -> Path:
    """Return the path of a random-weight model of the size of a small one, which is written if it is missing."""
    path = FOLDER / f"random-{arch}-q8_0.gguf"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        WRITERS[arch](partial, SHAPES[arch])
        partial.rename(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.editing", description=__doc__)
    parser.add_argument(
        "--arch", choices=SHAPES, default="lfm2", help="architecture of a random model (default: %(default)s)"
    )
    parser.add_argument("--model", type=Path, help="a GGUF file instead of a random model")
    parser.add_argument(
        "--llama-server", type=Path, help="path of a llama-server, which is started and measured as well"
    )
    parser.add_argument("--rounds", type=int, default=3, help="stories (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads of each side (default: its own number)")
    options = parser.parse_args()
    model = (options.model or random_model(options.arch)).absolute()
    environ: dict[str, Any] = {**os.environ, "SRB_MODEL": str(model), "SRB_N_CTX": str(N_CTX)}
    if options.threads:
        environ["SRB_THREADS"] = str(options.threads)
    with contextlib.ExitStack() as stack:
        sides = [Side("srb", stack.enter_context(server(environ)))]
        if options.llama_server:
            sides.append(
                Side("llama-server", stack.enter_context(llama_server(options.llama_server, model, options.threads)))
            )
        for seed in range(options.rounds):
            for side in sides:
                side.measure(seed)
    print(f"{model}, {options.rounds} stories, medians\n{table(sides)}")


if __name__ == "__main__":
    main()
