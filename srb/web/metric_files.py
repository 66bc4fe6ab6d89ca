"""Metric files: prometheus-client's files of a worker's numbers, with blocks on the disk for every byte that is mapped.

prometheus-client maps sparse files. Where the disk is full, a number that is stored in a page without a block ends the
worker by SIGBUS, and so each one that follows it. Here the blocks are allocated first. Where there are none, the numbers
are counted in memory, which /metrics does not show, and moved to the file when a scrape finds room again.
"""

import logging
import mmap
import os
from typing import Any

import prometheus_client.values
from prometheus_client.mmap_dict import MmapedDict

log = logging.getLogger("srb.web")

_SIZE = 65536  # of a new file, as prometheus-client makes it
_HEAD = 8  # bytes before the entries: how much of the file is used

_AROUND_KEY = 28  # at most: its length, padding, the number and its time

_in_memory: "dict[int, AllocatedDict]" = {}  # the files of this process that have no room, by their id


class AllocatedDict(MmapedDict):
    """A file of numbers whose blocks exist, or memory in its place."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        self._path = filename
        if read_mode or _allocate(filename, _SIZE):
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
            return
        self._open_memory()

    def _init_value(self, key: str) -> None:
        """Add a key. If the file has to grow, its blocks come first."""
        grows = self._used + len(key.encode()) + _AROUND_KEY > self._capacity
        if grows and id(self) not in _in_memory and not _allocate(self._path, 2 * self._capacity):
            self._move_to_memory()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        _in_memory.pop(id(self), None)
        super().close()  # type: ignore[no-untyped-call]

    def _open_memory(self) -> None:
        fd = os.memfd_create(os.path.basename(self._path), os.MFD_CLOEXEC)
        try:
            super().__init__(f"/proc/self/fd/{fd}")  # type: ignore[no-untyped-call]
        finally:
            os.close(fd)
        _in_memory[id(self)] = self

    def _move_to_memory(self) -> None:
        """Go on in memory with what the file has, which stays as it is."""
        content, own_map, own_file = bytes(self._m), self._m, self._f
        fd = os.memfd_create(os.path.basename(self._path), os.MFD_CLOEXEC)
        self._f = os.fdopen(fd, "r+b")
        self._f.truncate(self._capacity)
        self._m = mmap.mmap(fd, self._capacity)
        self._m[:] = content
        own_map.close()
        own_file.close()
        _in_memory[id(self)] = self

    def move_to_file(self) -> bool:
        """Move the numbers to the file, if there is room; return whether there is."""
        if not _allocate(self._path, self._capacity):
            return False
        memory, own_file = self._m, self._f
        self._f = open(self._path, "r+b")  # noqa: SIM115
        self._m = mmap.mmap(self._f.fileno(), self._capacity)
        self._m[_HEAD : self._used] = memory[_HEAD : self._used]
        self._m[:_HEAD] = memory[:_HEAD]  # last: a reader of the file finds no entry that is not there yet
        memory.close()
        own_file.close()
        _in_memory.pop(id(self), None)
        return True


_has_told = False


def _allocate(path: str, size: int) -> bool:
    """Let a file have `size` bytes with blocks; return whether there is room. Tell once if there is none."""
    global _has_told
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        is_new = not os.fstat(fd).st_size
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError:
            if is_new:
                os.unlink(path)  # no other worker can read it
            raise
        finally:
            os.close(fd)
    except OSError as error:
        if not _has_told:
            _has_told = True
            text = "%s has no room (%s): until it has, /metrics does not show new numbers of this worker"
            log.warning(text, os.path.dirname(path), error.strerror)
        return False
    return True


def use_allocated_files() -> None:
    """Let prometheus-client use these files in this process, where the system can."""
    if hasattr(os, "posix_fallocate") and hasattr(os, "memfd_create"):
        values: Any = prometheus_client.values
        values.MmapedDict = AllocatedDict


def move_to_files() -> None:
    """Move numbers that are counted in memory to their files, where there is room by now."""
    global _has_told
    waiting = list(_in_memory.values())
    if waiting and all(each.move_to_file() for each in waiting):
        log.warning("%s has room again: /metrics shows all numbers of this worker", os.path.dirname(waiting[0]._path))
        _has_told = False
