"""Quadratic sampling, which llama.cpp lacks, as a stage of its sampler chains.

A logit that is d below the highest, h, becomes h − f·k·d² − f·s·d³ with the smoothing factor f, k = (3 − c) / 2 and
s = (c − 1) / 2 of the smoothing curve c. Source: kalomaze's text-generation-webui pull requests 5403 and 5551, as
`sample_temperature` of KoboldCpp has it.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import llama_cpp as lib
import numpy as np
import numpy.typing as npt

TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
assert TOKEN_DATA.itemsize == ctypes.sizeof(lib.llama_token_data)

_APPLY = ctypes.CFUNCTYPE(None, ctypes.POINTER(lib.llama_sampler), ctypes.POINTER(lib.llama_token_data_array))
_CLONE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(lib.llama_sampler))  # a callback cannot return a POINTER


def smoothed(logits: npt.NDArray[np.float32], factor: float, curve: float) -> npt.NDArray[np.float32]:
    """Return logits that were smoothed, shape (n,), one of them finite at least; those that are not stay as they are."""
    top = logits.max()
    below = logits - top
    with np.errstate(invalid="ignore"):
        made = below * np.float32(factor * (curve - 1) / 2)
        made -= np.float32(factor * (3 - curve) / 2)
        made *= np.square(below, out=below)
        made += top
    return made if np.isfinite(logits.min()) else np.where(np.isfinite(logits), made, logits)


def new(factor: float, curve: float) -> Any:
    """Return a native sampler, which the caller owns."""
    packed = struct.pack(
        "<ff", factor, curve
    )  # in the place of a pointer to its state, so that nothing has to be freed
    return lib.llama_sampler_init(_INTERFACE, int.from_bytes(packed, "little"))


def _parameters(sampler: Any) -> tuple[float, float]:
    factor, curve = struct.unpack("<ff", (sampler.contents.ctx or 0).to_bytes(8, "little"))
    return factor, curve


def _apply(sampler: Any, candidates: Any) -> None:
    array = candidates.contents
    if not array.size:
        return
    memory = (ctypes.c_char * (array.size * TOKEN_DATA.itemsize)).from_address(ctypes.addressof(array.data.contents))
    logits = np.frombuffer(memory, TOKEN_DATA)["logit"]
    if np.isfinite(logits.max()):
        logits[:] = smoothed(logits.copy(), *_parameters(sampler))
        array.sorted = False  # a curve outside of 1 to 3 changes the order


def _clone(sampler: Any) -> int | None:
    return ctypes.cast(new(*_parameters(sampler)), ctypes.c_void_p).value


class _Interface(ctypes.Structure):
    """llama.cpp's `llama_sampler_i`, all of whose functions but these are left out."""

    _fields_ = [
        (name, {"apply": _APPLY, "clone": _CLONE}.get(name, ctypes.c_void_p))
        for name, *_ in lib.llama_sampler_i._fields_
    ]


_INTERFACE = ctypes.cast(
    ctypes.pointer(_Interface(apply=_APPLY(_apply), clone=_CLONE(_clone))), ctypes.POINTER(lib.llama_sampler_i)
)
