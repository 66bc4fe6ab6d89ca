"""The histogram of an engine's steps, as counters that add up: engines count them, and web workers show them."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate

_ENDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds: of a tiny model to a long prompt
_PREFIX = "step_seconds_"
_SUM = f"{_PREFIX}sum_total"


class StepSeconds:
    """How many steps took how long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_ENDS) + 1)  # the last of those beyond all ends
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a step."""
        self._counts[bisect_left(_ENDS, seconds)] += 1
        self._sum += seconds

    def stats(self) -> dict[str, float]:
        """Return the counters, a bucket's with all below it, as Prometheus has them."""
        return dict(zip(_names(), accumulate(self._counts), strict=True)) | {_SUM: self._sum}


def is_of_steps(name: str) -> bool:
    """Whether a counter is one of the histogram's."""
    return name.startswith(_PREFIX)


def buckets_of(stats: Mapping[str, float]) -> tuple[list[tuple[str, float]], float] | None:
    """Return the upper end of each bucket and its count, and the sum of all seconds; None if the stats have none."""
    if _SUM not in stats:
        return None
    ends = [*map(str, _ENDS), "+Inf"]
    return [(end, stats[name]) for end, name in zip(ends, _names(), strict=True)], stats[_SUM]


def _names() -> Iterable[str]:
    return [*(f"{_PREFIX}to_{round(end * 1000)}_ms_total" for end in _ENDS), f"{_PREFIX}count_total"]
