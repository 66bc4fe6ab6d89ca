"""llama.cpp's log lines, in srb's log."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llama_cpp as lib

log = logging.getLogger("srb.llama")


class _OfThread(threading.local):
    """Log state of one thread: llama.cpp calls back in the thread that called it."""

    level = logging.DEBUG  # level of the last line; a continuation line keeps it
    is_muted = False
    first_error = ""
    last_error = ""


class NativeLog:
    """llama.cpp's log: errors go to srb's log, the rest to its debug level; the last error explains a failed call.

    Many threads call llama.cpp at once, and their states are separate: muting a grammar's parser in one thread mutes no
    line of a decode, and no decode quotes a client's grammar. Lines from llama.cpp's own threads are logged, but are no
    thread's last error, since their caller is unknown.
    """

    _LEVELS = {2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}  # enum ggml_log_level, less none and debug

    def __init__(self) -> None:
        self._here = _OfThread()
        self.callback = lib.llama_log_callback(self._write)
        lib.llama_log_set(self.callback, ctypes.c_void_p(0))

    @property
    def last_error(self) -> str:
        """The last error of this thread's calls since `forget_error`."""
        return self._here.last_error or "no reason given"

    @property
    def first_error(self) -> str:
        """The first error of those calls: the cause, where later errors only repeat that a call failed."""
        return self._here.first_error or "no reason given"

    def forget_error(self) -> None:
        """Clear this thread's first and last error."""
        self._here.first_error = self._here.last_error = ""

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Ignore the log lines of this thread's calls inside: a client's mistake is not the server's error."""
        self._here.is_muted = True
        try:
            yield
        finally:
            self._here.is_muted = False

    def _write(self, level: int, text: bytes, _data: Any) -> None:
        here = self._here
        if level != 5:  # a continuation
            here.level = self._LEVELS.get(level, logging.DEBUG)
        message = text.decode("utf-8", "replace").strip()
        if here.is_muted or not message.strip("."):
            return
        if here.level == logging.ERROR:
            here.first_error = here.first_error or message
            here.last_error = message
        # llama.cpp's warnings are mostly for its developers, so they are logged at debug level.
        log.log(logging.DEBUG if here.level == logging.WARNING else here.level, "%s", message)


native_log = NativeLog()
