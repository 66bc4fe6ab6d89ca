"""Heartbeats: two a second once the model is loaded, except while a turn of the decode loop, or the preparation of a
request, takes too long.

A process that is stopped, or stuck with the interpreter's lock, sends none. An engine that hangs in native code, or in
Python beside the loop, reports it, and reports that it runs again if that ends after all.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from srb.errors import PreparationTooLong, SRBError
from srb.host.wakefulness import Wakefulness
from srb.process.status_reporter import Reporter
from srb.status import BEAT_SECONDS

_TOKENS = 64  # a step of so many may take twice as long as one without tokens
# The preparation of so many characters may take twice as long as that of none: it takes about a second of a slow core.
_CHARACTERS = 2**20
_ENCODING = 10  # a picture may take so many times as long: large projectors take a minute on a CPU


class Watched(Protocol):
    """The decode loop, as the heartbeat's thread reads it."""

    @property
    def turn_began(self) -> float | None: ...  # time.monotonic(); None while the loop waits for requests
    @property
    def turn_tokens(self) -> int: ...  # tokens of the current step


class Preparation(Protocol):
    """The preparation of one request beside the loop."""

    @property
    def characters(self) -> int: ...
    @property
    def encodes(self) -> bool: ...  # pictures and sounds
    @property
    def progressed_at(self) -> float: ...  # time.monotonic()
    def refuse(self, error: SRBError) -> None: ...


class Heartbeat:
    """The thread that sends heartbeats while the engine makes progress, and reports hangs and their ends."""

    def __init__(
        self,
        reporter: Reporter,
        stall_timeout: float,
        watched: Watched,
        preparations: Callable[[], Sequence[Preparation]] = tuple,
    ) -> None:
        """Allow `stall_timeout` seconds for a turn, and as many again per 64 tokens; 0: any time.

        As many are allowed for each of the `preparations` that there are, more for long texts and for pictures.
        """
        self._reporter = reporter
        self._stall_timeout = stall_timeout or math.inf
        self._watched = watched
        self._preparations = preparations
        self._wakefulness = Wakefulness()
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

    def preparation_budget(self, work: Preparation) -> float:
        """Return the seconds that the preparation of a request may take without progress."""
        return self._stall_timeout * (1 + work.characters / _CHARACTERS) * (_ENCODING if work.encodes else 1)

    def hang_reason(self, now: float) -> str:
        """Return why the engine counts as hung at `now` (time.monotonic()); "" if it does not.

        Seconds in which this thread could not look count for nothing: then the engine was stopped, too, or had no core.
        """
        began, tokens = self._watched.turn_began, self._watched.turn_tokens
        if began is not None and self._wakefulness.seconds(began, now) > self.budget(tokens):
            return f"a step of {tokens} tokens takes longer than {self.budget(tokens):.0f} s"
        for work in self._preparations():
            budget = self.preparation_budget(work)
            # A beat later than the request is refused, so that its client hears of it before the engine is aborted.
            if self._wakefulness.seconds(work.progressed_at, now) > budget + BEAT_SECONDS:
                return f"the preparation of a request of {work.characters} characters takes longer than {budget:.0f} s"
        return ""

    def _refuse_overdue(self, now: float) -> None:
        """Refuse requests whose preparation takes too long, as wrong ones: sent again, they would stop the next engine."""
        for work in self._preparations():
            if self._wakefulness.seconds(work.progressed_at, now) > (budget := self.preparation_budget(work)):
                work.refuse(PreparationTooLong(f"the preparation of the request took longer than {budget:.0f} s"))

    def beat(self, now: float) -> None:
        """Send one heartbeat, unless something takes too long; report a change between the two."""
        self._wakefulness.look(now)
        self._refuse_overdue(now)
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
