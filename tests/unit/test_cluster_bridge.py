"""A bridge whose head is away: it says so, goes on, and finds the head again."""

from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from srb.cluster import ray_client
from srb.cluster.affinity import Affinity
from srb.cluster.registry import Entry
from tests.processes import DEADLINE
from tests.unit.test_cluster_relay import play

ENTRY = Entry(host="10.0.0.2", port=4000, token="t" * 64, node="n", gpus=["0"], state="running", alias="m", pid=1)


async def until(true: Any) -> None:
    while not true():
        await asyncio.sleep(0.01)


def test_while_ray_waits_for_the_head_a_bridge_says_so_and_then_follows_the_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_back = threading.Event()
    monkeypatch.setattr(ray_client, "_CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(ray_client, "connect", lambda address: is_back.wait(DEADLINE))
    listed = SimpleNamespace(remote=lambda *_: (1, {"a": ENTRY}))
    told = SimpleNamespace(remote=lambda *_: ((("", 0)), []))
    monkeypatch.setattr(ray_client, "find_registry", lambda: SimpleNamespace(listed=listed, exchange=told))

    async def result(value: Any, seconds: float) -> Any:
        await asyncio.sleep(0.01)
        return value

    monkeypatch.setattr(ray_client, "_result", result)
    troubles: list[str] = []
    heard: list[dict[str, Entry]] = []

    async def scene() -> None:
        follow = ray_client.follow_registry("head:6379", Affinity(), heard.append, troubles.append, lambda: None)
        following = asyncio.create_task(follow)
        await until(lambda: troubles)
        assert troubles == ["Ray at head:6379 does not answer"]
        assert heard == []
        is_back.set()
        await until(lambda: heard)
        assert heard[0] == {"a": ENTRY}
        assert troubles[1] == ""
        following.cancel()

    play(scene)


def test_a_bridge_disconnects_from_ray_only_when_the_head_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    is_back = threading.Event()
    done: list[str] = []
    monkeypatch.setattr(ray_client, "_PAUSE", 0.01)
    monkeypatch.setattr(ray_client, "connect", lambda address: done.append("connect"))
    monkeypatch.setattr(ray_client, "ask_head", lambda: is_back.wait(DEADLINE) and done.append("ask"))
    monkeypatch.setattr(ray_client, "disconnect", lambda: done.append("disconnect"))

    def lost() -> Any:
        raise OSError("the registry's actor is lost")

    monkeypatch.setattr(ray_client, "find_registry", lost)
    troubles: list[str] = []

    async def scene() -> None:
        follow = ray_client.follow_registry("head:6379", Affinity(), lambda _: None, troubles.append, lambda: None)
        following = asyncio.create_task(follow)
        await until(lambda: troubles)
        await asyncio.sleep(0.1)
        assert done == ["connect"]
        is_back.set()
        await until(lambda: len(done) > 3)
        assert done[:4] == ["connect", "ask", "disconnect", "connect"]
        following.cancel()

    play(scene)


def test_a_bridge_goes_on_without_the_head_for_longer_than_ray_would(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "RAY_gcs_rpc_server_reconnect_timeout_s"
    monkeypatch.delenv(name, raising=False)
    ray_client.outlast_head()
    assert int(os.environ[name]) > 24 * 3600
    monkeypatch.setenv(name, "70")
    ray_client.outlast_head()
    assert os.environ[name] == "70", "an operator's limit stays"
