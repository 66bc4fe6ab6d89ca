"""Replica: the actor that keeps one engine, as a deployment of Ray Serve.

Serve places it on a node, gives it GPUs, starts it again and replaces it by a newer one. Requests do not go through Serve:
bridges connect to the replica's door, whose address they have from the registry.
"""

import asyncio
import logging
import os
from typing import Any

import ray
from ray import serve

from srb.cluster.autoscaling import OPEN_BRANCHES
from srb.cluster.door import Door
from srb.cluster.link import own_stats
from srb.cluster.members import BROKEN
from srb.cluster.registry import ANNOUNCE_SECONDS, Entry, find_registry
from srb.cluster.replica_engine import STATES_MIB, ReplicaEngine
from srb.cluster.states import StateShare, find_keeper
from srb.config.settings import Settings
from srb.errors import SRBError

log = logging.getLogger("srb.cluster")


class Replica:
    """One engine of the cluster. Serve calls its methods."""

    async def __init__(self, settings: dict[str, Any], door_port: int = 0) -> None:  # type: ignore[misc]  # Serve awaits it
        """Start the engine with these settings and wait until its model is loaded: so long Serve counts it as starting."""
        checked = Settings.load(flags=settings, environ={})
        self._name: str = serve.get_replica_context().replica_tag
        self._alias = checked.model_alias
        self._engine = ReplicaEngine(checked, settings, self._name)
        try:
            if self._engine.shares_states:
                keeper = find_keeper(STATES_MIB * 1024 * 1024)
                self._states = StateShare(self._engine.states_folder, keeper)
                await self._states.open(self._engine.states_socket)
            await self._engine.wait_ready()
            self._door = Door(self._engine.socket_path)
            self._host: str = ray.util.get_node_ip_address()
            self._port = await self._door.open(self._host, door_port)
        except BaseException:
            self._engine.close()
            raise
        self._is_leaving = False
        self._open_branches = 0.0
        self._registry = find_registry()
        await self._announce()  # before this replica counts as started, so that an update ends the old ones only now
        self._announcing = asyncio.create_task(self._keep_announced())

    async def check_health(self) -> None:
        """Raise an error if the engine hangs or cannot be started; one that loads its model, also again, is healthy."""
        state = self._engine.state
        if state in ("hung", "failed"):
            raise RuntimeError(f"the engine is {state}: {self._engine.message}")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the branches that run or wait, for BranchesPolicy; the last number if the engine does not answer."""
        try:
            stats = await own_stats(self._engine.socket_path)
            self._open_branches = stats["branches_running"] + stats["branches_waiting"]
        except (*BROKEN, SRBError) as error:
            log.info("the engine did not say how many branches are open: %s", type(error).__name__)
        return {OPEN_BRANCHES: self._open_branches}

    async def __del__(self) -> None:
        """Leave the cluster: let the running requests end, then the engine."""
        if not hasattr(self, "_announcing"):
            return  # it never began
        self._is_leaving = True
        await self._try_to_announce()  # and again every second: bridges that have just started ask it for its requests
        await self._door.drain()
        self._announcing.cancel()
        self._door.close()
        await asyncio.to_thread(self._engine.close)
        await self._registry.withdraw.remote(self._name)

    async def _announce(self) -> None:
        await self._registry.announce.remote(self._name, self._entry())

    async def _keep_announced(self) -> None:
        """Announce this replica once a second: the registry may have been started again."""
        while True:
            await self._try_to_announce()
            await asyncio.sleep(ANNOUNCE_SECONDS)

    async def _try_to_announce(self) -> None:
        try:
            await self._announce()
        except Exception as error:  # the registry's node is lost, or the head; bridges know us already
            log.warning("the registry cannot be reached: %s", type(error).__name__)
            self._registry = await asyncio.to_thread(_found_again, self._registry)

    def _entry(self) -> Entry:
        return {
            "host": self._host,
            "port": self._port,
            "token": self._door.token,
            "node": ray.get_runtime_context().get_node_id()[:8],
            "gpus": [str(gpu) for gpu in ray.get_gpu_ids()],
            "state": "leaving" if self._is_leaving else self._engine.state,
            "alias": self._alias,
            "pid": os.getpid(),
        }


def _found_again(registry: Any) -> Any:
    try:
        return find_registry()
    except Exception:  # no head: the next announcement tries again
        return registry
