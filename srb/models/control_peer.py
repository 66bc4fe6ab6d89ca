"""The supervisor's end of the socket on which web workers wish for models: it never waits for a worker."""

import contextlib
import socket
from pathlib import Path

from srb.models.control import MAX_CONTROL_FRAME, Command, Event, decode_command, encode
from srb.wire.framing import Unframer, frame

_MAX_UNSENT = 4 * MAX_CONTROL_FRAME  # bytes; a worker that reads no more is cut off, or its frames fill memory


class ControlPeer:
    """One worker's connection. `ids` are those of its wishes and of the models that it holds."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.ids: set[str] = set()
        self._unframer = Unframer(MAX_CONTROL_FRAME)
        self._unsent = bytearray()
        sock.setblocking(False)

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> list[Command]:
        """Return the messages that have arrived. Raise EOFError at the end, OSError, and ProtocolError for others."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return []
        if not data:
            raise EOFError("the worker has left")
        return [decode_command(payload) for payload in self._unframer.feed(data)]

    def send(self, event: Event) -> None:
        """Send a message, now or when the socket takes it. Raise OSError if the worker is gone or reads no more."""
        self._unsent += frame(encode(event))
        self.flush()
        if len(self._unsent) > _MAX_UNSENT:
            raise OSError("the worker does not read")

    def flush(self) -> None:
        """Send what the socket takes now. Raise OSError if the worker is gone."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent)]

    def close(self) -> None:
        self.sock.close()


def listen(path: Path) -> socket.socket:
    """Return a socket that listens at `path`; the file of an ended process is replaced."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(64)  # more than there are workers, which all connect at once
    listener.setblocking(False)
    return listener
