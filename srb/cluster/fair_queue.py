"""The queue of requests at a bridge: where the replicas are full, a key that has more branches than another's waits here.

Each replica serves what waits there by the fair shares of keys; that does not keep a key with many requests from standing
before another at every replica. So a request waits at the bridge while its replicas have no sequence left and another key
that has requests open has fewer branches. Of those that wait the key with the fewest branches is next, its oldest first.
A key's branches are divided by its weight.
With one key, or none, nothing waits here. Nobody waits for ever: once a key's own requests have ended, none has fewer.

Pure: no I/O and no clock.
"""

from collections import Counter
from collections.abc import Callable

from srb.errors import QueueFull

MAX_WAITING = 1000  # requests at one bridge


class FairQueue:
    """The open branches of each key, and the requests that wait for their turn, in the order of arrival."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()  # branches of the requests that replicas have; no entry without any
        self._weights: dict[str, int] = {}  # of keys that have asked, as their latest requests say; others: 1
        self._waiting: dict[str, tuple[str, Callable[[], None]]] = {}  # key and what begins it, by request_id

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<FairQueue {dict(self._open)} open, {len(self)} waiting>"

    def begin(self, key: str, branches: int) -> None:
        """Count branches that a replica has been given."""
        self._open[key] += branches

    def end(self, key: str, branches: int) -> None:
        """Count branches no more."""
        self._open[key] -= branches
        if not self._open[key]:
            del self._open[key]

    def wait(self, request_id: str, key: str, weight: int, go: Callable[[], None]) -> None:
        """Let a request of a key of some weight wait until `next` returns `go`. Raise QueueFull."""
        if len(self._waiting) >= MAX_WAITING:
            raise QueueFull(f"{MAX_WAITING} requests wait for their turn already; try again in a moment")
        self._waiting[request_id] = (key, go)
        self._weights[key] = weight

    def forget(self, request_id: str) -> bool:
        """Let a request wait no more; return whether it has waited."""
        return self._waiting.pop(request_id, None) is not None

    def next(self, room: Callable[[], int]) -> Callable[[], None] | None:
        """Take the request whose turn it is and return what begins it; None if none has its turn.

        `room` returns how many sequences of the replicas no open branch needs.
        """
        if not self._waiting:
            return None
        request_id = min(self._waiting, key=lambda each: self._share(self._waiting[each][0]))
        key, go = self._waiting[request_id]
        own = self._share(key)
        if any(self._share(other) < own for other in self._open) and room() <= 0:
            return None
        del self._waiting[request_id]
        return go

    def _share(self, key: str) -> float:
        return self._open[key] / self._weights.get(key, 1)
