"""Cores that this process may use, by CPU affinity, second threads and quota, their instructions, and who gives way."""

import contextlib
import ctypes
import os
import platform
import sys
import threading
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from srb.host.cgroups import ROOT, cpu_quota


def sysctl(name: str) -> int | None:
    """Return a number such as hw.memsize; None where the system has no such name."""
    if platform.system() != "Darwin" or (ask := getattr(ctypes.CDLL(None), "sysctlbyname", None)) is None:
        return None
    value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)  # of 4 bytes or 8, the low ones first
    failed = ask(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else value.value


_LESS = 5  # added to the nice value of threads that give way: where cores are short they get a third of another's share


def cpu_info(root: Path = ROOT) -> dict[str, str]:
    """Return what the system tells of the first CPU, by the names in /proc/cpuinfo; empty where there is none."""
    try:
        with (root / "proc/cpuinfo").open(errors="replace") as file:
            pairs = [line.partition(":") for line in takewhile(str.strip, file)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in pairs}


def instructions(info: Mapping[str, str]) -> frozenset[str]:
    """Return the names of a CPU's sets of instructions, such as avx2, from its `cpu_info`; empty: they are not known."""
    return frozenset((info.get("flags") or info.get("Features") or "").split())


def give_way() -> None:
    """Let the threads of this process that decode come before the calling one, and those that it starts, on Linux."""
    if sys.platform == "linux":  # a thread has a nice value of its own
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a container forbids it: then it has its share
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LESS)


def gives_way(thread: int) -> bool:
    """Whether a thread of this process, by its native id, comes after the calling one where cores are short."""
    if sys.platform != "linux":
        return False
    try:
        return os.getpriority(os.PRIO_PROCESS, thread) > os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    except OSError:  # it has ended
        return False


def usable_cores(root: Path = ROOT, cpus: Iterable[int] | None = None) -> int:
    """Return the number of threads that can compute at once: physical cores, and no more than the CPU quota pays for.

    A core's second thread makes decoding slower, and so does a thread beyond the quota: the system stops all threads until
    the next period whenever the quota is used up, and those that wait for another thread use it up too.
    """
    cores = physical_cores(root, usable_cpus() if cpus is None else cpus)
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def usable_cpus() -> set[int]:
    """Return the numbers of the CPUs that this process may run on: of all of the machine where the system knows no fewer."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def physical_cores(root: Path, cpus: Iterable[int]) -> int:
    """Return the number of cores to which the CPUs belong; of a Mac its fast ones, for which the others would wait."""
    if fast := sysctl("hw.perflevel0.physicalcpu") or sysctl("hw.physicalcpu"):
        return fast
    cores = set()
    for cpu in cpus:
        siblings = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)
