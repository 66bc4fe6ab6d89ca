"""The door of a replica: a TCP port that passes the frames of bridges on to the engine's Unix socket, byte by byte.

A connection begins with the replica's token, which bridges have from the registry or from a list of doors. Nothing here
looks into a frame, and nothing is unpickled. The bytes are not encrypted: a cluster needs a private network.

A connection that begins with the `watch_token` is told twice a second, in lines of JSON, what the replica says of itself:
so bridges without a registry hear that it hangs or leaves. Those that send frames of news (`door_news`) hear the others'
in these lines. One that begins with the `texts_token` is another replica's, which takes over a story (`giving`). A
connection with another token is closed after an empty line.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson

from srb.cluster.door_news import MOST_KEPT, MOST_TOLD, in_frame, in_lines
from srb.cluster.giving import give_texts
from srb.cluster.registry import Facts
from srb.cluster.shared_marks import START, SharedMarks
from srb.errors import ProtocolError
from srb.wire.framing import read_frame
from srb.wire.keep_alive import tune

log = logging.getLogger("srb.cluster")

TOKEN_LENGTH = 64  # characters
_TOKEN_SECONDS = 10.0  # bridges send it at once; who says nothing holds a descriptor so long
_TELL_SECONDS = 0.5  # between two lines to who watches
_LAST_LOOK = 2.0  # seconds without a connection before a leaving replica ends: bridges hear of it within one
_DRAIN_LOOK = 0.1  # seconds between looks whether a connection is open
REFUSED = b"\n"  # said to who has another token; it is no whole frame
_CHUNK = 256 * 1024  # bytes that are passed on at once: an event has about 100, a long prompt takes a few rounds


def watch_token(token: str) -> str:
    return hashlib.sha256(b"watch " + token.encode()).hexdigest()


def texts_token(token: str) -> str:
    return hashlib.sha256(b"texts " + token.encode()).hexdigest()


def bound(host: str, port: int) -> socket.socket:
    """Return a socket at an address of this machine, at which nobody is answered yet. Raise OSError."""
    [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


class Door:
    """An open port.

    `num_open` counts connections of bridges and of replicas that take texts: who has no token delays no replica that drains.
    """

    def __init__(self, socket_path: Path, token: str = "", facts: Callable[[], Facts] | None = None) -> None:
        """Without a token it gets one that nobody can guess; `facts` are for who watches."""
        self._socket_path = socket_path
        self._server: asyncio.Server | None = None
        self._facts = facts
        self._news = SharedMarks(MOST_KEPT)
        self._refused: set[str] = set()  # hosts that are in the log already
        self.token = token or secrets.token_hex(TOKEN_LENGTH // 2)
        self.num_open = 0

    async def open(self, host: str, port: int = 0) -> int:
        """Listen on an address of this machine; return the port."""
        return await self.listen(bound(host, port))

    async def listen(self, sock: socket.socket) -> int:
        """Listen on a bound socket; return the port."""
        self._server = await asyncio.start_server(self._connected, sock=sock)
        chosen: int = sock.getsockname()[1]
        return chosen

    async def drain(self) -> None:
        """Wait until no bridge has had a connection for a while: those that have just started ask for requests."""
        quiet = 0.0
        while quiet < _LAST_LOOK:
            await asyncio.sleep(_DRAIN_LOOK)
            quiet = 0.0 if self.num_open else quiet + _DRAIN_LOOK

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            tune(writer)
            given = await asyncio.wait_for(reader.readexactly(TOKEN_LENGTH), _TOKEN_SECONDS)
            if hmac.compare_digest(given, self.token.encode()):
                await self._counted(self._pass_on(reader, writer))
            elif hmac.compare_digest(given, texts_token(self.token).encode()):
                await self._counted(give_texts(reader, writer, self._socket_path))
            elif self._facts is not None and hmac.compare_digest(given, watch_token(self.token).encode()):
                await self._be_watched(reader, writer, self._facts)
            else:
                self._refuse(writer.get_extra_info("peername")[0])
                writer.write(REFUSED)
        except (OSError, EOFError, TimeoutError, ProtocolError, ValueError):
            pass  # the bridge is gone or sends nonsense, or the engine does not listen: either sees the connection's end
        except asyncio.CancelledError:
            pass  # the replica ends; asyncio would log that as an error
        finally:
            writer.close()

    async def _counted(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a connection for which a replica that drains waits."""
        self.num_open += 1
        try:
            await work
        finally:
            self.num_open -= 1

    def _refuse(self, host: str) -> None:
        """Log a wrong token, once for each host: a bridge with another one tries again and again."""
        if host not in self._refused:
            self._refused.add(host)
            log.warning("refused a connection with a wrong token from %s", host)

    async def _be_watched(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, facts: Callable[[], Facts]
    ) -> None:
        """Tell a bridge of the replica, and what other bridges have told of it, until the connection ends."""
        bridge, place = "", START

        async def hear() -> None:
            nonlocal bridge
            while True:
                bridge, news = in_frame(await read_frame(reader, MOST_TOLD))
                self._news.exchange(bridge, START, news)

        async def tell() -> None:
            nonlocal place
            while True:
                said: dict[str, Any] = {**facts(), "takes_news": True}
                place, heard = self._news.exchange(bridge, place, {}) if bridge else (place, [])
                for line in [*in_lines(heard)] or [[]]:
                    writer.write(orjson.dumps({**said, "heard": line} if line else said) + b"\n")
                    await writer.drain()
                await asyncio.sleep(_TELL_SECONDS)

        await _until_one_ends(hear(), tell())

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on in both directions, until either side ends."""
        engine_reader, engine_writer = await asyncio.open_unix_connection(str(self._socket_path))
        try:
            await _until_one_ends(_copy(reader, engine_writer), _copy(engine_reader, writer))
        finally:
            engine_writer.close()


async def _until_one_ends(*works: Coroutine[Any, Any, None]) -> None:
    """Do both ways of a connection until either ends."""
    ways = [asyncio.create_task(work) for work in works]
    _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in others:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
