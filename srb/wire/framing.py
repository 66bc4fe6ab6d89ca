"""Length-prefixed frames over a stream socket: the wire format of multiprocessing.connection, without pickle.

A frame is a `!i` length and that many bytes, or `!i` −1, a `!Q` length and the bytes. `FrameSocket` works with blocking
sockets (the engine) and gevent's (the workers). Its owner lets one thread read and one write at a time. `frame` and
`read_frame` are for asyncio's streams (the bridge to a cluster).
"""

import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from srb.errors import ProtocolError

if TYPE_CHECKING:
    import asyncio

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
_LONG_MARK = -1
MAX_FRAME = 64 * 1024 * 1024  # bytes, twice the largest body; another length is refused before it is allocated


def frame(payload: bytes) -> bytes:
    """Return the bytes of one frame."""
    if len(payload) <= 0x7FFFFFFF:
        return _SHORT.pack(len(payload)) + payload
    return _SHORT.pack(_LONG_MARK) + _LONG.pack(len(payload)) + payload


async def read_frame(reader: "asyncio.StreamReader", max_frame: int = MAX_FRAME) -> bytes:
    """Return the next frame's payload. Raise EOFError at the end of the stream, ProtocolError for a bad length."""
    size = _SHORT.unpack(await reader.readexactly(4))[0]
    if size == _LONG_MARK:
        size = _LONG.unpack(await reader.readexactly(8))[0]
    check_size(size, max_frame)
    return await reader.readexactly(size)


def check_size(size: int, max_frame: int) -> None:
    """Raise ProtocolError for a length that no frame has."""
    if not 0 <= size <= max_frame:
        raise ProtocolError(f"a frame has {size} bytes; at most {max_frame} are allowed")


class Unframer:
    """Bytes as they arrive, cut into the payloads of frames; for sockets that are read only as far as they have data."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the frames that are complete now. Raise ProtocolError for a bad length."""
        self._buffer += data
        payloads = []
        while len(self._buffer) >= _SHORT.size:
            size = _SHORT.unpack_from(self._buffer)[0]
            check_size(size, self._max_frame)  # which is below the sizes that _LONG is for
            end = _SHORT.size + size
            if len(self._buffer) < end:
                break
            payloads.append(bytes(self._buffer[_SHORT.size : end]))
            del self._buffer[:end]
        return payloads


class FrameSocket:
    """One end of a connection, which sends and receives frames."""

    def __init__(self, sock: socket.socket, max_frame: int = MAX_FRAME) -> None:
        self._sock = sock
        self._max_frame = max_frame
        self._buffer = bytearray()

    def send(self, payload: bytes) -> None:
        """Send one frame; blocks while the peer's buffer is full. Raise OSError if the peer is gone."""
        self._sock.sendall(frame(payload))

    def send_now(self, payloads: Iterable[bytes]) -> bytes:
        """Send frames on a blocking socket without waiting: return what the peer's buffer has no room for.

        `send_rest` is to send that before any other frame. Raise OSError if the peer is gone.
        """
        data = b"".join(map(frame, payloads))
        try:
            return data[self._sock.send(data, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return data

    def send_rest(self, data: bytes) -> None:
        """Send what `send_now` has returned; blocks as `send` does."""
        self._sock.sendall(data)

    def receive(self) -> bytes:
        """Return the next frame's payload. Raise EOFError at the end of the stream, ProtocolError for a bad length."""
        size = _SHORT.unpack(self._take(4))[0]
        if size == _LONG_MARK:
            size = _LONG.unpack(self._take(8))[0]
        check_size(size, self._max_frame)
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
