"""llama.cpp's own log."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

import llama_cpp as lib

log = logging.getLogger("srb.llama")


class NativeLog:
    """llama.cpp's own log: warnings and errors go to ours; the last error explains a load that failed."""

    _LEVELS = {2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}  # enum ggml_log_level, less none and debug

    def __init__(self) -> None:
        self.last_error = ""
        self.is_muted = False
        self._level = logging.DEBUG
        self._callback = lib.llama_log_callback(self._write)
        lib.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _write(self, level: int, text: bytes, _data: Any) -> None:
        if level != 5:  # a continuation keeps the level of what it continues
            self._level = self._LEVELS.get(level, logging.DEBUG)
        message = text.decode("utf-8", "replace").strip()
        if self._level == logging.ERROR and message:
            self.last_error = message
        if message.strip(".") and not self.is_muted:
            # What llama.cpp warns of concerns its developers as often as ours; a person sees its errors.
            log.log(logging.DEBUG if self._level == logging.WARNING else self._level, "%s", message)


native_log = NativeLog()
