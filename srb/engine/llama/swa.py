"""Sliding windows: the size of their layers' KV cache, and what it costs.

Layers with a window look back `n_swa` tokens. Full size, their cache has a cell for every token of every text, so a text
can be cut anywhere. At its small size it has the newest windows alone, and a text goes on from its end or a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any

import llama_cpp as lib

from srb.config.settings import Settings
from srb.engine.llama.devices import free_gpu_memory
from srb.engine.llama.strings import string_of
from srb.files.gguf import is_mapped
from srb.files.native_facts import Remark
from srb.host import memory
from srb.host.cgroups import ROOT

SMALL_SEQUENCES = 4  # llama-server's slots; each has a window of its own in the small cache
_MOST_SMALL = 255  # llama.cpp's ids (256) but one, the scratch's
_SHARE = 2  # full size where the KV store is at most 1/_SHARE of the free memory: texts are not all that needs it …
MOST_BYTES = 6 << 30  # … and of this: with cache_ram_mib as much as llama-server keeps texts in (--cache-ram)
_PADDING = 256  # llama.cpp rounds the small cache up to a multiple of it
_UNCUT = {"deepseek4"}  # architectures with a window whose other layers keep compressed states, which cannot be cut

_BITS = {
    "f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5, "iq4_nl": 4.5,
}  # fmt: skip


class SwaCache(Enum):
    """The cache of a model's sliding windows."""

    NONE = auto()  # the model has no windows, or its texts are reused as a whole
    FULL = auto()
    SMALL = auto()
    BESIDE_STATES = auto()  # small, in a model that has recurrent layers, too


def swa_cache_of(settings: Settings, model: Any, on_gpu: bool) -> SwaCache:
    """Return the cache that a loaded model's windows get by the settings."""
    n_swa = lib.llama_model_n_swa(model)
    if n_swa <= 0 or _metadata(model, "general.architecture") in _UNCUT:
        return SwaCache.NONE
    if lib.llama_model_is_hybrid(model):  # where a full size would only serve cuts, which need the states anyway
        return SwaCache.NONE if any(room_remarks(settings, model)) else SwaCache.BESIDE_STATES
    if settings.swa_full == "on" or small_cells(settings, n_swa) >= num_cells(settings, model):
        return SwaCache.FULL
    if settings.swa_full == "off":
        return SwaCache.SMALL
    fits = is_affordable(kv_bytes(settings, model), free_memory(settings, model, on_gpu))
    return SwaCache.FULL if fits else SwaCache.SMALL


def is_affordable(size: int, free: int) -> bool:
    """Whether a KV store of `size` bytes at full size leaves enough of the `free` ones, and is no larger than agreed."""
    return size <= MOST_BYTES and size * _SHARE <= free


def small_sequences(settings: Settings) -> int:
    """Return the number of sequences that have windows in the small cache."""
    return min(_MOST_SMALL, max(2, settings.n_seq_max or SMALL_SEQUENCES))


def usable_sequences(ids: int, windows: SwaCache) -> int:
    """Return how many of a context's sequence ids hold texts; the others are guards, and the scratch for spans."""
    return {SwaCache.FULL: ids // 2 - 1, SwaCache.SMALL: ids}.get(windows, ids - 1)


def most_windows(settings: Settings, model: Any) -> int:
    """Return how many windows the small cache has room for before it is as large as the full size."""
    room = num_cells(settings, model) - _new_cells(settings)
    return max(0, room) // int(lib.llama_model_n_swa(model))


def room_remarks(settings: Settings, model: Any) -> Iterator[Remark]:
    """Yield a remark if a hybrid model's windows have no room for those of a prompt, its branches and the scratch."""
    n_swa, least = lib.llama_model_n_swa(model), min(settings.n + 1, settings.n_seq_max or _MOST_SMALL) + 1
    is_small = lib.llama_model_is_hybrid(model) and _metadata(model, "general.architecture") not in _UNCUT
    if n_swa > 0 and is_small and most_windows(settings, model) < least:
        cells = n_swa * least + _new_cells(settings)
        yield Remark(
            f"n_ctx {num_cells(settings, model)} has no room for {least} windows of {n_swa} tokens: an earlier text is "
            "reused only as a whole",
            f"n_ctx = {_padded(cells)}, or fewer sequences (n_seq_max)",
        )


def small_cells(settings: Settings, n_swa: int) -> int:
    """Return the size of the small cache in cells, as llama.cpp computes it."""
    cells = n_swa * small_sequences(settings) + _new_cells(settings)
    return _padded(cells)


def has_latent_attention(model: Any) -> bool:
    """Whether all heads have the same keys, from which their values come, too (MLA: DeepSeek and its kin)."""
    return bool(_of_attention(model, "kv_lora_rank"))


def kv_bytes(settings: Settings, model: Any) -> int:
    """Return about the bytes of a KV store in which every layer has a cell for every token; a hybrid's is smaller.

    Every layer counts as the first, which in models with windows has one.
    """
    kinds = (("key", settings.cache_type_k), ("value", settings.cache_type_v))
    values = sum(head_length(model, name) * _BITS[kind] for name, kind in kinds) / 8
    heads = lib.llama_model_n_head_kv(model) or lib.llama_model_n_head(model)  # the first layer may have none
    layers = lib.llama_model_n_layer(model) - int(_of_attention(model, "shared_kv_layers") or 0)  # which have no KV
    return int(num_cells(settings, model) * layers * heads * values)


def head_length(model: Any, name: str) -> int:
    """Return the length of one head's `name`, "key" or "value", in the first layer."""
    given = _of_attention(model, f"{name}_length_swa") or _of_attention(model, f"{name}_length")
    heads = max(1, lib.llama_model_n_head(model))
    return int(given) if given.isdigit() else int(lib.llama_model_n_embd(model)) // heads


def description(windows: SwaCache, settings: Settings, n_swa: int, count: int) -> str:
    """Return one line for the log about the cache of a model's windows, for `count` sequences."""
    if windows is SwaCache.BESIDE_STATES:
        return f"sliding windows of {n_swa} tokens beside recurrent layers, small cache for {count} sequences"
    by = f"swa_full = {settings.swa_full}"
    if windows is SwaCache.FULL:
        by += ", and the small cache would not be smaller" if settings.swa_full == "off" else ""
        return f"sliding windows of {n_swa} tokens, full-size cache ({by}): texts are reused up to any place"
    return (
        f"sliding windows of {n_swa} tokens, small cache of {small_cells(settings, n_swa)} cells ({by}): texts are reused "
        f"up to checkpoints, by {count} sequences; swa_full = on takes more memory and reuses them up "
        "to any place"
    )


def num_cells(settings: Settings, model: Any) -> int:
    """Return the number of cells that the settings ask for."""
    return settings.n_ctx or int(lib.llama_model_n_ctx_train(model))


def free_memory(settings: Settings, model: Any, on_gpu: bool) -> int:
    """Return the bytes that are free beside the model, where the KV store will be."""
    if on_gpu and settings.kv_offload:
        return free_gpu_memory()
    mapped = (
        lib.llama_model_size(model) if is_mapped(settings) and not on_gpu else 0
    )  # counts as available until it is read
    return max(0, available_memory() - mapped)


def available_memory(root: Path = ROOT) -> int:
    """Return the bytes of memory that this process may still take; 0 where the system does not tell."""
    return memory.free_memory(root) or 0


def _new_cells(settings: Settings) -> int:
    """Return the number of cells that the small cache has beside its windows: of the tokens computed at once."""
    return min(settings.n_ubatch, settings.n_batch)


def _padded(cells: int) -> int:
    return -(-cells // _PADDING) * _PADDING


def _of_attention(model: Any, key: str) -> str:
    return _metadata(model, f"{_metadata(model, 'general.architecture')}.attention.{key}")


def _metadata(model: Any, key: str) -> str:
    return string_of(lib.llama_model_meta_val_str, model, key.encode())
