"""Memory of processes over time: whether it stays level once the caches are full."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ROOM_MIB = 96.0  # beyond the parked text: buffers of the first requests, and garbage that Python has not collected yet
RISE_MIB = 64.0  # in the second half of a run that is too short for a slope: buffers that are used for the first time
LONG_MINUTES = 4.0  # length of a half from which on the slope is used
SLOPE_MIB = 1.0  # a minute
_MIN_SAMPLES = 6  # samples; with fewer there is no second half

Points = list[tuple[float, float]]  # minutes, MiB


class EngineMemory:
    """Resident memory of engine processes, one after another; each is judged by itself."""

    def __init__(self, budget_mib: float) -> None:
        """Allow `budget_mib` of parked text (the setting `cache_ram_mib`)."""
        self._budget_mib = budget_mib
        self._lives: dict[int, Points] = {}  # by pid

    def sample(self, pid: int, minutes: float, mib: float) -> None:
        """Add a sample of a loaded engine's memory; 0 for a killed engine is ignored."""
        if mib:
            self._lives.setdefault(pid, []).append((minutes, mib))

    def lines(self) -> list[str]:
        """Return a line for each engine process."""
        said = []
        for pid, life in self._lives.items():
            first, most, last = life[0][1], max(mib for _, mib in life), life[-1][1]
            minutes = life[-1][0] - life[0][0]
            said.append(
                f"engine {pid}: {first:.0f} MiB at first, {most:.0f} at most, {last:.0f} after {minutes:.1f} minutes"
            )
        return said

    def problems(self) -> list[str]:
        """Return the problems; one of them is that no engine lived long enough to judge."""
        found = [problem for pid, life in self._lives.items() for problem in self._judge(pid, life)]
        if not any(len(life) >= _MIN_SAMPLES for life in self._lives.values()):
            found.append("no engine lived long enough to measure its memory")
        return found

    def _judge(self, pid: int, life: Points) -> list[str]:
        found = []
        grown, allowed = max(mib for _, mib in life) - life[0][1], self._budget_mib + ROOM_MIB
        if grown > allowed:
            found.append(f"engine {pid} grew by {grown:.0f} MiB; {allowed:.0f} are allowed")
        later = life[len(life) // 2 :]  # the caches fill first
        if len(life) < _MIN_SAMPLES:
            return found
        if later[-1][0] - later[0][0] >= LONG_MINUTES:
            if (rise := slope(later)) > SLOPE_MIB:
                found.append(f"engine {pid} grows by {rise:.1f} MiB a minute; {SLOPE_MIB:.1f} are allowed")
        elif (rise := later[-1][1] - later[0][1]) > RISE_MIB:
            found.append(
                f"engine {pid} grew by {rise:.0f} MiB in the second half of its life; {RISE_MIB:.0f} are allowed"
            )
        return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line that fits best (least squares)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, 0 for one that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
