"""The memory that a projector takes, as llama.cpp plans it, without loading its weights.

The one function that tells is C++: it returns a std::map of bytes by device, which is read here as libstdc++ lays it out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from srb.engine.llama.log import native_log
from srb.engine.llama.media import _library as mtmd_library
from srb.errors import ModelLoadFailed
from srb.settings import Settings

_FUNCTION = "_Z21mtmd_get_memory_usagePKc19mtmd_context_params"
_MOST_DEVICES = 64


class _Map(ctypes.Structure):
    """std::map: an empty comparator, the header node, the number of entries."""

    _fields_ = (
        ("comparator", ctypes.c_void_p),
        ("color", ctypes.c_void_p),
        ("root", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    )


class _Node(ctypes.Structure):
    """A node of a std::map from a device to a number of bytes."""

    _fields_ = (
        ("color", ctypes.c_void_p),
        ("parent", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    )


def projector_bytes(settings: Settings) -> int:
    """Return the bytes of the projector's weights and buffers. Raise ModelLoadFailed if it is none, with the reason.

    They are planned on the CPU, since planning on a GPU takes the memory; a GPU's buffers are as large, nearly. A build
    without the function tells the size of the file, which is that of the weights.
    """
    mtmd, path = mtmd_library(), settings.mmproj_path
    try:
        plan = getattr(mtmd._libmtmd, _FUNCTION)
    except AttributeError:
        return path.stat().st_size
    plan.restype, plan.argtypes = _Map, [ctypes.c_char_p, mtmd.mtmd_context_params]
    mtmd.mtmd_helper_log_set(native_log.callback, ctypes.c_void_p(0))
    params = mtmd.mtmd_context_params_default()
    params.use_gpu = False
    params.image_min_tokens, params.image_max_tokens = settings.image_min_tokens, settings.image_max_tokens
    native_log.forget_error()
    found = plan(str(path).encode(), params)
    if not found.count:
        raise ModelLoadFailed(f"mmproj: {path} cannot be loaded: {' '.join(native_log.first_error.split())}")
    if found.count > _MOST_DEVICES:
        raise AssertionError(f"{found.count} devices: not the std::map that is expected")
    return sum(_sizes(found))


def _sizes(found: Any) -> Iterator[int]:
    left = [found.root]
    while left:
        if (place := left.pop()) is not None:
            node = _Node.from_address(place)
            yield node.size
            left += [node.left, node.right]
