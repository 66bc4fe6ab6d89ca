"""CPU times of this process's threads and of the cores, as Linux tells them in /proc.

A thread *waits* when it is ready to run and something else has the core: that time is its loss to other programs, while a
thread that sleeps loses nothing.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from srb.host.cgroups import ROOT, read_text
from srb.host.cores import gives_way, usable_cpus

_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class CPUTimes:
    """Seconds since the previous reading: sums over threads, and over the cores that this process may use."""

    ran: float
    waited: float
    idle: float | None  # None: the system does not tell


class CPUClock:
    """A clock that tells, at each reading, the CPU times since the reading before.

    It counts the threads of native code, as OpenMP's, and the thread that reads, which calls this code. Other threads of
    Python are not part of the computation, nor are those that give way to it: they encode pictures.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._stat = root / "proc/stat"
        self._tasks = root / "proc/self/task"
        self._threads = self._read_threads()
        self._idle = self._read_idle()

    @property
    def is_known(self) -> bool:
        """Whether the system tells how long threads wait."""
        return bool(self._threads)

    def read(self) -> CPUTimes:
        """Return the times since the previous call, or since the start."""
        threads, idle = self._read_threads(), self._read_idle()
        ran = waited = 0
        for thread, (now_ran, now_waited) in threads.items():
            had_run, had_waited = self._threads.get(thread, (0, 0))
            ran += max(0, now_ran - had_run)
            waited += max(0, now_waited - had_waited)
        rested = sum(max(0, idle[cpu] - self._idle[cpu]) for cpu in idle if cpu in self._idle)
        self._threads, self._idle = threads, idle
        return CPUTimes(ran / _NANOSECONDS, waited / _NANOSECONDS, rested / os.sysconf("SC_CLK_TCK") if idle else None)

    def _read_threads(self) -> dict[int, tuple[int, int]]:
        """Return the nanoseconds that each thread ran and waited; nothing if the system does not tell."""
        pythons = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
        found = {}
        for name in _names(self._tasks):
            words = read_text(self._tasks / name / "schedstat").split()
            if int(name) not in pythons and len(words) >= 2 and not gives_way(int(name)):
                found[int(name)] = int(words[0]), int(words[1])
        return found

    def _read_idle(self) -> dict[str, int]:
        """Return the ticks for which each CPU that this process may use was idle; nothing if the system does not tell."""
        allowed = {f"cpu{cpu}" for cpu in usable_cpus()}
        lines = (line.split() for line in read_text(self._stat).splitlines() if line.startswith("cpu"))
        return {words[0]: int(words[4]) + int(words[5]) for words in lines if words[0] in allowed and len(words) > 5}


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
