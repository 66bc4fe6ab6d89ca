"""How long steps take by the number of their tokens, measured as they run, and how many drafted tokens pay by that."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

_WEIGHT = 0.1  # of the newest step in the mean: some 10 steps follow a change of load, and one slow step moves little
_MOST_SLOWER = 3.0  # times the mean; slower steps count as so much, since something else may have held them up
_FIRST = 3  # steps of a size before its time counts; the first is slow, since llama.cpp plans its graph
_STALE = 4096  # steps, after which a measured time is forgotten: the load and the texts' lengths have changed by then
_APART = 1.5  # times the smallest measured size that the largest has: of nearer ones noise makes the difference
_HOPE = 0.6  # share of the growth between measured sizes that others are tried with: with all of it, few seem worth it


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
        return self._measured[size].seconds if self.is_known(size) else None

    def is_known(self, size: int, times: int = 1) -> bool:
        """Whether steps of `size` tokens were measured so many times at least."""
        known = self._measured.get(size)
        return known is not None and known.count >= times and self._steps - known.at <= _STALE

    def is_settled(self, size: int) -> bool:
        """Whether steps of `size` tokens were measured so often that a slow one by chance does not count."""
        return self.is_known(size, _FIRST)

    def is_fresh(self, size: int, steps: int) -> bool:
        """Whether steps of `size` tokens were measured often enough, and one of them within the latest `steps`."""
        return self.is_settled(size) and self._steps - self._measured[size].at <= steps

    def has_larger(self, size: int) -> bool:
        """Whether steps of some larger size were measured often enough."""
        return any(other > size and self.is_settled(other) for other in self._measured)

    def line(self) -> tuple[float, float] | None:
        """Return the seconds that a step takes besides its tokens, and those of each token; None: too little was measured.

        A step reads all weights, and computes each token, so that the times of small and large ones are about on a line.
        """
        known = [(size, each.seconds) for size, each in self._measured.items() if self.is_known(size, 2)]
        if not known or max(known)[0] < _APART * min(known)[0]:
            return None
        middle = sum(size for size, _ in known) / len(known)
        mean = sum(seconds for _, seconds in known) / len(known)
        spread = sum((size - middle) ** 2 for size, _ in known)
        each = max(0.0, sum((size - middle) * (seconds - mean) for size, seconds in known) / spread)
        return max(0.0, mean - each * middle), each

    def growth(self, size: int, fewer: int, more: int) -> float:
        """Return the probable seconds for each token between `fewer` and `more` tokens that a step of `size` is given."""
        least = self.seconds(size)
        if least is None:
            return 0.0
        curve = self._curve(size, least)
        before = curve.likely(size + fewer)
        return (curve.likely(size + more) - before) / (more - fewer)

    def most_growth(self, size: int, count: int) -> float:
        """Return by how many seconds a step of `size` tokens becomes longer at most for `count` more tokens."""
        least = self.seconds(size)
        return self._curve(size, least).most(size + count) - least if least is not None else 0.0

    def best_addition(
        self, size: int, chances: Sequence[float], gain: float, most_loss: float = inf, spent: float = 0.0
    ) -> int:
        """Return how many drafted tokens to add to a step of `size` tokens; 0 until such a step was measured.

        `chances` are the probabilities that each of them gives a token, the likeliest first. Tokens are added where they
        are expected to make the tokens per second `gain` times as many at least, and where the step takes at most
        `most_loss` seconds longer for them. `spent` seconds went into the step already, with drafts or without.
        """
        least = self.seconds(size)
        if least is None or size + sum(chances) < gain * size:
            return 0
        curve = self._curve(size, least)
        best, best_rate, tokens = 0, gain * size / (least + spent), float(size)
        for count, chance in enumerate(chances, 1):
            tokens += chance
            likely, most = curve.likely(size + count), curve.most(size + count)
            if most - least > most_loss:
                break
            if tokens / (likely + spent) > best_rate:
                best, best_rate = count, tokens / (likely + spent)
        return best

    def _curve(self, size: int, least: float) -> "_Curve":
        larger = sorted(other for other in self._measured if other > size and self.is_settled(other))
        return _Curve([(size, least), *((other, max(least, self._measured[other].seconds)) for other in larger)])


class _Curve:
    """Seconds by size from some measured ones: those of other sizes are foretold. Asked for growing sizes."""

    __slots__ = ("_at", "_points")

    def __init__(self, points: list[tuple[int, float]]) -> None:
        self._points = points  # by size; the first is a step without drafts
        self._at = 0  # number of the last point that is not beyond the size

    def likely(self, size: int) -> float:
        """Return the seconds of a step of `size` tokens; where none was measured they are thought to grow little."""
        points = self._points
        while self._at + 1 < len(points) and points[self._at + 1][0] <= size:
            self._at += 1
        below, seconds = points[self._at]
        if below == size:
            return seconds
        if self._at + 1 < len(points):
            above, more = points[self._at + 1]
            return seconds + _HOPE * (more - seconds) * (size - below) / (above - below)
        first, least = points[0]
        slope = max(0.0, seconds - least) / (below - first) if below > first else 0.0
        return seconds + _HOPE * slope * (size - below)

    def most(self, size: int) -> float:
        """Return the seconds of such a step at most; beyond the last point each token takes as long as those before it."""
        likely, points = self.likely(size), self._points
        if points[self._at][0] == size:
            return likely
        if self._at + 1 < len(points):
            return max(likely, points[self._at + 1][1])
        last, seconds = points[-1]
        return max(likely, seconds * size / last)
