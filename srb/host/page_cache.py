"""Files in the system's memory: their part that is there, and how what was written gets to the disk and out of it."""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

_SAMPLES = 256  # places of a file that are looked at: the part is then known to about 6 of 100


def drop_cached(descriptor: int) -> None:
    """Let a file that is on the disk leave the system's memory, where the system takes advice."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_part(files: Sequence[Path]) -> float | None:
    """Return which part of the files is in the page cache, from samples; None if the system does not tell.

    A sample is read only if that needs no disk. The kernel fetches the page of a miss, so each look takes other places.
    """
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return None
    found = looked = 0
    for path in files:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for _ in range(_SAMPLES // len(files) + 1):
                cached = _is_cached(file.fileno(), random.randrange(max(1, size)))
                if cached is None:
                    return None
                found, looked = found + cached, looked + 1
    return found / looked if looked else None


def _is_cached(descriptor: int, place: int) -> bool | None:
    try:
        return os.preadv(descriptor, [bytearray(1)], place, os.RWF_NOWAIT) == 1
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return False
        return None
