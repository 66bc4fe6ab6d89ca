"""The file of a named state: a prompt's KV, for later requests and later runs of the server.

A file is a magic, the length of a JSON header, the header, the tokens (int32), the logits of the last token (float32)
and the saved KV. The header has the format's version, the model's fingerprint and a checksum. A file that does not
match is refused, and its prompt is computed. Nothing is copied, since a state may fill most of the memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from srb.engine.model import SavedState, Scope
from srb.engine.tokens import tokens_of
from srb.files.state_header import MAGIC, VERSION, StateError, read_header

_SAMPLES, _SAMPLE_BYTES = 64, 16384  # of a model's file: to read 100 GB takes minutes at each start

Bytes = npt.NDArray[np.uint8]


def model_fingerprint(path: Path, *context: str) -> str:
    """Return a fingerprint of a model file: its size, samples of its bytes, and `context` (cell types, adapters)."""
    size = path.stat().st_size
    digest = hashlib.blake2b(repr((size, context)).encode(), digest_size=16)
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def header_of(state: SavedState, fingerprint: str, is_automatic: bool = False, saved: int = 0) -> bytes:
    """Return the beginning of a state's file; `is_automatic`: no client asked for it, so it may be removed.

    `saved` is the number of the save, larger than those of earlier saves of its name.
    """
    header = orjson.dumps(
        {
            "version": VERSION,
            "model": fingerprint,
            "tokens": len(state.tokens),
            "logits": len(state.logits),
            "bytes": len(state.blob),
            "lora": state.scope.lora,
            "salt": state.scope.salt,
            "checksum": _checksum(_parts(state)),
            "automatic": is_automatic,
            "saved": saved,
        }
    )
    return MAGIC + len(header).to_bytes(4, "little") + header


def file_size(state: SavedState, header: bytes) -> int:
    return len(header) + 4 * (len(state.tokens) + len(state.logits)) + len(state.blob)


def write_state(file: BinaryIO, header: bytes, state: SavedState) -> None:
    """Write a state's file. Raise OSError."""
    file.write(header)
    for part in _parts(state):
        file.write(part.data)


def read_state(file: BinaryIO, fingerprint: str) -> SavedState:
    """Read a state's file. Raise OSError, or StateError with the reason if this model cannot use it."""
    header = read_header(file)
    if header["model"] != fingerprint:
        raise StateError("it was saved with another model or other cell types")
    body = file.tell()
    left = file.seek(0, 2) - body
    damaged = StateError("it is damaged: its checksum does not fit")
    if left != 4 * (header["tokens"] + header["logits"]) + header["bytes"]:  # checked before memory is allocated
        raise damaged
    file.seek(body)
    tokens = np.empty(header["tokens"], np.int32)
    logits = np.empty(header["logits"], np.float32)
    blob = np.empty(header["bytes"], np.uint8)
    parts = [tokens.view(np.uint8), logits.view(np.uint8), blob]
    if [file.readinto(part) for part in parts] != [len(part) for part in parts]:  # type: ignore[attr-defined]
        raise damaged  # another process has truncated it since
    if _checksum(iter(parts)) != header["checksum"]:
        raise damaged
    return SavedState(tokens_of(tokens.tolist()), blob, logits, Scope(header["lora"], header["salt"]))


def _parts(state: SavedState) -> Iterator[Bytes]:
    """Yield the body's bytes."""
    yield np.asarray(state.tokens, np.int32).view(np.uint8)
    yield np.ascontiguousarray(state.logits, np.float32).view(np.uint8)
    yield np.ascontiguousarray(state.blob)


def _checksum(parts: Iterator[Bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.data)
    return digest.hexdigest()
