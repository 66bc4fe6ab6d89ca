"""A writer who edits: tokens that are computed again, and time to the first token, beside a llama-server.

`python -m bench.editing` writes a random-weight hybrid (LFM2), starts the server with it, and measures four acts after a
few turns of one story: to continue, to take half of a branch, to edit a word 200 tokens back, and to go back three turns.
Two more edit a text that was pasted, in which no turn has ended. Each is compared with a new prompt of as many tokens as it
computes ("to cold"), and with the floor: llama_decode alone, of the same tokens after as many known ones and after the
same pause, with flash attention or without it, whichever is faster.
With `--llama-server` it starts that program with the same file and its default options, and both are measured in turns.
Then "of floor" is the floor as a part of that program's time: with these tokens to compute, no server has a lower ratio.
The computed tokens do not depend on the load of the machine; read them first.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from bench.llama_server import N_CTX, llama_server
from bench.scenarios import REST_SECONDS
from srb.bench.client import post
from srb.bench.server import server
from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tests.models.random_gguf import WRITERS, Shape
from tools.real_models import model_option

FOLDER = Path("build/bench")
SHAPES = {
    "lfm2": Shape(dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, q8=True),
    "falcon-h1": Shape(
        dim=768, layers=8, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, state=128, q8=True
    ),
    "mamba2": Shape(dim=768, layers=24, heads=24, ffn=0, vocab=32000, context=N_CTX, state=128, q8=True),
    "gemma3": Shape(
        dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, context=N_CTX, window=1024, q8=True
    ),
    "gpt-oss": Shape(
        dim=768, layers=12, heads=12, kv_heads=4, ffn=1024, vocab=32000, context=N_CTX, window=128, q8=True
    ),
    "qwen3next": Shape(
        dim=768, layers=12, heads=12, kv_heads=4, ffn=1024, vocab=32000, context=N_CTX, state=64, q8=True
    ),
}
PASTED = {"edit pasted text 200 back": 200, "edit pasted text 800 back": 800}
ACTS = ("continue", "take half", "edit 200 tokens back", "go back three turns", *PASTED)
STORY, BRANCH, WRITTEN, EDIT_BACK = 1500, 96, 20, 200  # tokens
BOUND = 0.6  # of llama-server's time to the first token, for each act
_FIRST_WORD, _NUM_WORDS = 400, 20000  # token ids of normal words


@dataclass(frozen=True)
class Answer:
    """Seconds to the first token, tokens of the prompt that were known and that were computed, and those of the text."""

    first_token: float
    known: int
    computed: int
    tokens: list[int]
    cold: float = 0.0


def ask(url: str, prompt: list[int], tokens: int = BRANCH) -> Answer:
    """Stream one completion in llama-server's form, which both sides answer, after a pause in which one would read."""
    time.sleep(REST_SECONDS)
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
    computed = int(events[-1]["timings"]["prompt_n"])
    return Answer(first, len(prompt) - computed, computed, written)


def acts(url: str, seed: int) -> dict[str, Answer]:
    """Write a story of four turns on a server, then measure each act; every seed is another story.

    `cold` of an answer is the time to the first token of a new prompt of as many tokens as the act computed.
    """
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
    return {act: replace(one, cold=ask(url, words(max(1, one.computed)), 8).first_token) for act, one in found.items()}


@dataclass
class Side:
    """A server and what it took for each act, one entry a round."""

    name: str
    url: str
    pid: int
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {act: [] for act in ACTS})

    def measure(self, seed: int) -> None:
        for act, answer in acts(self.url, seed).items():
            self.answers[act].append(answer)

    def computed(self, act: str) -> float:
        return statistics.median(answer.computed for answer in self.answers[act])

    def first_token(self, act: str) -> float:
        return statistics.median(answer.first_token for answer in self.answers[act]) * 1000

    def to_cold(self, act: str) -> float:
        """The time to the first token as a part of that of a new prompt of as many tokens."""
        return statistics.median(answer.first_token / answer.cold for answer in self.answers[act])


def floors(model: Path, answers: dict[str, Answer], threads: int) -> dict[str, float]:
    """Return for each act the milliseconds of llama_decode for the tokens that it computed, after those that were known."""
    found = dict.fromkeys(answers, math.inf)
    for flash_attn in ("on", "off"):
        given = {"threads": threads, "threads_batch": threads} if threads else {}
        loaded = LlamaModel.load(Settings(model=str(model), n_ctx=N_CTX, flash_attn=flash_attn, **given))
        for act, answer in answers.items():
            for start in range(0, answer.known, loaded.n_ubatch):
                _decode(loaded, 0, start, min(loaded.n_ubatch, answer.known - start))
            for _ in range(3):
                loaded.fork(0, 1)
                loaded.flush()
                time.sleep(REST_SECONDS)
                began = time.perf_counter()
                for start in range(answer.known, answer.known + answer.computed, loaded.n_ubatch):
                    _decode(loaded, 1, start, min(loaded.n_ubatch, answer.known + answer.computed - start))
                found[act] = min(found[act], (time.perf_counter() - began) * 1000)
                loaded.remove(1)
            loaded.clear()
        loaded.close()
    return found


def _decode(model: LlamaModel, seq_id: int, start: int, count: int) -> None:
    batch = Batch()
    row = batch.add(seq_id, start, [_FIRST_WORD + place % _NUM_WORDS for place in range(start, start + count)], True)
    if model.decode(batch) is not DecodeStatus.OK:
        raise RuntimeError("llama.cpp did not decode a batch")
    model.logits(row)


def children(pid: int) -> set[int]:
    """Return the processes that a process has started and that still run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(word) for task in tasks for word in (task / "children").read_text().split()}


def memory_mib(pid: int) -> float:
    """Return the memory of a process and of all that it has started, without what is mapped from files, as weights are."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return (sizes["Pss_Anon"] + sizes["Pss_Shmem"]) / 1024 + sum(map(memory_mib, children(pid)))


def table(sides: list[Side], floor: dict[str, float]) -> str:
    """Return the medians of each act as lines, with the ratios of the first side to the second, if there is one.

    `floor` has the milliseconds that the first side cannot do without.
    """
    lines = [f"{'':<26}" + "".join(f"{f'{side.name}: computed':>24} {'first token ms':>15}" for side in sides)]
    lines[0] += f" {'to cold':>8} {'to floor':>9}"
    if len(sides) > 1:
        lines[0] += f" {'ratio of tokens':>16} {'of times':>9} {'of floor':>9}"
    for act in ACTS:
        cells = "".join(f"{side.computed(act):>24.0f} {side.first_token(act):>15.1f}" for side in sides)
        ours, other = sides[0], sides[-1]
        cells += f" {ours.to_cold(act):>8.2f} {ours.first_token(act) / floor[act]:>9.2f}"
        if len(sides) > 1:
            pairs = zip(ours.answers[act], other.answers[act], strict=True)
            ratio = statistics.median(one.first_token / two.first_token for one, two in pairs)
            cells += f" {ours.computed(act) / max(1, other.computed(act)):>16.2f} {ratio:>9.2f}"
            cells += f" {floor[act] / other.first_token(act):>9.2f} {'' if ratio <= BOUND else 'MISSED':<6}"
        lines.append(f"{act:<26}{cells}".rstrip())
    return "\n".join(lines)


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
    parser.add_argument("--model", type=model_option, help="smollm2, gemma3 or a GGUF file instead of a random model")
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

        def started(name: str, program: contextlib.AbstractContextManager[str]) -> Side:
            before = children(os.getpid())
            url = stack.enter_context(program)
            [pid] = children(os.getpid()) - before
            return Side(name, url, pid)

        sides = [started("srb", server(environ))]
        if options.llama_server:
            sides.append(started("llama-server", llama_server(options.llama_server, model, options.threads)))
        at_first = {one.name: memory_mib(one.pid) for one in sides}
        for seed in range(options.rounds):
            for side in sides:
                side.measure(seed)
        at_last = {one.name: memory_mib(one.pid) for one in sides}
    floor = floors(model, {act: answers[-1] for act, answers in sides[0].answers.items()}, options.threads)
    print(f"{model}, {options.rounds} stories, medians\n{table(sides, floor)}\n")
    for name, mib in at_first.items():
        print(f"{name}: {mib:.0f} MiB at the start, {at_last[name]:.0f} MiB at the end, beside the model's file")


if __name__ == "__main__":
    main()
