"""Memory of this machine that a new program may take, within the limits of its control groups; from /proc or macOS's sysctl.

And memory of this process that is given back.
"""

import ctypes
import os
from pathlib import Path

from srb.host.cgroups import ROOT, memory_limit
from srb.host.cores import sysctl


def meminfo(root: Path = ROOT) -> dict[str, int]:
    """Return /proc/meminfo in bytes; {} where the system has none."""
    try:
        lines = (root / "proc/meminfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if words[1:] == ["kB"]:
            found[name] = int(words[0]) * 1024
    return found


def total_memory(root: Path = ROOT) -> int | None:
    """Return the machine's memory in bytes; None where the system does not tell."""
    return meminfo(root).get("MemTotal") or sysctl("hw.memsize")


def free_memory(root: Path = ROOT) -> int | None:
    """Return the bytes that a new program may take; None where the system does not tell. Pages of files count as free."""
    free, limit = meminfo(root).get("MemAvailable"), memory_limit(root)
    if free is None:
        pages = [sysctl(f"vm.page_{name}_count") for name in ("free", "pageable_external", "purgeable")]
        free = sum(filter(None, pages)) * os.sysconf("SC_PAGE_SIZE") if any(pages) else None
    return free if limit is None or free is None else min(free, limit.free)


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(count: float) -> str:
    """Return a number of bytes with three digits: 17.9 MiB."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.{1 if count >= 10 else 2}f} {unit}"


def give_back() -> None:
    """Give memory that was freed back to the system: glibc keeps what threads used, each in a heap of its own."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    if trim is not None:
        trim(0)
