"""How long steps take by the number of their tokens, measured as they run, and how many drafted tokens pay by that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

_GAIN = 1.03  # least expected gain in tokens per second for which a draft is added
_WEIGHT = 0.1  # of the newest step in the mean of a batch's seconds
_MOST_SLOWER = 3.0  # times the mean; slower steps count as so much, since something else may have held them up
_FIRST = 3  # steps of a size before its time counts
_STALE = 4096  # steps after which a measured time is forgotten
_FRESH = 64  # steps after which a time that drafts compete with is measured again


@dataclass(slots=True)
class _Measured:
    """Measured seconds of steps of one size; of the first few the fastest counts, since new sizes have a slow start."""

    seconds: float
    count: int
    at: int  # number of the latest step of this size


class StepTimes:
    """Measured seconds of a decode step, by the number of its tokens."""

    def __init__(self) -> None:
        self._steps = 0
        self._measured: dict[int, _Measured] = {}

    def note(self, size: int, seconds: float) -> None:
        """Note a step with `size` tokens."""
        self._steps += 1
        known = self._measured.get(size)
        if known is None or self._steps - known.at > _STALE:
            self._measured[size] = _Measured(seconds, 1, self._steps)
            return
        known.count, known.at = known.count + 1, self._steps
        if known.count <= _FIRST:
            known.seconds = min(known.seconds, seconds)
        else:
            known.seconds += _WEIGHT * (min(seconds, _MOST_SLOWER * known.seconds) - known.seconds)

    def seconds(self, size: int) -> float | None:
        """Return the measured seconds of a step of `size` tokens; None if there was none."""
        return self._measured[size].seconds if self._is_known(size, 1) else None

    def is_fresh(self, size: int) -> bool:
        """Whether steps of `size` tokens were measured often enough, and one of them lately."""
        return self._is_known(size, _FIRST) and self._steps - self._measured[size].at <= _FRESH

    def best_addition(self, size: int, chances: Sequence[float], costs: Iterable[float] = repeat(0.0)) -> int:
        """Return how many drafted tokens to add to a step of `size` tokens; 0 until such a step was measured.

        `chances` are the probabilities that each of them gives a token, the likeliest first, and `costs` the seconds that
        it takes to draft so many. Between two measured sizes the time is interpolated; beyond the largest it is taken not
        to grow, so that larger steps are tried.
        """
        least = self.seconds(size)
        if least is None:
            return 0
        best, best_rate = 0, _GAIN * size / least
        larger = sorted(other for other in self._measured if other > size and self._is_known(other, _FIRST))
        below, above, tokens = (size, least), None, float(size)
        for (count, chance), cost in zip(enumerate(chances, 1), costs, strict=False):
            tokens += chance
            while larger and (above is None or above[0] < size + count):
                below = above or below
                other = larger.pop(0)
                above = other, max(least, self._measured[other].seconds)
            seconds = _between(below, above, size + count) + cost
            if tokens / seconds > best_rate:
                best, best_rate = count, tokens / seconds
        return best

    def _is_known(self, size: int, count: int) -> bool:
        known = self._measured.get(size)
        return known is not None and known.count >= count and self._steps - known.at <= _STALE


def _between(below: tuple[int, float], above: tuple[int, float] | None, size: int) -> float:
    """Return the seconds of a step from those of a smaller and a larger size; without a larger one the nearest's."""
    if above is None:
        return below[1]
    if above[0] <= size:
        return above[1]
    return below[1] + (above[1] - below[1]) * (size - below[0]) / (above[0] - below[0])
