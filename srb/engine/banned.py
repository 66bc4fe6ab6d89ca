"""Banned strings: the automaton that finds them in a text that grows, and how much of its end may become one.

Aho and Corasick, "Efficient string matching" (1975): a state is the longest end of the text that begins a banned string,
so a character costs the same for any number of strings, and the state's depth is the number of characters to hold back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from weakref import WeakValueDictionary

MAX_STRINGS = 1024  # of one list: it bounds what is checked in Python before MAX_TEXT does
MAX_LENGTH = 256  # characters of one string; as many of each branch's text may be held back until it is certain
MAX_TEXT = 2**16  # characters of a request's different lists together; each takes a state of an automaton
REMEMBERED_TEXTS = 4096  # of tokens; with fewer, common tokens go through the automaton anew in each step


@cache
def _fold(char: str) -> str:
    """Return a character without its case; characters that would become several stay as they are."""
    return next((each for each in (char.casefold(), char.lower()) if len(each) == 1), char)


def fold(text: str) -> str:
    """Return a text without its case, character by character: as many characters as before."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


class BannedStrings:
    """Strings that may not occur in a text; upper and lower case are alike. State 0 is that of an empty text."""

    __slots__ = ("__weakref__", "_fallback", "_following", "_sizes", "depths", "read")

    read: Callable[[int, str], tuple[int, int, int]]
    """Read a text on from a state; return the new state, and the end in the text and length of the first match.

    Reading stops at a match; 0, 0 if there is none. Of several that end together the shortest counts. Most texts are
    tokens that were read before.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        """Build the automaton; empty strings are skipped."""
        self._following: list[dict[str, int]] = [{}]
        self._fallback = [0]
        self._sizes = [0]  # length of the shortest banned string that ends in a state; 0: none does
        self.depths = [0]
        for string in strings:
            self._add(fold(string))
        self._link()
        self.read = lru_cache(REMEMBERED_TEXTS)(partial(_read, self._following, self._fallback, self._sizes))

    @classmethod
    def of(cls, strings: tuple[str, ...]) -> BannedStrings:
        """Return the automaton of a list; branches with the same list share it."""
        found = _IN_USE.get(strings)
        if found is None:
            found = _IN_USE[strings] = cls(strings)
        return found

    def read_all(self, text: str) -> int:
        """Return the state after a whole text, which may have banned strings in it."""
        state = at = 0
        while at < len(text):
            state, end, _ = _read(self._following, self._fallback, self._sizes, state, text[at:])
            at += end or len(text)
        return state

    def _add(self, string: str) -> None:
        state = 0
        for char in string:
            following = self._following[state].get(char)
            if following is None:
                following = self._following[state][char] = len(self._following)
                self._following.append({})
                self._fallback.append(0)
                self._sizes.append(0)
                self.depths.append(self.depths[state] + 1)
            state = following
        self._sizes[state] = self.depths[state]

    def _link(self) -> None:
        """Set each state's fallback, its longest proper end that is a state too, by rising depth."""
        waiting = deque(self._following[0].values())
        while waiting:
            state = waiting.popleft()
            for char, following in self._following[state].items():
                self._fallback[following] = self._step(self._fallback[state], char)
                waiting.append(following)
            self._sizes[state] = self._sizes[self._fallback[state]] or self._sizes[state]

    def _step(self, state: int, char: str) -> int:
        while (following := self._following[state].get(char)) is None:
            if not state:
                return 0
            state = self._fallback[state]
        return following


def _read(
    following: list[dict[str, int]], fallback: list[int], sizes: list[int], state: int, text: str
) -> tuple[int, int, int]:
    for end, char in enumerate(fold(text), 1):
        while (to := following[state].get(char)) is None:
            if not state:
                to = 0
                break
            state = fallback[state]
        state = to
        if sizes[state]:
            return state, end, sizes[state]
    return state, 0, 0


_IN_USE: WeakValueDictionary[tuple[str, ...], BannedStrings] = WeakValueDictionary()
