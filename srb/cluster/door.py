"""The door of a replica: a TCP port that passes the frames of bridges on to the engine's Unix socket, byte by byte.

A connection begins with the replica's token, which bridges have from the registry. Nothing here looks into a frame, and
nothing is unpickled. The bytes are not encrypted: a cluster needs a private network.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
from pathlib import Path

from srb.keep_alive import keep_alive

log = logging.getLogger("srb.cluster")

TOKEN_LENGTH = 64  # characters
_TOKEN_SECONDS = 10.0
_CHUNK = 256 * 1024


def tune(writer: asyncio.StreamWriter) -> None:
    """Notice within seconds that the other machine is gone, and send small frames at once."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on every system
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)


class Door:
    """An open port. `num_open` counts the connections of bridges: who has no token does not delay a replica that drains."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._server: asyncio.Server | None = None
        self.token = secrets.token_hex(TOKEN_LENGTH // 2)
        self.num_open = 0

    async def open(self, host: str, port: int = 0) -> int:
        """Listen on an address of this machine; return the port."""
        self._server = await asyncio.start_server(self._connected, host, port)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            tune(writer)
            given = await asyncio.wait_for(reader.readexactly(TOKEN_LENGTH), _TOKEN_SECONDS)
            if hmac.compare_digest(given, self.token.encode()):
                self.num_open += 1
                try:
                    await self._pass_on(reader, writer)
                finally:
                    self.num_open -= 1
            else:
                log.warning("refused a connection with a wrong token from %s", writer.get_extra_info("peername"))
        except (OSError, EOFError, TimeoutError):
            pass  # the bridge is gone, or the engine does not listen: either sees the connection's end
        finally:
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on in both directions, until either side ends."""
        engine_reader, engine_writer = await asyncio.open_unix_connection(str(self._socket_path))
        try:
            ways = [
                asyncio.create_task(_copy(reader, engine_writer)),
                asyncio.create_task(_copy(engine_reader, writer)),
            ]
            _, other = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in other:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            engine_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
