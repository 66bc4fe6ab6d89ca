"""The runtime folder: the engine's lock (engine.lock) and socket (engine.sock)."""

import contextlib
import errno
import fcntl
import logging
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

from srb.config.settings import SERVER_ID_VARIABLE, SOCKET_NAME, Settings
from srb.errors import ConfigError, MachineError

log = logging.getLogger("srb.supervisor")

LOCK_NAME = "engine.lock"
_PATIENCE = 30.0  # seconds that a server has to end beside those for its streams and states, while the next one waits
# Bytes of sun_path of AF_UNIX without its closing zero.
_MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}  # errors of a disk, which may end


def make_runtime_dir(path: Path) -> None:
    """Create `path` with mode 0700, or check an existing folder.

    Raise ConfigError if another user could replace the socket in it (the default folder is in /tmp), and if nothing can be
    written in it: MachineError if its disk is full.
    """
    if len(os.fsencode(path / SOCKET_NAME)) > _MAX_SOCKET_PATH:
        raise ConfigError(f"runtime_dir: {path} is too long; the path of its socket may have {_MAX_SOCKET_PATH} bytes")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise _unusable(f"create {path}", error) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"runtime_dir: {path} is not a folder owned by this user")
    if found.st_mode & 0o022:
        raise ConfigError(f"runtime_dir: {path} is writable by other users; its mode should be 0700")
    _check_room(path)


def _check_room(path: Path) -> None:
    probe = path / f"probe.{os.getpid()}"
    try:
        probe.write_bytes(b"room")
    except FileNotFoundError:
        pass  # the folder's last engine removes it just now
    except OSError as error:
        raise _unusable(f"write in {path}", error) from None
    finally:
        with contextlib.suppress(OSError):  # a disk that can only be read refuses before it looks
            probe.unlink()


def _unusable(what: str, error: OSError) -> ConfigError:
    kind = MachineError if error.errno in _FULL else ConfigError
    return kind(f"runtime_dir: cannot {what}: {error.strerror}")


class EngineLock:
    """The lock of a runtime folder, so that only one engine runs in it; the kernel frees a dead process's lock.

    With other names it is the lock of a supervisor of several models.

    The file is unlinked while the lock is held, so a process that gets the lock checks that its file is still on disk.
    """

    def __init__(self, runtime_path: Path, lock_name: str = LOCK_NAME, socket_name: str = SOCKET_NAME) -> None:
        self._runtime_path = runtime_path
        self._path = runtime_path / lock_name
        self._names = (socket_name, lock_name)  # the lock last: until then no other process may listen
        self._fd: int | None = None

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock and return True; without `wait`, return False where another process holds it."""
        while True:
            make_runtime_dir(self._runtime_path)  # the previous engine may have removed it
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

    def sign(self, name: str) -> None:
        """Write into the file of a lock that is held who holds it."""
        assert self._fd is not None
        with contextlib.suppress(OSError):  # the disk is full; then it is another's for who asks
            os.write(self._fd, name.encode())

    def holder(self) -> str:
        """Return the name of the process that holds the lock; "" if it has not signed."""
        try:
            return self._path.read_text()
        except OSError:
            return ""

    def release(self) -> None:
        """Remove the socket and the lock file, and release the lock; may be called again."""
        if self._fd is None:
            return
        for name in self._names:
            with contextlib.suppress(OSError):  # it is missing, or the disk takes no change
                (self._runtime_path / name).unlink()
        os.close(self._fd)
        self._fd = None

    def _is_on_disk(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def take_folder(lock: EngineLock, settings: Settings, pause: Callable[[], bool]) -> bool:
    """Take a supervisor's lock of the runtime folder; return whether it has it, and does not stop meanwhile.

    A server that is ending is waited for, `pause` after `pause`, which returns whether to go on; so is this server's own
    former supervisor, for as long as its operator likes (SIGUSR2). Raise ConfigError if another server goes on.
    """
    server_id = os.environ.get(SERVER_ID_VARIABLE, "")
    deadline = time.monotonic() + _PATIENCE + settings.graceful_timeout + settings.state_seconds
    is_first = True
    while not lock.acquire(wait=False):
        if is_first:
            log.info("another supervisor runs in %s; waiting for it to exit", settings.runtime_path)
            is_first = False
        if time.monotonic() >= deadline and lock.holder() != (server_id or None):
            raise ConfigError(
                f"runtime_dir: {settings.runtime_path} belongs to another server; set runtime_dir to another folder"
            )
        if not pause():
            return False
    lock.sign(server_id)
    return True


def clean_up(runtime_path: Path) -> None:
    """Remove a killed engine's files, and the folder if it is empty; a running engine's files stay.

    Files that cannot be removed stay too: the next start replaces them.
    """
    if runtime_path.is_dir():
        lock = EngineLock(runtime_path)
        with contextlib.suppress(OSError, ConfigError):  # the disk is full, or no descriptor is left
            if lock.acquire(wait=False):
                lock.release()
        with contextlib.suppress(OSError):  # not empty, or systemd's to remove
            runtime_path.rmdir()
