"""The threads of llama.cpp's contexts: a number set by hand, or one adapted to the cores that other programs leave."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llama_cpp as lib

from srb.engine.llama.thread_count import ThreadCount, Window
from srb.host.cpu_times import CPUClock

log = logging.getLogger("srb.llama")

_QUIET = 60.0  # seconds between two log lines: beside a busy program the number may change every second
_SETTLED = 3.0  # seconds after a raise; more threads that were tried in vain are not worth a line


class Threads:
    """The number of threads with which the contexts compute. For the decode thread only."""

    def __init__(
        self,
        contexts: Sequence[Any],
        adapts: bool,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: CPUClock | None = None,
    ) -> None:
        """Take the number that the first of `contexts` has; without `adapts` it stays, and `cpu_clock` is not read."""
        self._contexts = list(contexts)
        self.count: int = lib.llama_n_threads_batch(contexts[0])
        self._clock = clock
        self._cpu_clock = cpu_clock or CPUClock()
        self._choice = ThreadCount(self.count) if adapts and self.count > 1 and self._cpu_clock.is_known else None
        self._opened = clock()
        self._in_steps = 0.0
        self._told = self.count
        self._told_at = self._changed_at = float("-inf")

    def add(self, context: Any) -> None:
        """Let one more context compute with these threads."""
        self._contexts.append(context)
        lib.llama_set_n_threads(context, self.count, self.count)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Measure the step inside; the number may change before it."""
        if self._choice is None:
            yield
            return
        began = self._clock()
        if began - self._opened >= self._choice.window:  # or one step if that takes longer
            self._end_window(self._choice, began)
        yield
        self._in_steps += self._clock() - began

    def _end_window(self, choice: ThreadCount, now: float) -> None:
        times = self._cpu_clock.read()
        window = Window(now - self._opened, self._in_steps, times.ran, times.waited, times.idle)
        self._set(choice.note(window), now)
        self._tell(now)
        self._opened, self._in_steps = now, 0.0

    def _set(self, count: int, now: float) -> None:
        if count != self.count:
            self.count, self._changed_at = count, now
            for context in self._contexts:
                lib.llama_set_n_threads(context, count, count)

    def _tell(self, now: float) -> None:
        """Log a change, at most one a minute."""
        if self.count == self._told or now - self._told_at < _QUIET:
            return
        if self.count > self._told and now - self._changed_at < _SETTLED:
            return
        why = "other programs use the cores" if self.count < self._told else "cores are free again"
        log.info("threads: %d instead of %d, since %s", self.count, self._told, why)
        self._told, self._told_at = self.count, now
