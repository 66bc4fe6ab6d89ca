"""The command `srb replica`: an engine and its door, for web machines with `srb serve --replicas`. Without Ray."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from srb import logs
from srb.cli.cluster import DOORS, engine_settings, refuse_unread
from srb.cluster.door import Door, bound
from srb.cluster.doors import DoorAddress, read_token
from srb.cluster.registry import Facts
from srb.cluster.replica_engine import ReplicaEngine
from srb.config.settings import Settings
from srb.errors import ConfigError, ModelLoadFailed
from srb.exit_codes import EXIT_FAULT, EXIT_MODEL, fail
from srb.host.systemd import notify, watchdog_seconds

DESCRIPTION = """Load a model and open a door to it, for web machines whose `srb serve --replicas` lists it. SIGTERM ends
it when its running requests have ended; a second one ends it at once."""
_LOOK_SECONDS = 0.5  # between looks at the engine's state, and the most between two notices to systemd's watchdog

log = logging.getLogger("srb.cluster")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `srb serve` does not have."""
    parser.add_argument("--door", required=True, metavar="HOST:PORT", help="address of this machine to listen on")
    parser.add_argument(
        "--drain-seconds", type=float, default=600, help="time that running requests have at SIGTERM (default: 600)"
    )


def run(asked: argparse.Namespace, settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Run the replica; the exit status is 2 for wrong options, 3 if the model cannot be loaded."""
    refuse_unread(asked.sources, DOORS, "srb serve --replicas")
    address = _address(asked.door, read_token(settings))
    try:
        sock = bound(address.host, address.port)
    except OSError as error:
        raise ConfigError(f"--door {address}: {error.strerror}") from None
    logs.configure(settings)
    replica = _Replica(settings, address)
    try:
        sys.exit(asyncio.run(replica.run(sock, asked.drain_seconds)))
    except ModelLoadFailed as error:
        fail(error.message, EXIT_MODEL)
    finally:
        replica.close()


def _address(text: str, token: str) -> DoorAddress:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"--door should be HOST:PORT, not {text}")
    return DoorAddress(host.strip("[]"), int(port), token)


class _Replica:
    """One engine and its door, until SIGTERM."""

    def __init__(self, settings: Settings, address: DoorAddress) -> None:
        # Named states are shared by a common state_dir alone: there is no keeper without Ray.
        self._engine = ReplicaEngine(settings, engine_settings(settings), str(address), shares_states=False)
        self._address = address
        self._alias = settings.model_alias
        self._door = Door(self._engine.socket_path, address.token, self._facts)
        self._is_leaving = False

    def close(self) -> None:
        """End the engine; may be called again."""
        self._engine.close()

    async def run(self, sock: socket.socket, drain_seconds: float) -> int:
        """Serve until SIGTERM; return the exit status. Raise ModelLoadFailed."""
        ended, hurried = asyncio.Event(), asyncio.Event()

        def end() -> None:
            (hurried if ended.is_set() else ended).set()

        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, end)
        notify("STATUS=the model is being loaded")
        if not await _first(self._engine.wait_ready(), ended.wait()):
            return 0
        await self._door.listen(sock)
        log.info("the door is open at %s", self._address)
        notify("READY=1", f"STATUS=the door is open at {self._address}")
        if await _first(self._watch_engine(), ended.wait()):
            log.error("the engine cannot be started again: %s", self._engine.message)
            return EXIT_FAULT
        self._is_leaving = True
        log.info("no more requests are taken; running ones have %.0f seconds", drain_seconds)
        notify("STOPPING=1", "STATUS=running requests go on to their end")
        await _first(self._door.drain(), hurried.wait(), asyncio.sleep(drain_seconds))
        self._door.close()
        return 0

    async def _watch_engine(self) -> None:
        """Return when the engine cannot be started again; its supervisor starts one that dies or hangs."""
        has_watchdog = watchdog_seconds() is not None
        while self._engine.state != "failed":
            if has_watchdog:
                notify("WATCHDOG=1")
            await asyncio.sleep(_LOOK_SECONDS)

    def _facts(self) -> Facts:
        return {
            "node": socket.gethostname(),
            "gpus": [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu],
            "state": "leaving" if self._is_leaving else self._engine.state,
            "alias": self._alias,
            "pid": os.getpid(),
        }


async def _first(work: Any, *others: Any) -> bool:
    """Wait until one of these has ended, cancel the others, and return whether it was `work`. Raise its error."""
    tasks = [asyncio.ensure_future(each) for each in (work, *others)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    if tasks[0] in done:
        tasks[0].result()
    return tasks[0] in done
