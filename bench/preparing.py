"""CPU time of preparing a request, by its number of branches: `python -m bench.preparing`, which takes some seconds.

The model is a tiny llama with random weights and a vocabulary of 128,000 tokens, each of which is searched for DRY's
sequence breakers when its settings are first used. Only the preparation before the decode thread is measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import llama_cpp as lib

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.engine.preparing import Preparer
from srb.engine.sampling import chain
from srb.wire.commands import BranchSpec, Generate
from tests.models.random_gguf import Shape, write_llama

PROMPT = "the old king said to the girl near the sea that the boat was lost. " * 20
GRAMMAR = 'root ::= ("yes" | "no") (", " [a-z]+)* "."'
CASES = {
    "defaults": SamplingParams(),
    "DRY": SamplingParams(dry_multiplier=0.8),
    "DRY, penalties over 1,024 tokens": SamplingParams(
        dry_multiplier=0.8, dry_penalty_last_n=1024, repeat_penalty=1.1, repeat_last_n=1024
    ),
    "1,024 biases": SamplingParams(logit_bias=tuple((token, 1.0) for token in range(1000, 2024))),
    "a grammar": SamplingParams(grammar=GRAMMAR),
}
FIRST_TIME = {"DRY, settings that were not used before": CASES["DRY"]}
COUNTS = (1, 8, 64)
TRIES = 5


def measure(preparer: Preparer, params: SamplingParams, n: int, forget: Callable[[], None] = lambda: None) -> float:
    """Return the shortest CPU time, in milliseconds, that this thread took to prepare a request of `n` branches.

    `forget` is called before each try.
    """
    command = Generate("r", (PROMPT,), tuple(BranchSpec(seed, sampling=params) for seed in range(n)))
    times = []
    for _ in range(TRIES):
        forget()
        began = time.thread_time()
        request = preparer.request(command)
        times.append(time.thread_time() - began)
        request.close()
    return min(times) * 1000


def clone(model: LlamaModel, n: int) -> float:
    """Return the shortest CPU time, in milliseconds, of `n` calls of llama_sampler_clone: the least for n branches."""
    [stage] = [stage for stage in chain(CASES["DRY"], 0) if stage.name == "dry"]
    first, times = model.dry.new(*stage.args), []
    for _ in range(TRIES):
        began = time.thread_time()
        clones = [lib.llama_sampler_clone(first) for _ in range(n)]
        times.append(time.thread_time() - began)
        for each in clones:
            lib.llama_sampler_free(each)
    lib.llama_sampler_free(first)
    return min(times) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_llama(Path(folder) / "large-vocabulary.gguf", Shape(vocab=128_000, dim=32, layers=1, context=2048))
        model = LlamaModel.load(Settings(model=str(path), n_ctx=2048, n_seq_max=65, threads=1))
        preparer = Preparer(model, None)
        print(f"{'ms of CPU time':42}", *(f"n = {n:<4}" for n in COUNTS), f"n = {COUNTS[-1]} / n = 1", sep="  ")
        for name, params in CASES.items():
            _print(name, [measure(preparer, params, n) for n in COUNTS])
        for name, params in FIRST_TIME.items():
            _print(name, [measure(preparer, params, n, model.dry.close) for n in COUNTS])
        _print("DRY, llama.cpp's clones alone", [clone(model, n) for n in COUNTS])
        model.close()


def _print(name: str, times: list[float]) -> None:
    print(f"{name:42}", *(f"{each:8.1f}" for each in times), f"{times[-1] / times[0]:8.2f}", sep="  ", flush=True)


if __name__ == "__main__":
    main()
