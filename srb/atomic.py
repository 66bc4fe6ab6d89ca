"""Files that are written in one step, and files that are their owner's alone: with texts of writers, or facts of a server.

A small file that others read at any time is written beside its place, and then gets its name. The folder of a private file
may be one that was there before, and open to all; so its mode does not depend on the umask.
"""

import contextlib
import errno
import os
from pathlib import Path
from threading import get_ident

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # of flock, on file systems without locks


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `open(…, opener=private)`: a new one has the mode 0600, one that is there keeps its own."""
    return os.open(path, flags, 0o600)


def sync_data(descriptor: int) -> None:
    """Return when what was written to a file is on the disk. Raise OSError."""
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has only the second, in Python


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that nobody sees half, and that is this user's alone.

    Raise OSError; then an older file is as it was, and nothing of the new one stays. Of several at once, the one that is
    ready last stays.
    """
    scratch = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.partial")
    try:
        with open(scratch, "wb", opener=private) as file:
            file.write(data)
        scratch.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
