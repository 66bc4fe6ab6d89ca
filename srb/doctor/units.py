"""Numbers in the words that people read: sizes of memory, cores, counts."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(count: float) -> str:
    """Return a number of bytes with three digits: 17.9 MiB."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.{1 if count >= 10 else 2}f} {unit}"


def cores_text(count: float) -> str:
    """Return a number of cores: 2 cores, 1.5 cores, 1 core."""
    text = f"{count:.1f}".removesuffix(".0")
    return f"{text} core" if text == "1" else f"{text} cores"


def count_text(count: int) -> str:
    """Return a number with separated thousands."""
    return f"{count:,}"
