"""The runtime folder: who may run an engine (engine.lock) and where it listens (engine.sock)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from srb.errors import ConfigError

LOCK_NAME = "engine.lock"
SOCKET_NAME = "engine.sock"
EXIT_CONFIG = 2  # a setting is wrong
EXIT_MODEL = 3  # the model cannot be loaded: starting again would not help
EXIT_FAULT = 4  # the engine is beyond repair: start it again
_LONGEST_SOCKET_PATH = 107  # bytes: sun_path of AF_UNIX, less its closing zero


def make_runtime_dir(path: Path) -> None:
    """Create `path` with mode 0700, or check the one that is there.

    Raise ConfigError where another user could put a socket of their own in our place (the default lies in /tmp).
    """
    if len(os.fsencode(path / SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
        raise ConfigError(f"runtime_dir: {path} is too long; its socket's path may have {_LONGEST_SOCKET_PATH} bytes")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise ConfigError(f"runtime_dir: cannot create {path}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"runtime_dir: {path} is not a folder of this user")
    if found.st_mode & 0o022:
        raise ConfigError(f"runtime_dir: {path} can be written by other users; its mode should be 0700")


class EngineLock:
    """The right to be the one engine of a runtime folder; the kernel takes it back from a process that dies.

    The file is unlinked with the lock held, so whoever waited for it looks whether its file is still the one on disk.
    """

    def __init__(self, runtime_path: Path) -> None:
        self._runtime_path = runtime_path
        self._path = runtime_path / LOCK_NAME
        self._fd: int | None = None

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock and return True; without `wait`, return False where another process holds it."""
        while True:
            make_runtime_dir(self._runtime_path)  # the engine that left may have removed it
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return False
            except BaseException:
                os.close(fd)
                raise
            if self._is_on_disk(fd):
                self._fd = fd
                return True
            os.close(fd)

    def release(self) -> None:
        """Remove the socket and the lock's file and let the next engine in; may be called again."""
        if self._fd is None:
            return
        for name in (SOCKET_NAME, LOCK_NAME):  # the lock's file last: until then nobody else may listen
            (self._runtime_path / name).unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = None

    def _is_on_disk(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def clean_up(runtime_path: Path) -> None:
    """Remove what a killed engine left behind, and the folder where it is empty; another engine's are left alone."""
    if runtime_path.is_dir():
        lock = EngineLock(runtime_path)
        if lock.acquire(wait=False):
            lock.release()
        with contextlib.suppress(OSError):  # not empty, or systemd's to remove
            runtime_path.rmdir()
