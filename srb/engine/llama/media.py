"""Pictures and sounds as vectors, by llama.cpp's library mtmd and a projector file.

The encoder has a compute context of its own, so it works beside the decodes, which it slows only by sharing cores.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.cores import usable_cores
from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.llama.sections import NUM_SECTIONS
from srb.engine.media import EncodedFile, Encoder, MediaChunk, Sections
from srb.errors import ModelLoadFailed

log = logging.getLogger("srb.llama")

_TEXT = 0  # enum mtmd_input_chunk_type
_SECTION_ORDER = [0, 2, 1, 3]  # of a mtmd_decoder_pos, which has t, x, y and z
_SAMPLE = 2**20  # bytes of the file's beginning and end that tell projectors apart
# Projectors of pictures whose tokens depend on where they stand: how many there are, or which picture of the prompt it is.
_BY_PLACE = (b"deepseek4v", b"hunyuanvl")


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
        self._has_sections = bool(mtmd.mtmd_decode_use_mrope(self._context))
        self.sees = bool(mtmd.mtmd_support_vision(self._context))
        self.hears = bool(mtmd.mtmd_support_audio(self._context))
        if _names_one_of(path, _BY_PLACE):
            self.refuse("the model's pictures depend on their place in the prompt, which is not supported")
        self.key = _fingerprint(path) + f"{min_tokens},{max_tokens}".encode()

    def refuse(self, reason: str) -> None:
        """Read nothing from now on, for this reason, which the log tells."""
        self.refusal, self.sees, self.hears = reason, False, False
        log.warning("mmproj: %s", reason)

    def encode(self, data: bytes) -> EncodedFile:
        mtmd = self._mtmd
        parts: list[list[int] | MediaChunk] = []
        with native_log.muted(), self._chunks(data, is_read=True) as chunks:
            for chunk in chunks:
                if mtmd.mtmd_input_chunk_get_type(chunk) == _TEXT:
                    count = ctypes.c_size_t()
                    ids = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    parts.append(list(ids[: count.value]))
                else:
                    parts.append(self._encoded(chunk))
        return parts

    def count(self, data: bytes) -> int:
        with native_log.muted(), self._chunks(data, is_read=False) as chunks:
            return sum(self._mtmd.mtmd_input_chunk_get_n_tokens(chunk) for chunk in chunks)

    def _encoded(self, chunk: Any) -> MediaChunk:
        mtmd, context = self._mtmd, self._context
        count = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd.mtmd_encode_chunk(context, chunk) != 0:
            raise ValueError("could not be encoded")
        vectors = floats_at(mtmd.mtmd_get_output_embd(context), count * self._n_inputs)
        is_whole = bool(mtmd.mtmd_decode_use_non_causal(context, chunk))
        sections = self._sections(chunk, count) if self._has_sections else None
        return MediaChunk(np.array(vectors, np.float32).reshape(count, self._n_inputs), is_whole, sections)

    def _sections(self, chunk: Any, count: int) -> Sections | None:
        """Return the positions of a chunk; None for a sound, whose tokens have one each."""
        mtmd = self._mtmd
        tokens = mtmd.mtmd_input_chunk_get_tokens_image(chunk)
        if not tokens:
            return None
        at = [np.empty((NUM_SECTIONS, count), np.int32) for _ in range(2)]
        for first, sections in enumerate(at):
            places = (mtmd.mtmd_decoder_pos * count)()
            mtmd.mtmd_helper_image_get_decoder_pos(tokens, first, places)
            values = np.frombuffer(places, np.int32).reshape(count, NUM_SECTIONS)
            sections[:] = values[:, _SECTION_ORDER].T
        return Sections(at[0], at[1] - at[0], int(mtmd.mtmd_input_chunk_get_n_pos(chunk)))

    @contextmanager
    def _chunks(self, data: bytes, *, is_read: bool) -> Iterator[list[Any]]:
        """Yield the chunks of a file, whose pixels or samples are there to be encoded only if it `is_read`."""
        mtmd, context = self._mtmd, self._context
        with self._bitmap(data, is_read=is_read) as bitmap, _chunk_list(mtmd) as chunks:
            text = mtmd.mtmd_input_text(self._marker, len(self._marker), False, True)
            bitmaps = (ctypes.c_void_p * 1)(bitmap)
            if mtmd.mtmd_tokenize(context, chunks, ctypes.byref(text), bitmaps, 1) != 0:
                raise ValueError("cannot be prepared for the model: it is too small, too short or damaged")
            yield [mtmd.mtmd_input_chunks_get(chunks, place) for place in range(mtmd.mtmd_input_chunks_size(chunks))]

    @contextmanager
    def _bitmap(self, data: bytes, *, is_read: bool) -> Iterator[Any]:
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmap = self._mtmd.mtmd_helper_bitmap_init_from_buf(self._context, buffer, len(data), not is_read)
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
def _chunk_list(mtmd: Any) -> Iterator[Any]:
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


def _names_one_of(path: Path, projectors: Sequence[bytes]) -> bool:
    with path.open("rb") as file:
        beginning = file.read(_SAMPLE)
    return any(name in beginning for name in projectors)


def _fingerprint(path: Path) -> bytes:
    """Return a hash of a file's size, beginning and end, where projectors differ."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        digest = hashlib.sha256(size.to_bytes(8, "big") + file.read(_SAMPLE))
        file.seek(max(0, size - _SAMPLE))
        digest.update(file.read())
    return digest.digest()
