"""The registry: a small actor in which replicas say where they are, and bridges read it and tell each other of texts.

Its entries come from replicas alone, and bridges trust them: whoever can call an actor can run code on the cluster anyway.
If its node is lost, Ray starts it again without entries; the replicas repeat theirs every second.
"""

import asyncio
import time
from collections import OrderedDict
from itertools import takewhile
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

from pydantic import Field
from typing_extensions import TypedDict

from srb.cluster.affinity import News
from srb.cluster.shared_marks import START, Place, SharedMarks
from srb.wire.codec import VERSION

# With the version, since the actor goes on with the code that it began with, also after `srb cluster stop`.
NAME, NAMESPACE = f"srb-registry-{VERSION}", "srb"
ANNOUNCE_SECONDS = 1.0  # a call of Ray for each replica: 1,000 of them make 1,000 calls a second
SILENT = "silent"  # the state of a replica that has not announced itself for SILENT_SECONDS
SILENT_SECONDS = 5.0  # a busy machine misses a few announcements; new requests wait so long for one that is gone
_FORGET_SECONDS = 15.0  # then it is off the list; a bridge keeps it as long as its own link holds
_MOST_GONE = 1000  # replicas that are gone, of which bridges are told that


class Facts(TypedDict):
    """The facts that a replica tells of itself."""

    node: str
    gpus: list[str]
    state: str  # the engine's state, as in status.json; "leaving" while the replica ends, or SILENT
    alias: str
    pid: int


class Entry(Facts):
    """A replica: the address and the token of its door, and its facts."""

    host: Annotated[str, Field(pattern=r"^[\w.:%-]+$")]
    port: Annotated[int, Field(gt=0, lt=65536)]
    token: str


class Changes(NamedTuple):
    """The entries that have changed since a place in the registry's changes, None for replicas that are gone."""

    place: Place  # for the next question
    is_whole: bool  # whether these are all entries, and others are gone
    entries: dict[str, Entry | None]

    def apply(self, known: dict[str, Entry]) -> dict[str, Entry]:
        """Return the entries after these changes of those that are known."""
        changed = self.entries if self.is_whole else {**known, **self.entries}
        return {name: entry for name, entry in changed.items() if entry is not None}


class Registry:
    """The entries by name of the replica. Its methods are called as an actor's."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heard: dict[str, float] = {}
        self._life = uuid4().hex  # another one after it was lost
        self._version = 0
        self._versions: OrderedDict[str, int] = OrderedDict()  # at which each name changed last, the latest last
        self._forgotten = 0  # the latest of those that it has forgotten
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

    async def listed(self, known: Place = START, seconds: float = 0.0) -> Changes:
        """Return what has changed since a place that a bridge knows; wait up to `seconds` until something has."""
        for name in list(self._heard):
            await self._doubt(name)
        async with self._changed:
            if known == (self._life, self._version):
                try:
                    await asyncio.wait_for(self._changed.wait(), seconds)
                except TimeoutError:
                    pass  # nothing has changed
        return self._changes(known)

    def _changes(self, known: Place) -> Changes:
        place, since = (self._life, self._version), known[1]
        if known[0] != self._life or since < self._forgotten:
            return Changes(place, True, dict(self._entries))
        changed = [name for name, version in takewhile(lambda each: each[1] > since, reversed(self._versions.items()))]
        return Changes(place, False, {name: self._entries.get(name) for name in changed})

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
        elif silence > SILENT_SECONDS and entry["state"] != "leaving":
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
            self._versions[name] = self._version
            self._versions.move_to_end(name)
            while len(self._versions) > len(self._entries) + _MOST_GONE:
                self._forgotten = self._versions.popitem(last=False)[1]
            self._changed.notify_all()


def find_registry() -> Any:
    """Return the cluster's registry as an actor, which is made if there is none. Ray must be connected."""
    import ray

    actor = ray.remote(Registry)
    options = {"name": NAME, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return actor.options(**options, num_cpus=0, max_restarts=-1, max_concurrency=1000).remote()
