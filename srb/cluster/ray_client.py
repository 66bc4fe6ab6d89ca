"""The only calls that a bridge makes of Ray: connect, read the registry, and exchange news in it."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from srb.cluster.follow_doors import in_thread
from srb.cluster.registry import NAMESPACE, Changes, Entry, find_registry
from srb.cluster.shared_marks import START, Teller

log = logging.getLogger("srb.cluster")

_LIST_SECONDS = 5.0  # that the registry keeps a question open until something changes
_HEAD_SECONDS = 5.0  # for the head's answer
_REACH_SECONDS = 3.0  # for a connection to the head's port
_CONNECT_SECONDS = 10.0  # for Ray's start in this process
_AWAY_SECONDS = 30 * 24 * 3600  # that the head may be away; Ray's own limit is a minute
_NEWS_SECONDS = 0.25  # between two exchanges: less than a writer needs for a turn
_PAUSE = 2.0  # seconds between attempts, and between looks whether the head answers: a lost one is not crowded

T = TypeVar("T")


def outlast_head() -> None:
    """Let this process go on without the head, which Ray would end after a minute. Before anything else of Ray's.

    A limit that is in the environment already, as for the node's own processes, stays.
    """
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(_AWAY_SECONDS))


def connect(address: str) -> None:
    """Connect this process to a cluster, unless it is connected. Raise ConnectionError with a reason."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return
    _reach(address)  # first: to import Ray takes seconds
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of handlers that are ours to set
    _tell_in_lines()
    try:
        ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, logging_level="error"
        )
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, ConnectionError) and address != "auto":  # `_reach` has reached it
            reason += "; it listens, so is its token ours (RAY_AUTH_MODE, RAY_AUTH_TOKEN, ~/.ray/auth_token)?"
        raise ConnectionError(f"Ray at {address} cannot be reached: {reason}") from error


def _tell_in_lines() -> None:
    """Have the cluster's errors in our log, each in one line: Ray prints them, a raylet's death with the end of its log."""
    from ray._private import worker

    def tell(data: dict[str, Any], ignore_prefix: bool) -> None:
        for message in data["lines"]:
            log.warning("Ray: %s", message.partition("\n")[0].strip())

    worker.print_to_stdstream = tell  # which its thread for errors calls, whatever `log_to_driver` says


def _reach(address: str) -> None:
    """Raise ConnectionError unless the head's port can be reached; Ray would try for minutes, and say so in its own words.

    An address without a port, such as "auto", is found by Ray itself.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"Ray at {address} cannot be reached: {error}") from error


def ask_head() -> None:
    """Ask the head something; waits while it does not answer."""
    import ray

    if ray.is_initialized():
        ray.nodes()


def disconnect() -> None:
    import ray

    ray.shutdown()


async def follow_registry(
    address: str,
    teller: Teller,
    on_entries: Callable[[dict[str, Entry]], None],
    on_trouble: Callable[[str], None],
    on_connected: Callable[[], None],
) -> None:
    """Pass on every change of the registry, for ever; `on_trouble` gets the reason while that is impossible, then "".

    `on_connected` is called when Ray has set its signal handlers in this process. Meanwhile `teller` and those of other
    bridges hear of each other.
    """
    while True:
        sharing: asyncio.Task[None] | None = None
        try:
            slow = partial(on_trouble, f"Ray at {address} does not answer")
            await _told_if_slow(in_thread(connect, address), _CONNECT_SECONDS, slow)
            on_connected()
            registry = await _told_if_slow(in_thread(find_registry), _HEAD_SECONDS, slow)
            sharing = asyncio.create_task(_share(registry, teller))
            place, entries = START, dict[str, Entry]()
            while True:
                asked = registry.listed.remote(place, _LIST_SECONDS)
                changes: Changes = await _result(asked, 2 * _LIST_SECONDS)
                place, entries = changes.place, changes.apply(entries)
                on_trouble("")
                on_entries(entries)
        except Exception as error:  # Ray's own errors are many, and none of them ends a bridge
            log.debug("the registry cannot be read", exc_info=True)
            on_trouble(_reason(error))
            if not isinstance(error, TimeoutError):  # the head may come back, or another one
                await _leave()
        finally:
            if sharing is not None:
                sharing.cancel()
        await asyncio.sleep(_PAUSE)


async def _leave() -> None:
    """Disconnect from the cluster as soon as its head answers, or refuses to.

    Ray's own shutdown waits for the head too, but lets no other thread of this process run meanwhile.
    """
    with contextlib.suppress(Exception):
        await in_thread(ask_head)
    await in_thread(disconnect)


async def _share(registry: Any, teller: Teller) -> None:
    """Exchange news with other bridges, for ever; without an answer each bridge knows its own texts and requests alone."""
    bridge, place = uuid4().hex, START
    while True:
        told = teller.take_news()
        try:
            place, heard = await _result(registry.exchange.remote(bridge, place, told), _LIST_SECONDS)
            told = {}
            for news in heard:
                teller.hear(news)
        except Exception:  # `follow_registry` tells of it
            log.debug("no news of texts", exc_info=True)
            await asyncio.sleep(_PAUSE)
        finally:
            teller.keep_news(told)  # for the next exchange, also of the next registry
        await asyncio.sleep(_NEWS_SECONDS)


async def watch_head(on_trouble: Callable[[str], None]) -> None:
    """Look for ever whether the head answers; `on_trouble` gets the reason while it does not, then "".

    The registry and the replicas go on without it; but nothing that is lost is started again.
    """
    while True:
        try:
            slow = partial(on_trouble, "the cluster's head does not answer")
            await _told_if_slow(in_thread(ask_head), _HEAD_SECONDS, slow)
            on_trouble("")
        except Exception as error:
            on_trouble(f"the cluster's head cannot be asked: {type(error).__name__}")
        await asyncio.sleep(_PAUSE)


async def _told_if_slow(work: Coroutine[Any, Any, T], seconds: float, tell: Callable[[], None]) -> T:
    """Return the result of `work`, however long it takes: while the head is away, Ray waits. `tell` when that is long."""
    working = asyncio.create_task(work)
    if not (await asyncio.wait([working], timeout=seconds))[0]:
        tell()
    return await working


async def _result(reference: Any, seconds: float) -> Any:
    return await asyncio.wait_for(asyncio.wrap_future(reference.future()), seconds)


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the cluster's registry does not answer"
    return f"the cluster's registry cannot be read: {type(error).__name__}"
