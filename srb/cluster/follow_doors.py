"""The bridge's source of members without Ray: doors from a list are watched, each of which tells of its replica.

The list is read again every second, or the DNS name asked again every two. A replica that a file no longer lists takes no
more requests. One that DNS no longer has stays as long as its door is open: it says itself when it leaves.

Bridges tell each other through each door which texts and requests its replica has (`door_news`).
"""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import orjson
from pydantic import TypeAdapter

from srb.cluster.affinity import News
from srb.cluster.door import REFUSED, watch_token
from srb.cluster.door_news import MOST_TOLD, frame_of, from_json, named, of_replica
from srb.cluster.doors import DoorAddress, dns_name, read_doors, read_token
from srb.cluster.registry import SILENT, SILENT_SECONDS, Entry, Facts
from srb.cluster.shared_marks import Teller
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.wire.framing import frame
from srb.wire.keep_alive import tune

_FILE_SECONDS = 1.0  # between two readings of the file
_DNS_SECONDS = 2.0  # between two questions to DNS, and for its answer
_REACH_SECONDS = 2.0  # for a connection, and for the first line
_PAUSE = 0.5  # between two attempts
_NEWS_SECONDS = 0.25  # between two frames of news to a door: less than a writer needs for a turn
_LINE_BYTES = 4 * MOST_TOLD  # more than any line of a door has
_FACTS: TypeAdapter[Facts] = TypeAdapter(Facts)

Tell = Callable[[str, str], None]  # of which part there is a trouble, and which; "": none any more


async def follow_doors(
    settings: Settings, teller: Teller, on_entries: Callable[[dict[str, Entry]], None], on_trouble: Tell
) -> None:
    """Pass on every change of the replicas, for ever; `on_trouble` gets the list's troubles and those of each replica.

    Meanwhile `teller` and those of other bridges hear of each other.
    """
    doors = _Doors(on_entries, on_trouble, teller.hear)
    sharing = asyncio.create_task(doors.share(teller))
    of_dns = dns_name(settings)
    try:
        while True:
            try:
                listed = await (_asked(settings, *of_dns) if of_dns else in_thread(read_doors, settings))
                on_trouble("list of replicas", "")
                doors.take(listed, keeps_open=of_dns is not None)
            except ConfigError as error:
                on_trouble("list of replicas", error.message)
            doors.publish()  # also without a change: who is gone is forgotten then
            await asyncio.sleep(_DNS_SECONDS if of_dns else _FILE_SECONDS)
    finally:
        sharing.cancel()
        doors.close()


class _OtherToken(Exception):
    """A door has refused the token."""


async def _asked(settings: Settings, name: str, port: int) -> dict[str, DoorAddress]:
    """Return the doors at all addresses of a DNS name, by their addresses. Raise ConfigError."""
    token = read_token(settings)
    asking = in_thread(socket.getaddrinfo, name, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(asking, _DNS_SECONDS)
    except (OSError, TimeoutError, UnicodeError) as error:  # the last of a name that no DNS can have
        raise ConfigError(f"replicas: {name} cannot be resolved: {_reason(error, _DNS_SECONDS)}") from None
    hosts = sorted({str(address[0]) for *_, address in found})
    return {host: DoorAddress(host, port, token) for host in hosts}


class _Doors:
    """The watched doors by the names of their replicas."""

    def __init__(
        self, on_entries: Callable[[dict[str, Entry]], None], on_trouble: Tell, hear: Callable[[News], None]
    ) -> None:
        self._bridge = uuid4().hex  # by which doors know this one
        self._on_entries = on_entries
        self._on_trouble = on_trouble
        self._hear = hear
        self._watches: dict[str, _Watch] = {}
        self._dropped: dict[str, Entry] = {}  # replicas that are no longer listed, until that is told

    def take(self, listed: dict[str, DoorAddress], keeps_open: bool) -> None:
        """Watch the doors that are listed and no others; with `keeps_open` also those that are open."""
        for name, watch in list(self._watches.items()):
            if listed.get(name, watch.address if keeps_open and watch.entry else None) != watch.address:
                self._drop(name, watch)
        for name, address in listed.items():
            if name not in self._watches:
                self._watches[name] = _Watch(name, address, self.publish, self._on_trouble, self._bridge, self._hear)

    async def share(self, teller: Teller) -> None:
        """Tell the doors for ever what is new of their replicas; nobody needs news of a replica whose door is closed."""
        while True:
            await asyncio.sleep(_NEWS_SECONDS)
            if news := teller.take_news():
                for name, watch in self._watches.items():
                    watch.tell(of_replica(news, name))

    def _drop(self, name: str, watch: "_Watch") -> None:
        del self._watches[name]
        watch.close()
        self._on_trouble(f"replica {name}", "")
        if watch.entry is not None:
            self._dropped[name] = {**watch.entry, "state": "leaving"}

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()

    def publish(self) -> None:
        """Pass on the replicas whose doors are open, and once those that are no longer listed."""
        dropped, self._dropped = self._dropped, {}
        self._on_entries(dropped | {name: watch.entry for name, watch in self._watches.items() if watch.entry})


class _Watch:
    """One door: `entry` is what its replica says of itself, None while the door does not answer."""

    def __init__(
        self,
        name: str,
        address: DoorAddress,
        on_change: Callable[[], None],
        on_trouble: Tell,
        bridge: str,
        hear: Callable[[News], None],
    ) -> None:
        self._name = name
        self.address = address
        self.entry: Entry | None = None
        self._part = f"replica {name}"
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._bridge = bridge
        self._on_news = hear
        self._writer: asyncio.StreamWriter | None = None  # while the door takes news
        self._task = asyncio.create_task(self._watch())

    def close(self) -> None:
        self._task.cancel()

    def tell(self, news: News) -> None:
        """Tell the door news of its replica, unless it is slow to read them: they are no reason to wait."""
        if self._writer is not None and news and self._writer.transport.get_write_buffer_size() < MOST_TOLD:
            self._writer.write(frame(frame_of(self._bridge, news)))

    async def _watch(self) -> None:
        while True:
            trouble = ""
            try:
                await self._hear()
            except _OtherToken:
                trouble = "its secret is another one"
            except EOFError:
                trouble = "it closes the connection: its replica is not ready yet, or it is no replica's door"
            except (ValueError, asyncio.LimitOverrunError):
                trouble = "it is no replica's door"
            except (OSError, TimeoutError) as error:
                trouble = _reason(error, _REACH_SECONDS)
            if self.entry is None:
                self._on_trouble(self._part, f"{self._part} at {self.address} cannot be used: {trouble}")
            self._note(None)  # if it was there until now, the next attempt says why it is not
            await asyncio.sleep(_PAUSE)

    async def _hear(self) -> None:
        """Note what the replica says, until the connection ends. Raise OSError, EOFError, TimeoutError or ValueError."""
        async with asyncio.timeout(_REACH_SECONDS):
            reader, writer = await asyncio.open_connection(self.address.host, self.address.port, limit=_LINE_BYTES)
        try:
            tune(writer)
            writer.write(watch_token(self.address.token).encode())
            async with asyncio.timeout(_REACH_SECONDS):
                line = await reader.readuntil(b"\n")
            if line == REFUSED:
                raise _OtherToken
            while True:
                said = orjson.loads(line)
                facts = _FACTS.validate_python(said, strict=True)
                if self._writer is None and said.get("takes_news"):
                    self._writer = writer
                    writer.write(frame(frame_of(self._bridge, {})))  # from now on it hears others'
                for heard in said.get("heard", ()):
                    self._on_news(named(from_json(heard), self._name))
                self._note({**facts, "host": self.address.host, "port": self.address.port, "token": self.address.token})
                self._on_trouble(self._part, "")
                line = await self._next_line(reader)
        finally:
            self._writer = None
            writer.close()

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes:
        while True:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    return await reader.readuntil(b"\n")
            except TimeoutError:  # its process is stopped or hangs; what is read of a line stays in the reader
                assert self.entry is not None
                self._note({**self.entry, "state": SILENT})

    def _note(self, entry: Entry | None) -> None:
        if entry != self.entry:
            self.entry = entry
            self._on_change()


def _reason(error: OSError | TimeoutError | UnicodeError, seconds: float) -> str:
    if isinstance(error, UnicodeError):
        return str(error)
    if isinstance(error, TimeoutError) and not error.errno:
        return f"no answer within {seconds:.0f} seconds"
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(error.errno) if error.errno else str(error)


T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of `work`, done in a thread that keeps no process from ending, as asyncio's would for minutes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(act: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if future.done() else act(value))

    def run() -> None:
        try:
            finish(future.set_result, work(*arguments))
        except Exception as error:
            finish(future.set_exception, error)

    threading.Thread(target=run, daemon=True).start()
    return await future
