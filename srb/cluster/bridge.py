"""The bridge: a process in the engine's place, which passes commands and events between web workers and replicas.

`python -m srb.cluster.bridge` is started by the supervisor instead of an engine. It listens on the same socket, under the
same lock, speaks the same frames and reports the same states, so neither the workers nor the supervisor know a difference.
It is an asyncio program, without gevent: Ray hangs in a process that gevent has patched.
"""

import argparse
import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from srb.cluster.follow_doors import follow_doors
from srb.cluster.members import Members, no_answer
from srb.cluster.members_file import MembersFile
from srb.cluster.ray_client import follow_registry, outlast_head, watch_head
from srb.cluster.registry import Entry
from srb.cluster.relay import Relay
from srb.config.settings import SERVER_ID_VARIABLE, Settings
from srb.process.child import begin, exit_now, has_died, run
from srb.process.connection import is_peer_allowed
from srb.process.runtime_folder import EngineLock
from srb.process.status_reporter import Reporter
from srb.status import BEAT_SECONDS
from srb.wire.codec import VERSION
from srb.wire.events import Hello

log = logging.getLogger("srb.cluster")

_DYING_SECONDS = 0.1  # that a killed process is still seen
_LOOK_SECONDS = 0.1  # between looks whether a worker has an answer to wait for
_FINISH_SECONDS = 600.0  # that a worker has for its answers; a bridge without a supervisor is watched by nobody


class Bridge:
    """The workers' relays, and the replicas that they share."""

    def __init__(self, reporter: Reporter, server_id: str, file: MembersFile) -> None:
        self._reporter = reporter
        self._file = file
        self._hello = Hello(VERSION, os.getpid(), server_id)
        self._relays: set[Relay] = set()
        self._told = ("", "")  # the state that was reported last, and why
        self._troubles: dict[str, str] = {}
        self.members = Members(self._changed)

    def start(self) -> None:
        """Report that no replica is ready yet, and connect to those that an earlier bridge knew: the head may be away."""
        self._changed()
        self.members.update(self._file.read())

    def take(self, entries: dict[str, Entry]) -> None:
        """Take the registry's list, and keep it for a later bridge."""
        self.members.update(entries)
        self._file.write(self.members.entries)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one worker."""
        if not is_peer_allowed(writer.get_extra_info("socket")):
            log.warning("refused a connection of another user")
            writer.close()
            return
        relay = Relay(reader, writer, self.members)
        self._relays.add(relay)
        try:
            await relay.run(self._hello)
        except asyncio.CancelledError:
            pass  # the bridge ends
        except Exception:
            log.exception("closing a worker's connection")
        finally:
            self._relays.discard(relay)

    async def beat(self) -> None:
        """Send heartbeats, as an engine does; a loop that hangs sends none."""
        while True:
            self._reporter.beat()
            await asyncio.sleep(BEAT_SECONDS)

    async def finish(self) -> None:
        """Serve the workers until each has its answers and looks for the next bridge; endless streams are cut."""
        ends = time.monotonic() + _FINISH_SECONDS
        while self._relays:
            for relay in self._relays:
                if relay.is_idle or time.monotonic() > ends:
                    relay.close()
            await asyncio.sleep(_LOOK_SECONDS)

    def note_trouble(self, part: str, message: str) -> None:
        """Note that a part of the cluster, its registry or its head, cannot be reached; "": it can."""
        if message == self._troubles.get(part, ""):
            return
        if message:
            self._troubles[part] = message
        else:
            del self._troubles[part]
        log.warning("%s; replicas that are known go on", message) if message else log.info(
            "%s: no trouble any more", part
        )
        self.members.trouble = "; ".join(self._troubles.values())
        self._changed()

    def _changed(self) -> None:
        """Tell workers and supervisor that replicas have come or gone, or hang."""
        for relay in self._relays:
            relay.announce(self.members.model)
            relay.close_idle_channels()
            relay.leave_hanging()
        waiting = "restarting" if self._told[0] in ("running", "restarting") else "starting"
        told = ("running", "") if self.members.answering else (waiting, self._why_waiting())
        if told != self._told:
            self._told = told
            self._reporter.report_state(*told)

    def _why_waiting(self) -> str:
        if self.members.ready:
            return no_answer().message
        return self.members.why_none or "no replica is ready"


async def serve(settings: Settings, reporter: Reporter, lock: EngineLock) -> None:
    """Serve web workers until SIGTERM.

    At the death of its supervisor a bridge leaves socket and lock to the next one, and goes on until all workers have their
    answers.
    """
    file = MembersFile(settings.runtime_path, settings.cluster)
    bridge = Bridge(reporter, os.environ.get(SERVER_ID_VARIABLE, ""), file)
    ended, orphaned = asyncio.Event(), asyncio.Event()
    supervisor = os.getppid()

    def decide() -> None:
        if not orphaned.is_set():  # the kernel's signal comes again when the last thread of the supervisor dies
            (orphaned if has_died(supervisor) else ended).set()

    def end() -> None:
        """End at the supervisor's word, and hand over at its death, which the kernel tells by the same signal."""
        asyncio.get_running_loop().call_later(_DYING_SECONDS, decide)

    def handle_signals() -> None:
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, end)

    handle_signals()
    settings.socket_path.unlink(missing_ok=True)  # a killed process's: we have the lock
    server = await asyncio.start_unix_server(bridge.connected, settings.socket_path, backlog=128)
    settings.socket_path.chmod(0o600)
    bridge.start()
    sources = _of_doors(settings, bridge) if settings.replicas else _of_ray(settings, bridge, handle_signals)
    work = (bridge.beat(), bridge.members.watch_loads(), *sources, ended.wait(), orphaned.wait())
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(each) for each in work]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    reporter.report_state("stopping")
    server.close()
    if orphaned.is_set():
        log.warning("the supervisor has died; what is open here goes on to its end, and a new bridge takes what comes")
        lock.release()
        await bridge.finish()
    bridge.members.close()
    for task in tasks:
        task.cancel()
    if ended.is_set():  # the server ends; a bridge that has failed leaves it for the next
        file.remove()
    for task in done:
        task.result()  # raises whatever ended it


def _of_doors(settings: Settings, bridge: Bridge) -> list[Coroutine[Any, Any, None]]:
    return [follow_doors(settings, bridge.members, bridge.members.update, bridge.note_trouble)]


def _of_ray(settings: Settings, bridge: Bridge, on_connected: Callable[[], None]) -> list[Coroutine[Any, Any, None]]:
    outlast_head()
    note_registry = partial(bridge.note_trouble, "registry")
    following = follow_registry(settings.cluster, bridge.members, bridge.take, note_registry, on_connected)
    return [following, watch_head(partial(bridge.note_trouble, "head"))]


def main(argv: list[str] | None = None) -> int:
    """Run the bridge; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m srb.cluster.bridge",
        description="Pass requests of an SRB server on to the replicas of a cluster.",
    )
    return run(begin(parser, argv), _work)


def _work(settings: Settings, reporter: Reporter) -> int:
    reporter.report_state("starting", "no replica is ready")
    lock = EngineLock(settings.runtime_path)
    lock.acquire(wait=True)
    try:
        asyncio.run(serve(settings, reporter, lock))
    finally:
        lock.release()
    return 0


if __name__ == "__main__":
    exit_now(main())  # Ray's exit handlers take seconds and have nothing to do here
