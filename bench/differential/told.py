"""Differences that docs/compatibility.md tells: the cases and places where they appear, and the page's sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Told:
    """A deliberate difference. `cases` and `places` are patterns as of file names; `says` stands in the page."""

    says: str
    places: tuple[str, ...]
    cases: tuple[str, ...] = ("*",)

    def tells(self, case: str, place: str) -> bool:
        """Whether a difference at a place of a case's answer is this one."""
        return _matches(place, self.places) and _matches(case, self.cases)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


TOLD: tuple[Told, ...] = ()
