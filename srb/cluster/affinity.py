"""The choice of a replica for a text: where its beginning is computed already, as long as that replica is not overloaded.

These decide, in this order:

- the memory of texts: a text that goes on where a known one ended goes to the replica that computed that one, as up to
  ALTERNATIVES may, or else to that of the short text that it continues. Bridges tell each other what is new in their
  memories (`take_news`, `hear`);
- where a text leaves a known one, it is an edit or another story with the same preface. It goes on with the known text as
  long as at most EDITS texts have left there and the replica has no more than its share of stories; after that only where
  that costs nobody anything: a preface would bring all its stories to one replica;
- consistent hashing of other new texts, whole, so that a preface does not count: a replica that joins or leaves moves its
  own share and little else (Karger and others, 1997). Of CHOICES replicas the one that has the fewest stories of late has
  it (the power of two choices, Mitzenmacher, 2001): by a hash alone one of a thousand has twice the mean;
- a bound on the load: a replica that has more than FACTOR times the mean hands on to the next (consistent hashing with
  bounded loads, Mirrokni, Thorup and Zadimoghaddam, 2016). The load is the number of branches of this bridge's open
  requests, and of those that others have as the replica has reported last. For a story that the replica has, SPARE requests
  are always within the bound, and CROWD times the mean as long as it had no more than its share of the latest requests:
  computing a story again costs more than a crowd that is gone in a second;
- the wait: where more branches are open than a replica has sequences, the rest wait there. A story that would wait goes on
  at another replica where that begins sooner though it has to compute the story again.

No choice looks at all replicas, unless nearly all are overloaded or a request is divided. `python -m bench.routing`
simulates evenings.

Pure: no I/O, no clock, no randomness.
"""

import math
from bisect import bisect_left, insort
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, Protocol

from srb.cluster.marks import MARK_SIZE, Mark

FACTOR = 1.25  # of the mean load; nearer to 1 more texts are computed again, farther the busiest has more to do
CROWD = 1.5  # of the mean load, and SPARE requests more: then nothing else counts
SPARE = 4  # open requests of mean size that go on with a replica's texts, whatever the mean load
CHOICES = 4  # replicas, of which a new text goes to the one with the fewest stories
ALTERNATIVES = 16  # texts that go on where one ended: a writer's, who takes one branch after another
PREFACE = (
    16 * 1024
)  # bytes of a known text for each one that may leave it at the same place, and stay: less is soon computed again
EDITS = 3  # texts that leave a known one at the same place, and are taken for edits of it
WAITS = 4000  # bytes of a prompt that are computed while a request waits for a sequence
WAITING = 300  # … and more for each of its branches that waits
_JOINED = 0.3  # stories: where replicas have one each or none, a second one with the same preface goes elsewhere
_MEMORY, _FOR_EACH = 200_000, 1000  # beginnings at least, and for each replica
_WINDOW = 64  # latest requests for each replica, of which none should have more than its share; and latest stories
_POINTS = 32  # of each replica on the ring of hashes: with fewer, their shares of new texts differ more

News = dict[
    str, bytes
]  # marks in a row, by the replica that has what they stand for; _END follows one at which a text ends
_END = bytes(MARK_SIZE)


class Text(Protocol):
    """The marks of a text, or of a name: see `srb.cluster.marks`. Those that nobody asks for are not hashed."""

    @property
    def coarse(self) -> Sequence[Mark]: ...
    @property
    def openings(self) -> Sequence[Mark]: ...
    def size(self, number: int) -> int: ...
    def finer(self, number: int) -> Sequence[Mark]: ...


class _Beginning(NamedTuple):
    """The longest known beginning of a text."""

    replicas: tuple[str, ...] = ()  # that have it, the latest first
    size: int = 0  # bytes, but for what finer marks tell
    left: int = (
        0  # how many texts went on behind it, each in a way of its own; beyond ALTERNATIVES if a text ended there
    )
    is_whole: bool = False  # whether it is all of the text
    opening: Mark | None = None  # of a text shorter than FIRST_MARK: it is none of the text's own marks


class Affinity:
    """The replicas that take requests, what each has open, and which texts each has computed."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}  # branches of each replica's open requests that this bridge has sent
        self._elsewhere: dict[str, int] = {}  # branches of those that others have sent
        self._num_requests: dict[str, int] = {}  # how many requests this bridge has open
        self._all_open = self._all_elsewhere = self._all_requests = 0  # the sums of these
        self._sequences: dict[str, int] = {}  # of each replica; 0: not known
        self._ring: list[tuple[bytes, str]] = []  # the points of all replicas, in their order
        # Of each beginning how many texts left it (`_Beginning.left`), and the replicas that have it, latest first.
        self._known: OrderedDict[Mark, tuple[int, tuple[str, ...]]] = OrderedDict()
        self._news: dict[
            Mark, tuple[str, bool]
        ] = {}  # beginnings that other bridges have not been told: replica, whether a text's end
        self._latest: deque[str] = deque()  # the replicas of the latest requests
        self._shares: Counter[str] = Counter()  # how many of those each had
        self._ends: OrderedDict[Mark, str] = OrderedDict()  # where the latest stories end, and the replica of each
        self._num_stories: Counter[str] = Counter()  # of each replica, of those

    def __repr__(self) -> str:
        return f"<Affinity {self._open}, {len(self._known)} beginnings>"

    @property
    def replicas(self) -> KeysView[str]:
        return self._open.keys()

    @property
    def num_open(self) -> int:
        """Number of branches of all open requests of this bridge."""
        return self._all_open

    def join(self, replica: str, sequences: int = 0) -> None:
        """Let a replica take requests, which runs as many branches at once as it has sequences."""
        if replica not in self._open:
            self._open[replica] = self._elsewhere[replica] = self._num_requests[replica] = 0
            self._sequences[replica] = sequences
            for point in _points(replica):
                insort(self._ring, (point, replica))

    def leave(self, replica: str) -> None:
        """Choose a replica no more; unknown ones are ignored."""
        self._all_open -= self._open.pop(replica, 0)
        self._all_elsewhere -= self._elsewhere.pop(replica, 0)
        self._all_requests -= self._num_requests.pop(replica, 0)
        self._sequences.pop(replica, None)
        self._ring = [each for each in self._ring if each[1] != replica]
        self._latest = deque(name for name in self._latest if name != replica)
        del self._shares[replica]
        self._ends = OrderedDict((mark, name) for mark, name in self._ends.items() if name != replica)
        del self._num_stories[replica]

    def begin(self, replica: str, branches: int = 1) -> None:
        """Count one more open request."""
        if replica in self._open:
            self._count(replica, branches, 1)

    def grow(self, replica: str, branches: int = 1) -> None:
        """Count more branches of an open request; not if the replica has come back since it began, as `end` does not."""
        if self._num_requests.get(replica):
            self._count(replica, branches, 0)

    def end(self, replica: str, branches: int = 1) -> None:
        """Count one open request less."""
        if self._num_requests.get(replica):
            self._count(replica, -min(branches, self._open[replica]), -1)

    def report(self, replica: str, branches: int) -> None:
        """Take a replica's word of how many branches run and wait there: those beyond this bridge's own are others'."""
        if replica in self._open:
            elsewhere = max(0, branches - self._open[replica])
            self._all_elsewhere += elsewhere - self._elsewhere[replica]
            self._elsewhere[replica] = elsewhere

    def _count(self, replica: str, branches: int, requests: int) -> None:
        self._open[replica] += branches
        self._all_open += branches
        self._num_requests[replica] += requests
        self._all_requests += requests

    def _load(self, replica: str) -> int:
        """Return how many branches run or wait there: as the last report had it, and with this bridge's own since then."""
        return self._open[replica] + self._elsewhere[replica]

    def _mean(self, branches: int) -> float:
        """Return the mean load of all replicas with so many more branches."""
        return (self._all_open + self._all_elsewhere + branches) / len(self._open)

    def _wait(self, replica: str, branches: int) -> int:
        """Return how long a request would wait for sequences, in bytes of a prompt that are computed meanwhile."""
        sequences = self._sequences[replica]
        without = self._load(replica) + branches - sequences if sequences else 0
        return WAITS + WAITING * without if without > 0 else 0

    def choose(
        self, text: Text, exclude: Collection[str] = (), branches: int = 1, name: Mark | None = None
    ) -> str | None:
        """Return the replica for a text, and remember it; None if there is none beside `exclude`.

        `name` is the mark of something that counts where nothing of the text is known.
        """
        if all(name in exclude for name in self._open):
            return None
        known = self._longest(text, name, exclude)
        if known.left <= 0 or known.is_whole:
            fits = (name for name in known.replicas if self._may_go_on(name, branches))
        else:
            fits = (name for name in known.replicas if self._may_stay(name, branches, known))
        marks = [*([known.opening] if known.opening else []), *text.coarse, *text.finer(len(text.coarse) - 1)]
        chosen = next(fits, None)
        if chosen is None or self._wait(chosen, branches):
            # By its last mark, since the first one may be a preface's that this bridge has not heard of.
            other = self._place(marks[-1], exclude, branches)
            if chosen is None or self._is_sooner(other, chosen, branches, known.size):
                chosen = other
        self._share(chosen)
        self.know(marks, chosen)
        return chosen

    def _is_sooner(self, other: str, home: str, branches: int, known: int) -> bool:
        """Whether a text begins sooner at another replica than at one that has so many bytes of it computed."""
        return self._wait(home, branches) - self._wait(other, branches) > known

    def holders(self, mark: Mark) -> tuple[str, ...]:
        """Return the replicas that are known to have what a mark stands for, the latest first, those that are gone too."""
        return self._known.get(mark, (0, ()))[1]

    def least_loaded(self, exclude: Collection[str] = ()) -> str | None:
        """Return the replica with the fewest open branches."""
        usable = [name for name in self._open if name not in exclude]
        return min(usable, key=self._load, default=None)

    def beside(self, mark: Mark, exclude: Collection[str]) -> list[str]:
        """Return the replicas that may have parts of a text's request, those with the fewest open branches first.

        Of equal ones always the same are first for the same text, since they have its beginning from the last time. Nothing
        is remembered: the text's next request goes where the first part was, which has what the request says once.
        """
        return sorted((name for name in self._ranked(mark) if name not in exclude), key=self._load)

    def _longest(self, text: Text, name: Mark | None, exclude: Collection[str]) -> _Beginning:
        """Return the longest beginning that a usable replica has."""

        def find(among: Sequence[Mark]) -> tuple[int, int, tuple[str, ...]]:
            for place in reversed(range(len(among))):
                if entry := self._known.get(among[place]):
                    left, names = entry
                    if usable := tuple(name for name in names if name in self._open and name not in exclude):
                        return place, left, usable
            return -1, 0, ()

        marks = text.coarse
        place, left, names = find(marks)
        if not names:
            short = text.openings
            place, left, names = find(short)
            if names:
                return _Beginning(names, 0, left, opening=short[place])
            return _Beginning(find([name] if name else [])[2], text.size(len(marks) - 1) if marks else 0)
        ends = text.finer(place)
        end, left_at_end, names_at_end = find(ends)
        if names_at_end:
            left, names = left_at_end, names_at_end
        return _Beginning(names, text.size(place), left, is_whole=place + 1 == len(marks) and end + 1 == len(ends))

    def _may_go_on(self, replica: str, branches: int) -> bool:
        """Whether a replica should have one more request for a text that it has."""
        load, mean = self._load(replica), self._mean(branches)
        spare = SPARE * (self._all_open + branches) / (self._all_requests + 1)
        if load < max(spare, math.ceil(FACTOR * mean)):
            return True
        return self._has_share(replica) and load < CROWD * mean + spare

    def _may_stay(self, replica: str, branches: int, known: _Beginning) -> bool:
        """Whether a text that leaves one of the replica's texts may be computed there."""
        mean = (len(self._ends) + 1) / len(self._open)  # with one more
        has_few = self._num_stories[replica] <= FACTOR * mean - _JOINED
        if known.left <= EDITS and has_few and self._may_go_on(replica, branches):
            return True
        if known.left > known.size // PREFACE:
            return False
        # A single writer's edit, who has no more than the request that is being edited open.
        return self._num_requests[replica] <= 1 and (self._has_share(replica) or self._all_requests <= 1)

    def _place(self, mark: Mark, exclude: Collection[str], branches: int) -> str:
        """Return the replica for a text that none has, or none that may have more."""
        bound = math.ceil(FACTOR * self._mean(branches))
        order = (name for name in self._ranked(mark) if name not in exclude)
        free = (name for name in order if self._load(name) < bound)
        if choices := list(islice(free, CHOICES)):
            return min(
                choices, key=lambda name: (self._wait(name, branches), self._num_stories[name], self._shares[name])
            )
        chosen = self.least_loaded(exclude)
        assert chosen is not None  # `choose` has looked
        return chosen

    def _ranked(self, mark: Mark) -> Iterator[str]:
        """Yield all replicas, from a text's place on the ring on."""
        seen = set()
        start = bisect_left(self._ring, (mark[:8], ""))
        for place in range(start - len(self._ring), start):
            name = self._ring[place][1]
            if name not in seen:
                seen.add(name)
                yield name

    def _has_share(self, replica: str) -> bool:
        return self._shares[replica] < max(SPARE, math.ceil(FACTOR * (len(self._latest) + 1) / len(self._open)))

    def _share(self, replica: str) -> None:
        """Count one of the latest requests."""
        self._latest.append(replica)
        self._shares[replica] += 1
        while len(self._latest) > _WINDOW * len(self._open):
            self._shares[self._latest.popleft()] -= 1

    def know(self, marks: Sequence[Mark], replica: str) -> None:
        """Remember that a replica has what these marks stand for, apart from any request."""
        self._learn(marks, replica, is_news=True)
        self._bound_news()

    @property
    def _memory(self) -> int:
        return max(_MEMORY, _FOR_EACH * len(self._open))

    def _bound_news(self) -> None:
        while len(self._news) > self._memory:  # nobody has taken them for long
            del self._news[next(iter(self._news))]

    def _learn(self, marks: Sequence[Mark], replica: str, *, is_news: bool) -> None:
        """Remember marks. Those that the replica was not known to have are news, and so is the one before them."""
        known, refresh, first = self._known, self._known.move_to_end, 0
        for mark in marks:  # of a text that goes on, nearly all
            if (entry := known.get(mark)) is None or entry[1][0] != replica:
                break
            refresh(mark)
            first += 1
        before = untold = (
            marks[first - 1] if first else None
        )  # the mark before, if it was known, and if it is no news yet
        for place in range(first, len(marks)):
            mark = marks[place]
            if is_unknown := (entry := known.get(mark)) is None:
                if before is not None:
                    left, names = known[before]
                    known[before] = (left + 1, names)
                    self._end_no_more(before)
                known[mark] = (1 if place < len(marks) - 1 else -ALTERNATIVES, (replica,))
            else:
                assert entry is not None
                left, names = entry
                known[mark] = (left, (replica, *(name for name in names if name != replica))[:3])
                refresh(mark)
            before = None if is_unknown else mark
            if not is_unknown and replica in names:
                untold = mark
            elif is_news:
                if untold is not None:
                    self._news[untold] = (replica, False)
                    untold = None
                self._news[mark] = (replica, place == len(marks) - 1)
        while len(known) > self._memory:
            known.popitem(last=False)
        if replica in self._open:
            self._end_no_more(marks[-1])
            self._ends[marks[-1]] = replica
            self._num_stories[replica] += 1
            if len(self._ends) > _WINDOW * len(self._open):
                self._end_no_more(next(iter(self._ends)))

    def _end_no_more(self, mark: Mark) -> None:
        if (replica := self._ends.pop(mark, None)) is not None:
            self._num_stories[replica] -= 1

    def take_news(self) -> News:
        """Return what this bridge remembers since the last call, and has not heard of another; for `hear` of the others."""
        news, self._news = self._news, {}
        by_replica: dict[str, list[Mark]] = {}
        for mark, (replica, is_end) in news.items():
            by_replica.setdefault(replica, []).extend((mark, _END) if is_end else (mark,))
        return {replica: b"".join(marks) for replica, marks in by_replica.items()}

    def keep_news(self, news: Mapping[str, bytes]) -> None:
        """Keep news that were taken and could not be told, for the next call of `take_news`; newer ones come after them."""
        kept = {
            mark: (replica, mark == marks[-1])
            for replica, data in news.items()
            for marks in _texts_in(data)
            for mark in marks
        }
        self._news = kept | self._news
        self._bound_news()

    def hear(self, news: Mapping[str, bytes]) -> None:
        """Remember what another bridge does, and count its requests."""
        for replica, data in news.items():
            for marks in _texts_in(data):
                self._learn(marks, replica, is_news=False)
                if replica in self._open:
                    self._share(replica)


def _texts_in(data: bytes) -> Iterator[list[Mark]]:
    """Yield the marks of each text of some news."""
    marks: list[Mark] = []
    for at in range(0, len(data), MARK_SIZE):
        mark = data[at : at + MARK_SIZE]
        if mark != _END:
            marks.append(mark)
        elif marks:
            yield marks
            marks = []
    if marks:
        yield marks


def _points(replica: str) -> Iterator[bytes]:
    for number in range(_POINTS):
        yield blake2b(b"%d" % number, key=replica.encode()[-64:], digest_size=8).digest()
