"""The header of a named state's file, which tells its model and its save: a text's entry, behind which its KV follows."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import orjson

from srb.files.text_entry import FRAME, HEAD, unpacked

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
