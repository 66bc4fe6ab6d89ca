"""Tokens per second with drafts and without, in turns: `python -m bench.speculation --model M.gguf`.

Drafts come from the text itself, or with `--draft-model D.gguf` from a draft model. `--twins` writes a large model and one
with its first layer alone, which writes nearly the same, into a folder, and measures these.

A model that draws its likeliest tokens repeats itself after some hundreds of them, as code and lists do: the cases "repeats"
go on from there. One with random weights and its default sampling never does, so nothing can be gained there. A round runs
every case once with each engine; the ratio is the median of the rounds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from srb.engine.engine import Engine
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Model
from srb.protocol import BranchSpec, Delta, Generate, SamplingParams
from srb.settings import BUNDLED_MODEL, Settings
from tools.random_gguf import BENCH_TWINS, write_llama

_LIST = "".join(f"- item {number}: the red house by the river has a small green door.\n" for number in range(12))
_STORY = "Once upon a time there was a small boat that nobody wanted. "
_UNTIL_REPEATED = 800  # tokens that the model adds to the list

_COUNTED = (
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "n_decode_total",
    "spec_decode_draft_model_tokens_total",
)


@dataclass(frozen=True)
class Case:
    """A request that is measured."""

    name: str
    prompt: tuple[str | int, ...]
    n: int
    sampling: SamplingParams
    is_continued: bool = False  # the prompt is first continued, until the model repeats itself


CASES = (
    Case("repeats, n = 1", (_LIST,), 1, SamplingParams(temperature=0.0), is_continued=True),
    Case("repeats, n = 2", (_LIST,), 2, SamplingParams(temperature=0.0), is_continued=True),
    Case("repeats, n = 8", (_LIST,), 8, SamplingParams(temperature=0.0), is_continued=True),
    Case("likeliest, n = 1", (_STORY,), 1, SamplingParams(temperature=0.0)),
    Case("likeliest, n = 2", (_STORY,), 2, SamplingParams(temperature=0.0)),
    Case("likeliest, n = 8", (_STORY,), 8, SamplingParams(temperature=0.0)),
    Case("story, n = 1", (_STORY,), 1, SamplingParams()),
    Case("story, n = 8", (_STORY,), 8, SamplingParams()),
)


def engine(path: str, threads: int, max_draft: int, draft_path: str = "") -> Engine:
    """Return an engine of its own for a model, and for its draft model if there is one."""
    settings = Settings(model=path, n_ctx=8192, n_seq_max=32, threads=threads, spec_draft_model=draft_path)
    model = LlamaModel.load(settings)
    draft: Model | None = LlamaModel.load_draft(settings, model) if draft_path else None
    drafts = {"max_draft": max_draft, "draft_model": draft, "looks_up": draft is None}
    return Engine(model, max_queue=4, clock=time.perf_counter, cache_bytes=2**28, **drafts)


def twins(folder: Path) -> tuple[Path, Path]:
    """Return a large model and its twin, written if they are not there."""
    paths = folder / "large.gguf", folder / "twin.gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for path, shape in zip(paths, (BENCH_TWINS, replace(BENCH_TWINS, layers=BENCH_TWINS.loud)), strict=True):
        if not path.exists():
            write_llama(path, shape)
    return paths


def continued(engine: Engine, prompt: str) -> tuple[str | int, ...]:
    """Return a prompt with its likeliest continuation, as tokens."""
    sampling, tokens = SamplingParams(temperature=0.0, ignore_eos=True), list[int]()
    engine.submit(engine.prepare(Generate("first", (prompt,), (BranchSpec(0, _UNTIL_REPEATED, sampling=sampling),))))
    while engine.has_work:
        tokens += [token for event in engine.step() if isinstance(event, Delta) for token in event.tokens]
    return (prompt, *tokens)


def rate(engine: Engine, case: Case, tokens: int, seed: int) -> float:
    """Return the tokens per second of one request, its prompt not counted."""
    branches = tuple(
        BranchSpec(seed + index, tokens, min_tokens=tokens, sampling=case.sampling) for index in range(case.n)
    )
    before = written = engine.stats()["tokens_predicted_total"]
    engine.submit(engine.prepare(Generate(f"r{seed}", case.prompt, branches)))
    while written == before:  # until the prompt is computed
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
    parser.add_argument("--draft-model", type=Path, default=None)
    parser.add_argument("--twins", type=Path, metavar="FOLDER", help="write two models there, and measure these")
    given = parser.parse_args()
    path, draft_path = twins(given.twins) if given.twins else (given.model, given.draft_model)
    plain, drafting = (
        engine(str(path), given.threads, 0),
        engine(str(path), given.threads, given.max_draft, str(draft_path or "")),
    )
    print(f"{'case':18} {'ratio':>6} {'tokens/s':>9} {'drafted':>8} {'right':>6} {'decodes':>8} {'read':>8}")
    repeating = continued(plain, _LIST)
    for case in CASES:
        if case.is_continued:
            case = replace(case, prompt=repeating)
        ratios, rates = [], []
        before = drafting.stats()
        for seed in range(given.rounds):
            alone = rate(plain, case, given.tokens, 1 + seed)
            rates.append(rate(drafting, case, given.tokens, 1 + seed))
            ratios.append(rates[-1] / alone)
        after = drafting.stats()
        drafted, right, decodes, read = (after[name] - before[name] for name in _COUNTED)
        share = f"{right / drafted:.2f}" if drafted else "-"
        counts = f"{drafted:8.0f} {share:>6} {decodes:8.0f} {read:8.0f}"
        print(f"{case.name:18} {median(ratios):6.2f} {median(rates):9.0f} {counts}", flush=True)


if __name__ == "__main__":
    main()
