"""Media in prompts: pictures and sounds as runs of positions, each encoded once.

A run has tokens as text has, so the prefix tree finds, forks, parks and restores it like text. They are negative, which
no token of a vocabulary is, and follow from a hash of the file and of the projector, so equal runs are equal media.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from srb.engine.tokens import Tokens, tokens_of
from srb.errors import NotSupported, bad_field
from srb.media_files import kind_of

Vectors = npt.NDArray[np.float32]  # shape (tokens, inputs of the model)

CACHE_BYTES = 256 * 2**20  # of vectors, beside those that requests hold; 576 tokens of 4096 numbers take 9 MiB


@dataclass(frozen=True, slots=True, eq=False)
class MediaChunk:
    """The vectors of one picture, tile of a picture, or part of a sound.

    The positions of a *whole* chunk see each other, so they are computed in one decode.
    """

    vectors: Vectors
    is_whole: bool

    def __len__(self) -> int:
        return len(self.vectors)


# A file as a model reads it: tokens of text, such as the marks of its beginning and end, and chunks.
EncodedFile = Sequence[list[int] | MediaChunk]


class Encoder:
    """A model's encoder of media files. Safe from any thread; `encode` is called by one at a time."""

    sees: bool  # pictures
    hears: bool  # sounds
    refusal: str = ""  # why it reads nothing at all
    key: bytes  # a hash of all that the vectors depend on, beside the file

    def encode(self, data: bytes) -> EncodedFile:
        """Encode a file whose header is sound. Raise ValueError if it is damaged."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class MediaRun:
    """A chunk's place in a prompt: the positions `start` … `end` − 1."""

    start: int
    chunk: MediaChunk

    @property
    def end(self) -> int:
        return self.start + len(self.chunk)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    parts: list[tuple[Tokens, MediaChunk | None]]
    size: int  # bytes of vectors


class MediaFiles:
    """Files of prompts as tokens and chunks. The vectors of the files that were used last are kept."""

    def __init__(self, encoder: Encoder | None, cache_bytes: int = CACHE_BYTES) -> None:
        self._encoder = encoder
        self._budget = cache_bytes
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._size = 0
        self._encoding = threading.Lock()  # one file at a time, so that equal ones are encoded once
        self.encoded_total = 0

    def append_to(self, tokens: Tokens, data: bytes, field: str) -> list[MediaRun]:
        """Append a file's tokens to those of a prompt; return the runs among them.

        Raise NotSupported or InvalidRequest, which name `field`.
        """
        known, runs = self._file(data, field), []
        for part, chunk in known.parts:
            if chunk is not None:
                runs.append(MediaRun(len(tokens), chunk))
            tokens.extend(part)
        return runs

    def _file(self, data: bytes, field: str) -> _Known:
        encoder = self._encoder
        if encoder is None:
            raise NotSupported(
                f"Field '{field}': this server reads text only; start it with --mmproj FILE, the model's projector, "
                "for pictures and sounds",
                param=field,
            )
        if encoder.refusal:
            raise NotSupported(f"Field '{field}': {encoder.refusal}", param=field)
        try:
            kind = kind_of(data)
        except ValueError as error:
            raise bad_field(field, str(error)) from None
        if not getattr(encoder, "sees" if kind == "image" else "hears"):
            raise NotSupported(f"Field '{field}': the projector reads no {kind}", param=field)
        key = hashlib.sha256(encoder.key + hashlib.sha256(data).digest()).digest()
        with self._encoding:
            known = self._known.pop(key, None)
            if known is None:
                try:
                    known = _known(key, encoder.encode(data))
                except ValueError as error:
                    raise bad_field(field, str(error)) from None
                self.encoded_total += 1
                self._size += known.size
            self._known[key] = known
            while self._size > self._budget and len(self._known) > 1:
                self._size -= self._known.popitem(last=False)[1].size
        return known


def _known(key: bytes, parts: EncodedFile) -> _Known:
    known: list[tuple[Tokens, MediaChunk | None]] = []
    for place, part in enumerate(parts):
        if isinstance(part, MediaChunk):
            known.append((media_tokens(key + place.to_bytes(4), len(part)), part))
        else:
            known.append((tokens_of(part), None))
    return _Known(known, sum(part.vectors.nbytes for part in parts if isinstance(part, MediaChunk)))


def media_tokens(key: bytes, count: int) -> Tokens:
    """Return `count` tokens below −1 that stand for the medium with this key: 31 bits of a hash each."""
    bits = np.frombuffer(hashlib.shake_256(key).digest(4 * count), np.int32) | np.int32(-(2**31))
    return tokens_of(np.minimum(bits, -2).tolist())
