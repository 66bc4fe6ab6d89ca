"""Limits of the control groups that this process is in (Linux, versions 1 and 2): CPU quota and memory.

A container without a cgroup namespace reads its host's path in /proc/self/cgroup and finds its own files at the mount, so
every folder from that path up to the mount is looked at, and the lowest limit holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_MOUNT = "sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 has no word for it, but a number near the largest of 64 bits


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that the processes of a group may use, and those in use that cannot be reclaimed."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the cores' worth of CPU time that this process may use; None without a limit."""
    quotas = [share for folder in _folders(root, "cpu") if (share := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def throttled_times(root: Path = ROOT) -> int:
    """Return how often this process's groups were stopped because their CPU quota was used up."""
    return sum(_field(folder / "cpu.stat", "nr_throttled") for folder in _folders(root, "cpu"))


def memory_limit(root: Path = ROOT) -> MemoryLimit | None:
    """Return the limit with the least free memory; None without a limit."""
    limits = [limit for folder in _folders(root, "memory") if (limit := _limit_of(folder)) is not None]
    return min(limits, key=lambda limit: limit.free, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it, in both versions."""
    mount = root / _MOUNT
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            tops = [mount / "unified", mount]  # the first where both versions are mounted
        elif controller in controllers.split(","):
            tops = [mount / controllers, mount / controller]
        else:
            continue
        top = next((top for top in tops if top.is_dir()), None)
        if top is not None:
            folder = top / path.strip("/")
            yield from (each for each in (folder, *folder.parents) if each.is_relative_to(top) and each.is_dir())


def _quota_of(folder: Path) -> float | None:
    words = read_text(folder / "cpu.max").split()  # "max 100000" or "150000 100000", in microseconds
    if not words:
        words = [read_text(folder / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    quota, period = (_number(word) for word in words[:2])
    return quota / period if quota > 0 and period > 0 else None


def _limit_of(folder: Path) -> MemoryLimit | None:
    for limit, used, reclaimable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most = _number(read_text(folder / limit))
        if 0 < most < _UNLIMITED:
            cached = _field(folder / "memory.stat", reclaimable)
            return MemoryLimit(most, max(0, _number(read_text(folder / used)) - cached))
    return None


def _field(path: Path, name: str) -> int:
    """Return a number of a file with a name and a number in each line; 0 if it is not there."""
    for line in read_text(path).splitlines():
        words = line.split()
        if words[:1] == [name]:
            return _number(words[1])
    return 0


def _number(word: str) -> int:
    """Return a word as a number; 0 for `max`, for nothing, and for version 1's -1, which all mean no limit."""
    word = word.strip()
    return int(word) if word.isdecimal() else 0


def read_text(path: Path) -> str:
    """Return a file's text; nothing if the system has no such file, or does not let this user read it."""
    try:
        return path.read_text()
    except OSError:
        return ""
