"""Link: a bridge's connection to the engine of one replica."""

import asyncio
from pathlib import Path
from typing import Any

from srb.cluster.registry import Entry
from srb.errors import ProtocolError
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import Ask, GetStats
from srb.wire.events import Hello, Ready, Rejected, Reply
from srb.wire.framing import frame, read_frame
from srb.wire.keep_alive import tune

_OPEN_SECONDS = 5.0  # for the connection itself; an engine that loads its model is waited for


class Link:
    """An open connection, after the engine's Hello and Ready. Frames pass as they are."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int, model: dict[str, Any]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.pid = pid  # the engine's
        self.model = model  # ModelInfo's fields

    @classmethod
    async def open(cls, entry: Entry) -> "Link":
        """Connect, and wait until the engine has its model. Raise OSError, EOFError or ProtocolError."""
        async with asyncio.timeout(_OPEN_SECONDS):
            reader, writer = await asyncio.open_connection(entry["host"], entry["port"])
        return await cls._greeted(reader, writer, entry["token"])

    @classmethod
    async def open_own(cls, socket_path: Path) -> "Link":
        """Connect to an engine on this machine, as `open` does."""
        return await cls._greeted(*await asyncio.open_unix_connection(str(socket_path)))

    @classmethod
    async def _greeted(cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str = "") -> "Link":
        try:
            if token:  # a replica's door, on another machine
                tune(writer)
                writer.write(token.encode())
            return cls(reader, writer, *await _greeting(reader))
        except BaseException:
            writer.close()
            raise

    def send(self, payload: bytes) -> None:
        self._writer.write(frame(payload))

    async def receive(self) -> bytes:
        """Return the next frame. Raise OSError or EOFError at the connection's end."""
        return await read_frame(self._reader)

    def close(self) -> None:
        self._writer.close()


async def own_stats(socket_path: Path) -> dict[str, float]:
    """Return the stats of an engine on this machine. Raise OSError, EOFError, TimeoutError, ProtocolError or SRBError."""
    async with asyncio.timeout(_OPEN_SECONDS):
        link = await Link.open_own(socket_path)
        try:
            stats: dict[str, float] = await ask_own(link, GetStats("stats"))
            return stats
        finally:
            link.close()


async def ask_own(link: Link, command: Ask) -> Any:
    """Return an engine's answer, over a link for nothing else. Raise OSError, EOFError, ProtocolError or SRBError."""
    link.send(encode([command]))
    while True:
        for event in decode(await link.receive()):
            if isinstance(event, Reply):
                return event.value
            if isinstance(event, Rejected):
                raise event.error


async def _greeting(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    """Return the engine's pid and the facts of its model."""
    hello: Hello | None = None
    while True:
        for event in decode(await read_frame(reader)):
            if isinstance(event, Hello):
                hello = event
            if hello is None or hello.version != VERSION:
                spoken = f"version {hello.version}" if hello is not None else "something else"
                raise ProtocolError(f"it speaks {spoken} of the protocol between processes, and this machine {VERSION}")
            if isinstance(event, Ready):
                return hello.pid, event.model
