"""Heads in files of their own: EAGLE-3, DFlash, and the assistants of Gemma 4."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.config.settings import Settings
from srb.engine.llama.batch import encode
from srb.engine.llama.head import LlamaHead, Row, native_function
from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.llama.params import context_params, model_params
from srb.engine.llama.strings import string_of
from srb.engine.llama.swa import SwaCache
from srb.engine.media import Vectors
from srb.engine.model import Batch, Logits
from srb.errors import ModelLoadFailed
from srb.files.gguf import check_model_file

# Architectures for which llama.cpp tells what layers are given, and whose memory can be cut; with others it would abort.
TARGETS = ("gemma4", "gpt-oss", "llama", "mimo2", "minimax-m2", "qwen3", "qwen3moe")
# Of llama-ext.h, which has no functions in C.
_LAYERS = "_Z28llama_model_target_layer_idsPK11llama_model"
_NUM_LAYERS = "_Z30llama_model_target_layer_ids_nPK11llama_model"
_TELL = "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"
_ASSISTANT = "gemma4-assistant"
_BLOCK = 16  # tokens of DFlash, where a file does not say; llama-server's
_TOLD = "_Z30llama_get_embeddings_layer_inpP13llama_contextj"


class FileHead(LlamaHead):
    """A head in a file of its own; its model and context are freed by `close`."""

    def __init__(self, context: Any, own_model: Any, own_context: Any, layers: list[int]) -> None:
        """Follow a model's `context`; the head drafts from what `layers` of it are given. Raise ModelLoadFailed."""
        self._own_model, self._layers = own_model, layers
        super().__init__(context, own_context)

    def close(self) -> None:
        super().close()
        lib.llama_model_free(self._own_model)


class LayersHead(FileHead):
    """A head whose states of a token are the inputs of some of the model's layers."""

    def __init__(self, context: Any, own_model: Any, own_context: Any, layers: list[int]) -> None:
        super().__init__(context, own_model, own_context, layers)
        self._layer_told = native_function(
            _TOLD, ctypes.POINTER(ctypes.c_float), lib.llama_context_p_ctypes, ctypes.c_uint32
        )
        self._layer_width: int = lib.llama_model_n_embd(lib.llama_get_model(context))
        self._unknown = np.zeros(len(layers) * self._layer_width, np.float32)
        self._n_ubatch: int = lib.llama_n_ubatch(own_context)

    def _be_told(self) -> None:
        tell = native_function(_TELL, None, lib.llama_context_p_ctypes, ctypes.c_uint32, ctypes.c_bool)
        for layer in self._layers:
            tell(self._model_context, layer, True)  # all tokens, whether prompts are read or not

    def _told(self, batch: Batch) -> Vectors:
        size = self._n_batch * self._layer_width
        rows = [floats_at(self._layer_told(self._model_context, layer), size) for layer in self._layers]
        return np.concatenate([row.reshape(-1, self._layer_width)[: len(batch)] for row in rows], axis=1)


class EagleHead(LayersHead):
    """An EAGLE-3 head: from a token and a state before it, its decoder finds what follows, and a state for going on."""

    kind = "draft-eagle3"

    def _inputs(self, states: Vectors) -> Vectors:
        """Return what the head's encoder makes of the model's states."""
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


class AssistantHead(FileHead):
    """An assistant of Gemma 4: layers without keys of their own, which attend to the model's at one place for all drafts."""

    _stride = 0

    def read(self, seq_ids: Sequence[int]) -> int:
        """Do nothing with what waits but to forget it: the KV store is the model's."""
        for text in (self._texts[seq_id] for seq_id in seq_ids if seq_id in self._texts):
            text.start = text.end = text.length
            text.tokens, text.states = [], [text.states[-1].copy()]
        return 0


class FlashHead(LayersHead):
    """A DFlash drafter: beside the model's states of a text it finds all tokens of a block at once, from masks."""

    kind = "draft-dflash"
    _offset = 1

    def __init__(self, context: Any, own_model: Any, own_context: Any, layers: list[int]) -> None:
        super().__init__(context, own_model, own_context, layers)
        lib.llama_set_causal_attn(own_context, False)
        self._room = self._n_ubatch  # without an order of its tokens a batch is computed in one piece
        self._block = int(string_of(lib.llama_model_meta_val_str, own_model, b"dflash.block_size") or _BLOCK)
        self._mask: int = lib.llama_vocab_mask(lib.llama_model_get_vocab(own_model))
        self._n_seq_max: int = lib.llama_n_seq_max(own_context)
        self._places: list[int] = []  # of each branch: the row with what follows its latest drafted token
        self._length = 0  # of the blocks

    def _compute(self, rows: Sequence[Row], want_logits: bool, *, are_own: bool = False) -> bool:
        """Let the KV store have the states of tokens."""
        batch = Batch()
        for seq_id, position, _, _ in rows:
            batch.add(seq_id, position, [0], want_logits)
        batch.vectors = np.stack([state for *_, state in rows])
        native_log.forget_error()
        with self.threads.step():
            return self._run(batch)

    def begin(self, rows: Sequence[tuple[int, int, int]]) -> bool:
        """Compute a block for each sequence, its newest token and masks after it; return False if there is no room."""
        self.read([seq_id for seq_id, _, _ in rows])
        self._length = min(self._block, self._n_ubatch // len(rows), self._n_seq_max // len(rows))
        if self._length < 2:
            return False
        batch = Batch()
        for seq_id, position, token in rows:
            self._text_at(seq_id, position)
            block = [token] + [self._mask] * (self._length - 1)
            batch.add(seq_id, position, block, want_logits=True, want_all=True)
            self._drafted[seq_id] = position
        self._places = [1 + self._length * number for number in range(len(rows))]
        native_log.forget_error()
        with self.threads.step():
            return self._run(batch)

    def go_on(self, drafted: Sequence[tuple[int, int]]) -> bool:
        """Go on to the next masks, which are computed; return False at the end of the blocks."""
        self._places = [self._places[place] + 1 for place, _ in drafted]
        return self._places[0] % self._length > 0

    def logits(self, place: int) -> Logits:
        return self._rows.logits(self._places[place])


_KINDS: dict[str, type[FileHead]] = {
    "eagle3": EagleHead,
    "dflash": FlashHead,
    _ASSISTANT: AssistantHead,
}


def head_of_file(settings: Settings, model: Any, context: Any) -> FileHead:
    """Return the head that `spec_draft_model` names. Raise ModelLoadFailed if it cannot be used with the model."""
    own_model, _keep_alive, layers = load_head(settings, model)
    own_settings = settings.of_draft_model.model_copy(update={"n_ctx": lib.llama_n_ctx(context)})
    own_context = lib.llama_init_from_model(own_model, params_beside(own_settings, own_model, context=context))
    if not own_context:
        lib.llama_model_free(own_model)
        raise ModelLoadFailed(f"spec_draft_model: no context for {settings.draft_model_path}: {native_log.last_error}")
    return _KINDS[_architecture(own_model)](context, own_model, own_context, layers)


def load_head(settings: Settings, model: Any, *, no_alloc: bool = False) -> tuple[Any, Any, list[int]]:
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


def params_beside(settings: Settings, own_model: Any, windows: SwaCache = SwaCache.NONE, *, context: Any) -> Any:
    """Return llama_context_params of a head in a file of its own, beside a model's context, whose sequences it has."""
    params = context_params(settings, own_model, windows)
    params.n_seq_max = params.n_outputs_max = lib.llama_n_seq_max(context)
    params.n_batch, params.n_ubatch = lib.llama_n_batch(context), lib.llama_n_ubatch(context)
    params.ctx_other = context
    return params


def _layers_of(own_model: Any, path: Path, model: Any, model_path: Path) -> list[int]:
    """Return the layers of a model from which a head drafts, if any. Raise ModelLoadFailed if it is made for another."""
    kind, architecture = _architecture(own_model), _architecture(model)
    targets = ("gemma4",) if kind == _ASSISTANT else TARGETS
    if architecture not in targets:
        raise ModelLoadFailed(
            f"spec_draft_model: {path} is a head ({kind}), for which llama.cpp has nothing of {architecture}; it has what "
            f"is needed of {', '.join(targets)}"
        )
    own_vocab, vocab = lib.llama_model_get_vocab(own_model), lib.llama_model_get_vocab(model)
    if kind == "dflash" and lib.llama_vocab_mask(own_vocab) < 0:
        raise ModelLoadFailed(f"spec_draft_model: {path} names no token for masks (tokenizer.ggml.mask_token_id)")
    layers: list[int] = []
    if kind != _ASSISTANT:
        pointer = native_function(_LAYERS, ctypes.POINTER(ctypes.c_int32), lib.llama_model_p_ctypes)(own_model)
        count = native_function(_NUM_LAYERS, ctypes.c_uint32, lib.llama_model_p_ctypes)(own_model)
        layers = [int(pointer[place]) for place in range(count)]
    given = string_of(lib.llama_model_meta_val_str, own_model, b"eagle3.target_hidden_size")
    facts = {
        "numbers in a state": (int(given or lib.llama_model_n_embd_out(own_model)), int(lib.llama_model_n_embd(model))),
        "tokens": (lib.llama_vocab_n_tokens(own_vocab), lib.llama_vocab_n_tokens(vocab)),
    }
    differ = [f"{one} and {other} {name}" for name, (one, other) in facts.items() if one != other]
    if max(layers, default=0) >= lib.llama_model_n_layer(model):
        differ.append(f"a layer {max(layers)} and {lib.llama_model_n_layer(model)} layers")
    if differ:
        raise ModelLoadFailed(f"spec_draft_model: {path} is not made for {model_path}: they have {'; '.join(differ)}")
    return layers


def _architecture(model: Any) -> str:
    return string_of(lib.llama_model_meta_val_str, model, b"general.architecture")
