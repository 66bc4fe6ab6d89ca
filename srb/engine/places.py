"""The places of a divided request, as each of its parts knows them: how many there are, and who may add some now.

A bridge holds the places of all parts while it adds a branch, so two branches never get the same one.
"""

from __future__ import annotations


class Places:
    """The places of the whole request. A hold ends by itself, should the bridge be gone that has it."""

    __slots__ = ("_holder", "_until", "count", "num_parts")

    def __init__(self, count: int, num_parts: int) -> None:
        self.count = count  # of branches that run or have run, on whatever replica
        self.num_parts = num_parts
        self._holder = ""
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<{self.count} places, held by {self._holder or 'nobody'}>"

    def note(self, count: int) -> None:
        """Note that there are so many, if that is more than was known."""
        self.count = max(self.count, count)

    def hold(self, holder: str, seconds: float, now: float) -> bool:
        """Let `holder` alone add some for so many seconds, or no longer with 0; return False while another may."""
        if self._holder != holder and now < self._until:
            return False
        self._holder, self._until = (holder, now + seconds) if seconds > 0 else ("", now)
        return True
