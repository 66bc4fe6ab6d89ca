"""News of texts and requests, which bridges tell each other through the registry. Marks are hashes; no text is in them.

Where there is no registry, each replica's door has those of its replica (see `door_news`).

Pure: no I/O and no clock.
"""

from collections import deque
from itertools import islice
from typing import Protocol
from uuid import uuid4

from srb.cluster.affinity import News

_MOST_BYTES = 4 * 1024 * 1024  # of news that are kept, for bridges that start later

Place = tuple[str, int]  # of a bridge in the list: which list, and how many news it has seen
START: Place = ("", 0)


class Teller(Protocol):
    """Whoever has news for other bridges, and hears theirs: Members."""

    def take_news(self) -> News: ...
    def keep_news(self, news: News) -> None: ...
    def hear(self, news: News) -> None: ...


class SharedMarks:
    """The news of all bridges, latest last."""

    def __init__(self, most_bytes: int = 0) -> None:
        """Keep `most_bytes`; 0: as many as a registry has."""
        self._list = uuid4().hex  # another one after a registry that was lost
        self._news: deque[tuple[str, News]] = deque()
        self._forgotten = 0  # news that were before the first of those
        self._size = 0
        self._most_bytes = most_bytes

    def exchange(self, bridge: str, place: Place, told: News) -> tuple[Place, list[News]]:
        """Add a bridge's news; return its next place, and what others have told since `place`."""
        if told:
            self._news.append((bridge, told))
            self._size += _size(told)
        while self._size > (self._most_bytes or _MOST_BYTES):
            self._size -= _size(self._news.popleft()[1])
            self._forgotten += 1
        seen = max(0, place[1] - self._forgotten) if place[0] == self._list else 0
        heard = [news for by, news in islice(self._news, seen, None) if by != bridge]
        return (self._list, self._forgotten + len(self._news)), heard


def _size(news: News) -> int:
    return sum(map(len, news.values()))
