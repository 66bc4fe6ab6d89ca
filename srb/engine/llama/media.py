"""Pictures and sounds as vectors, by llama.cpp's library mtmd and a projector file.

The encoder has a compute context of its own, so it works beside the decodes, which it slows only by sharing cores.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.cores import usable_cores
from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.media import EncodedFile, Encoder, MediaChunk
from srb.errors import ModelLoadFailed

log = logging.getLogger("srb.llama")

_TEXT = 0  # enum mtmd_input_chunk_type
_SAMPLE = 2**20  # bytes of the file's beginning and end that tell projectors apart
_BY_PLACE = b"deepseek4v"  # a projector whose number of tokens depends on where the picture stands


class LlamaEncoder(Encoder):
    """One projector beside a model; `refusal` says why it reads nothing, if it does not."""

    def __init__(self, path: Path, model: Any, *, on_gpu: bool, min_tokens: int = -1, max_tokens: int = -1) -> None:
        """Load the projector of `model`. Raise ModelLoadFailed, in one line."""
        self._mtmd = mtmd = _library()
        mtmd.mtmd_helper_log_set(native_log.callback, ctypes.c_void_p(0))
        params = mtmd.mtmd_context_params_default()
        params.use_gpu = on_gpu
        params.print_timings = False
        params.n_threads = max(1, usable_cores() // 2)  # decodes need theirs
        params.image_min_tokens, params.image_max_tokens = min_tokens, max_tokens
        native_log.forget_error()
        self._context = mtmd.mtmd_init_from_file(str(path).encode(), model, params)
        if not self._context:
            reason = " ".join(native_log.first_error.split())
            raise ModelLoadFailed(f"mmproj: {path} cannot be loaded, or is not of this model: {reason}")
        self._n_inputs: int = lib.llama_model_n_embd_inp(model)
        self._marker: bytes = mtmd.mtmd_get_marker(self._context)
        self.refusal = self._refusal(path)
        self.sees = not self.refusal and bool(mtmd.mtmd_support_vision(self._context))
        self.hears = not self.refusal and bool(mtmd.mtmd_support_audio(self._context))
        self.key = _fingerprint(path) + f"{min_tokens},{max_tokens}".encode()

    def _refusal(self, path: Path) -> str:
        if self._mtmd.mtmd_decode_use_mrope(self._context):
            return "the model's pictures have positions of several dimensions (M-RoPE), which are not supported"
        with path.open("rb") as file:
            if _BY_PLACE in file.read(_SAMPLE):
                return "the model's pictures depend on their place in the prompt, which is not supported"
        return ""

    def encode(self, data: bytes) -> EncodedFile:
        mtmd, context = self._mtmd, self._context
        parts: list[list[int] | MediaChunk] = []
        with native_log.muted(), self._bitmap(data) as bitmap, _chunks(mtmd) as chunks:
            text = mtmd.mtmd_input_text(self._marker, len(self._marker), False, True)
            bitmaps = (ctypes.c_void_p * 1)(bitmap)
            if mtmd.mtmd_tokenize(context, chunks, ctypes.byref(text), bitmaps, 1) != 0:
                raise ValueError("cannot be prepared for the model: it is too small, too short or damaged")
            for place in range(mtmd.mtmd_input_chunks_size(chunks)):
                chunk = mtmd.mtmd_input_chunks_get(chunks, place)
                if mtmd.mtmd_input_chunk_get_type(chunk) == _TEXT:
                    count = ctypes.c_size_t()
                    ids = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    parts.append(list(ids[: count.value]))
                else:
                    parts.append(self._encoded(chunk))
        return parts

    def _encoded(self, chunk: Any) -> MediaChunk:
        mtmd, context = self._mtmd, self._context
        count = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd.mtmd_encode_chunk(context, chunk) != 0:
            raise ValueError("could not be encoded")
        vectors = floats_at(mtmd.mtmd_get_output_embd(context), count * self._n_inputs)
        is_whole = bool(mtmd.mtmd_decode_use_non_causal(context, chunk))
        return MediaChunk(np.array(vectors, np.float32).reshape(count, self._n_inputs), is_whole)

    @contextmanager
    def _bitmap(self, data: bytes) -> Iterator[Any]:
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmap = self._mtmd.mtmd_helper_bitmap_init_from_buf(self._context, buffer, len(data), False)
        if not bitmap:
            raise ValueError("is damaged: it cannot be decoded")
        try:
            yield bitmap
        finally:
            self._mtmd.mtmd_bitmap_free(bitmap)

    def close(self) -> None:
        """Free the projector; may be called again."""
        if self._context:
            self._mtmd.mtmd_free(self._context)
            self._context = None


@contextmanager
def _chunks(mtmd: Any) -> Iterator[Any]:
    chunks = mtmd.mtmd_input_chunks_init()
    try:
        yield chunks
    finally:
        mtmd.mtmd_input_chunks_free(chunks)


def _library() -> Any:
    """Return llama-cpp-python's binding of mtmd. Raise ModelLoadFailed if it was built without."""
    try:
        import llama_cpp.mtmd_cpp as mtmd
    except (ImportError, OSError, RuntimeError, FileNotFoundError):
        raise ModelLoadFailed(
            "mmproj: llama-cpp-python was built without mtmd, which reads pictures and sounds; "
            "install it with -DLLAVA_BUILD=ON in CMAKE_ARGS (docs/deploy.md)"
        ) from None
    return mtmd


def _fingerprint(path: Path) -> bytes:
    """Return a hash of a file's size, beginning and end, where projectors differ."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        digest = hashlib.sha256(size.to_bytes(8, "big") + file.read(_SAMPLE))
        file.seek(max(0, size - _SAMPLE))
        digest.update(file.read())
    return digest.digest()
