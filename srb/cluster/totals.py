"""The counters of a cluster: sums over all engines that there have been, so they never fall. Pure."""

from collections import OrderedDict
from collections.abc import Mapping

Engine = tuple[str, int]  # the replica's name and the engine's pid: another one counts from zero
_MOST_ENGINES = 1000  # whose counters are kept apart


class Totals:
    """The latest counters of each engine; those of engines that are gone stay."""

    def __init__(self) -> None:
        self._engines: OrderedDict[Engine, dict[str, float]] = OrderedDict()  # latest heard last
        self._gone: dict[str, float] = {}  # of those that are kept apart no more

    def note(self, engine: Engine, stats: Mapping[str, float]) -> None:
        """Take an engine's stats; older ones may come after newer ones."""
        counters = self._engines.setdefault(engine, {})
        self._engines.move_to_end(engine)
        for name, value in stats.items():
            if name.endswith("_total"):
                counters[name] = max(value, counters.get(name, 0))
        if len(self._engines) > _MOST_ENGINES:
            _add(self._gone, self._engines.popitem(last=False)[1])

    def sum(self) -> dict[str, float]:
        """Return the cluster's counters."""
        total = dict(self._gone)
        for counters in self._engines.values():
            _add(total, counters)
        return total


def _add(total: dict[str, float], counters: Mapping[str, float]) -> None:
    for name, value in counters.items():
        total[name] = total.get(name, 0) + value
