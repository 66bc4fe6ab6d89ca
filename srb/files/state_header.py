"""The header of a named state's file, which tells its model and its save; the text and its KV follow."""

from __future__ import annotations

from typing import Any, BinaryIO

import orjson

MAGIC = b"SRBSTATE"
VERSION = 1  # of the file's form; a prompt whose file has another one is computed
_MAX_HEADER = 4096  # bytes; it is read before anything is checked, and a foreign file's length may be any number


class StateError(Exception):
    """The error of a state file that is damaged, or of another model or version."""


def read_header(file: BinaryIO) -> dict[str, Any]:
    """Read the header. Raise StateError for a file that has none."""
    start = file.read(12)
    size = int.from_bytes(start[8:], "little")
    if start[:8] != MAGIC or size > _MAX_HEADER:
        raise StateError("it is no state file")
    try:
        header = orjson.loads(file.read(size))
        counts = [header[key] for key in ("tokens", "logits", "bytes")]
        if header["version"] != VERSION:
            raise StateError(f"its version is {header['version']}; this server reads version {VERSION}")
        header["lora"] = tuple(float(scale) for scale in header.get("lora", ()))
        header["salt"] = str(header.get("salt", ""))
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError
        return {"automatic": False, "checksum": header["checksum"], "model": header["model"], **header}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StateError("its header is damaged") from None


def saved_number(header: dict[str, Any]) -> int:
    """Return the number of the save that a header is of: later saves have larger ones; 0 in older files."""
    number = header.get("saved", 0)
    return number if type(number) is int else 0
