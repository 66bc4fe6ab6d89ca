"""The registry: a small actor in which replicas say where they are, and bridges read it and tell each other of texts.

Its entries come from replicas alone, and bridges trust them: whoever can call an actor can run code on the cluster anyway.
If its node is lost, Ray starts it again without entries; the replicas repeat theirs every second.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from srb.cluster.affinity import News
from srb.cluster.shared_marks import Place, SharedMarks

NAME, NAMESPACE = "srb-registry", "srb"
ANNOUNCE_SECONDS = 1.0
SILENT = "silent"  # the state of a replica that has not announced itself for _SILENT_SECONDS
_SILENT_SECONDS = 5.0
_FORGET_SECONDS = 15.0


class Entry(TypedDict):
    """A replica: the address and the token of its door, and facts for operators."""

    host: Annotated[str, Field(pattern=r"^[\w.:%-]+$")]
    port: Annotated[int, Field(gt=0, lt=65536)]
    token: str
    node: str
    gpus: list[str]
    state: str  # the engine's state, as in status.json; "leaving" while the replica ends, or SILENT
    alias: str
    pid: int


class Registry:
    """The entries by name of the replica. Its methods are called as an actor's."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heard: dict[str, float] = {}
        self._version = 0
        self._changed = asyncio.Condition()
        self._marks = SharedMarks()

    async def announce(self, name: str, entry: Entry) -> None:
        """Add a replica, or say that it is still there."""
        self._heard[name] = time.monotonic()
        await self._set(name, entry)

    async def withdraw(self, name: str) -> None:
        """Remove a replica that has ended."""
        self._heard.pop(name, None)
        await self._set(name, None)

    async def listed(self, known: int = -1, seconds: float = 0.0) -> tuple[int, dict[str, Entry]]:
        """Return the version and all entries; wait up to `seconds` for another version than the one that is known."""
        for name in list(self._heard):
            await self._doubt(name)
        async with self._changed:
            if known == self._version:
                try:
                    await asyncio.wait_for(self._changed.wait(), seconds)
                except TimeoutError:
                    pass  # nothing has changed
        return self._version, dict(self._entries)

    async def exchange(self, bridge: str, place: Place, told: News) -> tuple[Place, list[News]]:
        """Take a bridge's news of texts; return its next place, and what others have told since `place`."""
        return self._marks.exchange(bridge, place, told)

    async def _doubt(self, name: str) -> None:
        """Note that a replica is silent, or forget it, if it has not announced itself for long."""
        entry, heard = self._entries.get(name), self._heard.get(name)
        if entry is None or heard is None:
            return  # it has just been withdrawn
        silence = time.monotonic() - heard
        if silence > _FORGET_SECONDS:
            await self.withdraw(name)
        elif silence > _SILENT_SECONDS and entry["state"] != "leaving":
            await self._set(name, {**entry, "state": SILENT})

    async def _set(self, name: str, entry: Entry | None) -> None:
        if self._entries.get(name) == entry:
            return
        async with self._changed:
            if entry is None:
                self._entries.pop(name, None)
            else:
                self._entries[name] = entry
            self._version += 1
            self._changed.notify_all()


def find_registry() -> Any:
    """Return the cluster's registry as an actor, which is made if there is none. Ray must be connected."""
    import ray

    actor = ray.remote(Registry)
    options = {"name": NAME, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return actor.options(**options, num_cpus=0, max_restarts=-1, max_concurrency=1000).remote()
