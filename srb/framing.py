"""Length-prefixed frames over a stream socket: the wire format of multiprocessing.connection, without pickle.

A frame is a `!i` length and that many bytes, or `!i` −1, a `!Q` length and the bytes. `FrameSocket` works with blocking
sockets (the engine) and gevent's (the workers). Its owner lets one thread read and one write at a time.
"""

from __future__ import annotations

import socket
import struct

from srb.errors import ProtocolError

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
_LONG_MARK = -1
MAX_FRAME = 64 * 1024 * 1024  # bytes; a body of 4 MiB as token ids is much smaller


class FrameSocket:
    """One end of a connection, which sends and receives frames."""

    def __init__(self, sock: socket.socket, max_frame: int = MAX_FRAME) -> None:
        self._sock = sock
        self._max_frame = max_frame
        self._buffer = bytearray()

    def send(self, payload: bytes) -> None:
        """Send one frame; blocks while the peer's buffer is full. Raise OSError if the peer is gone."""
        if len(payload) <= 0x7FFFFFFF:
            header = _SHORT.pack(len(payload))
        else:
            header = _SHORT.pack(_LONG_MARK) + _LONG.pack(len(payload))
        self._sock.sendall(header + payload)

    def receive(self) -> bytes:
        """Return the next frame's payload. Raise EOFError at the end of the stream, ProtocolError for a bad length."""
        size = _SHORT.unpack(self._take(4))[0]
        if size == _LONG_MARK:
            size = _LONG.unpack(self._take(8))[0]
        if not 0 <= size <= self._max_frame:
            raise ProtocolError(f"a frame has {size} bytes; at most {self._max_frame} are allowed")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            chunk = self._sock.recv(max(65536, size - len(self._buffer)))
            if not chunk:
                raise EOFError("the connection was closed")
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def close(self) -> None:
        """Shut down both directions, which wakes a thread in receive(), and close; may be called again."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # never connected, or already closed by the peer
        self._sock.close()
