"""The number of threads that compute: as many as have cores of their own, beside what other programs use.

llama.cpp's threads wait for each other hundreds of times in a step. If one of them has no core, all others wait until the
system gives it one, so a thread too many makes a step many times slower, and a thread too few only by its own share. The
decision is made here without clock and system: windows of time in, a number out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf

_WORTH = 0.9  # fewer threads are taken if the present ones compute less than this part of what fewer would
_SLACK = 0.15  # threads' worth of speed that more threads have to promise
_SHORTEST = 0.1  # seconds of steps; waits during less say nothing
_PATIENCE = 1.0  # seconds for which cores must be free before they are taken
_MOST_PATIENCE = 16.0
_BLIND = 10.0  # times the patience where the system does not tell whether cores are free
_TAKEN_BACK = 3.0  # seconds; cores that are lost again within this time were not worth taking


@dataclass(frozen=True, slots=True)
class Window:
    """A while in which something was computed; all times are seconds, sums over threads or cores."""

    seconds: float
    in_steps: float  # of `seconds`, those in which steps ran
    ran: float  # the computing threads had a core
    waited: float  # the computing threads were ready to run, and something else had the cores
    idle: float | None  # the cores that they may use had nothing to do; None: not known


class ThreadCount:
    """The number of threads, from 1 to `most`: lowered as soon as threads wait, raised after cores were free for a while."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = most
        self._patience = _PATIENCE
        self._free_for = 0.0  # seconds for which more threads would have had cores
        self._room = most  # number of threads that would have had cores all that time
        self._since_raise = inf

    def note(self, window: Window) -> int:
        """Take the latest window into account; return the number of threads for the next one."""
        self._since_raise += window.seconds
        if fewer := self._fewer(window):
            self._lower(fewer)
        elif self.count < self.most:
            self._consider_more(window)
        return self.count

    def _fewer(self, window: Window) -> int:
        """Return the number of threads to go down to; 0: the present ones are as good.

        While one thread waits, the others cannot go on: of `count` threads' speed the part is left in which none waits.
        """
        if self.count == 1 or window.in_steps < _SHORTEST:
            return 0
        waiting = window.waited / window.in_steps
        fewer = max(1, min(self.count - 1, floor(self.count - waiting + _SLACK)))
        is_better = self.count * (1 - min(1.0, waiting)) < _WORTH * fewer
        return fewer if is_better else 0

    def _lower(self, count: int) -> None:
        if self._since_raise < _TAKEN_BACK:
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        else:
            self._patience = _PATIENCE
        self.count = count
        self._free_for = 0.0

    def _consider_more(self, window: Window) -> None:
        room = self._room_in(window)
        if room <= self.count:
            self._free_for = 0.0
            return
        self._room = min(self._room, room) if self._free_for else room
        self._free_for += window.seconds
        if self._free_for >= self._patience * (_BLIND if window.idle is None else 1):
            self.count = self._room
            self._free_for = self._since_raise = 0.0

    def _room_in(self, window: Window) -> int:
        """Return the number of threads that would have computed most, with the cores that were idle or ours."""
        if window.idle is None:
            return self.count + 1
        free = (window.idle + window.ran) / window.seconds
        whole = max(1, min(self.most, floor(free)))
        if whole < self.most and (whole + 1) * (free - whole) > whole + _SLACK:
            return whole + 1
        return whole
