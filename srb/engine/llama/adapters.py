"""LoRA adapters of llama.cpp: loaded once, applied to a context with scales that may change between decodes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import llama_cpp as lib

from srb.engine.llama.strings import string_of
from srb.engine.model import Adapter, LoraScales
from srb.errors import ModelLoadFailed


class LlamaAdapters:
    """The LoRA adapters of one model; they are freed with it."""

    def __init__(self, model: Any, files: list[tuple[Path, float]]) -> None:
        """Load `files` with their default scales, before a context is made. Raise ModelLoadFailed."""
        self._native = [self._load(model, path) for path, _ in files]
        self.adapters = [
            Adapter(str(path), scale, _text(native, b"task_name"), _text(native, b"prompt_prefix"))
            for (path, scale), native in zip(files, self._native, strict=True)
        ]

    @staticmethod
    def _load(model: Any, path: Path) -> Any:
        if not path.is_file():
            raise ModelLoadFailed(f"lora: {path} is not a file")
        native = lib.llama_adapter_lora_init(model, str(path).encode())
        if not native:
            raise ModelLoadFailed(f"lora: {path} cannot be loaded; it may be made for another model")
        if lib.llama_adapter_get_alora_n_invocation_tokens(native):
            raise ModelLoadFailed(f"lora: {path} is activated by tokens (aLoRA), which is not supported")
        return native

    def apply(self, context: Any, scales: LoraScales) -> None:
        """Set the adapters' scales in `context`; adapters without one get 0."""
        used = [(native, scale) for native, scale in zip(self._native, scales, strict=False) if scale]
        natives = (lib.llama_adapter_lora_p_ctypes * len(used))(*(native for native, _ in used))
        values = (ctypes.c_float * len(used))(*(scale for _, scale in used))
        if lib.llama_set_adapters_lora(context, natives, len(used), values) != 0:
            raise AssertionError("llama.cpp refused the adapters")


def _text(native: Any, name: bytes) -> str:
    return string_of(lib.llama_adapter_meta_val_str, native, b"adapter.lora." + name)
