"""Memory that numpy and llama.cpp share.

ctypes.cast, and numpy's data_as and as_array, which use it, leave reference cycles that the collector frees thousands of
calls later.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from srb.engine.model import Blob, Logits


def bytes_pointer(blob: Blob) -> Any:
    """Return a pointer to a blob's bytes, for a call; the caller keeps the blob."""
    return ctypes.byref(ctypes.c_uint8.from_address(blob.ctypes.data))


def floats_at(pointer: Any, size: int) -> Logits:
    """Return a view of `size` floats of llama.cpp's, float32 of shape (size,). Raise ValueError for a null pointer."""
    native: Any = _floats(size).from_address(ctypes.addressof(pointer.contents))
    return np.frombuffer(native, np.float32)


@cache
def _floats(size: int) -> type[ctypes.Array[ctypes.c_float]]:
    """Return the type of arrays of `size` floats, which is a cycle too. There are few sizes: n_embd, and rows × n_vocab."""
    return ctypes.c_float * size
