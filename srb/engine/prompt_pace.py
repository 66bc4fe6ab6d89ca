"""The pace of prompts: how many of their tokens a step computes beside branches that write, by measured time."""

from __future__ import annotations

from srb.engine.step_times import StepTimes

FIRST = 32  # prompt tokens of a step before any time is known
LEAST = 16  # prompt tokens of a step: kernels compute so many columns at once, fewer make a step hardly shorter
# Seconds of a step for prompts, by those that it takes without them, at least: a prompt then takes 1.6 times its time alone
# at most, however long a step of branches is.
_LEAST_SHARE = 5 / 3
# Weights of the newest step: with too quick a pace streams stutter, with too slow a one they do not.
_FASTER, _SLOWER = 0.2, 0.5
_MOST_SLOWER = 3.0  # times what a token took before: more counts as so much, since another program may have held it up


class PromptPace:
    """The prompt tokens of a step that is to take so many seconds; measured steps tell how long one of them takes."""

    def __init__(self, step_seconds: float) -> None:
        """Let a step take `step_seconds`; 0: as long as it takes."""
        self._step_seconds = step_seconds
        self._plain = StepTimes()  # of steps without prompts, by their tokens
        self._nearest = 0  # the size of the latest of these
        self._each: float | None = None  # seconds that one prompt token adds to a step; None: not measured yet

    def most_beside(self, num_newest: int, spent: float = 0.0) -> int | None:
        """Return how many prompt tokens a step may have beside `num_newest` tokens of branches; None: any number.

        `spent` are the seconds that the step has taken already.
        """
        if not self._step_seconds:
            return None
        if self._each is None:
            return FIRST
        plain = self._plain_seconds(num_newest)
        seconds = max(self._step_seconds - plain - spent, _LEAST_SHARE * plain)
        return max(LEAST, round(seconds / max(self._each, 1e-9)))

    def note(self, num_newest: int, num_prompt: int, seconds: float) -> None:
        """Note a step with so many tokens of branches, and of prompts."""
        if not self._step_seconds or not num_newest + num_prompt:
            return
        if not num_prompt:
            self._plain.note(num_newest, seconds)
            self._nearest = num_newest
            return
        each = max(0.0, seconds - self._plain_seconds(num_newest)) / num_prompt
        if self._each is None:
            self._each = each
            return
        each = min(each, _MOST_SLOWER * self._each) if self._each else each
        self._each += (_SLOWER if each > self._each else _FASTER) * (each - self._each)

    def _plain_seconds(self, size: int) -> float:
        """Return the seconds of a step of `size` tokens without prompts, or of the latest other size; 0: none is known."""
        if not size:
            return 0.0
        known = self._plain.seconds(size)
        return (self._plain.seconds(self._nearest) or 0.0) if known is None else known
