"""The devices that llama.cpp computes on."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Set
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp as lib

from srb import native
from srb.errors import ModelLoadFailed
from srb.files import native_facts
from srb.files.native_facts import INSTRUCTIONS, Device
from srb.host.cores import cpu_info, instructions

log = logging.getLogger("srb.llama")


class DeviceType(IntEnum):
    """enum ggml_backend_dev_type"""

    CPU = 0
    GPU = 1  # with memory of its own
    IGPU = 2  # integrated, in the machine's memory
    ACCEL = 3  # helps the CPU: BLAS, AMX
    META = 4  # several devices as one


@cache
def has_faulty_amx() -> bool:
    """Whether llama.cpp's kernels for AMX are faulty, and must not be used."""
    return native_facts.has_faulty_amx(system_info())


def system_info() -> str:
    """Return the parts of llama.cpp and their features, such as CPU : AVX2 = 1, with the names of SRB's patches."""
    ggml()
    info: bytes = lib.llama_print_system_info()
    return info.decode()


@cache
def tell_library() -> None:
    """Log, once in a process, whose llama.cpp this is, and what it lacks if it was built without one of SRB's patches."""
    if told := native_facts.without_patches(system_info()):
        log.warning(
            "%s (%s); pip install llama-srb-native has it with them, and `make install` in a clone of SRB builds it",
            told,
            package(),
        )
    else:
        log.info("llama.cpp of %s, with SRB's patches", package())


def package() -> str:
    """Return the name and the version of the package that llama.cpp is of."""
    return native.name_of(Path(lib.__file__), lib.__version__)


def begin() -> None:
    """Start llama.cpp, before it loads a model."""
    ggml()
    lib.llama_backend_init()


@cache
def ggml() -> Any:
    """Return llama.cpp's library, through which the symbols of ggml are found, with its devices. Raise ModelLoadFailed.

    A build for all processors (`make wheels PROCESSORS=all`) has them in plugins: the fastest for this one is loaded.
    """
    library = lib.llama_cpp._lib
    refuse_foreign_build(library, instructions(cpu_info()))
    library.ggml_backend_reg_count.restype = ctypes.c_size_t
    if not library.ggml_backend_reg_count():
        # Without a path ggml would look beside the program and in the working folder.
        load = library.ggml_backend_load_all_from_path
        load.restype, load.argtypes = None, [ctypes.c_char_p]
        load(os.fsencode(library_folder()))
    return library


def refuse_foreign_build(library: Any, has: Set[str]) -> None:
    """Raise ModelLoadFailed if llama.cpp was compiled for instructions that a processor does not have.

    The system would kill the engine at the first of them, and nobody would know why. `has` are /proc/cpuinfo's names;
    without any, nothing is known. A build for all processors has these functions in its plugins, and loads one that fits.
    """
    missing = [
        name
        for flag, name in INSTRUCTIONS.items()
        if has and flag not in has and getattr(library, f"ggml_cpu_has_{name.lower()}", int)()
    ]
    if missing:
        raise ModelLoadFailed(
            f"llama.cpp was built for processors with {', '.join(missing)}, which this one lacks; llama-srb-native has "
            "it for all, as has make wheels PROCESSORS=all in a clone; make clean, then make install builds it for this one"
        )


def library_folder() -> Path:
    """Return the folder of llama.cpp's libraries."""
    return Path(lib.llama_cpp._lib._name).parent


def free_gpu_memory() -> int:
    """Return the bytes that are free on all GPUs together."""
    return sum(device.free for device in devices() if device.is_gpu)


def device_types() -> list[int]:
    """Return the type of each device that ggml has found.

    `llama_supports_gpu_offload` is true for any build that could offload; with RPC also without any device.
    """
    type_of = _function("type", ctypes.c_int)
    return [type_of(device) for device in device_handles()]


def devices() -> list[Device]:
    """Describe each device that ggml has found."""
    name, description = _function("name", ctypes.c_char_p), _function("description", ctypes.c_char_p)
    memory = ggml().ggml_backend_dev_memory
    memory.restype, memory.argtypes = None, [ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    found = []
    for device, kind in zip(device_handles(), device_types(), strict=True):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        called, described = (function(device).decode("utf-8", "replace") for function in (name, description))
        found.append(Device(called, described, DeviceType(kind).name.lower(), free.value, total.value))
    return found


def gpu_of(buffer_type: int) -> str | None:
    """Return the name of the GPU in whose own memory ggml's buffers of a type are; None: they are in the machine's."""
    is_host, device_of = ggml().ggml_backend_buft_is_host, ggml().ggml_backend_buft_get_device
    is_host.restype, is_host.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    device_of.restype, device_of.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    device = None if is_host(buffer_type) else device_of(buffer_type)
    if device is None or _function("type", ctypes.c_int)(device) != DeviceType.GPU:
        return None
    name: bytes = _function("name", ctypes.c_char_p)(device)
    return name.decode("utf-8", "replace")


def device_handles() -> list[int]:
    """Return ggml's pointer to each device that it has found."""
    count, get = ggml().ggml_backend_dev_count, ggml().ggml_backend_dev_get
    count.restype, count.argtypes = ctypes.c_size_t, []
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    return [get(number) for number in range(count())]


def _function(name: str, returns: Any) -> Any:
    """Return ggml's function that tells one thing of a device."""
    function = getattr(ggml(), f"ggml_backend_dev_{name}")
    function.restype, function.argtypes = returns, [ctypes.c_void_p]
    return function
