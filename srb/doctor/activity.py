"""Activity of the machine during a short while: which programs use the cores, and how long threads wait for one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srb.host.cgroups import ROOT, throttled_times
from srb.host.processes import fields_of, words_of

SECONDS = 1.0  # a hundred ticks of CPU time, so that a share of a core is known to a hundredth
_LEAST = 0.05  # cores; programs that use less are not named: no step would wait for them noticeably
_MOST_PROGRAMS = 5  # of which the text names three
_ENGINE = "srb.engine.process"  # the module that an engine runs
_OTHERS = ("srb.process.supervisor", "srb.models.supervisor", "srb.cluster.bridge", "python:srb.serve")  # of a server


@dataclass(frozen=True)
class Program:
    """A process, and the cores' worth of CPU time that it used."""

    pid: int
    name: str
    cores: float
    is_srb: bool  # a server of this package, which is not another program


@dataclass(frozen=True)
class Activity:
    """Use of the machine's CPUs while it was watched, in cores."""

    seconds: float
    load: float  # processes that run or want to, over the last minute
    busy: float
    stolen: float  # used by other virtual machines on the same hardware
    programs: tuple[Program, ...]  # the busiest first
    throttled: int  # times that the control group was stopped for its quota
    swapped_in: int  # pages read from swap
    engines: tuple[int, ...]  # pids of this package's engines, which hold memory for a model of their own
    is_told: bool = True  # False: the system tells none of this

    @property
    def by_others(self) -> float:
        """Cores that others keep busy, programs outside of this container included."""
        return max(0.0, self.busy - sum(program.cores for program in self.programs if program.is_srb))


@dataclass
class _Snapshot:
    at: float
    busy: int
    stolen: int
    ticks: dict[int, int]
    throttled: int
    swapped_in: int


def watch(root: Path = ROOT, seconds: float = SECONDS, sleep: Callable[[float], None] = time.sleep) -> Activity:
    """Watch the machine for some seconds."""
    before = _snapshot(root)
    sleep(seconds)
    after = _snapshot(root)
    passed, hertz = max(after.at - before.at, 1e-3), os.sysconf("SC_CLK_TCK")  # no division by 0 without a sleep
    used = {
        pid: (ticks - before.ticks[pid]) / hertz / passed
        for pid, ticks in after.ticks.items()
        if pid in before.ticks and pid != os.getpid()
    }
    busiest = sorted((pid for pid in used if used[pid] >= _LEAST), key=lambda pid: -used[pid])
    return Activity(
        seconds=passed,
        load=_load(root),
        busy=(after.busy - before.busy) / hertz / passed,
        stolen=(after.stolen - before.stolen) / hertz / passed,
        programs=tuple(_program(root, pid, used[pid]) for pid in busiest[:_MOST_PROGRAMS]),
        throttled=after.throttled - before.throttled,
        swapped_in=after.swapped_in - before.swapped_in,
        is_told=(root / "proc/stat").exists(),
        engines=tuple(sorted(pid for pid in after.ticks if _ENGINE in words_of(root / "proc" / str(pid)))),
    )


def _snapshot(root: Path) -> _Snapshot:
    user, nice, system, _idle, _iowait, irq, softirq, stolen, *_ = _cpu_line(root)
    ticks = {int(path.name): found for path in (root / "proc").glob("[0-9]*") if (found := _ticks(path)) is not None}
    swapped = next((int(line.split()[1]) for line in _lines(root / "proc/vmstat") if line.startswith("pswpin ")), 0)
    busy = user + nice + system + irq + softirq
    return _Snapshot(time.monotonic(), busy, stolen, ticks, throttled_times(root), swapped)


def _cpu_line(root: Path) -> list[int]:
    """Return the first line of /proc/stat: ticks of all CPUs together, by kind."""
    words = next(iter(_lines(root / "proc/stat")), "").split()[1:]
    return [int(word) for word in words] + [0] * (8 - len(words))


def _ticks(process: Path) -> int | None:
    """Return the ticks of CPU time that a process has used; None if it has ended."""
    fields = fields_of(process)
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else None


def _program(root: Path, pid: int, cores: float) -> Program:
    name = "".join(_lines(root / "proc" / str(pid) / "comm")).strip() or "a process that has ended"
    is_srb = any(word.startswith((_ENGINE, *_OTHERS)) for word in words_of(root / "proc" / str(pid)))
    return Program(pid, "SRB" if is_srb else name, cores, is_srb)


def _load(root: Path) -> float:
    words = "".join(_lines(root / "proc/loadavg")).split()
    return float(words[0]) if words else 0.0


def _lines(path: Path) -> list[str]:
    """Return a file's lines; none if the process of the file has ended, or the system hides it."""
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
