"""Embeddings and rankings by llama.cpp: a second context over the same weights, emptied after every call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.engine.llama.adapters import LlamaAdapters
from srb.engine.llama.batch import NativeBatch
from srb.engine.llama.memory import floats_at
from srb.engine.media import Vectors
from srb.engine.model import Batch, Logits, LoraScales
from srb.files.gguf import POOLING_TYPES

log = logging.getLogger("srb.llama")

MAX_INPUTS = 64  # in one batch; each takes a sequence


class LlamaEmbedder:
    """Vectors of each input's tokens, or with `ranks` one score per input. For the decode thread only."""

    def __init__(self, model: Any, params: Any, adapters: LlamaAdapters, ranks: bool) -> None:
        """Use `params`, those of the model's first context, adapted to whole texts.

        Raise MemoryError if llama.cpp cannot make the context.
        """
        n_train = lib.llama_model_n_ctx_train(model)
        self.n_tokens = min(params.n_ubatch, n_train) if n_train > 0 else params.n_ubatch
        self.n_inputs = min(MAX_INPUTS, self.n_tokens)
        params.n_ctx = self.n_tokens
        params.n_batch = params.n_ubatch = self.n_tokens  # encoders need the whole text in one ubatch
        params.n_seq_max = self.n_inputs
        params.n_outputs_max = 0  # no limit: every token has an output
        params.embeddings = True
        params.pooling_type = POOLING_TYPES.index("rank" if ranks else "none")
        self.context = lib.llama_init_from_model(model, params)
        if not self.context:
            raise MemoryError(f"no context of {self.n_tokens} cells for embeddings")
        self._adapters = adapters
        self._lora: LoraScales = ()
        self._memory = lib.llama_get_memory(self.context)
        self._n_embd = lib.llama_model_n_embd_out(model)
        self._batch = NativeBatch(self.n_tokens)

    def vectors(self, inputs: Sequence[list[int]], lora: LoraScales) -> list[Vectors] | None:
        """Return the vectors of each input's tokens, float32 of shape (tokens, n_embd); None if it failed."""
        if not self._compute(inputs, lora):
            return None
        rows = iter(range(sum(map(len, inputs))))
        return [np.stack([self._row(next(rows)) for _ in tokens]) for tokens in inputs]

    def scores(self, inputs: Sequence[list[int]], lora: LoraScales) -> list[float] | None:
        """Return the score of each input; None if the computation failed."""
        if not self._compute(inputs, lora):
            return None
        found = [lib.llama_get_embeddings_seq(self.context, seq_id) for seq_id in range(len(inputs))]
        return [float(score[0]) for score in found] if all(found) else None

    def close(self) -> None:
        """Free the context; may be called again."""
        if self.context:
            lib.llama_free(self.context)
            self.context = None

    def _compute(self, inputs: Sequence[list[int]], lora: LoraScales) -> bool:
        if not 0 < len(inputs) <= self.n_inputs or not all(inputs):
            raise AssertionError(f"{len(inputs)} inputs; {self.n_inputs} fit")
        if (total := sum(map(len, inputs))) > self.n_tokens:
            raise AssertionError(f"inputs of {total} tokens; {self.n_tokens} fit")
        batch = Batch()
        for seq_id, tokens in enumerate(inputs):
            batch.add(seq_id, 0, tokens, want_logits=True, want_all=True)
        if lora != self._lora:
            self._adapters.apply(self.context, lora)
            self._lora = lora
        lib.llama_memory_clear(self._memory, False)
        code = lib.llama_decode(self.context, self._batch.fill(batch))
        if code != 0:
            log.error("llama_decode returned %d for embeddings of %d tokens", code, total)
        return bool(code == 0)

    def _row(self, row: int) -> Logits:
        pointer = lib.llama_get_embeddings_ith(self.context, row)
        if not pointer:
            raise AssertionError(f"row {row} has no embeddings")
        return floats_at(pointer, self._n_embd)
