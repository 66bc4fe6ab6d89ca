"""The texts that llama_decode alone writes greedily: `python -m tests.real.record` records them anew for both models;
`python -m tests.real.record MODEL COUNT` prints the records of a model's first prompts.

For each token the record has its lead, the distance of its logit to the second largest. Another processor, and a batch of
another size, round otherwise, so where the lead is narrow another token may be written.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import llama_cpp as lib
import numpy as np
import orjson

from srb.engine.llama.devices import begin
from tests.real.prompts import PROMPTS
from tools.real_models import REAL_MODELS, model_file

FOLDER = Path(__file__).parent / "texts"
TOKENS = 24
_N_CTX = 512
_THREADS = 1  # two threads that wait for each other are slow on busy cores


@dataclass(frozen=True, slots=True)
class Record:
    """A prompt, its tokens and its greedy continuation, each token of it with its lead."""

    prompt: str
    prompt_tokens: list[int]
    tokens: list[int]
    leads: list[float]

    def stretches(self, narrow: float) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the stretches between tokens with a narrow lead, each with all that is before it.

        Rounding changes nothing in a stretch that is written after the recorded beginning.
        """
        ends = [place for place, lead in enumerate(self.leads) if lead < narrow]
        for first, end in pairwise([-1, *ends, len(self.tokens)]):
            if stretch := self.tokens[first + 1 : end]:
                yield self.prompt_tokens + self.tokens[: first + 1], stretch


def read(name: str) -> list[Record]:
    """Return the recorded texts of a model."""
    return [Record(**each) for each in orjson.loads((FOLDER / f"{name}.json").read_bytes())]


def write_greedily(model: object, prompt: str) -> Record:
    """Return a prompt's continuation, computed with nothing but llama_decode in a context of its own."""
    vocab = lib.llama_model_get_vocab(model)
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = _N_CTX, _THREADS, _THREADS
    context = lib.llama_init_from_model(model, params)
    assert context
    tokens = _tokenize(vocab, prompt)
    found = Record(prompt, tokens, [], [])
    try:
        while len(found.tokens) < TOKENS:
            array = (lib.llama_token * len(tokens))(*tokens)
            assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) == 0
            row = lib.llama_get_logits_ith(context, -1)
            logits = np.ctypeslib.as_array(row, shape=(lib.llama_vocab_n_tokens(vocab),))
            second, first = np.argpartition(logits, -2)[-2:]
            if lib.llama_vocab_is_eog(vocab, int(first)):
                break  # an answer has no such token either
            found.leads.append(round(float(logits[first] - logits[second]), 3))
            found.tokens.append(int(first))
            tokens = [int(first)]
    finally:
        lib.llama_free(context)
    return found


def _tokenize(vocab: object, text: str) -> list[int]:
    data = text.encode()
    tokens = (lib.llama_token * (len(data) + 2))()
    count = lib.llama_tokenize(vocab, data, len(data), tokens, len(tokens), True, True)
    assert count > 0
    return list(tokens[:count])


def records_of(name: str, count: int | None = None) -> list[bytes]:
    """Return the records of a model's first texts, or of all."""
    model = lib.llama_model_load_from_file(str(model_file(name)).encode(), lib.llama_model_default_params())
    prompts = [prompt for prompts in PROMPTS.values() for prompt in prompts][:count]
    found = [orjson.dumps(asdict(write_greedily(model, prompt))) for prompt in prompts]
    lib.llama_model_free(model)
    return found


def main() -> None:
    lib.llama_log_set(_SILENT, None)
    begin()
    if sys.argv[1:]:
        print(b"\n".join(records_of(sys.argv[1], int(sys.argv[2]))).decode())
        return
    FOLDER.mkdir(exist_ok=True)
    for name in REAL_MODELS:
        found = records_of(name)
        (FOLDER / f"{name}.json").write_bytes(b"[\n" + b",\n".join(found) + b"\n]\n")
        print(f"{name}: {len(found)} texts")


@lib.llama_log_callback
def _silent(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """Write nothing of llama.cpp's log."""


_SILENT = _silent

if __name__ == "__main__":
    main()
