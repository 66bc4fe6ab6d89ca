"""The machine: cores, memory, swap, and the settings of the system that speed depends on, read from /proc and /sys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from srb.host.cgroups import ROOT, cpu_quota, memory_limit
from srb.host.cores import cpu_info, instructions, physical_cores, usable_cores, usable_cpus
from srb.host.memory import free_memory, meminfo, total_memory

# Folders by which the system's drivers show a graphics card, and the build of llama.cpp for it.
_CARDS = (("proc/driver/nvidia/gpus", "an NVIDIA card", "cuda"), ("dev/kfd", "an AMD card", "rocm"))
_INTEL, _AMD = "0x8086", "0x1002"


@dataclass(frozen=True)
class Card:
    """A graphics card that the system shows, and the build of llama.cpp that would use it."""

    name: str
    build: str  # as in `make install GPU=…`


@dataclass(frozen=True)
class Machine:
    """Facts of this machine that a server's speed and size depend on; sizes are bytes."""

    cpu: str
    cpus: int  # of the machine, second threads included
    allowed: int  # CPUs that this process may run on
    cores: int  # physical cores among these
    quota: float | None  # cores' worth of CPU time that the control group may use
    usable: int  # cores that the server uses by default
    tells_waits: bool  # whether the system tells how long threads wait for a core, by which their number is adapted
    numa_nodes: int
    memory: int | None  # None, here and below: the system does not tell
    memory_limit: int | None  # of the control group
    memory_free: int | None  # for a new program, within the limit
    swap: int | None
    swap_used: int
    governor: str  # of the first CPU's frequency; empty: not shown
    preference: str  # energy_performance_preference of drivers that choose the frequency themselves
    huge_pages: str  # always, madvise or never; empty: not shown
    instructions: frozenset[str]  # flags of the CPU
    card: Card | None


def read_machine(root: Path = ROOT, allowed: Iterable[int] | None = None) -> Machine:
    """Read the facts; `allowed` are the CPUs that this process may run on, by default as the system tells."""
    cpus = sorted(usable_cpus() if allowed is None else allowed)
    info, memory, limit, total = cpu_info(root), meminfo(root), memory_limit(root), total_memory(root)
    frequency = root / "sys/devices/system/cpu/cpu0/cpufreq"
    return Machine(
        cpu=info.get("model name", "") or info.get("Model", ""),
        cpus=_count(root / "proc/stat", "cpu") - 1
        if (root / "proc/stat").exists()
        else len(cpus),  # the first is the sum
        allowed=len(cpus),
        cores=physical_cores(root, cpus),
        quota=cpu_quota(root),
        usable=usable_cores(root, cpus),
        tells_waits=(root / "proc/self/schedstat").exists(),
        numa_nodes=max(1, len(list((root / "sys/devices/system/node").glob("node[0-9]*")))),
        memory=total,
        memory_limit=limit.limit if limit and limit.limit < (total or 0) else None,
        memory_free=free_memory(root),
        swap=memory.get("SwapTotal"),
        swap_used=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        governor=_word(frequency / "scaling_governor"),
        preference=_word(frequency / "energy_performance_preference"),
        huge_pages=_chosen(_word(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        instructions=instructions(info),
        card=_card(root),
    )


def _card(root: Path) -> Card | None:
    for path, name, build in _CARDS:
        if (root / path).exists():
            return Card(name, build)
    for vendor in sorted((root / "sys/class/drm").glob("card[0-9]/device/vendor")):
        if _word(vendor) in (_INTEL, _AMD):
            return Card("a graphics chip", "vulkan")
    return None


def _count(path: Path, beginning: str) -> int:
    return sum(line.startswith(beginning) for line in _word(path).splitlines())


def _chosen(text: str) -> str:
    """Return the word in brackets of a line such as `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0]


def _word(path: Path) -> str:
    """Return a file's text without the space around it; nothing where the system does not show it."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
