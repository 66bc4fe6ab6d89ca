"""The work of `srb cluster`: deploy the replicas, look at them, stop them."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ApplicationStatusOverview

from srb.cluster.app import APP, DEPLOYMENT, build
from srb.cluster.arguments import Arguments, Row
from srb.cluster.link import Link
from srb.cluster.members import BROKEN, Member
from srb.cluster.ray_client import connect
from srb.cluster.registry import Entry, find_registry
from srb.errors import SRBError
from srb.wire.commands import GetStats

_ASK_SECONDS = 2.0  # for a replica's connection and its numbers; one that hangs has no numbers in the list
_LIST_SECONDS = 10.0  # for the registry's answer, which comes in milliseconds unless the head is lost
_FAILED = "DEPLOY_FAILED"
_PAUSE = 1.0  # between looks at what Serve does
_RAY_ERRORS = (RayError, RayServeException)


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """Raise errors of Ray and of Serve as RuntimeError with their first line."""
    try:
        yield
    except (*_RAY_ERRORS, TimeoutError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise RuntimeError(f"{type(error).__name__}: {reason}" if reason else type(error).__name__) from error


@_plainly()
def deploy(address: str, arguments: Arguments, tell: Callable[[str], None]) -> None:
    """Start the replicas or change them to these arguments, and wait until they are ready; `tell` gets Serve's words.

    Raise ConnectionError if there is no cluster, RuntimeError with Serve's reason if it cannot be done.
    """
    connect(address)
    logging.getLogger("ray.serve").addFilter(_says_something)
    serve.start(proxy_location="Disabled")
    with _told(tell):
        try:
            serve.run(build(arguments), name=APP, route_prefix=None)
        except RuntimeError as error:  # with the names of deployments, and without the reason
            raise RuntimeError(_word() if _has_failed() else str(error)) from error


def _says_something(record: logging.LogRecord) -> bool:
    """Whether a line of Serve's is news to who deploys: not that a running Serve keeps the options that it has."""
    return "will not be applied" not in record.getMessage()


@contextlib.contextmanager
def _told(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell meanwhile what Serve says of the application, whenever that is something else."""
    ended = threading.Event()

    def follow() -> None:
        told = ""
        while not ended.wait(_PAUSE):
            with contextlib.suppress(*_RAY_ERRORS):  # whoever deploys is told
                word = _word()
                if word != told and not ended.is_set():
                    tell(word)
                told = word

    following = threading.Thread(target=follow, daemon=True)
    following.start()
    try:
        yield
    finally:
        ended.set()
        following.join()


@_plainly()
def stop(address: str) -> bool:
    """End all replicas, after their running requests; return False if there is none.

    Raise ConnectionError if there is no cluster, RuntimeError with the reason if it does not do it.
    """
    connect(address)
    if APP not in serve.status().applications:
        return False
    with contextlib.suppress(TimeoutError):  # after a minute, though requests still run
        serve.delete(APP)
    while APP in serve.status().applications:
        time.sleep(_PAUSE)
    return True


@_plainly()
def look(address: str) -> tuple[str, list[Row]]:
    """Return Serve's word on the application, with its reason, and the listed replicas.

    Raise ConnectionError if there is no cluster, RuntimeError with the reason if Serve does not answer.
    """
    connect(address)
    try:
        entries = ray.get(find_registry().listed.remote(), timeout=_LIST_SECONDS).apply({})
    except RayError as error:  # also a question without an answer in time
        raise ConnectionError(f"the cluster's registry does not answer: {type(error).__name__}") from None
    return _word(), asyncio.run(_ask(entries))


def _application() -> ApplicationStatusOverview | None:
    return serve.status().applications.get(APP)


def _has_failed() -> bool:
    application = _application()
    return application is not None and application.status.value == _FAILED


def _word() -> str:
    """Return Serve's word and its message; of a failure the reason, which is the last line of the replica's traceback."""
    application = _application()
    if application is None:
        return "not deployed"
    deployment = application.deployments.get(DEPLOYMENT)
    of_engine = deployment.message if deployment is not None else ""
    message = application.message or of_engine
    if application.status.value == _FAILED and of_engine:
        message = of_engine.strip().rpartition("\n")[2]
    return f"{application.status.value}: {message}" if message else application.status.value


async def _ask(entries: dict[str, Entry]) -> list[Row]:
    stats = await asyncio.gather(*(_stats(name, entry) for name, entry in entries.items()))
    return [Row(name, entry, each) for (name, entry), each in zip(entries.items(), stats, strict=True)]


async def _stats(name: str, entry: Entry) -> dict[str, Any]:
    member = Member(name, entry)
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            link = await Link.open(entry)
        serving = asyncio.create_task(member.serve(link))
        await asyncio.sleep(0)
        values: dict[str, Any] = await member.ask(GetStats(""), _ASK_SECONDS)
        serving.cancel()
        return values
    except (*BROKEN, SRBError):
        return {}
