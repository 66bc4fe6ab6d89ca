"""The shared folder of a server's workers: counts for metrics and limits, and the shared system prompt.

It is in the system's temporary folder, beside other users' and programs' folders. A killed server leaves its folder behind,
and the next server removes it: only folders that a server made, and in them only files that a server writes.
"""

import fcntl
import os
import re
import stat
import tempfile
from contextlib import suppress

_PREFIX = "srb-web-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")  # tempfile.mkdtemp's names
_MARKER = ".made-by-srb"
_OUR_FILE = re.compile(
    r"(calls|rates)\.sqlite(-journal)?"  # srb/web/limits.py
    r"|(system_prompt|last_scrape)\.json(\.\d+-\d+\.partial)?"  # srb/web/system_prompt.py, metrics.py, by srb/atomic.py
    r"|(counter|histogram|gauge_[a-z]+)_\d+\.db"  # prometheus-client, one of each kind per process
)


def make_shared_folder() -> str:
    """Make a folder, locked until this process and its workers have ended, with a marker that a server made it."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fcntl.flock(fd, fcntl.LOCK_EX)  # before the marker: other servers ignore a folder without one
    os.close(os.open(_MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=fd))
    return folder


def remove_shared_folder(folder: str) -> None:
    """Remove the folder that this process made and has locked; if it has files of others, it and they remain."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _remove(folder, fd)
        finally:
            os.close(fd)


def sweep_shared_folders() -> None:
    """Remove the shared folders that this user's killed servers left behind."""
    parent = tempfile.gettempdir()
    for name in filter(_NAME.fullmatch, os.listdir(parent)):
        with suppress(OSError):  # not a folder, not readable, or another server removes it now
            _sweep(os.path.join(parent, name))


def _sweep(folder: str) -> None:
    """Remove one folder if a server made it and no process holds its lock. Raise OSError if it is unreadable or locked."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_uid == os.getuid() and _is_own_file(fd, _MARKER):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder, fd)
    finally:
        os.close(fd)


def _remove(folder: str, fd: int) -> None:
    """Remove a server's files from the folder that is open as `fd`, then the marker, then the folder.

    Raise OSError if the folder has other files.
    """
    for name in os.listdir(fd):
        if _OUR_FILE.fullmatch(name) and _is_own_file(fd, name):
            os.unlink(name, dir_fd=fd)
    if _is_own_file(fd, _MARKER):
        os.unlink(_MARKER, dir_fd=fd)
    os.rmdir(folder)


def _is_own_file(fd: int, name: str) -> bool:
    """Whether `name` in the folder `fd` is a regular file of this user, neither a link nor a folder."""
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
