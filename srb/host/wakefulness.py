"""The time for which a process was awake: who judges whether others hang has to have been able to look at them."""

from collections import deque

# Seconds without a look after which a process counts as having slept: it was stopped, or its machine paused, or so short
# of cores that those whom it judges had none either.
ASLEEP_SECONDS = 5.0
_KEPT = 64  # naps; older ones are forgotten


class Wakefulness:
    """The looks of one judge, and the naps between them. Times are time.monotonic()."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._naps: deque[tuple[float, float]] = deque(maxlen=_KEPT)  # from, to

    def look(self, now: float) -> None:
        """Note that the judge is awake, as it does at least each second."""
        if self._looked_at is not None and now - self._looked_at > ASLEEP_SECONDS:
            self._naps.append((self._looked_at, now))
        self._looked_at = now

    def seconds(self, since: float, now: float) -> float:
        """Return how many of the seconds from `since` to `now` the judge was awake."""
        slept = sum(max(0.0, min(end, now) - max(begin, since)) for begin, end in self._naps)
        return now - since - slept

    def woke_within(self, seconds: float, now: float) -> bool:
        """Whether a nap has ended within the last `seconds`."""
        return bool(self._naps) and now - self._naps[-1][1] < seconds
