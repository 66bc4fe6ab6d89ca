"""Cores that this process may use: its CPU affinity, the second threads of cores, and its cgroup's CPU quota."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from srb.cgroups import ROOT, cpu_quota


def usable_cores(root: Path = ROOT, cpus: Iterable[int] | None = None) -> int:
    """Return the number of threads that can compute at once: physical cores, and no more than the CPU quota pays for.

    A core's second thread makes decoding slower, and so does a thread beyond the quota: the system stops all threads until
    the next period whenever the quota is used up, and those that wait for another thread use it up too.
    """
    cores = physical_cores(root, os.sched_getaffinity(0) if cpus is None else cpus)
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def physical_cores(root: Path, cpus: Iterable[int]) -> int:
    """Return the number of cores to which the CPUs belong."""
    cores = set()
    for cpu in cpus:
        siblings = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)
