"""The question to an engine whether requests run there, asked without waiting by a thread that serves others."""

import contextlib
import socket
from pathlib import Path

from srb.errors import ProtocolError
from srb.wire.codec import decode, encode
from srb.wire.commands import GetStats
from srb.wire.events import Reply
from srb.wire.framing import MAX_FRAME, Unframer, frame


class EngineQuestion:
    """One question on a connection of its own. `is_writing` is None until the engine has answered."""

    def __init__(self, path: Path) -> None:
        """Ask the engine that listens at `path`; one that listens no more writes nothing."""
        self.is_writing: bool | None = None
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # raises OSError where no descriptor is left
        self.sock.setblocking(False)
        self._unframer = Unframer(MAX_FRAME)
        try:
            self.sock.connect(str(path))
            self.sock.send(frame(encode([GetStats("supervisor")])))  # a new socket's buffer takes it whole
        except BlockingIOError:
            self.is_writing = True  # its queue of connections is full: it is busy
        except OSError:
            self.is_writing = False  # it is ending already

    def read(self) -> None:
        """Read what has arrived."""
        try:
            data = self.sock.recv(65536)
            payloads = self._unframer.feed(data)
            events = [event for payload in payloads for event in decode(payload)]
        except BlockingIOError:
            return
        except (OSError, ProtocolError):
            data, events = b"", []
        for event in events:
            if isinstance(event, Reply):
                stats = event.value  # a request of low priority is ended: its client holds no model
                self.is_writing = stats["requests_processing"] + stats["requests_deferred"] > stats["requests_last"]
        if not data and self.is_writing is None:
            self.is_writing = False  # it is ending already

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()
