"""The entry of a text whose KV is in a file: of the index of texts, and in a named state's file, before the KV.

It stands behind its length and its checksum, and has the form of `HEAD`, facts as JSON, and the tokens (int32).
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

FRAME = struct.Struct("<II")  # before each entry: its length and its checksum
HEAD = struct.Struct("<c16s16sIIQIH")  # kind, id, parent, start, number of tokens, bytes and checksum of the KV, facts
ADDED = b"+"  # the kind of a text
MAX_ENTRY = 64 * 1024 * 1024  # bytes; a longer length is that of a damaged entry


@dataclass(slots=True)
class TextEntry:
    """A text's place, and its KV's size and checksum. `parent` is the text before it, "" at the beginning."""

    id: str
    parent: str
    start: int
    count: int  # tokens
    nbytes: int
    checksum: int
    facts: bytes  # JSON


def framed(entry: bytes) -> bytes:
    """Return an entry behind its length and checksum."""
    return FRAME.pack(len(entry), zlib.crc32(entry)) + entry


def packed(of: TextEntry, tokens: bytes) -> bytes:
    """Return a text's entry with its tokens, without a frame."""
    ids = bytes.fromhex(of.id), bytes.fromhex(of.parent)
    return HEAD.pack(ADDED, *ids, of.start, of.count, of.nbytes, of.checksum, len(of.facts)) + of.facts + tokens


def unpacked(entry: bytes | memoryview) -> tuple[TextEntry, int]:
    """Return an entry, as far as it is given, and where its tokens begin. Raise ValueError or struct.error."""
    kind, id_, parent, start, count, nbytes, checksum, size = HEAD.unpack_from(entry)
    if kind != ADDED:
        raise ValueError
    at = HEAD.size + size
    facts = bytes(entry[HEAD.size : at])
    return TextEntry(id_.hex(), parent.hex() if any(parent) else "", start, count, nbytes, checksum, facts), at


MAGIC = b"SRBSTAT3"  # with the version of the file's form; a prompt whose file has another one is computed
_OLDER = {b"SRBSTATE": 1, b"SRBSTAT2": 2}


DAMAGED = "it is damaged: a checksum does not fit, or a part is missing"


class StateError(Exception):
    """The error of a state file that is damaged, or of another model or version."""


def read_framed(file: BinaryIO) -> bytes:
    """Read what stands behind its length and checksum. Raise OSError or StateError."""
    head = file.read(FRAME.size)
    if len(head) == FRAME.size:
        length, checksum = FRAME.unpack(head)
        framed_bytes = file.read(length) if length <= MAX_ENTRY else b""
        if len(framed_bytes) == length and zlib.crc32(framed_bytes) == checksum:
            return framed_bytes
    raise StateError(DAMAGED)


def read_header(file: BinaryIO) -> dict[str, Any]:
    """Read the facts at the beginning of a state's file. Raise OSError, or StateError for a file that has none."""
    magic = file.read(len(MAGIC))
    if magic in _OLDER:
        raise StateError(f"its version is {_OLDER[magic]}; this server reads version 3")
    if magic != MAGIC:
        raise StateError("it is no state file")
    facts = read_framed(file)
    try:
        known = orjson.loads(facts)
        numbers = {name: int(known[name]) for name in ("saved", "tokens", "records")}
        return {"model": str(known["model"]), "automatic": known["automatic"] is True, **numbers}
    except (ValueError, KeyError, TypeError):
        raise StateError("its header is damaged") from None
