"""Rounding: whether a token's logits are the same, to the last bit, whatever is computed beside it.

They are where each sum has one order: where SRB's own kernels multiply all weights (native/mul_mat.cpp) and compute
attention (native/shared_keys.h). llama.cpp's own add in an order that depends on the number of tokens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp as lib

from srb.config.settings import Settings
from srb.engine.llama.devices import DeviceType, device_types, system_info
from srb.engine.llama.params import memory_kind, uses_gpu
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache, has_latent_attention, head_length
from srb.files.gguf import model_files
from srb.files.native_facts import features_of, patches_of

# The types of weights that native/mul_mat.cpp multiplies, under ggml's names.
OWN_TYPES = frozenset(
    {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs"}
)
_PATCHES = ("shared-keys", "mul-mat", "cells-behind")
# Of each kind of processor; the kernels need those of one.
_INSTRUCTIONS = (("AVX2", "FMA", "F16C"), ("NEON", "DOTPROD"))
_LANES = {"AVX512": 16, "AVX2": 8}  # of a vector of floats; NEON has four
_WITHOUT_FLASH = {"grok", "t5"}  # architectures for which llama.cpp has no flash attention
# Matrices that no token is multiplied with: rows are looked up, convolutions and scans go token by token.
_NO_FACTORS = frozenset(
    {"token_embd", "per_layer_token_embd", "position_embd", "token_types", "ssm_conv1d", "conv", "ssm_a", "ssm_d"}
)


class Tensor(NamedTuple):
    """A tensor of a GGUF file: its name, and its type under ggml's name."""

    name: str
    type: str
    is_matrix: bool

    @property
    def part(self) -> str:
        """The name without layer and suffix: ffn_up of blk.0.ffn_up.weight."""
        return self.name.removesuffix(".weight").rpartition(".")[2]


def has_own_products() -> bool:
    """Whether SRB's own kernels multiply weights."""
    features = features_of(system_info())
    fits = any(all(features.get(name) == "1" for name in names) for names in _INSTRUCTIONS)
    return fits and "mul-mat" in patches_of(system_info())


def why_rounding_varies(settings: Settings, model: Any, windows: SwaCache) -> str:
    """Return why the logits of a token of a loaded model depend on what is computed beside it; empty: they do not.

    `windows` is the cache of the model's sliding windows.
    """
    reasons = (_by_build(settings), _by_attention(settings, model), _by_windows(windows), _by_weights(settings))
    return next(chain.from_iterable(reasons), "")


def _by_build(settings: Settings) -> Iterator[str]:
    if settings.rpc:
        yield "RPC nodes compute a part of the model, with kernels of their own"
    if uses_gpu(settings):
        yield "a GPU computes, whose kernels round with the size of a batch"
    if DeviceType.ACCEL in device_types():
        yield "an accelerator beside the CPU (BLAS) multiplies large batches"
    if missing := [name for name in _PATCHES if name not in patches_of(system_info())]:
        yield f"llama.cpp was built without {', '.join(missing)} of SRB's patches"
    if not has_own_products():
        needed = " or ".join(", ".join(names) for names in _INSTRUCTIONS)
        yield f"SRB's kernels need {needed}, and llama.cpp was built without"


def _by_attention(settings: Settings, model: Any) -> Iterator[str]:
    if memory_kind(model) == "recurrent":
        return
    if settings.flash_attn == "off":
        yield "flash_attn is off, and llama.cpp's attention without it rounds with the size of a batch"
    architecture = string_of(lib.llama_model_meta_val_str, model, b"general.architecture")
    if architecture in _WITHOUT_FLASH:
        yield f"llama.cpp has no flash attention for {architecture}"
    features = features_of(system_info())
    if features.get("SHARED_KEYS") != "1":  # vectors whose length is found out at run time (SVE, RISC-V)
        yield "SRB's attention has no kernel for this processor's vectors"
    size, lanes = head_length(model, "value"), next((n for name, n in _LANES.items() if features.get(name) == "1"), 4)
    if size % lanes and not has_latent_attention(model):  # whose values are as long as its keys
        yield f"heads of {size} values are no multiple of {lanes}, and llama.cpp's own kernel computes their attention"


def _by_windows(windows: SwaCache) -> Iterator[str]:
    # Its cells are used again, so a text's newest ones may lie before its older ones.
    if windows in (SwaCache.SMALL, SwaCache.BESIDE_STATES):
        yield "in the small cache of sliding windows the order of a text's cells depends on other texts"


def _by_weights(settings: Settings) -> Iterator[str]:
    files = [("weights", model_files(settings.model_path))]
    files += [(f"weights of the adapter {path.name}", [path]) for path, _ in settings.adapters]
    for kind, paths in files:
        tensors = [each for path in paths for each in tensors_of(path)]
        names = {each.name for each in tensors}
        foreign = [each for each in tensors if each.type not in OWN_TYPES and _is_factor(each, names)]
        if foreign:
            others = f" and {len(foreign) - 1} others" if len(foreign) > 1 else ""
            which = f"{foreign[0].name}{others}"
            yield f"{kind} of type {foreign[0].type} ({which}) are multiplied by llama.cpp's own kernels"


def _is_factor(tensor: Tensor, names: set[str]) -> bool:
    """Whether tokens are multiplied with a tensor as with a matrix."""
    if not tensor.is_matrix or tensor.name.endswith(".bias"):
        return False
    is_output = tensor.name == "token_embd.weight" and "output.weight" not in names
    return is_output or tensor.part not in _NO_FACTORS


class _Params(ctypes.Structure):
    """struct gguf_init_params"""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def tensors_of(path: Path) -> list[Tensor]:
    """Return the tensors of a GGUF file, of which only the header is read. Raise ValueError for another file."""
    header = _call("gguf_init_from_file", ctypes.c_void_p, str(path).encode(), _Params(True, None))
    if not header:
        raise ValueError(f"{path} is no GGUF file")
    file = ctypes.c_void_p(header)
    try:
        found = []
        for number in range(_call("gguf_get_n_tensors", ctypes.c_int64, file)):
            which = file, ctypes.c_int64(number)
            kind = ctypes.c_int(_call("gguf_get_tensor_type", ctypes.c_int, *which))
            name = _call("gguf_get_tensor_name", ctypes.c_char_p, *which).decode("utf-8", "replace")
            sizes = _call("gguf_get_tensor_ne", ctypes.POINTER(ctypes.c_int64), *which)
            found.append(Tensor(name, _call("ggml_type_name", ctypes.c_char_p, kind).decode(), sizes[1] > 1))
        return found
    finally:
        _call("gguf_free", None, file)


def _call(name: str, returns: Any, *given: Any) -> Any:
    function = getattr(lib.llama_cpp._lib, name)
    function.restype, function.argtypes = returns, None
    return function(*given)
