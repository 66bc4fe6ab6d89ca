"""Signs of life: from a loaded model on two a second, unless the decode loop takes longer over its turn than it may.

A process that is stopped, or stuck with the interpreter's lock, gives none; one that hangs in native code says so.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Protocol

from srb.engine.reports import Reporter
from srb.status import BEAT_SECONDS

_TOKENS = 64  # a step of so many tokens may take twice as long as one of none


class Watched(Protocol):
    """What is looked at, from another thread."""

    @property
    def turn_began(self) -> float | None: ...  # time.monotonic(); None while it waits for requests
    @property
    def turn_tokens(self) -> int: ...  # of the step that is being computed


class Pulse:
    """A thread that beats while the decode loop gets on."""

    def __init__(self, report: Reporter, stall_timeout: float, watched: Watched) -> None:
        """Allow `stall_timeout` seconds for a turn, and as many again for every 64 tokens; 0 means any time."""
        self._report = report
        self._stall_timeout = stall_timeout or math.inf
        self._watched = watched
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def budget(self, tokens: int) -> float:
        """Return how many seconds a step of so many tokens may take."""
        return self._stall_timeout * (1 + tokens / _TOKENS)

    def complaint(self, now: float) -> str:
        """Return what is wrong at `now`, on time.monotonic()'s clock; "" while all is well."""
        began, tokens = self._watched.turn_began, self._watched.turn_tokens
        if began is None or now - began <= self.budget(tokens):
            return ""
        return f"a step of {tokens} tokens takes longer than {self.budget(tokens):.0f} s"

    def _beat(self) -> None:
        while not (complaint := self.complaint(time.monotonic())):
            self._report.beat()
            time.sleep(BEAT_SECONDS)
        self._report.tell("hung", complaint)
