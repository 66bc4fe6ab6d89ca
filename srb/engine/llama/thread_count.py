"""The number of threads that compute: as many as have cores of their own, beside what other programs use.

llama.cpp's threads wait for each other hundreds of times in a step. If one of them has no core, all others wait until the
system gives it one, so a thread too many makes a step many times slower, and a thread too few only by its own share. The
decision is made here without clock and system: windows of time in, a number out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf

_WORTH = 0.9  # fewer threads are taken if the present ones compute less than this part of what fewer would: 1 is noise
_SLACK = 0.15  # threads' worth of speed that more threads have to promise: times are no better, and a change costs
_SHORTEST = 0.1  # seconds of steps; less has a few of the system's ticks, and says nothing
_LONG = 0.5  # seconds; shorter windows are taken together before threads are given up, since a short burst says nothing
_SHORT = 0.025  # seconds for each core: the system tells idle time in hundredths of a second, so two or three of them
_TAKEN_BACK = 3.0  # seconds; threads that are given up again within this time were not worth adding


@dataclass(frozen=True, slots=True)
class Window:
    """A while in which something was computed; all times are seconds, sums over threads or cores."""

    seconds: float
    in_steps: float  # of `seconds`, those in which steps ran
    ran: float  # the computing threads had a core
    waited: float  # the computing threads were ready to run, and something else had the cores
    idle: float | None  # the cores that they may use had nothing to do; None: not known

    def __add__(self, later: Window) -> Window:
        idle = None if self.idle is None or later.idle is None else self.idle + later.idle
        seconds, in_steps = self.seconds + later.seconds, self.in_steps + later.in_steps
        return Window(seconds, in_steps, self.ran + later.ran, self.waited + later.waited, idle)


_NOTHING = Window(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _Patience:
    """Seconds to wait before threads are added, twice as many each time that they had to be given up again soon."""

    least: float
    most: float
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.seconds = self.least

    def note_end(self, was_worth_it: bool) -> None:
        self.seconds = self.least if was_worth_it else min(2 * self.seconds, self.most)


class ThreadCount:
    """The number of threads, from 1 to `most`: lowered as soon as threads wait, raised after cores were free for a while.

    Now and then one more is tried although no core is free: programs of low priority fill every core, and give it up.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = most
        self._short = min(_LONG, _SHORT * most)
        self._sure = _Patience(2 * self._short, 16.0)  # while cores are free: two windows, since one may be luck
        self._trying = _Patience(30.0, 480.0)  # while none is: a thread in vain slows steps until it is noticed
        self._latest: _Patience | None = None  # which of the two made the latest change, if that was a raise
        self._before = most  # number of threads before that change
        self._room = most  # number of threads that would have had cores while more could have run
        self._free_for = 0.0  # seconds of that
        self._since_change = inf
        self._steps_since = 0.0  # seconds of steps since then
        self._lately = _NOTHING  # the windows since threads were last looked at for too many

    @property
    def window(self) -> float:
        """Seconds that the next window should have: short ones show at once that a core is free again."""
        return _LONG if self.count == self.most else self._short

    def note(self, window: Window) -> int:
        """Take the latest window into account; return the number of threads for the next one."""
        self._since_change += window.seconds
        self._steps_since += window.in_steps
        self._lately += window
        if self._lately.seconds >= _LONG:
            lately, self._lately = self._lately, _NOTHING
        else:
            lately = _NOTHING
        if fewer := self._fewer(lately):
            self._change(max(fewer, self._end_raise()), None)
        elif self.count < self.most:
            self._consider_more(window)
        return self.count

    def _end_raise(self) -> int:
        """Judge the raise that ends, if the latest change was one; return the number before it if it was in vain, else 0."""
        if not self._latest:
            return 0
        was_worth_it = self._since_change >= _TAKEN_BACK
        self._latest.note_end(was_worth_it)
        return 0 if was_worth_it else self._before

    def _change(self, count: int, patience: _Patience | None) -> None:
        self._before, self.count, self._latest = self.count, count, patience
        self._free_for = self._since_change = self._steps_since = 0.0
        self._lately = _NOTHING

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

    def _consider_more(self, window: Window) -> None:
        self._note_room(self._room_in(window), window.seconds)
        if self._free_for >= self._sure.seconds:
            self._change(self._room, self._sure)
        elif self._steps_since >= self._trying.seconds:
            self._change(self.count + 1, self._trying)

    def _note_room(self, room: int, seconds: float) -> None:
        if room <= self.count:
            self._free_for = 0.0
            return
        self._room = min(self._room, room) if self._free_for else room
        self._free_for += seconds

    def _room_in(self, window: Window) -> int:
        """Return the number of threads that would have computed most, with the cores that were idle or ours."""
        if window.idle is None:
            return self.count
        free = (window.idle + window.ran) / window.seconds
        whole = max(1, min(self.most, floor(free)))
        if whole < self.most and (whole + 1) * (free - whole) > whole + _SLACK:
            return whole + 1
        return whole
