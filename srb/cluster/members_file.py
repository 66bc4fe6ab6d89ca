"""MembersFile: the replicas that a bridge knew last, kept in the runtime folder for a bridge that starts without the head.

The file has the tokens of their doors, so nobody but this user may read it. It is JSON, and nothing but entries is read.
"""

import logging
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from srb.atomic import write_atomically
from srb.cluster.registry import Entry

log = logging.getLogger("srb.cluster")

_NAME = "members.json"


class _Content(TypedDict):
    cluster: str  # its address, as in the settings
    replicas: dict[str, Entry]


_CONTENT: TypeAdapter[_Content] = TypeAdapter(_Content)


class MembersFile:
    """The file of one bridge; the lock of the runtime folder keeps others away."""

    def __init__(self, runtime_path: Path, cluster: str) -> None:
        self._path = runtime_path / _NAME
        self._cluster = cluster
        self._kept: dict[str, Entry] = {}

    def read(self) -> dict[str, Entry]:
        """Return the entries that were written last; none if they are of another cluster, or not as they should be."""
        try:
            content = _CONTENT.validate_json(self._path.read_bytes(), strict=True)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s is not used: %s", self._path, type(error).__name__)
            return {}
        if content["cluster"] != self._cluster:
            return {}
        self._kept = content["replicas"]
        return dict(self._kept)

    def write(self, entries: dict[str, Entry]) -> None:
        """Keep these entries, unless the file has them already; atomic. A disk that is full is logged."""
        if entries == self._kept:
            return
        try:
            write_atomically(self._path, _CONTENT.dump_json(_Content(cluster=self._cluster, replicas=entries)))
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)
            return
        self._kept = dict(entries)

    def remove(self) -> None:
        """Remove the file, at the end of a server: the next one asks the registry."""
        self._path.unlink(missing_ok=True)
