"""A control vector from texts: `python -m srb.engine.llama.vector_maker` reads a Making as JSON and writes the file.

Texts differ at a layer by the mean of what it gives for the tokens of the positive texts less that of the negative ones. A
layer's direction is what it adds to the difference of the layer before, since what is added to a layer goes through all that
follow: with scale 1 a text is moved, at each layer, as far as from the middle of the negative texts to that of the positive.

llama.cpp tells what a layer gives (`l_out`) by the callback that it has for tests of graphs (`cb_eval`), for every
architecture; embeddings have the last layer alone. The last layer has no direction: it gives the rows of logits alone, and
what is added there is no more than a bias of words.

This is a process of its own, since llama.cpp may abort on a damaged file.
"""

import ctypes
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else abort() forks a debugger and hangs

import llama_cpp as lib
import numpy as np
import numpy.typing as npt
import orjson

from srb.config.settings import Settings
from srb.engine.llama.batch import NativeBatch, compute
from srb.engine.llama.devices import begin
from srb.engine.llama.log import native_log
from srb.engine.llama.params import context_params, model_params
from srb.engine.llama.strings import string_of
from srb.engine.llama.vector_files import Directions, write_vector
from srb.engine.model import Batch, DecodeStatus
from srb.errors import SRBError
from srb.files.gguf import check_model_file

MAX_TOKENS = 256  # of a text; what follows is left out
_OUTPUT = re.compile(rb"l_out-(\d+)")


@dataclass(frozen=True, slots=True)
class Making:
    """The texts of a vector, each list not empty, the model's file and the file to write."""

    model: str
    path: str
    positive: list[str]
    negative: list[str]
    n_gpu_layers: int = -1


class Layers:
    """Means of what each layer gives for the tokens of texts but the first, by which models see that a text begins."""

    def __init__(self, settings: Settings) -> None:
        """Load the model. Raise SRBError."""
        check_model_file(settings)
        begin()
        params, self._keep_alive = model_params(settings)
        self._model = lib.llama_model_load_from_file(str(settings.model_path).encode(), params)
        if not self._model:
            raise SRBError(f"{settings.model_path} cannot be loaded: {native_log.first_error}")
        self.architecture = string_of(lib.llama_model_meta_val_str, self._model, b"general.architecture")
        self._size = lib.llama_model_n_embd(self._model)
        self._sums: dict[int, npt.NDArray[np.float64]] = {}
        self._count = 0
        context = context_params(settings, self._model)
        context.cb_eval = self._callback = lib.ggml_backend_sched_eval_callback(self._take)
        self._context = lib.llama_init_from_model(self._model, context)
        if not self._context:
            raise SRBError(f"no context for {settings.model_path}: {native_log.last_error}")
        self._batch = NativeBatch(MAX_TOKENS)

    def means(self, texts: list[str]) -> Directions:
        """Return the mean of each layer over the tokens of texts, each text with the same weight. Raise SRBError."""
        total: dict[int, npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(self._size))
        for text in texts:
            for layer, mean in self._means(text).items():
                total[layer] += mean / len(texts)
        return {layer: mean.astype(np.float32) for layer, mean in total.items() if layer}

    def _means(self, text: str) -> dict[int, npt.NDArray[np.float64]]:
        data = text.encode()
        tokens = (lib.llama_token * (len(data) + 8))()
        vocab = lib.llama_model_get_vocab(self._model)
        count = min(lib.llama_tokenize(vocab, data, len(data), tokens, len(tokens), True, False), MAX_TOKENS)
        if count < 2:
            raise SRBError(f"{text[:40]!r} is too short for a vector")
        batch = Batch()
        batch.add(0, 0, tokens[:count], want_logits=True)
        lib.llama_memory_clear(lib.llama_get_memory(self._context), False)
        self._sums, self._count = {}, count
        if compute(self._context, self._batch.fill(batch)) is not DecodeStatus.OK:
            raise SRBError(f"{text[:40]!r} could not be computed: {native_log.last_error}")
        return {layer: sums / (count - 1) for layer, sums in self._sums.items()}

    def _take(self, tensor: Any, is_asked: bool, _: Any) -> bool:
        """Say whether a tensor is wanted, and take it when it is computed."""
        found = _OUTPUT.fullmatch(_call("ggml_get_name", ctypes.c_char_p, tensor))
        if found is None or is_asked:
            return found is not None or not is_asked
        size = int(_call("ggml_nbytes", ctypes.c_size_t, tensor))
        if size == 4 * self._size * self._count:  # not the last layer's
            values = np.empty((self._count, self._size), np.float32)
            place = ctypes.c_void_p(values.ctypes.data)
            _call("ggml_backend_tensor_get", None, tensor, place, ctypes.c_size_t(0), ctypes.c_size_t(size))
            self._sums[int(found[1])] = values[1:].sum(axis=0, dtype=np.float64)
        return True


def _call(name: str, returns: Any, tensor: int, *given: Any) -> Any:
    function = getattr(lib.llama_cpp._lib, name)
    function.restype, function.argtypes = returns, None
    return function(ctypes.c_void_p(tensor), *given)


def make(making: Making) -> None:
    """Write the vector. Raise SRBError."""
    layers = Layers(
        Settings(
            model=making.model, n_ctx=MAX_TOKENS, n_batch=MAX_TOKENS, n_seq_max=2, n_gpu_layers=making.n_gpu_layers
        )
    )
    positive, negative = layers.means(making.positive), layers.means(making.negative)
    differences = {layer: mean - negative[layer] for layer, mean in positive.items()}
    directions = {layer: difference - differences.get(layer - 1, 0) for layer, difference in differences.items()}
    if not directions:
        raise SRBError("llama.cpp does not tell what the layers of this kind of model give")
    write_vector(Path(making.path), directions, layers.architecture)


if __name__ == "__main__":
    try:
        make(Making(**orjson.loads(sys.stdin.buffer.read())))
    except (SRBError, OSError) as error:
        sys.exit(getattr(error, "message", str(error)))
