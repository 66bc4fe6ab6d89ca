"""The devices that llama.cpp computes on."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import llama_cpp as lib


class DeviceType(IntEnum):
    """enum ggml_backend_dev_type"""

    CPU = 0
    GPU = 1  # with memory of its own
    IGPU = 2  # integrated, in the machine's memory
    ACCEL = 3  # helps the CPU: BLAS, AMX
    META = 4  # several devices as one


def free_gpu_memory() -> int:
    """Return the bytes that are free on all GPUs together."""
    ggml, free = lib.llama_cpp._lib, 0
    ask, get = ggml.ggml_backend_dev_memory, ggml.ggml_backend_dev_get
    ask.restype, ask.argtypes = (
        None,
        [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)],
    )
    for number, kind in enumerate(device_types()):
        if kind in (DeviceType.GPU, DeviceType.IGPU):
            here, total = ctypes.c_size_t(), ctypes.c_size_t()
            ask(get(number), ctypes.byref(here), ctypes.byref(total))
            free += here.value
    return free


def device_types() -> list[int]:
    """Return the type of each device that ggml has found.

    `llama_supports_gpu_offload` is true for any build that could offload; with RPC also without any device.
    """
    ggml = lib.llama_cpp._lib  # llama.cpp's library, through which the symbols of ggml are found
    count, get, type_of = ggml.ggml_backend_dev_count, ggml.ggml_backend_dev_get, ggml.ggml_backend_dev_type
    count.restype, count.argtypes = ctypes.c_size_t, []
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    type_of.restype, type_of.argtypes = ctypes.c_int, [ctypes.c_void_p]
    return [type_of(get(number)) for number in range(count())]
