"""A Batch as a llama_batch, and its computation."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from typing import Any

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

from srb.engine.llama.log import native_log
from srb.engine.media import Vectors
from srb.engine.model import Batch, DecodeStatus

log = logging.getLogger("srb.llama")


def compute(context: Any, native: Any) -> DecodeStatus:
    """Compute a llama_batch; a failure is logged with llama.cpp's reason."""
    code = lib.llama_decode(context, native)
    if code == 0:
        return DecodeStatus.OK
    log.warning("llama_decode returned %d for %d tokens: %s", code, native.n_tokens, native_log.last_error)
    return {1: DecodeStatus.NO_ROOM, -1: DecodeStatus.INVALID}.get(code, DecodeStatus.FATAL)


def encode(context: Any, native: Any) -> bool:
    """Compute a llama_batch with a context's encoder; a failure is logged with llama.cpp's reason."""
    code = lib.llama_encode(context, native)
    if code:
        log.warning("llama_encode returned %d for %d tokens: %s", code, native.n_tokens, native_log.last_error)
    return not code


class NativeBatch:
    """A llama_batch of fixed capacity, filled through numpy views; each token belongs to one sequence."""

    def __init__(self, room: int, num_sections: int = 1) -> None:
        """Have room for `room` tokens, whose vectors have `num_sections` positions each."""
        self._tokens = np.zeros(room, np.int32)
        self._positions = np.zeros(room * num_sections, np.int32)
        self._seq_ids = np.zeros(room, np.int32)
        self._wanted = np.zeros(room, np.int8)
        self._counts = np.ones(room, np.int32)
        # seq_id is an array of pointers; the i-th points to the i-th entry of _seq_ids.
        step = self._seq_ids.itemsize
        self._pointers = (self._seq_ids.ctypes.data + step * np.arange(room, dtype=np.uint64)).astype(np.uint64)
        as_pointer = ctypes.cast
        self._token = as_pointer(self._tokens.ctypes.data, ctypes.POINTER(lib.llama_token))
        self._native = lib.llama_batch(
            n_tokens=0,
            token=self._token,
            embd=None,
            pos=as_pointer(self._positions.ctypes.data, ctypes.POINTER(lib.llama_pos)),
            n_seq_id=as_pointer(self._counts.ctypes.data, ctypes.POINTER(ctypes.c_int32)),
            seq_id=as_pointer(self._pointers.ctypes.data, ctypes.POINTER(ctypes.POINTER(lib.llama_seq_id))),
            logits=as_pointer(self._wanted.ctypes.data, ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, batch: Batch, positions: Sequence[int] | npt.NDArray[np.int32] | None = None) -> Any:
        """Return a llama_batch of a batch's tokens, with their states, or of its vectors; the batch has to outlive it.

        `positions` are llama.cpp's, if they are not those of the batch: shape (tokens,), or (sections, tokens) for vectors.
        """
        positions = batch.positions if positions is None else positions
        count = len(batch)
        if batch.vectors is None:
            self._tokens[:count] = batch.tokens
            self._native.token, vectors = self._token, batch.states
        else:
            vectors = batch.vectors = np.ascontiguousarray(batch.vectors, np.float32)
            self._native.token = None
        self._native.embd = None if vectors is None else _pointer(vectors)
        self._positions[: len(positions)] = positions
        self._seq_ids[:count] = batch.seq_ids
        self._wanted[:count] = batch.wanted
        self._native.n_tokens = count
        return self._native


def _pointer(vectors: Vectors) -> Any:
    """Return a pointer to vectors in one block; ctypes.cast would leave a cycle of references."""
    return ctypes.POINTER(ctypes.c_float)(ctypes.c_float.from_address(vectors.ctypes.data))
