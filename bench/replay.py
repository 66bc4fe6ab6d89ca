"""A floor for an engine's run: its batches once more, in the same order and with the same cells, by llama_decode alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import llama_cpp as lib

from srb.config.sampling_params import SamplingParams
from srb.engine.llama.batch import NativeBatch
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch

_CALLS = ("decode", "fork", "truncate", "splice", "remove", "restore")


class Recording:
    """The calls by which an engine changes its model's KV store, as a context manager around a part of its run.

    The KV store is empty when the recording begins.
    """

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []
        self.n_decodes = self.n_tokens = 0

    def __enter__(self) -> Recording:
        for name in _CALLS:
            setattr(self._model, name, self._recorded(name, getattr(self._model, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for name in _CALLS:
            delattr(self._model, name)  # the class's own again

    def _recorded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def record(*given: Any) -> Any:
            if name == "decode":
                self.n_decodes, self.n_tokens = self.n_decodes + 1, self.n_tokens + len(given[0])
            self._calls.append((name, call, given))
            return call(*given)

        return record

    def replay(self, first: int = 0) -> float:
        """Repeat the calls; return the CPU seconds of the decodes from number `first` on, each row's token sampled.

        The KV store has to be empty, and is empty afterwards.
        """
        batches = [given[0] for name, _, given in self._calls if name == "decode"]
        bare, seconds = BareLoop(self._model, max(sum(batch.wanted) for batch in batches)), 0.0
        decoded = 0
        for name, call, given in self._calls:
            if name == "decode":
                took = bare.step(given[0])
                seconds += took if decoded >= first else 0.0
                decoded += 1
            else:
                call(*given)
        bare.close()
        return seconds


class BareLoop:
    """A loop around llama_decode and llama_sampler_sample, without anything of the engine."""

    def __init__(self, model: LlamaModel, rows: int) -> None:
        """Sample at most `rows` tokens a step."""
        self._model = model
        self._native = NativeBatch(model.n_batch)
        self._samplers = [model.new_sampler(SamplingParams(ignore_eos=True), seed, []) for seed in range(rows)]
        self._chains = [sampler._chain for sampler in self._samplers]

    def step(self, batch: Batch) -> float:
        """Compute a batch and sample from its wanted rows; return the CPU seconds."""
        rows = [row for row, wanted in enumerate(batch.wanted) if wanted]
        self._model.flush()
        context, chains = self._model._context, self._chains
        began = time.thread_time()
        assert lib.llama_decode(context, self._native.fill(batch)) == 0
        for chain, row in zip(chains, rows, strict=False):
            lib.llama_sampler_sample(chain, context, row)
        return time.thread_time() - began

    def close(self) -> None:
        """Empty the KV store."""
        self._model.clear()
        for sampler in self._samplers:
            sampler.close()


def prompts_first(model: LlamaModel, prompts: list[list[int]], tokens: int) -> float:
    """Return the CPU seconds of bare llama_decode that computes all prompts and then all branches, as llama-server does."""
    bare, seconds, batch = BareLoop(model, len(prompts)), 0.0, Batch()
    for seq_id, prompt in enumerate(prompts):
        for start in range(0, len(prompt), model.n_ubatch):
            part = prompt[start : start + model.n_ubatch]
            if len(batch) + len(part) > model.n_ubatch:
                seconds, batch = seconds + bare.step(batch), Batch()
            batch.add(seq_id, start, part, want_logits=start + len(part) == len(prompt))
    seconds += bare.step(batch)
    for step in range(tokens - 1):
        batch = Batch()
        for seq_id, prompt in enumerate(prompts):
            batch.add_newest(seq_id, len(prompt) + step, prompt[1 + step % (len(prompt) - 1)])
        seconds += bare.step(batch)
    bare.close()
    return seconds
