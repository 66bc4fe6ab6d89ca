"""Processes of this server and the memory of each, from /proc; none where the system has no /proc, or hides it."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srb.host.cgroups import ROOT


@dataclass(frozen=True)
class Process:
    """A process, its parent, its command line, and its resident memory, shared pages (as a mapped model's) included."""

    pid: int
    parent: int
    words: tuple[str, ...]
    resident_bytes: int


def own_descriptors() -> list[int]:
    """Return the numbers of this process's open files, sockets among them; one may be closed since."""
    for folder in ("/proc/self/fd", "/dev/fd"):  # of Linux, and of macOS
        with contextlib.suppress(OSError):
            return [int(name) for name in os.listdir(folder)]
    return []


def family(first: int, root: Path = ROOT) -> list[Process]:
    """Return the process `first` and all that it and its children started."""
    children: dict[int, list[Process]] = {}
    found: list[Process] = []
    for process in _all(root):
        children.setdefault(process.parent, []).append(process)
        if process.pid == first:
            found.append(process)
    for process in found:  # grows while it is read
        found += children.get(process.pid, ())
    return found


def _all(root: Path) -> Iterator[Process]:
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in (root / "proc").glob("[0-9]*"):
        if fields := fields_of(folder):
            yield Process(int(folder.name), int(fields[1]), tuple(words_of(folder)), int(fields[21]) * page)


def fields_of(process: Path) -> list[str]:
    """Return the fields of a process's `stat` behind its name, by its folder in /proc; [] if it has ended."""
    return _read(process / "stat").rpartition(")")[2].split()


def words_of(process: Path) -> list[str]:
    """Return a process's command line, by its folder in /proc."""
    return _read(process / "cmdline").split("\0")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:  # it has ended
        return ""
