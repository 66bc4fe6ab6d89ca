"""The choice of a replica for a text: where its beginning is computed already, as long as that replica is not overloaded.

Three things decide, in this order:

- the memory of texts: a text goes to the replica that computed its longest remembered beginning, or else the short text
  that it continues;
- rendezvous hashing of its first characters, for new texts: each replica has a rank for each text, so a replica that joins
  or leaves moves its own share and nothing else (Thaler and Ravishankar, 1998);
- a bound on the load: a replica that has more than FACTOR times the mean hands on to the next in rank (consistent hashing
  with bounded loads, Mirrokni, Thorup and Zadimoghaddam, 2016). The load is the number of branches of open requests; but as
  long as a replica had no more than its share of the latest requests too, CROWD times the mean may be open: computing a
  story again costs more than a crowd that is gone in a second. If every bridge keeps the bounds for its own requests, all
  of them together keep them.

Bridges tell each other what is new in their memories (`take_news`, `hear`).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, KeysView, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice, pairwise

FACTOR = 1.25  # of the mean load
CROWD = 1.5  # of the mean load, and SPARE requests more: then nothing else counts
SPARE = 4  # open requests of mean size that any replica may have, whatever the mean load: so few do not slow each other down
FIRST_MARK = 64  # bytes: the beginning that new texts are placed by
_FINEST, _FINER = 16, 16  # bytes at least, and parts at most, between two marks: the finer marks of a text's end
_SHORTEST = 8  # bytes: of a text that is known again by what continues it; shorter ones begin too many others
_MOST_BYTES = 256 * 1024  # of a text; a longer beginning is not told from this one
_MEMORY = 200_000  # beginnings
_WINDOW = 64  # latest requests for each replica, of which none should have more than its share

Mark = bytes  # the hash of a beginning
_MARK_SIZE = 16
News = dict[str, bytes]  # marks in a row, by the replica that has what they stand for


def text_marks(prompt: Sequence[str | int]) -> list[Mark]:
    """Return the hashes of a prompt's beginnings, shortest first: 64 bytes apart at first, later an eighth of the length.

    A text shorter than FIRST_MARK has one mark, of the whole; `opening_marks` finds it in what continues it.
    """
    text = b"".join(_bytes(prompt))
    marks = []
    hashed, running = 0, blake2b(digest_size=_MARK_SIZE)
    for end in _ends():
        if end > len(text):
            break
        running.update(text[hashed:end])
        hashed = end
        marks.append(running.digest())
    return marks or [_hash(text)]


def opening_marks(prompt: Sequence[str | int]) -> list[Mark]:
    """Return the marks of the texts shorter than FIRST_MARK that a prompt may continue, shortest first."""
    text = b"".join(_bytes(prompt, FIRST_MARK))
    return [_hash(text[:end]) for end in range(_SHORTEST, min(FIRST_MARK, len(text)))]


def finer_marks(prompt: Sequence[str | int], number: int) -> list[Mark]:
    """Return the marks of the beginnings between mark `number` of `text_marks` and the next one, or the text's end.

    Only those after a text's last mark are remembered. So its end is known within 16 bytes, or a sixteenth of the way to the
    next mark, and texts that differ only there are told apart.
    """
    text = b"".join(_bytes(prompt))
    start, end = next(islice(pairwise(_ends()), number, None), (0, 0))
    step = max(_FINEST, (end - start) // _FINER)
    running = blake2b(text[:start], digest_size=_MARK_SIZE)
    marks = []
    for begin in range(start, min(end, len(text) + 1) - step, step):
        running.update(text[begin : begin + step])
        marks.append(running.digest())
    return marks


def name_marks(*words: str) -> list[Mark]:
    """Return the one mark of something that a client has named, such as a session: its text does not count."""
    return [blake2b("\0".join(words).encode(), digest_size=_MARK_SIZE, person=b"name").digest()]


def _ends() -> Iterator[int]:
    end = FIRST_MARK
    while end <= _MOST_BYTES:
        yield end
        end += max(FIRST_MARK, end // 8)


def with_media(prompt: Sequence[str | int], media: Sequence[str]) -> list[str | int]:
    """Return a prompt with a hash of each of its files in the file's place (see `Generate`)."""
    hashes = [blake2b(data.encode(), digest_size=_MARK_SIZE).hexdigest() for data in media]
    return [hashes[-1 - part] if isinstance(part, int) and part < 0 else part for part in prompt]


def _hash(text: bytes) -> Mark:
    return blake2b(text, digest_size=_MARK_SIZE).digest()


def _bytes(prompt: Sequence[str | int], most: int = _MOST_BYTES) -> Iterator[bytes]:
    length = 0
    for part in prompt:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else b"\xff%d" % part
        yield data
        length += len(data)
        if length > most:
            return


class Affinity:
    """The replicas that take requests, what each has open, and which texts each has computed."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}  # branches of each replica's open requests
        self._num_requests: dict[str, int] = {}  # how many requests those are
        self._known: OrderedDict[Mark, tuple[str, ...]] = OrderedDict()  # latest replica first
        self._news: dict[Mark, str] = {}  # the replicas of beginnings that other bridges have not been told
        self._latest: deque[str] = deque()  # the replicas of the latest requests
        self._shares: Counter[str] = Counter()  # how many of those each had

    def __repr__(self) -> str:
        return f"<Affinity {self._open}, {len(self._known)} beginnings>"

    @property
    def replicas(self) -> KeysView[str]:
        return self._open.keys()

    def join(self, replica: str) -> None:
        """Let a replica take requests."""
        self._open.setdefault(replica, 0)
        self._num_requests.setdefault(replica, 0)

    def leave(self, replica: str) -> None:
        """Choose a replica no more; unknown ones are ignored."""
        self._open.pop(replica, None)
        self._num_requests.pop(replica, None)
        self._latest = deque(name for name in self._latest if name != replica)
        del self._shares[replica]

    def begin(self, replica: str, branches: int = 1) -> None:
        """Count one more open request."""
        if replica in self._open:
            self._open[replica] += branches
            self._num_requests[replica] += 1

    def grow(self, replica: str, branches: int = 1) -> None:
        """Count more branches of an open request; not if the replica has come back since it began, as `end` does not."""
        if self._num_requests.get(replica):
            self._open[replica] += branches

    def end(self, replica: str, branches: int = 1) -> None:
        """Count one open request less."""
        if self._num_requests.get(replica):
            self._open[replica] = max(0, self._open[replica] - branches)
            self._num_requests[replica] -= 1

    def choose(
        self,
        marks: Sequence[Mark],
        exclude: Collection[str] = (),
        openings: Sequence[Mark] = (),
        finer: Callable[[int], Sequence[Mark]] = lambda number: (),
        branches: int = 1,
    ) -> str | None:
        """Return the replica for a text with these marks, and remember it; None if there is none beside `exclude`.

        `openings` are those of short texts that it may continue; they are looked for and not remembered. `finer` returns
        the marks after one of `marks`, by its place.
        """
        usable = [name for name in self._open if name not in exclude]
        if not usable:
            return None
        may_have = partial(self._may_have, branches)
        chosen = next(filter(may_have, self._knowing(marks, openings, finer, usable)), None)
        if chosen is None:
            ranked = sorted(usable, key=lambda name: _rank(marks[0], name), reverse=True)
            chosen = next(filter(may_have, ranked), None) or self.least_loaded(exclude)
        assert chosen is not None  # `usable` has one
        self._remember([*marks, *finer(len(marks) - 1)], chosen)
        return chosen

    def least_loaded(self, exclude: Collection[str] = ()) -> str | None:
        """Return the replica with the fewest open branches."""
        usable = [name for name in self._open if name not in exclude]
        return min(usable, key=self._open.__getitem__, default=None)

    def _knowing(
        self,
        marks: Sequence[Mark],
        openings: Sequence[Mark],
        finer: Callable[[int], Sequence[Mark]],
        usable: Collection[str],
    ) -> list[str]:
        """Return the replicas that computed the longest remembered beginning."""

        def longest(among: Sequence[Mark]) -> tuple[int, list[str]]:
            for place in reversed(range(len(among))):
                if known := [name for name in self._known.get(among[place], ()) if name in usable]:
                    return place, known
            return -1, []

        place, known = longest(marks)
        if known:
            return longest(finer(place))[1] or known
        return longest(openings)[1]

    def _may_have(self, branches: int, replica: str) -> bool:
        """Whether a replica should have one more request; if none should, the one with the fewest branches has it."""
        total = sum(self._open.values()) + branches
        spare = SPARE * total / (sum(self._num_requests.values()) + 1)
        crowd = CROWD * total / len(self._open) + spare
        has_room = self._open[replica] < max(spare, _bound(total, len(self._open)))
        return has_room or (self._has_share(replica) and self._open[replica] < crowd)

    def _has_share(self, replica: str) -> bool:
        return self._shares[replica] < max(SPARE, _bound(len(self._latest) + 1, len(self._open)))

    def _remember(self, marks: Sequence[Mark], replica: str) -> None:
        self._latest.append(replica)
        self._shares[replica] += 1
        while len(self._latest) > _WINDOW * len(self._open):
            self._shares[self._latest.popleft()] -= 1
        self.know(marks, replica)

    def know(self, marks: Sequence[Mark], replica: str) -> None:
        """Remember that a replica has what these marks stand for, apart from any request."""
        for mark in marks:
            if replica not in self._known.get(mark, ()):
                self._news[mark] = replica
        self._bound_news()
        self._note(marks, replica)

    def _bound_news(self) -> None:
        while len(self._news) > _MEMORY:  # nobody has taken them for long
            del self._news[next(iter(self._news))]

    def _note(self, marks: Sequence[Mark], replica: str) -> None:
        for mark in marks:
            others = tuple(name for name in self._known.pop(mark, ()) if name != replica)
            self._known[mark] = (replica, *others)[:3]
        while len(self._known) > _MEMORY:
            self._known.popitem(last=False)

    def take_news(self) -> News:
        """Return what this bridge remembers since the last call, and has not heard of another; for `hear` of the others."""
        news, self._news = self._news, {}
        by_replica: dict[str, list[Mark]] = {}
        for mark, replica in news.items():
            by_replica.setdefault(replica, []).append(mark)
        return {replica: b"".join(marks) for replica, marks in by_replica.items()}

    def keep_news(self, news: Mapping[str, bytes]) -> None:
        """Keep news that were taken and could not be told, for the next call of `take_news`; newer ones come after them."""
        self._news = {mark: replica for replica, data in news.items() for mark in _marks_in(data)} | self._news
        self._bound_news()

    def hear(self, news: Mapping[str, bytes]) -> None:
        """Remember what another bridge does."""
        for replica, data in news.items():
            self._note(_marks_in(data), replica)


def _marks_in(data: bytes) -> list[Mark]:
    return [data[at : at + _MARK_SIZE] for at in range(0, len(data), _MARK_SIZE)]


def _bound(total: int, replicas: int) -> int:
    """Return the most that one of the replicas may have of what they have together."""
    return math.ceil(FACTOR * total / replicas)


def _rank(mark: Mark, replica: str) -> bytes:
    return blake2b(mark, key=replica.encode()[-64:], digest_size=8).digest()
