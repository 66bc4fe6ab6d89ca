"""Memory that holds no numbers, for tests of what reads memory before it writes it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's, of glibc
_NOT_A_NUMBER = 0xFF  # in each byte of an f32, f16 or bf16


_SIZES = (2**24, 2**20, 2**16)  # bytes of blocks, by which all free memory of at least the last size is taken


@contextmanager
def poisoned_memory(nbytes: int = 2**28) -> Iterator[None]:
    """Let large blocks that the main thread allocates, up to `nbytes` in all, hold no numbers until they are written.

    Fresh memory of the system is zero, so a program that forgets to write it works until it gets memory that was freed.
    It is an allocator's own behaviour: glibc's.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    for threshold in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        libc.mallopt(threshold, 2 * nbytes)
    blocks = []
    for size in _SIZES:
        for _ in range(nbytes // len(_SIZES) // size):
            blocks.append(libc.malloc(size))
            ctypes.memset(blocks[-1], _NOT_A_NUMBER, size)
    for block in blocks:
        libc.free(block)
    try:
        yield
    finally:
        for threshold in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            libc.mallopt(threshold, 2**17)  # the default
