"""Tokens per second with drafts and without, in turns: `python -m bench.speculation`.

Drafts come from the text itself. The model has 110 million parameters and writes texts of which it is known where tokens
come again (`tests.models.chained_texts`): lists, as in lists and code; chatter, in which drafts are found and are mostly
wrong; and prose, in which none are found. They are drawn with seeds and the usual sampling. `--model M.gguf` measures
another model, and `--draft-model D.gguf` drafts by a second one. `--twins FOLDER` writes a large model and one with its
first layer alone, which writes nearly the same, into a folder, and measures these. `--heads FOLDER` writes large models
with heads that draft: of one four of five drafted tokens are right, of the other none are; and two such models that have
recurrent layers.

A round runs every case once with each engine; the ratio is the median of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Model
from srb.wire.commands import BranchSpec, Generate
from tests.models.chained_texts import a_text, chained_texts
from tests.models.random_gguf import (
    BENCH_CHAINED,
    BENCH_HEADS,
    BENCH_TWINS,
    Shape,
    write_glm4_moe,
    write_llama,
    write_qwen35,
)
from tools.real_models import model_option

_STORY = "Once upon a time there was a small boat that nobody wanted. "
_PROMPT = 400  # tokens of a chained text that are given
_COUNTED = (
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "n_decode_total",
    "spec_decode_draft_model_tokens_total",
)

_HEADS = {"4 of 5 right": 0.16, "none right": 1.0}  # by name: of how many tokens the head does not know what follows
_MODELS = {"": write_glm4_moe, "recurrent, ": write_qwen35}

Clock = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """A request that is measured."""

    name: str
    prompt: tuple[str | int, ...]
    n: int
    sampling: SamplingParams = field(default_factory=SamplingParams)

    @property
    def title(self) -> str:
        return f"{self.name}, n = {self.n}"


def of_chained_texts(n_vocab: int, numbers: tuple[int, ...] = (1, 2, 8)) -> list[Case]:
    texts = chained_texts(n_vocab).items()
    prompts = {name: tuple(a_text(successors, _PROMPT, seed=1)) for name, successors in texts}
    return [Case(name, prompt, n) for name, prompt in prompts.items() for n in numbers]


def of_other_models() -> list[Case]:
    likeliest = SamplingParams(temperature=0.0)
    return [
        *(Case("likeliest", (_STORY,), n, likeliest) for n in (1, 2, 8)),
        *(Case("story", (_STORY,), n) for n in (1, 2, 8)),
    ]


def engine(
    path: Path, threads: int, clock: Clock, max_draft: int, draft_path: Path | None = None, *, uses_head: bool = False
) -> Engine:
    """Return an engine of its own for a model, and for its draft model or its head if there is one."""
    kind, draft_name = "mtp" if uses_head else "auto", str(draft_path or "")
    settings = Settings(
        model=str(path), n_ctx=8192, n_seq_max=32, threads=threads, spec_type=kind, spec_draft_model=draft_name
    )
    model = LlamaModel.load(settings)
    draft: Model | None = LlamaModel.load_draft(settings, model) if draft_path else None
    looks_up = draft is None and not uses_head
    options = EngineOptions(max_queue=4, cache_bytes=2**28, max_draft=max_draft, looks_up=looks_up)
    return Engine(model, options, clock=clock, draft_model=draft)


def a_model(path: Path, shape: Shape) -> Path:
    """Return the path of a model, which is written if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path if path.exists() else write_llama(path, shape)


def rate(engine: Engine, case: Case, tokens: int, seed: int, clock: Clock) -> float:
    """Return the tokens per second of one request, its prompt not counted."""
    branches = tuple(
        BranchSpec(seed + index, tokens, min_tokens=tokens, sampling=case.sampling) for index in range(case.n)
    )
    before = written = engine.stats()["tokens_predicted_total"]
    engine.submit(engine.prepare(Generate(f"r{seed}", case.prompt, branches)))
    while written == before:  # until the prompt is computed
        engine.step()
        written = engine.stats()["tokens_predicted_total"]
    began = clock()
    while engine.has_work:
        engine.step()
    return (engine.stats()["tokens_predicted_total"] - written) / (clock() - began)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=model_option, default=None)
    parser.add_argument("--draft-model", type=model_option, default=None)
    parser.add_argument("--twins", type=Path, metavar="FOLDER", help="write two models there, and measure these")
    parser.add_argument("--heads", type=Path, metavar="FOLDER", help="write models with heads there, and measure these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=200, help="of each branch (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-draft", type=int, default=16)
    parser.add_argument("--case", default="", help="only cases in whose name this is, as in 'n = 8'")
    parser.add_argument(
        "--cpu-time", action="store_true", help="one thread, and the CPU time of it: for machines that are not quiet"
    )
    return parser.parse_args()


def main() -> None:
    """Measure the models that the command line names."""
    given = parse()
    clock, threads = (time.thread_time, 1) if given.cpu_time else (time.perf_counter, given.threads)
    path, draft_path, cases = given.model, given.draft_model, of_other_models()
    head = f"{'case':18} {'ratio':>6} {'from':>5} {'to':>5} {'tokens/s':>9} {'drafted':>8} {'right':>6}"
    print(f"{head} {'decodes':>8} {'read':>8}")
    if given.heads:
        cases = [case for case in of_chained_texts(BENCH_HEADS.vocab, (1, 4, 8)) if case.name == "lists"]
        for kind, name in itertools.product(_MODELS, _HEADS):
            path = given.heads / f"{kind}{name}.gguf"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _MODELS[kind](path, BENCH_HEADS, _HEADS[name])
            plain, drafting = (
                engine(path, threads, clock, 0),
                engine(path, threads, clock, given.max_draft, uses_head=True),
            )
            measure(given, clock, plain, drafting, cases, kind + name)
        return
    if given.twins:
        path = a_model(given.twins / "large.gguf", BENCH_TWINS)
        draft_path = a_model(given.twins / "twin.gguf", replace(BENCH_TWINS, layers=BENCH_TWINS.loud))
    elif path is None:
        path = a_model(Path("build/bench/chained-110m-q8_0.gguf"), BENCH_CHAINED)
        cases = of_chained_texts(BENCH_CHAINED.vocab)
    plain, drafting = engine(path, threads, clock, 0), engine(path, threads, clock, given.max_draft, draft_path)
    measure(given, clock, plain, drafting, cases)


def measure(
    given: argparse.Namespace, clock: Clock, plain: Engine, drafting: Engine, cases: list[Case], name: str = ""
) -> None:
    """Print for each case the ratio of the rates, and how many of the drafted tokens were right."""
    for case in cases:
        if given.case not in case.title:
            continue
        ratios, rates = [], []
        before = drafting.stats()
        for seed in range(given.rounds):
            alone = rate(plain, case, given.tokens, 1 + seed * case.n, clock)
            rates.append(rate(drafting, case, given.tokens, 1 + seed * case.n, clock))
            ratios.append(rates[-1] / alone)
        after = drafting.stats()
        drafted, right, decodes, read = (after[name] - before[name] for name in _COUNTED)
        share = f"{right / drafted:.2f}" if drafted else "-"
        spread = f"{median(ratios):6.2f} {min(ratios):5.2f} {max(ratios):5.2f}"
        counts = f"{drafted:8.0f} {share:>6} {decodes:8.0f} {read:8.0f}"
        print(f"{f'{name} {case.title}'.strip():18} {spread} {median(rates):9.0f} {counts}", flush=True)


if __name__ == "__main__":
    main()
