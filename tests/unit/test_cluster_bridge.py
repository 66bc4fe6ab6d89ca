"""A bridge whose head is away: it begins with the replicas that were known last, and says what is degraded."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from srb.cluster import ray_client
from srb.cluster.affinity import Affinity
from srb.cluster.bridge import Bridge
from srb.cluster.members_file import MembersFile
from srb.cluster.registry import Changes, Entry
from srb.wire.codec import VERSION
from tests.processes import DEADLINE
from tests.unit.test_cluster_relay import Replica, play

ENTRY = Entry(host="10.0.0.2", port=4000, token="t" * 64, node="n", gpus=["0"], state="running", alias="m", pid=1)


class States:
    """A reporter that keeps what is reported."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.message = ""

    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        self.states.append(state)
        self.message = message

    def beat(self) -> None:
        pass


def bridge(folder: Path) -> tuple[Bridge, list[str]]:
    """Return a bridge and the states that it will report."""
    reporter = States()
    return Bridge(reporter, "", MembersFile(folder, "head:6379")), reporter.states


async def until(true: Any) -> None:
    while not true():
        await asyncio.sleep(0.01)


def test_a_bridge_begins_with_the_replicas_that_an_earlier_one_knew(tmp_path: Path) -> None:
    async def scene() -> None:
        replica = Replica("a")
        earlier, _ = bridge(tmp_path)
        earlier.take({"a": await replica.listen()})
        later, states = bridge(tmp_path)
        later.start()
        await until(lambda: later.members.answering)
        assert states == ["starting", "running"]
        for each in (earlier, later):
            each.members.close()
        replica.drop()

    play(scene)


def test_the_file_keeps_what_the_bridge_knows_and_not_what_a_registry_forgot(tmp_path: Path) -> None:
    async def scene() -> None:
        replica = Replica("a")
        known, _ = bridge(tmp_path)
        known.take({"a": await replica.listen(), "gone": ENTRY})
        await until(lambda: known.members.answering)
        known.take({})  # of a registry that was started again
        await until(lambda: MembersFile(tmp_path, "head:6379").read().keys() == {"a"})
        known.members.close()
        replica.drop()

    play(scene)


def test_the_file_is_this_users_alone_and_written_when_something_has_changed(tmp_path: Path) -> None:
    file, path = MembersFile(tmp_path, "head:6379"), tmp_path / "members.json"
    assert file.read() == {}
    file.write({})
    assert not path.exists()
    file.write({"a": ENTRY})
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    file.write({"a": dict(ENTRY)})  # type: ignore[dict-item]
    assert not path.exists(), "nothing has changed"
    file.write({"a": {**ENTRY, "state": "hung"}})
    later = MembersFile(tmp_path, "head:6379")
    assert later.read() == {"a": {**ENTRY, "state": "hung"}}
    assert [each.name for each in tmp_path.iterdir()] == ["members.json"], "no scratch file is left"
    assert MembersFile(tmp_path, "other:6379").read() == {}, "those of another cluster"
    path.unlink()
    later.write({"a": {**ENTRY, "state": "hung"}})
    assert not path.exists(), "it is what was read"
    later.write({})
    assert path.exists()
    for _ in range(2):
        later.remove()
        assert not path.exists()


def test_a_file_that_cannot_be_written_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = MembersFile(tmp_path / "later", "head:6379")
    file.write({"a": ENTRY})
    assert "members.json cannot be written: No such file" in caplog.text
    (tmp_path / "later").mkdir()
    file.write({"a": ENTRY})
    assert file.read() == {"a": ENTRY}


@pytest.mark.parametrize(
    "changed",
    [
        {"port": "4000"},
        {"port": 0},
        {"port": 65536},
        {"host": ""},
        {"host": "a\0b"},
        {"host": None},
        {"gpus": "0"},
        {"token": 5},
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_not_used(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "members.json"
    content = {"cluster": "head:6379", "replicas": {"a": ENTRY}}
    path.write_bytes(orjson.dumps(content))
    assert MembersFile(tmp_path, "head:6379").read() == {"a": ENTRY}
    path.write_bytes(orjson.dumps({**content, "replicas": {"a": {**ENTRY, **changed}}}))
    assert MembersFile(tmp_path, "head:6379").read() == {}


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'{"cluster": "head:6379"}'])
def test_other_files_are_not_used(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "members.json").write_bytes(text)
    assert MembersFile(tmp_path, "head:6379").read() == {}


def test_while_ray_waits_for_the_head_a_bridge_says_so_and_then_follows_the_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_back = threading.Event()
    monkeypatch.setattr(ray_client, "_CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(ray_client, "connect", lambda address: is_back.wait(DEADLINE))
    listed = SimpleNamespace(remote=lambda *_: Changes(("list", 1), False, {"a": ENTRY}))
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


def test_a_replica_of_another_version_is_told_once_and_is_why_a_bridge_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        replica = Replica("a")
        replica.version = VERSION + 1
        reporter = States()
        own = Bridge(reporter, "", MembersFile(tmp_path, "head:6379"))
        own.start()
        own.take({"a": await replica.listen()})
        await until(lambda: "replica a" in reporter.message)
        assert f"version {VERSION + 1} of the protocol" in reporter.message
        assert f"this machine {VERSION}" in reporter.message
        tries = replica.tries
        await until(lambda: replica.tries > tries + 2)
        assert caplog.text.count("run the same SRB on all machines") == 1
        replica.version = VERSION  # it was upgraded
        await until(lambda: own.members.answering and reporter.states[-1] == "running")  # it is told a moment later
        assert (reporter.states[-1], reporter.message, own.members.misfit) == ("running", "", "")
        own.members.close()
        replica.drop()

    play(scene)


def test_an_address_that_nothing_listens_at_is_told_at_once_and_without_ray() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", "no-such-host.invalid:6379", "127.0.0.1:99999"):
            with pytest.raises(ConnectionError, match=f"^Ray at {address} cannot be reached: "):
                ray_client.connect(address)
