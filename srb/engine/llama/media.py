"""Pictures and sounds as vectors, by llama.cpp's library mtmd and a projector file.

The encoder has a compute context of its own, so it works beside the decodes, which it slows only by sharing cores.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np

from srb.engine.llama.log import native_log
from srb.engine.llama.memory import floats_at
from srb.engine.llama.mrope import NUM_SECTIONS
from srb.engine.llama.strings import string_of
from srb.engine.llama.webp import has_pillow, readable
from srb.engine.media import EncodedFile, Encoder, MediaChunk, Numbers, Sections
from srb.errors import ModelLoadFailed, NotSupported
from srb.host.cores import usable_cores
from srb.progress import IsWanted, always, check_wanted

log = logging.getLogger("srb.llama")

_TEXT, _IMAGE = 0, 1  # enum mtmd_input_chunk_type
_SECTION_ORDER = [0, 2, 1, 3]  # of a mtmd_decoder_pos, which has t, x, y and z
_SAMPLE = 2**20  # bytes of the file's beginning and end that tell projectors apart; reading all takes seconds
_SHORTEST = 1 / 20  # seconds of sound: llama.cpp ends the process over a window or two of some encoders
_TYPE = re.compile(rb"projector_type\x08\0\0\0(.)\0{7}", re.DOTALL)  # a key of GGUF; of its value the kind and length
# Projectors whose pictures begin with a fill up to the end of a group of so many tokens.
_ALIGNED = {"deepseek4v": 4}
# llama.cpp ends the process where one of these projectors or architectures reads a picture without M-RoPE.
_NEED_SECTIONS = frozenset({"hunyuanvl", "glm4", "glm4moe"})

# Of pictures and sounds in prompts, as mtmd writes them and processors of transformers name them; not those that models of
# speech and pictures write in their answers (`<|audio_start|>`).
_TILES = [(row, column) for row in range(1, 11) for column in range(1, 11)]
MARKS = (
    *("<start_of_image>", "<end_of_image>", "<image_soft_token>", "[multimodal]"),  # Gemma 3
    *("<start_of_audio>", "<end_of_audio>", "<audio_soft_token>"),  # Gemma 3n
    *("<|image>", "<image|>", "<|audio>", "<audio|>", "<|image|>", "<|video|>", "<|audio|>"),  # Gemma 4, and Llama 3.2
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<|audio_pad|>"),  # Qwen
    *("<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>", "<|IMAGE|>", "<|VIDEO|>"),
    *("[IMG]", "[IMG_BREAK]", "[IMG_END]", "[AUDIO]", "[BEGIN_AUDIO]"),  # Mistral
    *("<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>", "<|tile_y_separator|>"),  # Llama 4
    *("<|img_thumbnail|>", "<|img_end|>", *(f"<|img_row_{row}_col_{column}|>" for row, column in _TILES)),  # LFM2
    *("<fake_token_around_image>", "<global-img>", *(f"<row_{row}_col_{column}>" for row, column in _TILES)),  # Idefics
    *("<IMG_CONTEXT>", "<img>", "</img>"),  # InternVL
    *("<|media_start|>", "<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|media_pad|>"),  # Kimi
    *("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"),  # GLM
    *("<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<sound>"),  # MiniCPM-V and others
    *("<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>", "<|img|>", "<|imgpad|>", "<|endofimg|>"),  # of OCR
    *("<|image_1|>", "<|endoftext10|>", "<|endoftext11|>"),  # Phi 3.5 and 4
)  # fmt: skip
_TAG = re.compile("</?[a-z]+>")  # that HTML may have: Gemma's vocabulary has it for text


def marks_of(model: Any) -> frozenset[int]:
    """Return the tokens of a model's vocabulary that mark pictures and sounds."""
    vocab, found = lib.llama_model_get_vocab(model), []
    one = (lib.llama_token * 1)()
    for mark in MARKS:
        data = mark.encode()
        if lib.llama_tokenize(vocab, data, len(data), one, 1, False, True) == 1:
            kinds = lib.llama_vocab_get_attr(vocab, one[0])
            if kinds & (
                lib.LLAMA_TOKEN_ATTR_CONTROL | (0 if _TAG.fullmatch(mark) else lib.LLAMA_TOKEN_ATTR_USER_DEFINED)
            ):
                found.append(one[0])
    return frozenset(found)


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
        self.reads_webp = has_pillow()
        self.sees = bool(mtmd.mtmd_support_vision(self._context))
        self.hears = bool(mtmd.mtmd_support_audio(self._context))
        kinds = _types(path)
        self._align = max((_ALIGNED.get(each, 1) for each in kinds), default=1)
        if self._align > 1 and self._has_sections:
            self.refuse("pictures of this projector are not placed as those of the model (M-RoPE) are")
        kinds.add(string_of(lib.llama_model_meta_val_str, model, b"general.architecture"))
        if kinds & _NEED_SECTIONS and not self._has_sections:
            self.refuse(
                "the model's file has no positions for pictures (M-RoPE); convert it anew with today's llama.cpp"
            )
        self.key = _fingerprint(path) + f"{min_tokens},{max_tokens}".encode()

    def refuse(self, reason: str) -> None:
        """Read nothing from now on, for this reason, which the log tells."""
        self.refusal, self.sees, self.hears = reason, False, False
        log.warning("mmproj: %s", reason)

    def encode(self, data: bytes, is_wanted: IsWanted = always) -> EncodedFile:
        mtmd = self._mtmd
        parts: list[list[int] | MediaChunk] = []
        with (
            native_log.muted(),
            self._bitmap(data, is_read=True) as bitmap,
            self._chunks(bitmap) as chunks,
            self._second(bitmap) as second,
        ):
            for chunk in chunks:
                if _is_text(mtmd, chunk):
                    count = ctypes.c_size_t()
                    ids = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
                    parts.append(_known_tokens(list(ids[: count.value])))
                else:
                    check_wanted(is_wanted)
                    parts.append(self._encoded(chunk, next(second, None)))
        return parts

    def count(self, data: bytes, start: int = 0) -> int:
        mtmd, end = self._mtmd, start
        with native_log.muted(), self._bitmap(data, is_read=False) as bitmap, self._chunks(bitmap) as chunks:
            for chunk in chunks:
                is_filled = mtmd.mtmd_input_chunk_get_type(chunk) == _IMAGE
                end += mtmd.mtmd_input_chunk_get_n_tokens(chunk) - (end % self._align if is_filled else 0)
        return end - start

    def _encoded(self, chunk: Any, second: Any | None) -> MediaChunk:
        """Return a chunk's vectors and positions, for which `second` is its like in a second picture (see `_second`)."""
        mtmd, context = self._mtmd, self._context
        count = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        if mtmd.mtmd_encode_chunk(context, chunk) != 0:
            raise ValueError("could not be encoded")
        vectors = floats_at(mtmd.mtmd_get_output_embd(context), count * self._n_inputs)
        if not np.isfinite(vectors).all():  # kept, they would spoil every text about the file
            raise ValueError("could not be encoded: the projector computed something else than numbers")
        is_whole = bool(mtmd.mtmd_decode_use_non_causal(context, chunk))
        sections = self._sections(chunk, second) if second else None
        align = self._align if mtmd.mtmd_input_chunk_get_type(chunk) == _IMAGE else 1
        return MediaChunk(np.array(vectors, np.float32).reshape(count, self._n_inputs), is_whole, sections, align)

    def _sections(self, chunk: Any, second: Any) -> Sections:
        from_zero, from_one, after_another = self._places(chunk, 0), self._places(chunk, 1), self._places(second, 0)
        counting = after_another - from_zero
        count = int(self._mtmd.mtmd_input_chunk_get_n_pos(chunk))
        return Sections(from_zero, from_one - from_zero, count, counting if counting.any() else None)

    def _places(self, chunk: Any, first: int) -> Numbers:
        """Return the positions of a picture's chunk that begins at `first`, shape (4, tokens)."""
        mtmd = self._mtmd
        count = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        places = (mtmd.mtmd_decoder_pos * count)()
        mtmd.mtmd_helper_image_get_decoder_pos(mtmd.mtmd_input_chunk_get_tokens_image(chunk), first, places)
        values = np.frombuffer(places, np.int32).reshape(count, NUM_SECTIONS)
        return np.ascontiguousarray(values[:, _SECTION_ORDER].T)

    @contextmanager
    def _chunks(self, *bitmaps: Any) -> Iterator[list[Any]]:
        """Yield the chunks of files, one after the other."""
        mtmd, context = self._mtmd, self._context
        with _chunk_list(mtmd) as chunks:
            marks = self._marker * len(bitmaps)
            text = mtmd.mtmd_input_text(marks, len(marks), False, True)
            array = (ctypes.c_void_p * len(bitmaps))(*bitmaps)
            if mtmd.mtmd_tokenize(context, chunks, ctypes.byref(text), array, len(bitmaps)) != 0:
                raise ValueError("cannot be prepared for the model: it is too small, too short or damaged")
            yield [mtmd.mtmd_input_chunks_get(chunks, place) for place in range(mtmd.mtmd_input_chunks_size(chunks))]

    @contextmanager
    def _second(self, bitmap: Any) -> Iterator[Iterator[Any]]:
        """Yield the chunks, without pixels, that a picture would have as the second of a prompt.

        None for a sound, nor for a model without M-RoPE, whose tokens have one position each.
        """
        mtmd = self._mtmd
        if not self._has_sections or mtmd.mtmd_bitmap_is_audio(bitmap):
            yield iter(())
            return
        blank = mtmd.mtmd_bitmap_init(mtmd.mtmd_bitmap_get_nx(bitmap), mtmd.mtmd_bitmap_get_ny(bitmap), None)
        try:
            with self._chunks(blank, blank) as both:
                pictures = [chunk for chunk in both if not _is_text(mtmd, chunk)]
                yield iter(pictures[len(pictures) // 2 :])
        finally:
            mtmd.mtmd_bitmap_free(blank)

    @contextmanager
    def _bitmap(self, data: bytes, *, is_read: bool) -> Iterator[Any]:
        """Yield a file's bitmap, whose pixels or samples are there to be encoded only if it `is_read`."""
        mtmd, context, data = self._mtmd, self._context, readable(data)
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmap = mtmd.mtmd_helper_bitmap_init_from_buf(context, buffer, len(data), not is_read)
        if not bitmap:
            raise ValueError("is damaged: it cannot be decoded")
        try:
            if mtmd.mtmd_bitmap_is_audio(bitmap):
                fewest = int(_SHORTEST * mtmd.mtmd_get_audio_sample_rate(context))
                if mtmd.mtmd_bitmap_get_nx(bitmap) < fewest:
                    raise ValueError(f"is too short: a sound has {_SHORTEST:g} seconds at least")
            yield bitmap
        finally:
            mtmd.mtmd_bitmap_free(bitmap)

    def close(self) -> None:
        """Free the projector; may be called again."""
        if self._context:
            self._mtmd.mtmd_free(self._context)
            self._context = None


def _is_text(mtmd: Any, chunk: Any) -> bool:
    return bool(mtmd.mtmd_input_chunk_get_type(chunk) == _TEXT)


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


def _known_tokens(tokens: list[int]) -> list[int]:
    """Return tokens that mtmd has put beside pictures. Raise NotSupported if the vocabulary lacks one of them."""
    if min(tokens, default=0) < 0:
        raise NotSupported("the model's vocabulary lacks a token that its projector puts beside pictures")
    return tokens


def _types(path: Path) -> set[str]:
    """Return the types of a projector's encoders, as its file names them."""
    with path.open("rb") as file:
        beginning = file.read(_SAMPLE)
    found = _TYPE.finditer(beginning)
    return {beginning[key.end() : key.end() + key[1][0]].decode("utf-8", "replace") for key in found}


def _fingerprint(path: Path) -> bytes:
    """Return a hash of a file's size, beginning and end, where projectors differ."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        digest = hashlib.sha256(size.to_bytes(8, "big") + file.read(_SAMPLE))
        file.seek(max(0, size - _SAMPLE))
        digest.update(file.read())
    return digest.digest()
