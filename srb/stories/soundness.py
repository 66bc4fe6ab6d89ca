"""Whether the pages of the stories' file are known to be sound, so that not every start has to read them all.

SQLite's check reads the whole file. Its outcome stays true as long as SQLite alone writes the file on a machine that runs,
so the file's stamp (inode, size and time of the last change) is noted beside it: with the id of the system's boot while the
file is open, since a loss of power may damage what a kill cannot, and without one when it was closed. A file with any other
stamp has been restored, copied, or written by something else, and is checked.
"""

from functools import cache
from pathlib import Path

from srb.atomic import write_atomically

SUFFIX = "-checked"  # of the note's name, after the file's
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CLOSED = "closed"


class Soundness:
    """The note beside one file. A folder in which it cannot be written costs a check at each opening, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = path.with_name(path.name + SUFFIX)
        self._noted = ""  # by this process, to write the note only when SQLite has changed the file itself

    def is_known(self) -> bool:
        """Whether the file is as it was when it was known to be sound."""
        stamp = self._stamp()
        return bool(stamp) and self._read() in (f"{stamp} {_CLOSED}", f"{stamp} {_boot()}")

    def note_open(self) -> None:
        """Note the file as it is while it is in use; after most commits only its log has changed, and nothing is written."""
        if (boot := _boot()) and (stamp := self._stamp()):
            self._write(f"{stamp} {boot}")

    def note_closed(self) -> None:
        """Note the file as SQLite has left it."""
        if stamp := self._stamp():
            self._write(f"{stamp} {_CLOSED}")

    def forget(self) -> None:
        """Remove the note of a file that was found damaged."""
        self._noted = ""
        try:
            self._note.unlink(missing_ok=True)
        except OSError:
            pass  # its stamp is that of the damaged file, which is told at the next read of the same page

    def _write(self, note: str) -> None:
        if note == self._noted:
            return
        try:
            if self._read() != note:  # of many processes that save, one has noted it
                write_atomically(self._note, note.encode())
        except OSError:
            return
        self._noted = note

    def _read(self) -> str:
        try:
            return self._note.read_text()
        except (OSError, ValueError):
            return ""

    def _stamp(self) -> str:
        try:
            found = self._path.stat()
        except OSError:
            return ""
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


@cache
def _boot() -> str:
    """Return the id of the system's boot; empty where the system has none, so that each unclean end means a check."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
