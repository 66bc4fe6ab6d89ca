"""An EAGLE-3 head: a layer in a file of its own, which drafts from what three of the model's layers are given.

Its encoder makes a state of these. From a token and the state before it, its decoder finds what follows the token, and a
state for going on.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.config.settings import Settings
from srb.engine.llama.batch import encode
from srb.engine.llama.head import LlamaHead, native_function
from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.llama.params import context_params, model_params
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache
from srb.engine.media import Vectors
from srb.engine.model import Batch
from srb.errors import ModelLoadFailed
from srb.files.gguf import check_model_file

# Architectures for which llama.cpp tells what layers are given, and whose memory can be cut; with others it would abort.
TARGETS = ("gemma4", "gpt-oss", "llama", "mimo2", "minimax-m2", "qwen3", "qwen3moe")
# Of llama-ext.h, which has no functions in C.
_LAYERS = "_Z28llama_model_target_layer_idsPK11llama_model"
_NUM_LAYERS = "_Z30llama_model_target_layer_ids_nPK11llama_model"
_TELL = "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"
_TOLD = "_Z30llama_get_embeddings_layer_inpP13llama_contextj"


class EagleHead(LlamaHead):
    """An EAGLE-3 head."""

    kind = "draft-eagle3"

    def __init__(self, context: Any, own_model: Any, own_context: Any, layers: list[int]) -> None:
        """Follow a model's `context`; the head's model and context are freed by `close`. Raise ModelLoadFailed."""
        super().__init__(context, own_context)
        self._own_model, self._layers = own_model, layers
        self._layer_told = native_function(
            _TOLD, ctypes.POINTER(ctypes.c_float), lib.llama_context_p_ctypes, ctypes.c_uint32
        )
        tell = native_function(_TELL, None, lib.llama_context_p_ctypes, ctypes.c_uint32, ctypes.c_bool)
        for layer in layers:
            tell(context, layer, True)
        self._layer_width: int = lib.llama_model_n_embd(lib.llama_get_model(context))
        self._unknown = np.zeros(len(layers) * self._layer_width, np.float32)
        self._n_ubatch: int = lib.llama_n_ubatch(own_context)

    def _told(self, count: int) -> Vectors:
        size = self._n_batch * self._layer_width
        rows = [floats_at(self._layer_told(self._model_context, layer), size) for layer in self._layers]
        return np.concatenate([row.reshape(-1, self._layer_width)[:count] for row in rows], axis=1)

    def _inputs(self, states: Vectors) -> Vectors:
        made: list[Vectors] = []
        for first in range(0, len(states), self._n_ubatch):
            part = states[first : first + self._n_ubatch]
            batch, place = Batch(), int(lib.llama_memory_seq_pos_max(self._memory, 0)) + 1  # any place that is free
            batch.add(0, place, [0] * len(part), want_logits=True, want_all=True)
            batch.vectors = part
            if not encode(self.context, self._batch.fill(batch)):
                self._has_failed = True
                return np.zeros((len(states), self._width), np.float32)
            made.append(self._states(self.context, len(part), len(part)).copy())
        return np.concatenate(made)

    def close(self) -> None:
        super().close()
        lib.llama_model_free(self._own_model)


def eagle_head(settings: Settings, model: Any, context: Any) -> EagleHead:
    """Return the head that `spec_draft_model` names. Raise ModelLoadFailed if it cannot be used with the model."""
    own_model, _keep_alive, layers = load_eagle(settings, model)
    own_settings = settings.of_draft_model.model_copy(update={"n_ctx": lib.llama_n_ctx(context)})
    own_context = lib.llama_init_from_model(own_model, eagle_params(own_settings, own_model, context=context))
    if not own_context:
        lib.llama_model_free(own_model)
        raise ModelLoadFailed(f"spec_draft_model: no context for {settings.draft_model_path}: {native_log.last_error}")
    return EagleHead(context, own_model, own_context, layers)


def load_eagle(settings: Settings, model: Any, *, no_alloc: bool = False) -> tuple[Any, Any, list[int]]:
    """Load a head; return it, an object to keep as long, and the layers of the model that it sees. Raise ModelLoadFailed."""
    own_settings, path = settings.of_draft_model, settings.draft_model_path
    check_model_file(own_settings)
    params, keep_alive = model_params(own_settings)
    if no_alloc:
        params.no_alloc, params.load_mode = True, 0
    native_log.forget_error()
    own_model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not own_model:
        raise ModelLoadFailed(f"spec_draft_model: {path} cannot be loaded: {native_log.first_error}")
    try:
        return own_model, keep_alive, _layers_of(own_model, path, model, settings.model_path)
    except ModelLoadFailed:
        lib.llama_model_free(own_model)
        raise


def eagle_params(settings: Settings, own_model: Any, windows: SwaCache = SwaCache.NONE, *, context: Any) -> Any:
    """Return llama_context_params of an EAGLE-3 head beside a model's context, whose sequences it has."""
    params = context_params(settings, own_model, windows)
    params.n_seq_max = params.n_outputs_max = lib.llama_n_seq_max(context)
    params.n_batch, params.n_ubatch = lib.llama_n_batch(context), lib.llama_n_ubatch(context)
    params.ctx_other = context
    return params


def _layers_of(own_model: Any, path: Path, model: Any, model_path: Path) -> list[int]:
    """Return the layers of a model from which a head drafts. Raise ModelLoadFailed if the one is not made for the other."""
    architecture = string_of(lib.llama_model_meta_val_str, model, b"general.architecture")
    if architecture not in TARGETS:
        raise ModelLoadFailed(
            f"spec_draft_model: {path} is an EAGLE-3 head, and llama.cpp does not tell what the layers of {architecture} "
            f"are given; it does for {', '.join(TARGETS)}"
        )
    pointer = native_function(_LAYERS, ctypes.POINTER(ctypes.c_int32), lib.llama_model_p_ctypes)(own_model)
    count = native_function(_NUM_LAYERS, ctypes.c_uint32, lib.llama_model_p_ctypes)(own_model)
    layers = [int(pointer[place]) for place in range(count)]
    facts = {
        "numbers in a state": (
            int(string_of(lib.llama_model_meta_val_str, own_model, b"eagle3.target_hidden_size") or 0),
            int(lib.llama_model_n_embd(model)),
        ),
        "tokens": tuple(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(each)) for each in (own_model, model)),
    }
    differ = [f"{one} and {other} {name}" for name, (one, other) in facts.items() if one != other]
    if max(layers) >= lib.llama_model_n_layer(model):
        differ.append(f"a layer {max(layers)} and {lib.llama_model_n_layer(model)} layers")
    if differ:
        raise ModelLoadFailed(f"spec_draft_model: {path} is not made for {model_path}: they have {'; '.join(differ)}")
    return layers
