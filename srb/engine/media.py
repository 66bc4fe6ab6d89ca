"""Media in prompts: pictures and sounds as runs of positions, each encoded once.

A run has tokens as text has, so the prefix tree finds, forks, parks and restores it like text. They are negative, which
no token of a vocabulary is, and follow from a hash of the file and of the projector, so equal runs are equal media.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from srb.engine.tokens import Tokens, tokens_of
from srb.errors import NotSupported, bad_field, in_field
from srb.files.media_files import MediaKind, kind_of
from srb.progress import IsWanted, always

Vectors = npt.NDArray[np.float32]  # one for each token, shape (tokens, n)
Numbers = npt.NDArray[np.int32]

MAX_CHECKED = 4096  # files that are remembered as sound, by 32 bytes each
CACHE_BYTES = 256 * 2**20  # of vectors, beside those that requests hold; 576 tokens of 4096 numbers take 9 MiB


@dataclass(frozen=True, slots=True, eq=False)
class Sections:
    """The positions of a chunk in a model with M-RoPE: four for each token, t, y, x and z.

    The arrays have the shape (4, tokens): positions where the chunk begins at 0, and 1 for each that moves with the
    beginning, else 0; likewise 1 for each that counts the pictures before the chunk's own (HunyuanVL).
    """

    from_zero: Numbers
    moving: Numbers
    count: int  # positions that the chunk takes: the text after it goes on so far behind its beginning
    counting: Numbers | None = None  # None: none counts them

    def at(self, first: int, pictures: int = 0) -> Numbers:
        """Return the positions, shape (4, tokens), of a chunk that begins at `first` behind `pictures` of its prompt."""
        places = self.from_zero + first * self.moving
        return places if self.counting is None else places + pictures * self.counting


@dataclass(frozen=True, slots=True, eq=False)
class MediaChunk:
    """The vectors of one picture, tile of a picture, or part of a sound.

    The positions of a *whole* chunk see each other, so they are computed in one decode. A chunk that is *aligned* (DeepSeek
    V4) begins with a fill, of `align` − 1 vectors at a prompt's beginning and fewer elsewhere, so that what follows the
    fill always stands at the same place of a group of `align` tokens.
    """

    vectors: Vectors
    is_whole: bool
    sections: Sections | None = None  # None: one position for each token, one after the other
    align: int = 1

    def unfilled(self, start: int) -> int:
        """Return how many of its first vectors the chunk goes without where it begins at `start`."""
        return start % self.align

    def without(self, count: int) -> "MediaChunk":
        """Return the chunk without so many of its first vectors."""
        return MediaChunk(self.vectors[count:], self.is_whole, self.sections) if count else self

    @property
    def num_positions(self) -> int:
        """Number of positions that the chunk takes in its text, at most one for each token."""
        return len(self) if self.sections is None else self.sections.count

    def __len__(self) -> int:
        return len(self.vectors)


# A file as a model reads it: tokens of text, such as the marks of its beginning and end, and chunks.
EncodedFile = Sequence[list[int] | MediaChunk]


class Encoder:
    """A model's encoder of media files. Safe from any thread; `encode` is called by one at a time."""

    sees: bool  # pictures
    hears: bool  # sounds
    refusal: str = ""  # why it reads nothing at all
    reads_webp = False  # pictures in WebP, too
    key: bytes  # a hash of all that the vectors depend on, beside the file

    def encode(self, data: bytes, is_wanted: IsWanted = always) -> EncodedFile:
        """Encode a file whose header is sound. Raise ValueError if it is damaged.

        Raise Cancelled before a chunk if the file `is_wanted` no more.
        """
        raise NotImplementedError

    def count(self, data: bytes, start: int = 0) -> int:
        """Return the number of tokens that a file takes which begins at `start`, without the work of `encode`.

        Raise ValueError as `encode` does.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class MediaRun:
    """A chunk's place in a prompt: the positions `start` … `end` − 1."""

    start: int
    chunk: MediaChunk
    kind: MediaKind
    pictures: int = 0  # that stand before the run's own in the prompt

    @property
    def end(self) -> int:
        return self.start + len(self.chunk)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    kind: MediaKind
    parts: list[tuple[Tokens, MediaChunk | None]]
    size: int  # bytes of vectors


class MediaFiles:
    """Files of prompts as tokens and chunks. The vectors of the files that were used last are kept."""

    def __init__(
        self, encoder: Encoder | None, cache_bytes: int = CACHE_BYTES, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`clock` returns seconds, by which encoding is measured."""
        self._encoder = encoder
        self._clock = clock
        self._budget = cache_bytes
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._size = 0
        self._known_lock = threading.Lock()
        self._encoding = threading.Lock()  # one file at a time, so that equal ones are encoded once
        self._sound: OrderedDict[bytes, MediaKind] = OrderedDict()  # files that passed the checks, by their hash
        self._sound_lock = threading.Lock()
        self.encoded_total = 0  # files
        self._reused_total = 0  # files whose vectors were kept
        self._encode_seconds = 0.0

    def stats(self) -> dict[str, float]:
        """Return counters (`…_total`) and gauges by name."""
        return {
            "media_encoded_total": self.encoded_total,
            "media_reused_total": self._reused_total,
            "media_encode_seconds_total": self._encode_seconds,
            "media_cache_bytes": self._size,
        }

    def append_to(
        self, tokens: Tokens, data: bytes, field: str, pictures: int = 0, is_wanted: IsWanted = always
    ) -> list[MediaRun]:
        """Append a file's tokens to those of a prompt, which has so many pictures; return the runs among them.

        Raise NotSupported or InvalidRequest, which name `field`, or Cancelled if the file `is_wanted` no more.
        """
        known, runs = self._file(data, field, is_wanted), []
        for part, chunk in known.parts:
            if chunk is not None:
                unfilled = chunk.unfilled(len(tokens))
                runs.append(MediaRun(len(tokens), chunk.without(unfilled), known.kind, pictures))
                part = part[unfilled:]
            tokens.extend(part)
        return runs

    def count(self, data: bytes, field: str, start: int = 0) -> int:
        """Return the number of tokens of a file that begins at `start`; it is not encoded.

        Raise InvalidRequest.
        """
        encoder, _, key = self._checked(data, field)
        with self._known_lock:
            known = self._known.get(key)
        if known is not None:
            end = start
            for part, chunk in known.parts:
                end += len(part) - (chunk.unfilled(end) if chunk is not None else 0)
            return end - start
        with in_field(field):
            return encoder.count(data, start)

    def knows(self, data: bytes, field: str) -> bool:
        """Whether a file needs no encoding now. Raise NotSupported or InvalidRequest, which name `field`."""
        _, _, key = self._checked(data, field)
        with self._known_lock:
            return key in self._known

    def _checked(self, data: bytes, field: str) -> tuple[Encoder, MediaKind, bytes]:
        """Return the encoder of a file whose header is sound, its kind and its key. Raise NotSupported or InvalidRequest."""
        encoder = self._encoder
        if encoder is None:
            raise bad_field(
                field,
                "this server reads text only; start it with --mmproj FILE, the model's projector, for pictures and sounds",
            )
        if encoder.refusal:
            raise NotSupported(f"Field '{field}': {encoder.refusal}", param=field)
        digest = hashlib.sha256(data).digest()
        with in_field(field):
            kind = self._kind(data, digest, encoder.reads_webp)
        if not getattr(encoder, "sees" if kind == "image" else "hears"):
            raise bad_field(field, f"the projector reads no {kind}")
        return encoder, kind, hashlib.sha256(encoder.key + digest).digest()

    def _file(self, data: bytes, field: str, is_wanted: IsWanted) -> _Known:
        encoder, kind, key = self._checked(data, field)
        known = self._reused(key)
        if known is None:
            with self._encoding:
                known = self._reused(key)  # encoded meanwhile
                if known is None:
                    known = self._encoded(key, kind, lambda: encoder.encode(data, is_wanted), field)
        return known

    def _reused(self, key: bytes) -> _Known | None:
        with self._known_lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                self._reused_total += 1
        return known

    def _encoded(self, key: bytes, kind: MediaKind, encode: Callable[[], EncodedFile], field: str) -> _Known:
        began = self._clock()
        try:
            with in_field(field):
                known = _known(key, kind, encode())
        finally:
            self._encode_seconds += self._clock() - began
        with self._known_lock:
            self.encoded_total += 1
            self._size += known.size
            self._known[key] = known
            while self._size > self._budget and len(self._known) > 1:
                self._size -= self._known.popitem(last=False)[1].size
        return known

    def _kind(self, data: bytes, digest: bytes, reads_webp: bool) -> MediaKind:
        """Return a file's kind, from the checks of earlier if the file is one of the last. Raise ValueError.

        A conversation brings its files again with each turn, and a PNG is checked by unpacking it.
        """
        with self._sound_lock:
            kind = self._sound.pop(digest, None)
        if kind is None:
            kind = kind_of(data, reads_webp)
        with self._sound_lock:
            self._sound[digest] = kind
            if len(self._sound) > MAX_CHECKED:
                self._sound.popitem(last=False)
        return kind


def _known(key: bytes, kind: MediaKind, parts: EncodedFile) -> _Known:
    known: list[tuple[Tokens, MediaChunk | None]] = []
    for place, part in enumerate(parts):
        if isinstance(part, MediaChunk):
            known.append((media_tokens(key + place.to_bytes(4), len(part)), part))
        else:
            known.append((tokens_of(part), None))
    return _Known(kind, known, sum(part.vectors.nbytes for part in parts if isinstance(part, MediaChunk)))


def media_tokens(key: bytes, count: int) -> Tokens:
    """Return `count` tokens below −1 that stand for the medium with this key: 31 bits of a hash each."""
    bits = np.frombuffer(hashlib.shake_256(key).digest(4 * count), np.int32) | np.int32(-(2**31))
    return tokens_of(np.minimum(bits, -2).tolist())
