"""The homes of requests: the replica that has each, so that a control need not be asked of all. Pure: no I/O and no clock.

Bridges tell each other of theirs, beside the news of texts: a request may be controlled through any web machine.
"""

from collections import OrderedDict
from collections.abc import Mapping

from srb.cluster.affinity import News

SIGN = "="  # before a replica's name, in news of homes; no name of a replica begins with it
_ID_BYTES = 16  # of a request's id, which is that many bytes in hexadecimal
_MOST = 100_000  # requests; their ends may not be seen


class Homes:
    """The replica of each request, the latest last."""

    def __init__(self) -> None:
        self._replicas: OrderedDict[str, str] = OrderedDict()
        self._news: OrderedDict[str, str] = OrderedDict()  # those that other bridges have not been told

    def __repr__(self) -> str:
        return f"<Homes of {len(self._replicas)} requests>"

    def get(self, request_id: str) -> str:
        """Return the name of a request's replica; "" if it is not known."""
        return self._replicas.get(request_id, "")

    def note(self, request_id: str, replica: str) -> None:
        """Remember the replica that has a request, and let it be told."""
        self._set(request_id, replica)
        if _is_told(request_id):
            self._news[request_id] = replica
            _bound(self._news)

    def forget(self, request_id: str) -> None:
        """Forget a request that has ended."""
        self._replicas.pop(request_id, None)
        self._news.pop(request_id, None)

    def _set(self, request_id: str, replica: str) -> None:
        self._replicas[request_id] = replica
        self._replicas.move_to_end(request_id)
        _bound(self._replicas)

    # News -------------------------------------------------------------------------------------------------------------

    def take_news(self) -> News:
        """Return what was noted since the last call and has not ended, for `hear` of the others."""
        taken: dict[str, bytearray] = {}
        for request_id, replica in self._news.items():
            taken.setdefault(SIGN + replica, bytearray()).extend(bytes.fromhex(request_id))
        self._news.clear()
        return {name: bytes(ids) for name, ids in taken.items()}

    def keep_news(self, news: Mapping[str, bytes]) -> None:
        """Keep news that were taken and could not be told, for the next call of `take_news`."""
        for request_id, replica in _homes_in(news):
            self._news.setdefault(request_id, replica)
        _bound(self._news)

    def hear(self, news: Mapping[str, bytes]) -> None:
        """Remember what another bridge does."""
        for request_id, replica in _homes_in(news):
            self._set(request_id, replica)


def without_homes(news: Mapping[str, bytes]) -> News:
    """Return the news of texts alone."""
    return {name: marks for name, marks in news.items() if not name.startswith(SIGN)}


def _homes_in(news: Mapping[str, bytes]) -> list[tuple[str, str]]:
    return [
        (ids[at : at + _ID_BYTES].hex(), name.removeprefix(SIGN))
        for name, ids in news.items()
        if name.startswith(SIGN)
        for at in range(0, len(ids), _ID_BYTES)
    ]


def _is_told(request_id: str) -> bool:
    """Whether a request's id is one that workers make; a part's is not, which other bridges find by the whole's."""
    return len(request_id) == 2 * _ID_BYTES and all(each in "0123456789abcdef" for each in request_id)


def _bound(known: OrderedDict[str, str]) -> None:
    while len(known) > _MOST:
        known.popitem(last=False)
