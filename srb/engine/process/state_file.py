"""The file of a named state: a prompt's KV, for later requests and later runs of the server.

It has a magic, the text's entry (`text_entry`, as in the index of texts), whose facts have the model's fingerprint and the
save, and then the KV and the logits of the last token (float32). A file that does not match is refused, and its prompt is
computed. Nothing is copied, since a state may fill most of the memory.
"""

import hashlib
import zlib
from array import array
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from srb.engine.model import SavedState, Scope
from srb.files.text_entry import FRAME, MAGIC, MAX_ENTRY, StateError, TextEntry, framed, packed, read_header

_SAMPLES, _SAMPLE_BYTES = 64, 16384  # of a model's file: to read 100 GB takes minutes at each start

_DAMAGED = "it is damaged: its checksum does not fit"
NO_ID = "0" * 32  # a state is a whole text, of no index

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
    parts = _parts(state)
    facts = {"model": fingerprint, "automatic": is_automatic, "saved": saved, "logits": len(state.logits)}
    facts |= {"lora": state.scope.lora, "salt": state.scope.salt, "mood": state.scope.mood}
    checksum = zlib.crc32(parts[1].data, zlib.crc32(parts[0].data))
    entry = TextEntry(NO_ID, "", 0, len(state.tokens), sum(map(len, parts)), checksum, orjson.dumps(facts))
    return MAGIC + framed(packed(entry, np.asarray(state.tokens, np.int32).tobytes()))


def file_size(state: SavedState, header: bytes) -> int:
    return len(header) + 4 * len(state.logits) + len(state.blob)


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
    known: TextEntry = header["entry"]
    file.seek(len(MAGIC))
    length, checksum = FRAME.unpack(file.read(FRAME.size))
    entry = file.read(min(length, MAX_ENTRY))
    left = file.seek(0, 2) - len(MAGIC) - FRAME.size - length
    is_whole = len(entry) == length and zlib.crc32(entry) == checksum
    if not is_whole or left != known.nbytes or 4 * known.count > length:  # checked before memory is allocated
        raise StateError(_DAMAGED)
    file.seek(len(MAGIC) + FRAME.size + length)
    body = np.empty(known.nbytes, np.uint8)
    if file.readinto(body) != len(body) or zlib.crc32(body.data) != known.checksum:  # type: ignore[attr-defined]
        raise StateError(_DAMAGED)  # perhaps another process has truncated it since
    tokens = array("i")
    tokens.frombytes(entry[length - 4 * known.count :])
    end = known.nbytes - 4 * header["logits"]
    scope = Scope(header["lora"], header["salt"], header["mood"])
    return SavedState(tokens, body[:end], body[end:].copy().view(np.float32), scope)


def _parts(state: SavedState) -> tuple[Bytes, Bytes]:
    """Return the bytes behind the entry: KV and logits."""
    logits = np.ascontiguousarray(state.logits, np.float32)
    return np.ascontiguousarray(state.blob), logits.view(np.uint8)
