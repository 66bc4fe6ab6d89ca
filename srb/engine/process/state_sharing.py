"""States that the replicas of a cluster share without a common folder: each replica's actor passes them on.

The actor listens on a socket in the runtime folder. It is asked to share a file that was written, or to fetch a later one.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import orjson

from srb.errors import ProtocolError
from srb.framing import FrameSocket

log = logging.getLogger("srb.states")

_SECONDS = 30.0  # for a state to cross the network; its prompt is computed if it takes longer


class StateSharing:
    """The way to the replica's actor. Without one, as on a single machine, nothing is done."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    def share(self, name: str) -> None:
        """Pass a state that was written on to the cluster."""
        self._ask("share", name, 0)

    def fetch(self, name: str, known: int) -> None:
        """Let the cluster's file of a name be written into the folder, if its save has a larger number than `known`."""
        self._ask("fetch", name, known)

    def _ask(self, action: str, name: str, known: int) -> None:
        if not self._socket_path.exists():
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(_SECONDS)
                sock.connect(str(self._socket_path))
                frames = FrameSocket(sock)
                frames.send(orjson.dumps({"action": action, "name": name, "known": known}))
                error = orjson.loads(frames.receive())["error"]
        except (OSError, EOFError, ProtocolError) as broken:
            error = str(broken) or type(broken).__name__
        if error:
            log.warning("state %s: the cluster cannot %s it: %s", name, action, error)
