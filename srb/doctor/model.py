"""The model's files: llama.cpp's facts about them, from a child process, and their part in the page cache."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from srb.errors import ModelLoadFailed
from srb.files.native_facts import NEEDS_MODULE, NativeFacts, read_facts
from srb.process.engine_child import describe
from srb.python import module_command

_TIMEOUT = 120  # seconds, in which even a file on a slow disk tells its header
_SAMPLES = 256  # places of a file that are looked at: the part is then known to about 6 of 100


def native_facts(environ: Mapping[str, str]) -> NativeFacts:
    """Return llama.cpp's facts about itself and the model of a server with this environment. Raise ModelLoadFailed."""
    command = module_command(NEEDS_MODULE)
    try:
        child = subprocess.run(
            command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelLoadFailed(f"the model's header was not read within {_TIMEOUT} seconds") from None
    if child.returncode:
        last = child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = f"llama.cpp ended while it read the model's header ({describe(child.returncode)})"
        raise ModelLoadFailed(": ".join([why, *last]))
    return read_facts(child.stdout)


def cached_part(files: Sequence[Path]) -> float | None:
    """Return which part of the files is in the page cache, from samples; None if the file system does not tell.

    A sample is read only if that needs no disk. The kernel fetches the page of a miss, so each look takes other places.
    """
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
