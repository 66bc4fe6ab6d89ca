"""Cost of the prefix tree as it grows: CPU time of the decode thread, with a model that computes almost nothing.

`python -m bench.tree` prints three tables: a request in larger and larger trees, a story's turns, long prompts. A step's
time is the thread's CPU time, so other programs matter little; read the ratios. To prepare a long prompt takes the
processor's caches from the steps that follow, whatever these compute; so the table of turns also has a short story's
turns after the preparation of a long prompt, and the comparison of a long text with itself after the caches were emptied.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel, FakeSampler
from srb.engine.model import Logits, Scope
from srb.engine.tokens import Tokens, has_at, tokens_of
from srb.engine.tree.match import Match
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, Event

PROMPT = [5] * 40
COLD_TURNS = 200
CACHE_BYTES = 2**26  # more than a processor's caches hold
_FIRST_WORD, _WORDS = 400, 4000


class TreeModel(FakeModel):
    """A FakeModel without its costs: the next token is a few bytes of the hash of text and seed."""

    def __init__(self, n_ctx: int) -> None:
        super().__init__(n_ctx, n_seq_max=256, n_batch=2048, n_ubatch=512)
        self.n_vocab = _FIRST_WORD + _WORDS

    def _next_logits(self, visible: bytes) -> Logits:
        return np.frombuffer(visible, np.float32)  # the sampler uses only these bytes

    def piece(self, token: int, special: bool = False) -> bytes:
        return b" word"

    def new_sampler(
        self, params: SamplingParams, seed: int, history: Sequence[int], min_tokens: int = 0
    ) -> FakeSampler:
        return _HashSampler(self, params, seed, min_tokens)


class _HashSampler(FakeSampler):
    def __init__(self, model: TreeModel, params: SamplingParams, seed: int, min_tokens: int) -> None:
        super().__init__(model, params, seed, min_tokens)
        self._seed = seed

    def sample_from(self, logits: Logits) -> int:
        mixed = (int.from_bytes(logits[:2].tobytes(), "big") ^ self._seed) * 0x9E3779B97F4A7C15
        return _FIRST_WORD + (mixed >> 24) % _WORDS


@dataclass
class Work:
    """The cost of one request: CPU milliseconds in all and of the longest step, and its new tokens."""

    total: float = 0.0
    worst: float = 0.0
    texts: dict[int, list[int]] = field(default_factory=dict)


class TimedEngine:
    """An engine with TreeModel that runs one request after another, and measures each."""

    def __init__(self, n_ctx: int = 600_000, cache_cells: int = 0, cache_bytes: int = 2**31) -> None:
        self.engine = Engine(
            TreeModel(n_ctx),
            EngineOptions(max_queue=10, cache_cells=cache_cells, cache_bytes=cache_bytes),
            clock=time.monotonic,
        )
        self._count = 0

    @property
    def nodes(self) -> int:
        return int(self.engine.stats()["tree_nodes"])

    def match(self, prompt: list[int]) -> Match:
        return self.find(tokens_of(prompt))

    def find(self, tokens: Tokens) -> Match:
        tree = self.engine._tree
        return tree.match(tokens, tree.root(Scope()))

    def path_length(self, prompt: list[int]) -> int:
        """Return the number of nodes on the path of a cached text."""
        return len(self.match(prompt).node.path())

    def ask(self, prompt: list[int], n: int, tokens: int = 6, beside: list[int] | None = None) -> Work:
        """Run one request until the engine has no work left, parking included; `beside` is prepared before, and dropped."""
        self._count += 1
        spec = tuple(BranchSpec(self._count * 1000 + i, tokens) for i in range(n))
        request = self.engine.prepare(Generate(f"r{self._count}", tuple(prompt), spec))
        if beside:
            self.engine.prepare(Generate("beside", tuple(beside), spec)).close()
        work = Work()
        self._note(work, self.engine.submit(request))
        while self.engine.has_work:
            began = time.thread_time()
            events = self.engine.step()
            seconds = time.thread_time() - began
            work.total += seconds * 1000
            work.worst = max(work.worst, seconds * 1000)
            self._note(work, events)
        return work

    def _note(self, work: Work, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Delta):
                work.texts.setdefault(event.index, []).extend(event.tokens)

    def fill(self, nodes: int) -> None:
        """Fill the tree with so many nodes, below the prompt and some texts that continue it."""
        turn = 0
        while self.nodes < nodes:
            turn += 1
            self.ask([*PROMPT, *([_FIRST_WORD + turn] * (turn % 8))], n=64)


def beside_nodes(sizes: Sequence[int], rounds: int) -> None:
    print("a request beside other nodes, CPU ms (median of the rounds; worst step in brackets)\n")
    print(f"{'nodes':>9} {'n = 8':>18} {'n = 64':>18}")
    for size in sizes:
        desk = TimedEngine()
        desk.fill(size)
        gc.collect()
        gc.freeze()
        cells = []
        for n in (8, 64):
            works = [desk.ask(PROMPT, n) for _ in range(rounds)]
            total, worst = np.median([work.total for work in works]), np.median([work.worst for work in works])
            cells.append(f"{total:8.2f} [{worst:6.2f}]")
        print(f"{desk.nodes:>9} {cells[0]:>18} {cells[1]:>18}", flush=True)
        gc.unfreeze()


def story(turns: int, n: int, cache_cells: int) -> None:
    """Continue one text repeatedly, by one of its branches and a word."""
    desk = TimedEngine(cache_cells=cache_cells)
    text, costs = write(desk, turns, n)
    tenth = max(1, turns // 10)
    first, last = np.median(costs[1 : 1 + tenth]), np.median(costs[-tenth:])
    cold = np.median(write(TimedEngine(cache_cells=cache_cells), min(turns, COLD_TURNS), n, beside=text)[1])
    print(
        f"{turns:>7} turns, n = {n}, {cache_cells:>7} cells kept: {first:8.2f} ms a turn in the first tenth,"
        f" {last:8.2f} in the last ({len(text)} tokens, {desk.nodes} nodes)\n"
        f"{'':15} the first {COLD_TURNS} again, each after the preparation of {len(text)} tokens: {cold:8.2f} ms a turn",
        flush=True,
    )


def write(desk: TimedEngine, turns: int, n: int, beside: list[int] | None = None) -> tuple[list[int], list[float]]:
    """Write a story; return its tokens and each turn's CPU milliseconds."""
    text, costs = list(PROMPT), []
    for turn in range(turns):
        work = desk.ask(text, n, beside=beside)
        costs.append(work.total)
        text += [*work.texts[turn % n], _FIRST_WORD]
    return text, costs


def comparison(length: int) -> None:
    """Compare a text with itself after the caches were emptied: the least that finding it costs."""
    text, others = tokens_of(_words(length)), np.zeros(CACHE_BYTES, np.int8)
    copy, times = text[:], []
    for _ in range(50):
        others += 1
        began = time.thread_time()
        has_at(text, 0, copy)
        times.append((time.thread_time() - began) * 1000)
    print(f"{length:>7} tokens, compared with empty caches: {np.median(times):8.3f} ms", flush=True)


def _words(length: int) -> list[int]:
    return [_FIRST_WORD + (i * 7919) % _WORDS for i in range(length)]


def long_prompt(length: int) -> None:
    """Match a long cached prompt, as one node and as the nodes in which it was parked."""
    gc.collect()  # else a step of the prefill may free the trees of the tables before
    desk = TimedEngine(cache_cells=10**6)
    prompt = _words(length)
    work, tokens = desk.ask(prompt, 1, 2), tokens_of(prompt)
    began = time.thread_time()
    length_found = desk.find(tokens).length
    whole = (time.thread_time() - began) * 1000
    again = desk.ask([*prompt, 9], 8)
    print(
        f"{length:>9} tokens: match {whole:6.2f} ms ({length_found} found), worst step of the prefill {work.worst:6.2f} ms,"
        f" then 8 branches of it {again.total:6.2f} ms in all",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tree", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[0, 4096, 100_000])
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    beside_nodes(args.nodes, args.rounds)
    print("\none story, continued turn by turn, CPU ms\n")
    for n in (1, 8):
        story(args.turns, n, 10**6)
    comparison(70_000)
    print("\nlong prompts, CPU ms\n")
    for length in (20_000, 200_000, 500_000):
        long_prompt(length)


if __name__ == "__main__":
    main()
