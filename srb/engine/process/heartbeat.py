"""Heartbeats: two a second once the model is loaded, except while a turn of the decode loop takes too long.

A process that is stopped, or stuck with the interpreter's lock, sends none. An engine that hangs in native code reports
it, and reports that it runs again if the turn ends after all.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Protocol

from srb.engine.process.status_reporter import Reporter
from srb.status import BEAT_SECONDS

_TOKENS = 64  # a step of so many may take twice as long as one without tokens


class Watched(Protocol):
    """The decode loop, as the heartbeat's thread reads it."""

    @property
    def turn_began(self) -> float | None: ...  # time.monotonic(); None while the loop waits for requests
    @property
    def turn_tokens(self) -> int: ...  # tokens of the current step


class Heartbeat:
    """The thread that sends heartbeats while the decode loop makes progress, and reports hangs and their ends."""

    def __init__(self, reporter: Reporter, stall_timeout: float, watched: Watched) -> None:
        """Allow `stall_timeout` seconds for a turn, and as many again per 64 tokens; 0: any time."""
        self._reporter = reporter
        self._stall_timeout = stall_timeout or math.inf
        self._watched = watched
        self._is_hung = False  # whether the latest reported state is "hung"
        self._lock = threading.Lock()  # held while a state is reported, so none follows `leave_state_alone`
        self._may_report = True
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave_state_alone(self) -> None:
        """Report no more states, since the stopping engine reports its own; heartbeats go on."""
        with self._lock:
            self._may_report = False

    def budget(self, tokens: int) -> float:
        """Return the seconds that a step of `tokens` tokens may take."""
        return self._stall_timeout * (1 + tokens / _TOKENS)

    def hang_reason(self, now: float) -> str:
        """Return why the loop counts as hung at `now` (time.monotonic()); "" if it does not."""
        began, tokens = self._watched.turn_began, self._watched.turn_tokens
        if began is None or now - began <= self.budget(tokens):
            return ""
        return f"a step of {tokens} tokens takes longer than {self.budget(tokens):.0f} s"

    def beat(self, now: float) -> None:
        """Send one heartbeat, unless a turn takes too long; report a change between the two."""
        reason = self.hang_reason(now)
        if bool(reason) != self._is_hung:
            self._is_hung = bool(reason)
            with self._lock:
                if self._may_report:
                    self._reporter.report_state("hung" if reason else "running", reason)
        if not reason:
            self._reporter.beat()

    def _run(self) -> None:
        while True:
            self.beat(time.monotonic())
            time.sleep(BEAT_SECONDS)
