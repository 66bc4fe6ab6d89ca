"""Small files that others read at any time: each is written beside its place, and gets its name in one step."""

from __future__ import annotations

import contextlib
import errno
import os
from functools import partial
from pathlib import Path
from threading import get_ident

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # of flock, on file systems without locks


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that nobody sees half, and that is this user's alone.

    Raise OSError; then an older file is as it was, and nothing of the new one stays. Of several at once, the one that is
    ready last stays.
    """
    scratch = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.partial")
    try:
        with open(scratch, "wb", opener=partial(os.open, mode=0o600)) as file:
            file.write(data)
        scratch.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
