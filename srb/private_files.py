"""Private files: those with texts of writers, or facts of a server, are created for their owner alone, whatever the umask.

The folder of such a file may be one that was there before, and open to all.
"""

import os
from pathlib import Path


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `open(…, opener=private)`: a new one has the mode 0600, one that is there keeps its own."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, data: bytes) -> None:
    """Write a file as `Path.write_bytes` does."""
    with open(path, "wb", opener=private) as file:
        file.write(data)
