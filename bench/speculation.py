"""Tokens per second with drafts and without, in turns: `python -m bench.speculation --model M.gguf`.

A model with random weights that draws its likeliest tokens soon repeats itself, as code and lists do; with its default
sampling it never does, so nothing can be gained there. Each round runs every case once with each engine; the ratio is the
median of the rounds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from srb.engine.engine import Engine
from srb.engine.llama.model import LlamaModel
from srb.protocol import BranchSpec, Generate, SamplingParams
from srb.settings import BUNDLED_MODEL, Settings

_LIST = "".join(f"- item {number}: the red house by the river has a small green door.\n" for number in range(12))
_STORY = "Once upon a time there was a small boat that nobody wanted. "


@dataclass(frozen=True)
class Case:
    """A request that is measured."""

    name: str
    prompt: str
    n: int
    sampling: SamplingParams


CASES = (
    Case("repeats, n = 1", _LIST, 1, SamplingParams(temperature=0.0)),
    Case("repeats, n = 2", _LIST, 2, SamplingParams(temperature=0.0)),
    Case("repeats, n = 8", _LIST, 8, SamplingParams(temperature=0.0)),
    Case("story, n = 1", _STORY, 1, SamplingParams()),
    Case("story, n = 8", _STORY, 8, SamplingParams()),
)


def engine(path: str, threads: int, max_draft: int) -> Engine:
    """Return an engine of its own for a model."""
    settings = Settings(model=path, n_ctx=8192, n_seq_max=32, threads=threads)
    return Engine(LlamaModel.load(settings), max_queue=4, clock=time.perf_counter, max_draft=max_draft)


def rate(engine: Engine, case: Case, tokens: int, seed: int) -> float:
    """Return the tokens per second of one request, its prompt not counted."""
    branches = tuple(
        BranchSpec(seed + index, tokens, min_tokens=tokens, sampling=case.sampling) for index in range(case.n)
    )
    engine.submit(engine.prepare(Generate(f"r{seed}", (case.prompt,), branches)))
    engine.step()
    written = engine.stats()["tokens_predicted_total"]
    began = time.perf_counter()
    while engine.has_work:
        engine.step()
    return (engine.stats()["tokens_predicted_total"] - written) / (time.perf_counter() - began)


def main() -> None:
    """Print for each case the ratio of the rates, and how many of the drafted tokens were right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=200, help="of each branch (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-draft", type=int, default=8)
    given = parser.parse_args()
    plain, drafting = (
        engine(str(given.model), given.threads, 0),
        engine(str(given.model), given.threads, given.max_draft),
    )
    print(f"{'case':18} {'ratio':>6} {'tokens/s':>9} {'drafted':>8} {'right':>6}")
    for case in CASES:
        ratios, rates = [], []
        before = drafting.stats()
        for seed in range(given.rounds):
            alone = rate(plain, case, given.tokens, 1 + seed)
            rates.append(rate(drafting, case, given.tokens, 1 + seed))
            ratios.append(rates[-1] / alone)
        drafted, right = (
            drafting.stats()[name] - before[name]
            for name in ("spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total")
        )
        share = f"{right / drafted:.2f}" if drafted else "-"
        print(f"{case.name:18} {median(ratios):6.2f} {median(rates):9.0f} {drafted:8.0f} {share:>6}", flush=True)


if __name__ == "__main__":
    main()
