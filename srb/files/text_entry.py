"""The entry of a text whose KV is in a file: of the index of texts, and at the beginning of a named state's file.

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


MAGIC = b"SRBSTAT2"  # with the version of the file's form; a prompt whose file has another one is computed
_OLDER = b"SRBSTATE"  # of version 1


class StateError(Exception):
    """The error of a state file that is damaged, or of another model or version."""


def read_header(file: BinaryIO) -> dict[str, Any]:
    """Read the header, without the tokens and unchecked by its sum. Raise StateError for a file that has none."""
    start = file.read(len(MAGIC) + FRAME.size + HEAD.size)
    if start.startswith(_OLDER):
        raise StateError("its version is 1; this server reads version 2")
    try:
        entry, at = unpacked(start[len(MAGIC) + FRAME.size :])
        if not start.startswith(MAGIC):
            raise ValueError
    except (ValueError, struct.error):
        raise StateError("it is no state file") from None
    try:
        facts = orjson.loads(file.read(at - HEAD.size))
        facts["lora"] = tuple(float(scale) for scale in facts["lora"])
        facts["mood"] = tuple((str(key), float(scale)) for key, scale in facts.get("mood", ()))
        logits = facts["logits"]
        if type(logits) is not int or not 0 <= 4 * logits <= entry.nbytes:
            raise ValueError
        known = {"model": facts["model"], "saved": saved_number(facts), "automatic": facts["automatic"] is True}
        return {**facts, **known, "salt": str(facts["salt"]), "entry": entry, "tokens": entry.count}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StateError("its header is damaged") from None


def saved_number(header: dict[str, Any]) -> int:
    """Return the number of the save that a header is of: later saves have larger ones."""
    number = header.get("saved", 0)
    return number if type(number) is int else 0
