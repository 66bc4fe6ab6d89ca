"""The standard error of an engine: what native code writes there becomes records of the log, one for each line.

llama.cpp's parsers write a client's text there, and an abort its stack. Descriptor 2 of the engine is a pipe that its
supervisor reads; the log and Python itself go on writing to the standard error that the supervisor has.
"""

import contextlib
import errno
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger("srb.native")

BURST = 200  # lines at once: the stack of an abort has about 70
PER_SECOND = 10  # lines, then: a library that repeats a warning for each step must not fill the disk
MAX_LINE = 1000  # bytes; the rest of a longer line is cut, or one without an end would fill memory
_TAIL = 100  # of the lines that were left out, the last ones, which say why the engine has ended, and are written then


def write_natively_to(pipe: int) -> None:
    """Let native code of this process write to a pipe, and Python to the standard error that there was.

    A full pipe loses what does not fit, and one without a reader all: the pipe does not block, and SIGPIPE is ignored.
    """
    own = os.dup(2)
    os.dup2(pipe, 2)
    os.close(pipe)
    sys.stderr = open(own, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115


class NativeOutput:
    """The reader of one engine's pipe: a thread, so that neither supervisor nor engine ever waits for the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = "the engine"
        self._clock = clock
        self._fd, self.engine_end = os.pipe()
        os.set_blocking(self.engine_end, False)
        self._lines = float(BURST)  # that may be written now
        self._refilled_at = clock()
        self._num_left_out = 0
        self._tail: deque[bytes] = deque(maxlen=_TAIL)
        self._thread = threading.Thread(target=self._read, name="native output", daemon=True)

    def start(self, label: str) -> None:
        """Read from now on, since the engine has its end; begin each record with `label`. Raise OSError for no thread."""
        self._label = label
        try:
            self._thread.start()
        except RuntimeError as error:  # as Python says that the system has no thread left
            raise OSError(errno.EAGAIN, str(error)) from None
        os.close(self.engine_end)

    def close(self) -> None:
        """Close the pipe of an engine that could not be started, which nobody reads."""
        os.close(self._fd)
        os.close(self.engine_end)

    def join(self, seconds: float) -> None:
        """Wait until all that an ended engine has written is in the log."""
        self._thread.join(seconds)

    def _read(self) -> None:
        rest = b""
        with contextlib.closing(open(self._fd, "rb", buffering=0)) as pipe:
            while True:
                if self._num_left_out and not select.select([pipe], [], [], 1 / PER_SECOND)[0]:
                    self._tell_left_out()
                    continue
                if not (chunk := pipe.read(65536)):
                    break
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self.take(line)
                rest = rest[: MAX_LINE + 1]  # the rest of a line without an end is not kept
        self.take(rest)
        self.end()

    def take(self, line: bytes) -> None:
        """Write a line, or leave it out if there were too many."""
        if not (line := line.rstrip()):
            return
        self._refill()
        if self._lines < 1 or (self._num_left_out and not self._tell_left_out()):
            self._num_left_out += 1
            self._tail.append(line)
        else:
            self._lines -= 1
            self._write(line)

    def end(self) -> None:
        """Write the last of the lines that were left out: after an abort they say why."""
        tail, self._num_left_out = list(self._tail), self._num_left_out - len(self._tail)
        self._lines = float(BURST)
        if self._num_left_out:
            self._tell_left_out()
        for line in tail:
            self._write(line)

    def _refill(self) -> None:
        now = self._clock()
        self._lines = min(BURST, self._lines + (now - self._refilled_at) * PER_SECOND)
        self._refilled_at = now

    def _tell_left_out(self) -> bool:
        """Tell how many lines were left out, at most once a second; return whether that was done."""
        self._refill()
        if self._lines < PER_SECOND:
            return False
        log.warning("%s: %d lines of native code were left out", self._label, self._num_left_out)
        self._num_left_out = 0
        self._tail.clear()
        self._lines -= 1
        return True

    def _write(self, line: bytes) -> None:
        more = "…" if len(line) > MAX_LINE else ""
        log.warning("%s: %s%s", self._label, line[:MAX_LINE].decode(errors="backslashreplace"), more)
