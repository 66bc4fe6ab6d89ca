"""The file of a named state: the records of a text, for later requests, later runs and other engines.

It has a magic, facts as JSON (`text_entry.read_header`), the text's records, each behind its parent: the entry that the
index of texts has of it, and the KV; and the logits of the text's last token (float32), if they are known. Records are
copied from the folder of texts, and to it before the text is used; the first of them stay in memory for that use. A file
that does not match is refused, and its prompt is computed.
"""

import struct
from typing import BinaryIO

import numpy as np
import orjson

from srb.engine.model import Blob, Record, SavedState, Scope
from srb.engine.process.text_folder import TextFolder
from srb.engine.process.text_index import record_of
from srb.engine.tokens import Tokens, tokens_of
from srb.files.text_entry import DAMAGED, FRAME, MAGIC, StateError, framed, read_framed, read_header

_AT_HAND = 256 * 1024 * 1024  # bytes of KV that are in memory from a file on; more are read when they are used


def header_of(model: str, state: SavedState, is_automatic: bool, saved: int) -> bytes:
    """Return the beginning of a state's file; `is_automatic`: no client asked for it, so it may be removed.

    `saved` is the number of the save, larger than those of earlier saves of its name.
    """
    facts = {"model": model, "tokens": len(state.tokens), "records": len(state.records)}
    return MAGIC + framed(orjson.dumps({**facts, "automatic": is_automatic, "saved": saved}))


def size_of(state: SavedState, texts: TextFolder) -> int:
    """Return how many bytes a state's file has behind its header."""
    return sum(map(texts.size, state.records)) + FRAME.size + (0 if state.logits is None else state.logits.nbytes)


def write_state(file: BinaryIO, header: bytes, state: SavedState, texts: TextFolder) -> None:
    """Write a state's file. Raise OSError."""
    file.write(header)
    for record in state.records:
        texts.export(record.id, file)
    file.write(framed(b"" if state.logits is None else np.ascontiguousarray(state.logits, np.float32).tobytes()))


def read_state(file: BinaryIO, model: str, texts: TextFolder) -> tuple[SavedState, int]:
    """Read a state's file, whose KV is in `texts` then; return it with the number of its save.

    Raise OSError, or StateError with the reason if this model cannot use it.
    """
    header = read_header(file)
    if header["model"] != model:
        raise StateError("it was saved with another model, another build of llama.cpp or other cell types")
    records, parts, blobs, left = list[Record](), list[Tokens](), list[Blob | None](), _AT_HAND
    text, ends, scopes = tokens_of(()), {"": 0}, dict[bytes, tuple[Scope, str]]()
    for _ in range(header["records"]):
        try:
            record, tokens, checksum = record_of(read_framed(file), scopes)
        except (ValueError, TypeError, struct.error):
            raise StateError(DAMAGED) from None
        has_place = record.parent in ends and record.start <= min(len(text), ends[record.parent])
        blob = np.empty(record.nbytes, np.uint8) if record.nbytes <= left else None
        copied = texts.install(record.id, record.nbytes, checksum, file, blob) if has_place else None
        if copied is None:
            raise StateError(DAMAGED)
        blobs.append(blob if copied else None)
        left -= copied if blob is not None else 0
        records.append(record)
        parts.append(tokens)
        text, ends[record.id] = text[: record.start] + tokens, record.end
    logits = read_framed(file)
    if not 0 < header["tokens"] <= len(text) or len(logits) % 4 or file.read(1):
        raise StateError(DAMAGED)
    last = np.frombuffer(logits, np.float32) if logits else None
    return SavedState(text[: header["tokens"]], records, last, parts, blobs), header["saved"]
