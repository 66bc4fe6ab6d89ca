"""How often drafted tokens are right: shares by kind of token, measured as texts are written."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST = 4  # tokens that a first guess counts as: few, so that a text that differs from the usual one soon corrects it
_MOST = 50  # tokens that a share remembers: with fewer it jumps by chance, with more it lags behind the text
_KEPT = 16  # the same, of what a copy has learned before: fewer, so that the new text's own soon outweighs it


class Chances:
    """For each kind of drafted token the chance that it is right, if those before it are."""

    __slots__ = ("_chances", "_counts", "mean")

    def __init__(self, first: Sequence[float]) -> None:
        """`first` are the guesses before anything is known, by kind."""
        self._chances = list(first)
        self._counts = [_FIRST] * len(first)
        self.mean = sum(first) / len(first)  # of tokens of all kinds

    def __getitem__(self, kind: int) -> float:
        return self._chances[kind]

    def note(self, kind: int, is_right: bool) -> None:
        """Note whether a drafted token of a kind was right."""
        count = self._counts[kind] = min(_MOST, self._counts[kind] + 1)
        self._chances[kind] += (is_right - self._chances[kind]) / count
        self.mean += (is_right - self.mean) / _MOST

    def copy(self) -> Chances:
        """Return the same chances for a text of its own; they change sooner."""
        made = Chances(self._chances)
        made._counts, made.mean = [min(_KEPT, count) for count in self._counts], self.mean
        return made
