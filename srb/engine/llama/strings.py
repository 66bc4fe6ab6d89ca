"""Strings that llama.cpp writes into buffers."""

from __future__ import annotations

import ctypes
from typing import Any


def string_of(function: Any, *args: Any) -> str:
    """Call a llama.cpp function that writes a string into a buffer and returns its full length; return the string."""
    room = 256
    while True:
        buffer = ctypes.create_string_buffer(room)
        size = function(*args, buffer, room)
        if size < room:
            return buffer.raw[: max(size, 0)].decode("utf-8", "replace")
        room = size + 1
