"""The oracle of patterns: their matches in a whole text, by Python's own `re`."""

from __future__ import annotations

import re
from functools import lru_cache

from srb.engine.banned import MAX_LENGTH, Entry, stands
from srb.wire.commands import BannedPattern


@lru_cache(4096)
def _before(pattern: str, is_cased: bool, behind: int) -> re.Pattern[str]:
    """Return an expression whose match ends `behind` characters before the text's end, conditions read there."""
    flags = re.MULTILINE | (0 if is_cased else re.IGNORECASE)
    return re.compile(rf"(?:{pattern})(?=(?s:.{{{behind}}})\Z)", flags)


def matches_in(text: str, pattern: str, is_cased: bool = False) -> set[tuple[int, int]]:
    """Return where each match begins and ends; overlapping ones and those within others are matches too."""
    return {
        (start, end)
        for end in range(1, len(text) + 1)
        for start in range(max(0, end - MAX_LENGTH), end)
        if _before(pattern, is_cased, len(text) - end).match(text, start)
    }


def hits_in(text: str, patterns: tuple[BannedPattern, ...], seed: int, first: int = 0) -> list[tuple[str, int, int]]:
    """Return the matches that should not be in a branch's text: those that end in it and do not stand with its seed.

    The branch's own text begins at `first`, behind one that it was given.
    """
    found = []
    for pattern, weight, is_cased in patterns:
        matches = matches_in(text, pattern, is_cased)
        for end in {end for _, end in matches if end > first}:
            start = min(start for start, other in matches if other == end)
            if not stands(Entry(pattern, weight, is_cased), seed, start - first):
                found.append((pattern, start, end))
    return found
