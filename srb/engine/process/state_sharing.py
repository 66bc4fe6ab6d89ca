"""States that the replicas of a cluster share without a common folder: each replica's actor passes them on.

The actor listens on a socket in the runtime folder. It is asked to share a file that was written, whether there is a later
one, and to fetch that.
"""

import logging
import socket
import time
from pathlib import Path
from typing import Any

import orjson

from srb.errors import ProtocolError
from srb.wire.framing import FrameSocket

log = logging.getLogger("srb.states")

_ANSWER_SECONDS = 2.0  # for an answer, which normally takes milliseconds: the prompt waits, and could be computed
_BYTES_PER_SECOND = 20_000_000  # that a file may take beside; over a slower way its text is computed as soon
_SILENT_SECONDS = 30.0  # that nothing is asked after an answer that came too late: each prompt would wait for it again


class StateSharing:
    """The way to the replica's actor. Without one, as on a single machine, nothing is done.

    No request waits long for a cluster that does not answer: then its prompt is computed, and so are the next ones for a
    while, without asking.
    """

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._silent_until: float | None = None  # None: the cluster answers

    def share(self, name: str, size: int) -> None:
        """Pass a state that was written on to the cluster, a file of `size` bytes."""
        self._ask("share", name, 0, size)

    def fetch(self, name: str, known: int) -> None:
        """Let the cluster's file of a name be written into the folder, if its save has a larger number than `known`."""
        if size := self._ask("look", name, known).get("size", 0):
            self._ask("fetch", name, known, size)

    def _ask(self, action: str, name: str, known: int, size: int = 0) -> dict[str, Any]:
        """Return the actor's answer to a question about a file of `size` bytes; empty if there is none."""
        if not self._socket_path.exists() or self._is_silent:
            return {}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(_ANSWER_SECONDS + size / _BYTES_PER_SECOND)
                sock.connect(str(self._socket_path))
                frames = FrameSocket(sock)
                frames.send(orjson.dumps({"action": action, "name": name, "known": known}))
                answer: dict[str, Any] = orjson.loads(frames.receive())
        except (OSError, EOFError, ProtocolError) as broken:
            self._note_silence(str(broken) or type(broken).__name__)
            return {}
        self._note_answer()
        if answer["error"]:
            log.warning("state %s: the cluster cannot %s it: %s", name, action, answer["error"])
        return answer

    @property
    def _is_silent(self) -> bool:
        return self._silent_until is not None and time.monotonic() < self._silent_until

    def _note_silence(self, reason: str) -> None:
        if self._silent_until is None:
            log.warning(
                "the cluster's states cannot be had (%s); until they can, prompts that name one are computed", reason
            )
        self._silent_until = time.monotonic() + _SILENT_SECONDS

    def _note_answer(self) -> None:
        if self._silent_until is not None:
            self._silent_until = None
            log.info("the cluster's states can be had again")
