"""Numbers in the words that people read: cores, counts."""

from __future__ import annotations


def cores_text(count: float) -> str:
    """Return a number of cores: 2 cores, 1.5 cores, 1 core."""
    text = f"{count:.1f}".removesuffix(".0")
    return f"{text} core" if text == "1" else f"{text} cores"


def count_text(count: int) -> str:
    """Return a number with separated thousands."""
    return f"{count:,}"
