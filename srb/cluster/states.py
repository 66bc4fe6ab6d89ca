"""Named states that replicas share through Ray, if they have no folder in common.

A small actor of the cluster, the *keeper*, holds the bytes of the latest file of each name, within a limit; they travel
through Ray's object store. Each replica has a StateShare, which its engine asks to share a file or to fetch a later one.
The keeper's memory is lost with its node.
"""

import asyncio
import logging
from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson

from srb.cluster.registry import NAMESPACE
from srb.files.state_disk import SUFFIX, install
from srb.files.text_entry import read_header
from srb.wire.codec import VERSION
from srb.wire.framing import frame, read_frame

log = logging.getLogger("srb.cluster")

KEEPER = f"srb-states-{VERSION}"  # with the version, as the registry


class StateKeeper:
    """The latest file of each name. Its methods are called as an actor's."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: OrderedDict[str, tuple[int, bytes]] = (
            OrderedDict()
        )  # number of the save and file; latest used last
        self._size = 0

    def limit(self, max_bytes: int) -> None:
        """Keep no more than `max_bytes` from now on."""
        self._max_bytes = max_bytes
        self._drop()

    def keep(self, name: str, saved: int, data: bytes) -> str:
        """Keep a file, unless there is a later one; drop the least recently used ones. Return why it is not kept.

        Then an older file of the name goes, too: a restored text would be an old one, and nobody would be told.
        """
        known, older = self._files.get(name, (-1, b""))
        if known > saved:
            return ""
        if len(data) > self._max_bytes:
            if self._files.pop(name, None):
                self._size -= len(older)
            return f"its {len(data)} bytes are more than the cluster keeps for named states"
        self._size += len(data) - len(older)
        self._files[name] = saved, data
        self._files.move_to_end(name)
        self._drop()
        return ""

    def look(self, name: str, known: int) -> int:
        """Return the size of what `fetch` would return; 0 for None."""
        saved, data = self._files.get(name, (-1, b""))
        return len(data) if saved > known else 0

    def fetch(self, name: str, known: int) -> tuple[int, bytes] | None:
        """Return a file with the number of its save, if that is larger than `known`."""
        if name not in self._files:
            return None
        self._files.move_to_end(name)
        saved, data = self._files[name]
        return (saved, data) if saved > known else None

    def _drop(self) -> None:
        while self._size > self._max_bytes:
            _, (_, dropped) = self._files.popitem(last=False)
            self._size -= len(dropped)


class StateShare:
    """The way between one engine's folder of states and the keeper."""

    def __init__(self, folder: Path, keeper: Any) -> None:
        """Share the files of `folder`; `keeper` is the actor."""
        self._folder = folder
        self._keeper = keeper
        self._server: asyncio.Server | None = None

    async def open(self, socket_path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._connected, str(socket_path))
        socket_path.chmod(0o600)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            acting = asyncio.create_task(self._act(orjson.loads(await read_frame(reader))))
            leaving = asyncio.create_task(reader.read())  # ends when the engine waits no longer, or is gone
            try:
                await asyncio.wait((acting, leaving), return_when=asyncio.FIRST_COMPLETED)
                if acting.done():
                    writer.write(frame(orjson.dumps(acting.result())))
                    await writer.drain()
            finally:
                acting.cancel()
                leaving.cancel()
        except (OSError, EOFError):
            pass  # the engine is gone
        finally:
            writer.close()

    async def _act(self, asked: dict[str, Any]) -> dict[str, Any]:
        act = {"share": self._share, "look": self._look, "fetch": self._fetch}[asked["action"]]
        try:
            return await act(asked["name"], asked["known"])
        except Exception as failed:  # Ray's own errors are many; the engine goes on without the state
            log.debug("state %s", asked["name"], exc_info=True)
            return {"error": type(failed).__name__}

    async def _share(self, name: str, _: int) -> dict[str, Any]:
        data = await asyncio.to_thread(self._path(name).read_bytes)
        return {"error": await self._keeper.keep.remote(name, read_header(BytesIO(data))["saved"], data)}

    async def _look(self, name: str, known: int) -> dict[str, Any]:
        return {"error": "", "size": await self._keeper.look.remote(name, known)}

    async def _fetch(self, name: str, known: int) -> dict[str, Any]:
        found = await self._keeper.fetch.remote(name, known)
        if found is not None:
            saved, data = found
            await asyncio.to_thread(install, self._path(name), data, saved)
        return {"error": ""}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"


def find_keeper(max_bytes: int) -> Any:
    """Return the cluster's keeper of states as an actor, which is made if there is none. Ray must be connected."""
    import ray

    actor = ray.remote(StateKeeper)
    options = {"name": KEEPER, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    keeper = actor.options(**options, num_cpus=0, max_restarts=-1).remote(max_bytes)
    keeper.limit.remote(max_bytes)  # it may be that of an earlier deployment
    return keeper
