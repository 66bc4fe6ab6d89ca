"""The delay before a process that ended is started again."""

_FIRST_DELAY = 0.1  # seconds before the first restart; doubles each time
_MAX_DELAY = 10.0
_HEALTHY_SECONDS = 30.0  # a process that was ready this long resets the delay


class Backoff:
    """The delay before the next start, which doubles each time."""

    def __init__(self) -> None:
        self._next = _FIRST_DELAY

    def after(self, healthy_seconds: float) -> float:
        """Return the delay in seconds after a process that was ready for `healthy_seconds`."""
        if healthy_seconds >= _HEALTHY_SECONDS:
            self._next = _FIRST_DELAY
        delay, self._next = self._next, min(self._next * 2, _MAX_DELAY)
        return delay
