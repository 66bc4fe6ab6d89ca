"""Doors without Ray: their list, and what a bridge makes of each that answers, is silent, moves or is none."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.cluster import door as door_module
from srb.cluster import follow_doors as source
from srb.cluster.door import TOKEN_LENGTH, Door, watch_token
from srb.cluster.door_news import MOST_TOLD, frame_of, from_json, in_frame, in_lines, named, of_replica
from srb.cluster.doors import DoorAddress, check_doors, dns_name, read_doors, read_token
from srb.cluster.follow_doors import follow_doors
from srb.cluster.marks import Marks
from srb.cluster.members import Members
from srb.cluster.registry import Entry, Facts
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.wire.framing import frame
from tests.unit.test_cluster_bridge import until
from tests.unit.test_cluster_relay import Replica, play

SECRET = "a secret of sixteen and more"
FACTS = Facts(node="n", gpus=["0"], state="running", alias="m", pid=1)


def settings(replicas: object, **given: str) -> Settings:
    return Settings.load({"replicas": str(replicas), **given}, {})


def write(folder: Path, text: str) -> Path:
    (folder / "secret").write_text(f" {SECRET}\n")
    path = folder / "doors.toml"
    path.write_text(text)
    return path


def test_a_list_names_hosts_ports_and_the_file_of_the_secret_beside_it(tmp_path: Path) -> None:
    path = write(
        tmp_path, 'token_file = "secret"\n[[doors]]\nname = "a"\nhost = "10.0.0.2"\nport = 9191\n'
        '[[doors]]\nname = "b-2.x"\nhost = "fd00::2"\nport = 1\n',
    )  # fmt: skip
    doors = read_doors(settings(path))
    token = read_token(settings(path), str(tmp_path / "secret"))
    assert doors == {"a": DoorAddress("10.0.0.2", 9191, token), "b-2.x": DoorAddress("fd00::2", 1, token)}
    assert len(token) == TOKEN_LENGTH, "whatever the secret's length"
    assert [str(address) for address in doors.values()] == ["10.0.0.2:9191", "[fd00::2]:1"]
    assert SECRET not in token


DOOR = '[[doors]]\nname = "a"\nhost = "h"\nport = 1\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[doors]\n", "is not valid TOML"),
        ("\xff[", "is not valid TOML"),
        ('[[door]]\nname = "a"', "unknown setting 'door'"),
        (DOOR.replace('"a"', '"a b"'), "doors.0.name"),
        (DOOR.replace('"h"', '"h h"'), "doors.0.host"),
        (DOOR.replace("= 1", "= 65536"), "doors.0.port"),
        (DOOR.replace("= 1", '= "1"'), "doors.0.port"),
        ('[[doors]]\nname = "a"\nhost = "h"', "doors.0.port: Field required"),
        (DOOR + DOOR, "two doors have the name a"),
        (DOOR, "door_token_file is missing"),
        (f'token_file = "none"\n{DOOR}', "none: No such file or directory"),
        (f'token_file = "doors.toml"\n{DOOR}'[:15], "is not valid TOML"),
    ],
)
def test_a_wrong_list_is_told_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_doors(settings(write(tmp_path, text)))
    assert said in error.value.message
    assert "\n" not in error.value.message


def test_a_short_secret_is_refused_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(ConfigError, match="at least 16 characters, not 7") as error:
        check_doors(settings("dns:name:80", door_token_file=str(tmp_path / "secret")))
    assert "hunter2" not in error.value.message


@pytest.mark.parametrize(
    "text", ["dns:", "dns:name", "dns:name:0", "dns:name:x", "dns:-a:1", "dns:a b:1", "dns:a:65536"]
)
def test_a_wrong_dns_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="dns:NAME:PORT"):
        settings(text)


@pytest.mark.parametrize("name", ["srb..default", "a..", f"{'a' * 64}.default", ".".join(["a" * 60] * 5)])
def test_a_name_that_dns_cannot_have_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=r"replicas.*NAME that DNS cannot have"):
        settings(f"dns:{name}:8090")


@pytest.mark.parametrize(
    "name", ["srb-replicas", "srb.default.svc.cluster.local", "srb.default.", f"{'a' * 63}.default"]
)
def test_a_name_that_dns_may_have_is_taken(name: str) -> None:
    assert dns_name(settings(f"dns:{name}:8090")) == (name, 8090)


class Scene:
    """A bridge's members that follow a list, and what is told of troubles."""

    def __init__(self) -> None:
        self.members = Members(lambda: None)
        self.troubles: dict[str, str] = {}

    def tell(self, part: str, message: str) -> None:
        self.troubles[part] = message

    def states(self) -> dict[str, str]:
        return {name: entry["state"] for name, entry in self.members.entries.items()}

    @asynccontextmanager
    async def following(self, given: Settings) -> Any:
        task = asyncio.create_task(follow_doors(given, self.members, self.members.update, self.tell))
        try:
            yield self
        finally:
            task.cancel()
            self.members.close()


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FILE_SECONDS", "_DNS_SECONDS", "_PAUSE"):
        monkeypatch.setattr(source, name, 0.05)
    monkeypatch.setattr(door_module, "_TELL_SECONDS", 0.01)


def door(facts: Callable[[], Facts] | None = lambda: FACTS) -> Door:
    return Door(Path("/nonexistent"), hashlib.sha256(SECRET.encode()).hexdigest(), facts)


def listed(folder: Path, **ports: int) -> Settings:
    lines = [DOOR.replace('"a"', f'"{name}"').replace("= 1", f"= {port}").replace('"h"', '"127.0.0.1"')
             for name, port in ports.items()]  # fmt: skip
    return settings(write(folder, 'token_file = "secret"\n' + "".join(lines)))


def test_a_replica_says_itself_how_it_is_and_who_says_nothing_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "SILENT_SECONDS", 0.2)
    facts = dict(FACTS)

    async def scene() -> None:
        here = Scene()
        one = door(lambda: Facts(**facts))  # type: ignore[typeddict-item]
        port = await one.open("127.0.0.1")
        async with here.following(listed(tmp_path, a=port)):
            await until(lambda: here.states() == {"a": "running"})
            assert here.members.entries["a"] == {**FACTS, "host": "127.0.0.1", "port": port, "token": one.token}
            facts["state"] = "hung"
            await until(lambda: here.states() == {"a": "hung"})
            monkeypatch.setattr(door_module, "_TELL_SECONDS", 3600.0)  # as a process that is stopped
            await until(lambda: here.states() == {"a": "silent"})
            assert here.troubles.get("replica a", "") == ""
        one.close()

    play(scene)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it is no replica's door"),
        (b'{"node": 5}\n', "it is no replica's door"),
        (b"x" * 70_000 + b"\n", "it is no replica's door"),
        (b"half a line", "it closes the connection: its replica is not ready yet, or it is no replica's door"),
        (b"", "it closes the connection: its replica is not ready yet, or it is no replica's door"),
        (b"\n", "its secret is another one"),
    ],
)
def test_an_address_at_which_something_else_listens_is_told(tmp_path: Path, answer: bytes, why: str) -> None:
    async def scene() -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(TOKEN_LENGTH)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1")
        good = door()
        ports = {"other": server.sockets[0].getsockname()[1], "good": await good.open("127.0.0.1")}
        here = Scene()
        async with here.following(listed(tmp_path, **ports)):
            await until(lambda: here.troubles.get("replica other") and here.states())
            at = f"replica other at 127.0.0.1:{ports['other']}"
            assert here.troubles["replica other"] == f"{at} cannot be used: {why}"
            assert here.states() == {"good": "running"}
        server.close()
        good.close()

    play(scene)


def test_a_door_with_another_secret_says_so_and_one_that_opens_late_is_not_blamed_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        late = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1")  # as a proxy before it
        stranger, good = Door(Path("/nonexistent"), "s" * TOKEN_LENGTH, lambda: FACTS), door()
        port = late.sockets[0].getsockname()[1]
        ports = {"late": port, "stranger": await stranger.open("127.0.0.1"), "good": await good.open("127.0.0.1")}
        here = Scene()
        async with here.following(listed(tmp_path, **ports)):
            await until(lambda: here.troubles.get("replica stranger") and here.troubles.get("replica late"))
            assert here.troubles["replica stranger"].endswith("its secret is another one")
            assert "secret" not in here.troubles["replica late"]
            assert "token" not in here.troubles["replica late"]
            late.close()
            opened = door()
            await opened.open("127.0.0.1", port)
            await until(lambda: here.states().keys() == {"late", "good"})
            opened.close()
        stranger.close(), good.close()

    play(scene)


def test_bridges_hear_through_a_door_what_others_know_of_its_replica_by_whatever_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_NEWS_SECONDS", 0.01)
    early, text, own = (
        Marks((f"{word} text that is known by more than its beginning. " * 9,)).coarse for word in "abc"
    )
    request = "f" * 32

    async def scene() -> None:
        one, other, later = Scene(), Scene(), Scene()
        door_a, door_b = door(), door()
        ports = await door_a.open("127.0.0.1"), await door_b.open("127.0.0.1")
        for folder in ("one", "other", "later"):
            (tmp_path / folder).mkdir()
        here = listed(tmp_path / "one", a=ports[0], b=ports[1]), listed(tmp_path / "other", x=ports[0], y=ports[1])
        async with one.following(here[0]), other.following(here[1]):
            await until(lambda: len(one.states()) == len(other.states()) == 2)
            one.members.affinity.know(early, "a")
            one.members.homes.note(request, "b")
            await until(lambda: early[-1] in other.members.affinity._known)
            await until(lambda: other.members.homes.get(request) == "y")
            assert other.members.affinity._known[early[-1]][1] == ("x",)
            other.members.affinity.know(text, "y")
            await until(lambda: text[-1] in one.members.affinity._known)
            assert one.members.affinity._known[text[-1]][1] == ("b",)
            assert one.members.take_news() == {}, "nobody tells again what it has heard"
            async with later.following(listed(tmp_path / "later", b=ports[1], a=ports[0])):
                await until(lambda: {early[-1], text[-1]} <= later.members.affinity._known.keys())
                later.members.affinity.know(own, "gone")
                await until(lambda: not later.members.affinity._news)
        door_a.close(), door_b.close()

    play(scene)


def test_a_door_that_knows_nothing_of_news_gets_none_and_one_hears_no_nonsense(tmp_path: Path) -> None:
    async def scene() -> None:
        got, connections = bytearray(), set[asyncio.StreamWriter]()

        async def of_before(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(writer)
            await reader.readexactly(TOKEN_LENGTH)
            writer.write(orjson.dumps(FACTS) + b"\n")
            got.extend(await reader.read())
            writer.close()
            connections.remove(writer)

        old, new = await asyncio.start_server(of_before, "127.0.0.1"), door()
        port = await new.open("127.0.0.1")
        here = Scene()
        async with here.following(listed(tmp_path, old=old.sockets[0].getsockname()[1], new=port)):
            await until(lambda: here.states().keys() == {"old", "new"})
            here.members.affinity.know(Marks(("x" * 99,)).coarse, "old")
            await until(lambda: not here.members.affinity._news)
            for nonsense in (
                b"[]",
                b"{}",
                b"\xff",
                b'{"texts": 1}',
                frame_of("b", {"": b"x" * 15}),
                frame_of("b", {"": b"?"}),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(watch_token(new.token).encode() + frame(nonsense))
                while await reader.read(1000):
                    pass  # until it is closed
                writer.close()
            assert here.states().keys() == {"old", "new"}
        await until(lambda: not connections)
        assert not got
        old.close(), new.close()

    play(scene)


def test_news_have_bounds() -> None:
    texts = {f"{kind}a": bytes(16) * 100_000 for kind in ("", "=")}
    told = of_replica(texts, "a")
    assert len(frame_of("b" * 32, told)) <= MOST_TOLD
    assert in_frame(frame_of("b", told)) == ("b", told)
    assert named(told, "x").keys() == {"x", "=x"}
    assert of_replica(texts, "b") == {}
    lines = list(in_lines([told] * 10))
    assert [news for line in lines for news in map(from_json, line)] == [told] * 10
    assert max(sum(map(len, map(orjson.dumps, line))) for line in lines) <= 2 * MOST_TOLD


def test_the_door_of_a_registry_tells_nobody_anything(tmp_path: Path) -> None:
    async def scene() -> None:
        one = door(None)
        port = await one.open("127.0.0.1")
        here = Scene()
        async with here.following(listed(tmp_path, a=port)):
            await until(lambda: here.troubles.get("replica a"))
            assert here.states() == {}
        one.close()

    play(scene)


def test_all_addresses_of_a_dns_name_are_watched_and_those_that_it_forgets_stay_while_they_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

    def getaddrinfo(name: str, port: int, *_: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    async def scene() -> None:
        first, second = door(), door()
        port = await first.open("127.0.0.1")
        await second.open("127.0.0.2", port)
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        here = Scene()
        async with here.following(
            settings(f"dns:srb-replicas:{port}", door_token_file=str(write(tmp_path, "").with_name("secret")))
        ):
            await until(lambda: here.states() == {"127.0.0.1": "running", "127.0.0.2": "running"})
            await until(lambda: here.troubles.get("replica 127.0.0.3"))
            del addresses[1:]
            await until(lambda: here.troubles["replica 127.0.0.3"] == "")
            assert here.states().keys() == {"127.0.0.1", "127.0.0.2"}, "it still answers"
            addresses.clear()
            await until(lambda: here.troubles.get("list of replicas"))
            said = "replicas: srb-replicas cannot be resolved: Name or service not known"
            assert here.troubles["list of replicas"] == said
            assert here.states().keys() == {"127.0.0.1", "127.0.0.2"}
            addresses.append("127.0.0.2")
            await until(lambda: here.troubles["list of replicas"] == "")
        first.close()
        second.close()

    play(scene)


def entry_at(entry: Entry, **changed: Any) -> dict[str, Entry]:
    return {"a": {**entry, **changed}}  # type: ignore[typeddict-item]


def scene_of(members: Members, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def scene() -> None:
        try:
            await work()
        finally:
            members.close()

    play(scene)


def test_a_name_that_comes_back_after_it_left_takes_requests_again() -> None:
    members = Members(lambda: None)

    async def work() -> None:
        replica = Replica("a")
        entry = await replica.listen()
        members.update(entry_at(entry))
        await until(lambda: members.ready)
        members.update(entry_at(entry, state="leaving"))
        assert not members.ready
        members.update(entry_at(entry))
        await until(lambda: members.ready)
        replica.drop()

    scene_of(members, work)


def test_a_name_with_another_address_is_another_replica() -> None:
    members = Members(lambda: None)

    async def work() -> None:
        old, new = Replica("old"), Replica("new")
        first, second = await old.listen(), await new.listen()
        members.update(entry_at(first))
        await until(lambda: members.ready)
        before = members.get("a")
        assert before is not None
        members.update(entry_at(second))
        await until(lambda: members.ready)
        after = members.get("a")
        assert after is not None
        assert after is not before
        assert after.entry["port"] == second["port"]
        assert before.is_leaving, "so that channels to it end with its requests"
        old.drop()
        await until(lambda: before.link is None)
        assert members.ready == [after]
        new.drop()

    scene_of(members, work)
