"""Settings as parameters of llama.cpp's models and contexts."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import llama_cpp as lib

from srb.config.settings import Settings
from srb.engine.llama.devices import DeviceType, device_types, has_faulty_amx
from srb.engine.llama.swa import SwaCache, most_windows, small_sequences
from srb.files.gguf import is_mapped
from srb.files.native_facts import Remark
from srb.host.cores import usable_cores

MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ
CPU_SEQUENCES = 96  # with more, every step is so slow that all branches end later than in turns
RECURRENT_SEQUENCES = 32  # of recurrent models; each has a state, allocated at the start: 19 MB each of a Mamba 2

_CACHE_TYPES = {  # enum ggml_type
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30,
}  # fmt: skip
_ROPE_SCALINGS = {
    "auto": lib.LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
    "none": lib.LLAMA_ROPE_SCALING_TYPE_NONE,
    "linear": lib.LLAMA_ROPE_SCALING_TYPE_LINEAR,
    "yarn": lib.LLAMA_ROPE_SCALING_TYPE_YARN,
}
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}  # enum llama_flash_attn_type
_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}  # enum llama_split_mode
_LOAD_MODES = {(False, False): 0, (True, False): 1, (False, True): 2, (True, True): 3}  # (mmap, mlock)


def has_gpu() -> bool:
    """Return whether llama.cpp was built for a GPU and has found one."""
    return any(kind in (DeviceType.GPU, DeviceType.IGPU) for kind in device_types())


def uses_gpu(settings: Settings) -> bool:
    """Return whether the model's layers, and with them the KV store, are in a GPU's memory."""
    return has_gpu() and settings.n_gpu_layers != 0


def uses_cpu(settings: Settings, n_layers: int) -> bool:
    """Return whether the CPU's threads compute in every step: some of the model's layers, or their attention."""
    return not uses_gpu(settings) or 0 < settings.n_gpu_layers <= n_layers or not settings.kv_offload


def model_params(settings: Settings) -> tuple[Any, Any]:
    """Return llama_model_params, and an object that must outlive their use."""
    params = lib.llama_model_default_params()
    params.n_gpu_layers = settings.n_gpu_layers
    params.split_mode = _SPLIT_MODES[settings.split_mode]
    params.main_gpu = settings.main_gpu
    maps = (uses_gpu(settings) and settings.mmap == "auto") or is_mapped(settings)  # a GPU reads a file once
    params.load_mode = _LOAD_MODES[maps, settings.mlock]
    params.use_extra_bufts = not has_faulty_amx()
    params.load_mtp = settings.uses_head
    shares = None
    if settings.tensor_split:
        given = [float(share) for share in settings.tensor_split.split(",") if share.strip()]
        shares = (ctypes.c_float * lib.llama_max_devices())(*given[: lib.llama_max_devices()])
        params.tensor_split = shares
    return params, shares


def progress_callback(report: Callable[[int], None]) -> Any:
    """Return llama.cpp's callback while a model loads, which reports each whole percent once; it must outlive the loading.

    llama.cpp gives up loading where the callback does not return true, so a report that fails is left out.
    """
    last = -1

    def note(part: float, _: Any) -> bool:
        nonlocal last
        percent = min(100, int(100 * part))
        if percent > last:
            last = percent
            with contextlib.suppress(OSError):
                report(percent)
        return True

    return lib.llama_progress_callback(note)


def context_params(settings: Settings, model: Any, windows: SwaCache = SwaCache.NONE) -> Any:
    """Return llama_context_params of the context that all branches share."""
    threads = settings.threads or usable_cores()
    params = lib.llama_context_default_params()
    params.n_ctx = settings.n_ctx
    params.n_seq_max = _sequence_ids(settings, model, windows)
    params.n_batch = max(settings.n_batch, params.n_seq_max)  # room for every running branch in every step
    params.n_ubatch = min(settings.n_ubatch, params.n_batch)
    params.n_outputs_max = params.n_seq_max
    params.swa_full = windows in (SwaCache.NONE, SwaCache.FULL)
    params.n_threads = threads
    params.n_threads_batch = settings.threads_batch or threads
    params.flash_attn_type = _FLASH_ATTENTION[settings.flash_attn]
    params.type_k = _CACHE_TYPES[settings.cache_type_k]
    params.type_v = _CACHE_TYPES[settings.cache_type_v]
    params.kv_unified = True  # else the cells are divided among the sequences, and a partial fork aborts
    params.no_perf = True
    params.offload_kqv = settings.kv_offload
    params.op_offload = settings.n_gpu_layers != 0  # else long prompts alone would be computed on the GPU
    params.rope_scaling_type = _ROPE_SCALINGS[settings.rope_scaling]
    for name in ("rope_freq_base", "rope_freq_scale", "yarn_orig_ctx"):
        setattr(params, name, getattr(settings, name))
    return params


def head_params(settings: Settings, model: Any, windows: SwaCache, context: Any = None) -> Any:
    """Return llama_context_params of a model's head that drafts, beside `context`, which has the same sequences."""
    params = context_params(settings, model, windows)
    params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP
    params.ctx_other = context
    return params


def _sequence_ids(settings: Settings, model: Any, windows: SwaCache) -> int:
    """Return the number of sequence ids: a prefix's, a branch's and, but for small windows, the scratch at least."""
    if windows is SwaCache.SMALL:
        return small_sequences(settings)  # the scratch has an id beyond: each of these has room for a window
    most = MAX_SEQUENCES if uses_gpu(settings) else CPU_SEQUENCES
    if memory_kind(model) not in ("attention", "sliding_window"):
        most = RECURRENT_SEQUENCES
    if windows is SwaCache.FULL:  # each id has a guard; llama.cpp has room for a row of logits for every one
        return min(MAX_SEQUENCES, 2 * (max(2, settings.n_seq_max or most // 2 - 1) + 1))
    ids = min(MAX_SEQUENCES, max(2, settings.n_seq_max or most) + 1)
    return min(ids, most_windows(settings, model)) if windows is SwaCache.BESIDE_STATES else ids


def changed_settings(settings: Settings, n_batch: int, n_ctx_seq: int) -> Iterator[Remark]:
    """Yield a remark for each given setting that has another effect than its number says.

    `n_batch` and `n_ctx_seq`, the longest text, are those of the context.
    """
    if settings.n_gpu_layers > 0 and not has_gpu():
        yield Remark(
            f"n_gpu_layers {settings.n_gpu_layers} has no effect: llama.cpp has found no GPU, or was built without "
            "support for one; all layers are on the CPU",
            "make install GPU=cuda (or vulkan, rocm, metal; docs/gpu.md), or n_gpu_layers = -1",
        )
    if settings.n_batch < n_batch:
        yield Remark(
            f"n_batch {settings.n_batch} is raised to {n_batch}, one token for each sequence that a step may advance",
            f"n_batch = {n_batch}, or fewer sequences (n_seq_max)",
        )
    if "n_ctx" in settings.model_fields_set and n_ctx_seq < settings.n_ctx:
        yield Remark(
            f"n_ctx {settings.n_ctx}: the branches share so many cells, but one text has at most {n_ctx_seq} tokens, for "
            "which the model was trained; rope_scaling changes that",
            f"n_ctx = {n_ctx_seq} if no branches are to share the rest, or rope_scaling = yarn for longer texts",
        )


def max_sequence_length(settings: Settings, n_ctx_train: int) -> int:
    """Return the longest useful sequence: the trained length, or no limit if the settings change RoPE."""
    changed = settings.rope_scaling != "auto" or settings.rope_freq_base or settings.rope_freq_scale
    return n_ctx_train if n_ctx_train > 0 and not changed else 2**31 - 1


def memory_kind(model: Any) -> str:
    if lib.llama_model_is_recurrent(model):
        return "recurrent"
    if lib.llama_model_is_hybrid(model):
        return "hybrid"
    return "sliding_window" if lib.llama_model_n_swa(model) > 0 else "attention"
