"""Bans: strings and patterns, found in a text that grows, and how much of its end may become one of them.

All are one graph. A reading of a text has the places at which its ends stand, each with the numbers of characters since
these began: so a match is known with its last character, its beginnings are known, and nothing is read twice. Strings
share places as in a trie.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from weakref import WeakValueDictionary

from srb.engine.patterns import LACKING, NONE, Edge, fold, kind_of, places_of
from srb.wire.commands import BannedPattern

MAX_STRINGS = 1024  # of one list: it bounds what is checked in Python before MAX_TEXT does
MAX_PATTERNS = 1024
MAX_LENGTH = (
    256  # characters of one string or match; as many of each branch's text may be held back until it is certain
)
MAX_TEXT = 2**16  # characters of a request's different lists together; each takes a place of the graph
MAX_EDGES = 2**15  # of the patterns of a request's different lists together
MAX_WIDE = 2**10  # … that take letters of all kinds: a text may be at all of them at once, for 8 ms a token
REMEMBERED_TEXTS = 4096  # of tokens; with fewer, common tokens would be read anew in each step
REMEMBERED_STEPS = 2**14  # of characters from one place of the graph

_AGES = (1 << MAX_LENGTH + 1) - 1  # one bit for each number of characters since a match may have begun


class Reading(NamedTuple):
    """A text so far: the characters at its end that may become banned, the last one's kind, and where its ends stand."""

    depth: int
    before: int
    places: tuple[tuple[int, int], ...]  # a place, and the numbers of characters since its matches began, as bits


class Match(NamedTuple):
    """A match that is known with a character: the characters since its last beginning, and since its first one."""

    entry: int
    shortest: int
    longest: int


START = Reading(0, NONE, ())


class Entry(NamedTuple):
    """A pattern of a list, or all its strings together; with a weight, a match stands that often."""

    pattern: str = ""
    weight: float = 0.0
    is_cased: bool = False


class Banned:
    """Strings and patterns that may not occur in a text; upper and lower case are alike, but for cased patterns."""

    __slots__ = ("__weakref__", "_chars", "_following", "_late", "_now", "_wide", "entries", "has_conditions", "read")

    read: Callable[[Reading, str], tuple[Reading, int, tuple[Match, ...]]]
    """Read a text on; return the new reading, and the end in the text and the matches of the first ones.

    Reading stops at a match; 0, () if there is none. Most texts are tokens that were read before.
    """

    def __init__(self, strings: Sequence[str], patterns: Sequence[BannedPattern]) -> None:
        """Build the graph; empty strings are skipped."""
        self.entries = (Entry(), *(Entry(*pattern) for pattern in patterns))  # the first one stands for all strings
        self.has_conditions = False
        # By place: edges by a character, those by one of many, and the entries that end there at once or on conditions.
        self._chars: list[dict[str, tuple[Edge, ...]]] = [{}]
        self._wide: list[tuple[Edge, ...]] = [()]
        self._now: list[tuple[int, ...]] = [()]
        self._late: list[tuple[tuple[int, int], ...]] = [()]
        for string in filter(None, strings):
            self._add_string(fold(string))
        for number, entry in enumerate(self.entries[1:], 1):
            self._add_pattern(number, entry)
        self.read = lru_cache(REMEMBERED_TEXTS)(self._read)
        self._following = lru_cache(REMEMBERED_STEPS)(self._places_behind)

    @classmethod
    def of(cls, strings: tuple[str, ...], patterns: tuple[BannedPattern, ...]) -> "Banned | None":
        """Return the graph of two lists, None if both are empty; branches with the same lists share it."""
        if not (strings or patterns):
            return None
        found = _IN_USE.get((strings, patterns))
        if found is None:
            found = _IN_USE[strings, patterns] = cls(strings, patterns)
            _LATEST.append(found)
        return found

    def read_all(self, text: str, reading: Reading = START) -> Reading:
        """Return the reading of a whole text, which may have matches in it."""
        at = 0
        while at < len(text):
            reading, end, _ = self._read(reading, text[at:])
            at += end or len(text)
        return reading

    def at_end(self, reading: Reading) -> tuple[Match, ...]:
        """Return the matches that a text would have if it ended here: of patterns that ask for what follows."""
        lacking = LACKING[reading.before][NONE]
        return _matches(self._late_at(reading.places, lacking))

    def _place(self) -> int:
        self._chars.append({})
        self._wide.append(())
        self._now.append(())
        self._late.append(())
        return len(self._now) - 1

    def _add_string(self, string: str) -> None:
        at = 0
        for char in string:
            if not (edges := self._chars[at].get(char)):
                edges = self._chars[at][char] = (Edge(char, None, 0, self._place()),)
            at = edges[0].to
        self._now[at] = (0,)

    def _add_pattern(self, number_of_entry: int, entry: Entry) -> None:
        places = places_of(entry.pattern, entry.is_cased)
        first = len(self._now) - 1  # place 0 is that of all
        for _ in places[1:]:
            self._place()
        for number, (edges, ends) in enumerate(places):
            at = first + number if number else 0
            for edge in (edge._replace(to=first + edge.to) for edge in edges):
                self.has_conditions = self.has_conditions or edge.conditions > 0
                if edge.takes is None:
                    self._chars[at][edge.char] = (*self._chars[at].get(edge.char, ()), edge)
                else:
                    self._wide[at] += (edge,)
            if 0 in ends:
                self._now[at] += (number_of_entry,)
            elif ends:
                self.has_conditions = True
                self._late[at] += tuple((conditions, number_of_entry) for conditions in ends)

    def _read(self, reading: Reading, text: str) -> tuple[Reading, int, tuple[Match, ...]]:
        before, places = reading.before, reading.places
        lacking = 0
        for end, char in enumerate(text, 1):
            late: dict[int, int] = {}
            if self.has_conditions:
                kind = kind_of(char)
                lacking, before = LACKING[before][kind], kind
                late = self._late_at(places, lacking)
            reached = dict.fromkeys(self._following(0, char, lacking), 1)
            for place, ages in places:
                for to in self._following(place, char, lacking):
                    reached[to] = reached.get(to, 0) | ages
            found: dict[int, int] = {}
            kept = []
            for place, ages in reached.items():
                if ages := ages << 1 & _AGES:
                    for entry in self._now[place]:
                        found[entry] = found.get(entry, 0) | ages
                    if self._chars[place] or self._wide[place] or self._late[place]:
                        kept.append((place, ages))
            places = tuple(kept)
            if late or found:
                of_before = {entry: ages << 1 for entry, ages in late.items()}
                return _reading(before, places), end, (*_matches(found), *_matches(of_before))
        return _reading(before, places), 0, ()

    def _places_behind(self, place: int, char: str, lacking: int) -> tuple[int, ...]:
        """Return the places that a character leads to from one, where those conditions do not hold."""
        edges = [*self._chars[place].get(fold(char), ()), *self._wide[place]]
        return tuple(
            edge.to for edge in edges if not edge.conditions & lacking and (edge.takes is None or edge.takes(char))
        )

    def _late_at(self, places: tuple[tuple[int, int], ...], lacking: int) -> dict[int, int]:
        """Return the entries of which a match has ended with the character before, and the ages of its beginnings."""
        found: dict[int, int] = {}
        for place, ages in places:
            for conditions, entry in self._late[place]:
                if not conditions & lacking:
                    found[entry] = found.get(entry, 0) | ages
        return found


def _reading(before: int, places: tuple[tuple[int, int], ...]) -> Reading:
    depth = max((ages.bit_length() - 1 for _, ages in places), default=0)
    return Reading(depth, before, places)


def _matches(found: dict[int, int]) -> tuple[Match, ...]:
    return tuple(Match(entry, (ages & -ages).bit_length() - 1, ages.bit_length() - 1) for entry, ages in found.items())


def stands(entry: Entry, seed: int, start: int) -> bool:
    """Whether a match stands that begins, at its first beginning, `start` characters after a branch's beginning.

    It depends on the branch's seed, the pattern and the place alone: so all ends of a match stand or none, and a branch
    that is rewound finds the same again.
    """
    if not entry.weight:
        return False
    drawn = blake2b(f"{seed} {start} {entry.pattern}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn) < entry.weight * 2**64


_LATEST: deque[Banned] = deque(maxlen=2)  # a story's next round has the same list, and finds what was read
_IN_USE: WeakValueDictionary[tuple[tuple[str, ...], tuple[BannedPattern, ...]], Banned] = WeakValueDictionary()
