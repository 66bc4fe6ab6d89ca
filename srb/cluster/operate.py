"""The work of `srb cluster`: deploy the replicas, look at them, stop them."""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray import serve
from ray.serve.schema import ApplicationStatusOverview

from srb.cluster.app import APP, DEPLOYMENT, build
from srb.cluster.arguments import Arguments
from srb.cluster.link import Link
from srb.cluster.members import BROKEN, Member
from srb.cluster.ray_client import connect
from srb.cluster.registry import Entry, find_registry
from srb.cluster.row import Row
from srb.errors import SRBError
from srb.protocol import GetStats

_ASK_SECONDS = 2.0
_LIST_SECONDS = 10.0


def deploy(address: str, arguments: Arguments) -> None:
    """Start the replicas or change them to these arguments, and wait until they are ready. Raise ConnectionError."""
    connect(address)
    serve.start(proxy_location="Disabled")
    serve.run(build(arguments), name=APP, route_prefix=None)


def stop(address: str) -> None:
    """End all replicas, after their running requests."""
    connect(address)
    serve.delete(APP)


def look(address: str) -> tuple[str, list[Row]]:
    """Return Serve's word on the application, with its reason if there is one, and the replicas that are listed."""
    connect(address)
    _, entries = ray.get(find_registry().listed.remote(), timeout=_LIST_SECONDS)
    return _describe(serve.status().applications.get(APP)), asyncio.run(_ask(entries))


def _describe(application: ApplicationStatusOverview | None) -> str:
    if application is None:
        return "not deployed"
    deployment = application.deployments.get(DEPLOYMENT)
    message = application.message or (deployment.message if deployment is not None else "")
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
