"""The raw loop, with which the server is compared: llama.cpp's decode and sampling in one process, without a server.

It runs as a child process that keeps the model loaded: each line of its input is a Work as JSON, each line of its output
the Measure.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import llama_cpp as lib
import orjson

from srb.bench.client import Measure, Work
from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.llama.batch import NativeBatch
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus


def run(model: LlamaModel, native: NativeBatch, work: Work) -> Measure:
    """Compute the prompt once, fork it n times and decode; tokens are not converted to text."""
    began = time.perf_counter()
    prompt = model.tokenize(work.prompt, add_special=True, parse_special=True)
    params = SamplingParams(ignore_eos=True)
    samplers = [model.new_sampler(params, seed, prompt) for seed in range(work.n)]
    for start in range(0, len(prompt), model.n_batch):
        batch = Batch()
        chunk = prompt[start : start + model.n_batch]
        row = batch.add(work.n, start, chunk, want_logits=start + len(chunk) == len(prompt))
        assert model.decode(batch) is DecodeStatus.OK
    tokens = [sampler.sample(row) for sampler in samplers]
    first = time.perf_counter()
    for seq_id in range(work.n):
        model.fork(work.n, seq_id)
    model.flush()
    batch = Batch()
    for seq_id, token in enumerate(tokens):
        batch.add(seq_id, len(prompt), [token], want_logits=True)
    handles = [sampler._chain for sampler in samplers]
    for position in range(len(prompt), len(prompt) + work.tokens - 1):
        batch.tokens = tokens
        batch.positions = [position] * work.n
        lib.llama_decode(model._context, native.fill(batch))
        tokens = [lib.llama_sampler_sample(chain, model._context, row) for row, chain in enumerate(handles)]
    ended = time.perf_counter()
    model.clear()
    for sampler in samplers:
        sampler.close()
    return Measure(work.n * work.tokens, ended - began, first - began, len(prompt))


def main() -> None:
    model = LlamaModel.load(Settings.load())
    native = NativeBatch(model.n_batch)
    print("ready", flush=True)
    for line in sys.stdin:
        print(orjson.dumps(asdict(run(model, native, Work(**orjson.loads(line))))).decode(), flush=True)


if __name__ == "__main__":
    main()
