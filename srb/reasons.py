"""Reasons why a file cannot be used: the system's words and, where a permission is missing, whose file or folder it is."""

import errno
import os
import pwd
import stat
from pathlib import Path

_DENIED = (errno.EACCES, errno.EPERM)


def reason_of(error: OSError, path: str | os.PathLike[str]) -> str:
    """Return why the system refused `path`."""
    reason = error.strerror or str(error)
    return reason + whose(path) if error.errno in _DENIED else reason


def whose(path: str | os.PathLike[str]) -> str:
    """Return, for the end of a sentence, the owner and mode of the first part of a path that keeps this process out."""
    found: tuple[Path, os.stat_result] | None = None
    absolute = Path(path).absolute()
    for part in (*reversed(absolute.parents), absolute):
        try:
            found = part, part.stat()
        except OSError:  # it is missing, or in a folder that is closed
            break
        if stat.S_ISDIR(found[1].st_mode) and not os.access(part, os.X_OK):
            break
    if found is None:
        return ""
    part, facts = found
    if os.statvfs(part).f_flag & os.ST_RDONLY:
        return " (the file system is mounted read-only)"
    return (
        f" ({part} belongs to {_name(facts.st_uid)}, mode {facts.st_mode & 0o7777:03o}; this is {_name(os.geteuid())})"
    )


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
