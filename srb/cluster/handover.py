"""The stories of replicas that leave, as a bridge hands them over: to whom each goes, and when it is to be looked for.

A story is a `session`'s. One that rests goes to another replica at once, which takes its texts while the old one drains;
one whose requests run there goes with its next request, and what those have written meanwhile with the one after.

Pure: no I/O and no clock.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from srb.cluster.marks import Mark

_MOST = 100_000  # stories that are known
MOST_AHEAD = 256  # of a replica that leaves, the latest, which go on before they are asked for


class Story(NamedTuple):
    """A request's story: its mark and digest, and the replicas that have had it before, the latest first."""

    mark: Mark
    digest: str
    holders: tuple[str, ...]


class Handover:
    """The stories that this bridge has had requests of, by their marks, the latest last."""

    def __init__(self) -> None:
        self._digests: OrderedDict[Mark, str] = OrderedDict()
        self._open: Counter[tuple[str, Mark]] = Counter()  # requests, by replica and story
        self._leaving: dict[Mark, str] = {}  # stories whose requests ran at a replica when it began to leave

    def __repr__(self) -> str:
        return f"<Handover of {len(self._digests)} stories, {len(self._leaving)} on their way>"

    def begin(self, replica: str, story: Story) -> str:
        """Count a request; return the replica that had its story and may have more of it, "" if there is none."""
        mark = story.mark
        self._digests[mark] = story.digest
        self._digests.move_to_end(mark)
        if len(self._digests) > _MOST:
            self._digests.popitem(last=False)
        self._open[replica, mark] += 1
        giver = self._leaving.get(mark, "")
        if giver and not self._open[giver, mark]:
            del self._leaving[mark]
        latest = giver or next(iter(story.holders), "")
        return "" if latest == replica else latest

    def end(self, replica: str, mark: Mark) -> None:
        """Count a request less."""
        self._open[replica, mark] -= 1
        if self._open[replica, mark] <= 0:
            del self._open[replica, mark]

    def leave(self, replica: str, holders: Callable[[Mark], tuple[str, ...]]) -> list[tuple[Mark, str]]:
        """Return the stories, with their digests, that a replica had last and that rest, the latest first.

        The others of its stories go with their next requests.
        """
        resting: list[tuple[Mark, str]] = []
        for mark, story in reversed(self._digests.items()):
            if self._open.get((replica, mark)):
                self._leaving[mark] = replica
            elif len(resting) < MOST_AHEAD and holders(mark)[:1] == (replica,):
                resting.append((mark, story))
        return resting

    def forget(self, replica: str) -> None:
        """Forget that a replica leaves: it is gone."""
        self._leaving = {mark: name for mark, name in self._leaving.items() if name != replica}
