"""Folders that stand for a machine's /proc and /sys in tests."""

from __future__ import annotations

from pathlib import Path

GIB = 1 << 30


class FakeRoot:
    """A root folder with the files of a small machine; tests change single ones with `write`."""

    def __init__(self, path: Path, cpus: int = 4, siblings: bool = False) -> None:
        self.path = path
        self.ticks = dict.fromkeys(("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"), 0)
        self.cpus = cpus
        blocks = (f"processor : {cpu}\nmodel name : Test CPU\nflags : avx avx2 fma\n" for cpu in range(cpus))
        self.write("proc/cpuinfo", "\n".join(blocks))
        self.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
        self.write("proc/self/cgroup", "0::/\n")
        self.write("proc/self/schedstat", "1000 0 1\n")
        self.write("proc/loadavg", "1.50 1.00 0.50 1/100 1234\n")
        self.write("proc/vmstat", "nr_free_pages 1\npswpin 0\n")
        self.write_ticks()
        for cpu in range(cpus):
            pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" if siblings else str(cpu)
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{pair}\n")

    def write(self, name: str, text: str) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def write_ticks(self, **more: int) -> None:
        """Add ticks (hundredths of a second) to the machine's CPU time, by kind."""
        for kind, count in more.items():
            self.ticks[kind] += count
        numbers = " ".join(map(str, self.ticks.values()))
        self.write(
            "proc/stat", "\n".join([f"cpu  {numbers}", *(f"cpu{cpu} 0 0" for cpu in range(self.cpus)), "intr 1"])
        )

    def write_process(self, pid: int, name: str, ticks: int, command: str = "") -> None:
        fields = " ".join(["S", *["0"] * 10, str(ticks), "0", *["0"] * 30])
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {fields}\n")
        self.write(f"proc/{pid}/comm", f"{name}\n")
        self.write(f"proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
