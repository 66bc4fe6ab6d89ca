"""`srb cluster` and the setting `cluster`: one line where Ray is missing, and a table that operators can read."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from srb.cli import main as cli
from srb.cli.cluster import engine_settings, table
from srb.cluster import registry, states
from srb.cluster.affinity import Affinity
from srb.cluster.arguments import Arguments
from srb.cluster.marks import Marks
from srb.cluster.ray_client import _share
from srb.cluster.registry import Entry, Registry
from srb.cluster.routing import Way, may_move, merge, sum_stats, text_of, way_of
from srb.config.named_models import DEFAULT_MODEL
from srb.config.settings import Settings
from srb.errors import ConfigError, EngineLoading, InvalidRequest, Unavailable
from srb.fetch import chosen_model
from srb.wire.codec import VERSION
from srb.wire.commands import (
    AddBranches,
    BranchSpec,
    Cancel,
    Command,
    Generate,
    GetAdapters,
    GetSlots,
    GetStats,
    ListRequests,
    SetAdapters,
    StateAction,
)
from tests.processes import DEADLINE


def entry(node: str = "4f2a", state: str = "running") -> Entry:
    return Entry(host="h", port=1, token="t", node=node, gpus=["0"], state=state, alias="m", pid=1)


def test_without_ray_the_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["cluster", "status"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head.studio:6379", ""])
def test_a_cluster_is_named_by_its_address(address: str) -> None:
    assert Settings.load({"cluster": address}, {}).cluster == address


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:port", "a b:1"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="cluster"):
        Settings.load({"cluster": address}, {})


def test_replicas_get_the_settings_of_engines_that_were_given() -> None:
    given = {
        "model": "/m.gguf",
        "n_ctx": 4096,
        "api_key": "secret",
        "port": 80,
        "cluster": "auto",
        "log_level": "debug",
    }
    assert engine_settings(Settings(**given)) == {"model": "/m.gguf", "n_ctx": 4096, "log_level": "debug"}


@pytest.mark.parametrize("models", ["a=fake:,b=fake:", "a=fake:"])
def test_a_replica_of_several_models_is_refused(models: str) -> None:
    with pytest.raises(ConfigError, match="models: a replica has one model; name it with --model"):
        engine_settings(Settings(models=models))


def test_the_table_has_a_line_for_each_replica_also_for_one_that_is_silent() -> None:
    from srb.cluster.arguments import Row

    stats = {
        "kv_cells_used": 100, "kv_cells": 8192, "prompt_tokens_cached_total": 30, "prompt_tokens_total": 10,
        "tokens_predicted_seconds_total": 2.0, "tokens_predicted_total": 500, "requests_processing": 1,
        "branches_running": 8,
    }  # fmt: skip
    word, _, first, second = table("RUNNING", [Row("srb#engine#abc", entry(), stats), Row("x", entry("b"), {})]).split(
        "\n"
    )
    assert word == "RUNNING"
    assert first.split() == ["abc", "4f2a", "0", "running", "m", "1", "8", "100/8192", "75%", "250"]
    assert second.split() == ["x", "b", "0", "running", "m", "-", "-", "-", "-", "-"]


GENERATE = Generate("r", ("Once upon a time",), (BranchSpec(1),), owner="me")


def test_every_command_has_its_way() -> None:
    assert way_of(GENERATE) is Way.TEXT
    assert way_of(GetAdapters("r")) is Way.ANY
    assert way_of(AddBranches("r", "target", ())) is Way.HOME
    assert way_of(GetStats("r")) is Way.ALL
    assert way_of(StateAction("r", "save", "name")) is Way.STATE
    for cls in Command.__args__:
        if cls is not Cancel:
            way_of(cls.__new__(cls))


def test_a_session_of_an_owner_goes_before_a_state_and_a_state_before_the_text() -> None:
    def marks(**fields: str) -> object:
        return text_of(Generate("r", ("Once upon a time",), (BranchSpec(1),), **{"owner": "me", **fields})).coarse  # type: ignore[arg-type]

    assert marks() == marks(owner="you")
    assert marks(session="s") == marks(session="s", state="x") != marks(session="s", owner="you")
    assert marks(state="x") == text_of(StateAction("r", "restore", "x")).coarse


def test_controls_never_go_to_another_replica() -> None:
    assert may_move(GENERATE)
    assert not may_move(AddBranches("r", "target", ()))


def test_answers_of_all_replicas_become_one() -> None:
    stats = {"a": {"x_total": 1, "n_tokens_max": 5}, "b": {"x_total": 2, "n_tokens_max": 3}}
    assert sum_stats(stats.values()) == {"x_total": 3, "n_tokens_max": 5}
    assert merge(GetSlots("r"), {"a": [{"id": 0}], "b": [{"id": 0}]}) == [
        {"id": 0, "replica": "a"},
        {"id": 0, "replica": "b"},
    ]
    listed = [{"id": name, "state": "running", "age": 1.0, "branches": []} for name in "xyz"]
    assert merge(ListRequests("r", ""), {"a": listed[:1], "b": listed[1:]}) == listed
    with pytest.raises(Unavailable, match="busy"):
        merge(GetSlots("r"), {"c": Unavailable("busy")})
    with pytest.raises(EngineLoading):
        merge(GetSlots("r"), {})


def test_scales_that_a_replica_has_not_set_are_an_error() -> None:
    command, adapters = SetAdapters("r", ((0, 0.5),)), [{"id": 0, "scale": 0.5}]
    assert merge(command, {"a": adapters, "b": adapters}) == adapters
    with pytest.raises(Unavailable, match="silent"):
        merge(command, {"a": adapters, "b": Unavailable("silent"), "c": InvalidRequest("no")})


def test_a_bridge_hears_of_a_change_of_the_registry_at_once() -> None:
    async def talk() -> None:
        registry = Registry()
        await registry.announce("a", entry())
        first = await registry.listed()
        assert (first.is_whole, first.entries) == (True, {"a": entry()})
        waiting = asyncio.create_task(registry.listed(first.place, DEADLINE))
        await registry.announce("a", entry())  # nothing new
        await asyncio.sleep(0)
        assert not waiting.done()
        await registry.announce("a", entry(state="leaving"))
        second = await asyncio.wait_for(waiting, DEADLINE)
        assert second.apply(first.apply({})) == {"a": entry(state="leaving")}
        async with registry._changed:  # as while bridges are told of another change
            twice = [asyncio.create_task(registry.withdraw("a")) for _ in range(2)]
            await asyncio.sleep(0)
        await asyncio.gather(*twice)
        assert (await registry.listed(second.place, DEADLINE)).apply({"a": entry()}) == {}

    asyncio.run(talk())


def test_a_bridge_hears_what_has_changed_alone_unless_it_has_missed_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.registry._MOST_GONE", 2)

    async def talk() -> None:
        registry = Registry()
        for name in "abcd":
            await registry.announce(name, entry())
        place, _, _ = await registry.listed()
        await registry.announce("b", entry(state="hung"))
        await registry.withdraw("c")
        await registry.announce("e", entry())
        changed = await registry.listed(place)
        assert not changed.is_whole
        assert changed.entries == {"b": entry(state="hung"), "c": None, "e": entry()}
        assert (await registry.listed(changed.place)).entries == {}
        for name in "uvwxyz":
            await registry.announce(name, entry())
            await registry.withdraw(name)
        late = await registry.listed(place)
        assert (late.is_whole, late.apply({"gone": entry()}).keys()) == (True, set("abde"))
        assert not (await registry.listed(late.place)).is_whole
        lost = Registry()  # it was started again, and has seen as much
        lost._version = late.place[1]
        assert (await lost.listed(late.place)).is_whole

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("given", "free", "running", "starts_first"),
    [
        ({"cpus": 3}, [{"CPU": 1.0}, {"CPU": 3.0}], 1, True),
        ({"cpus": 3}, [{"CPU": 2.0}, {"CPU": 2.0}], 1, False),
        ({"gpus": 1}, [{"CPU": 8.0}, {"GPU": 1.0}], 1, False),
        ({"gpus": 1}, [{"CPU": 8.0, "GPU": 1.0}], 1, True),
        ({"surge": False}, [{"CPU": 8.0}], 1, False),
        ({"door_port": 7000}, [{"CPU": 8.0}], 1, False),
        ({"settings": {"rpc": "10.0.0.2:50052"}}, [{"CPU": 8.0}], 1, False),
        ({}, [], 1, False),
        # The room is that of a replica that comes with the update.
        ({"cpus": 3, "replicas": 2}, [{"CPU": 1.0}, {"CPU": 4.0}], 1, False),
        ({"cpus": 3, "replicas": 2}, [{"CPU": 3.0}, {"CPU": 4.0}], 1, True),
        ({"gpus": 1, "cpus": 0, "replicas": 4}, [{"GPU": 2.0}], 2, False),
        ({"gpus": 1, "cpus": 0, "replicas": 4}, [{"GPU": 3.0}], 2, True),
        ({"gpus": 1, "replicas": 1}, [{"CPU": 1.0, "GPU": 1.0}], 3, True),
        ({"cpus": 0}, [{"CPU": 0.0}], 1, True),
        ({"cpus": 0.1, "replicas": 3}, [{"CPU": 0.3}], 1, True),
    ],
)
def test_an_update_starts_a_replica_before_one_ends_where_a_machine_has_room(
    given: dict[str, Any], free: list[dict[str, float]], running: int, starts_first: bool
) -> None:
    assert bool(Arguments(**given).surge_percent(free, running)) is starts_first


def test_news_that_were_not_told_are_kept_for_the_next_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.affinity._MEMORY", 3)
    marks = [bytes([number]) * 16 for number in range(1, 7)]
    bridge = Affinity()
    bridge.know(marks[:2], "a")
    taken = bridge.take_news()
    bridge.know(marks[1:3], "b")
    bridge.keep_news(taken)
    end = bytes(16)  # behind a text's last mark
    assert bridge.take_news() == {"a": marks[0], "b": marks[1] + marks[2] + end}, "the later of two replicas"
    bridge.know(marks[3:5], "b")
    bridge.keep_news({"a": b"".join(marks[:2])})
    assert bridge.take_news() == {"a": marks[1] + end, "b": marks[3] + marks[4] + end}, "no more than are remembered"


def test_bridges_hear_through_the_registry_what_others_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.ray_client._NEWS_SECONDS", 0.01)
    monkeypatch.setattr("srb.cluster.ray_client._PAUSE", 0.01)
    text = Marks(("A text that is long enough to be known by more than its first bytes. " * 3,)).coarse
    early = Marks(("A text that was computed before the registry was lost.",)).coarse

    class Actor:
        """A registry that is called as an actor's, and is lost at first."""

        def __init__(self) -> None:
            self.exchange = SimpleNamespace(remote=self._exchange)
            self._registry = Registry()
            self.calls = 0

        def _exchange(self, *arguments: Any) -> Any:
            self.calls += 1
            answered: Future[Any] = Future()
            if self.calls < 3:
                answered.set_exception(OSError("lost"))
            else:
                answered.set_result(self._registry._marks.exchange(*arguments))
            return SimpleNamespace(future=lambda: answered)

    async def talk() -> None:
        one, other = Affinity(), Affinity()
        one.join("a"), other.join("a"), other.join("b")
        actor = Actor()
        one.know(early, "a")
        sharing = [asyncio.create_task(_share(actor, each)) for each in (one, other)]
        while actor.calls < 4:
            await asyncio.sleep(0.01)
        one.know(text, "a")
        while text[-1] not in other._known:
            await asyncio.sleep(0.01)
        assert other._known[text[-1]][1] == ("a",)
        assert other._known[early[0]][1] == ("a",), "the news of the exchanges that failed"
        for task in sharing:
            task.cancel()

    asyncio.run(asyncio.wait_for(talk(), DEADLINE))


def test_a_replica_that_does_not_announce_itself_is_silent_and_then_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> None:
        registry = Registry()
        await registry.announce("a", entry())
        await registry.announce("b", entry(state="leaving"))
        monkeypatch.setattr("srb.cluster.registry.SILENT_SECONDS", -1)
        assert (await registry.listed()).entries == {"a": entry(state="silent"), "b": entry(state="leaving")}
        monkeypatch.setattr("srb.cluster.registry.SILENT_SECONDS", DEADLINE)
        await registry.announce("a", entry())
        assert (await registry.listed()).entries["a"] == entry(), "it is heard again"
        monkeypatch.setattr("srb.cluster.registry._FORGET_SECONDS", -1)
        assert (await registry.listed()).entries == {}

    asyncio.run(talk())


@pytest.fixture(autouse=True)
def fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default model is on this machine, whichever machine that is."""
    monkeypatch.setattr(chosen_model, "_default", lambda may_fetch: DEFAULT_MODEL.name)


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> list[Arguments]:
    """The arguments that `srb cluster deploy` deploys, in the place of Ray."""
    made: list[Arguments] = []
    operate = ModuleType("operate")
    operate.deploy = lambda address, arguments, tell: made.append(arguments)  # type: ignore[attr-defined]
    operate.look = lambda address: ("RUNNING", [])  # type: ignore[attr-defined]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "srb.cluster.operate", operate)
    return made


def deploy(*options: str) -> int:
    """Run `srb cluster deploy`; return its exit status."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["cluster", "deploy", *options])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--replicas 0", "--replicas: Input should be greater than or equal to 1"),
        ("--replicas 4 --max-replicas 2", "max_replicas (2) is less than replicas (4); 0 turns scaling off"),
        ("--max-replicas -1", "--max-replicas: Input should be greater than or equal to 0"),
        ("--max-replicas 4 --target-branches 0", "--target-branches: Input should be greater than 0"),
        ("--max-replicas 4 --target-branches nan", "--target-branches: Input should be a finite number"),
        ("--max-replicas 4 --scale-up-seconds -1", "--scale-up-seconds: Input should be greater than or equal to 0"),
        ("--scale-down-seconds inf", "--scale-down-seconds: Input should be a finite number"),
        ("--max-replicas many", "argument --max-replicas: invalid int value: 'many'"),
        ("--door-port 70000", "--door-port: Input should be less than or equal to 65535"),
        ("--max-n 128", "--max-n: replicas do not read this; give it to `srb serve --cluster` on the web machines"),
        ("--port=80", "--port: replicas do not read this; give it to `srb serve --cluster` on the web machines"),
        (
            "-c 512 --workers 2",
            "--workers: replicas do not read this; give it to `srb serve --cluster` on the web machines",
        ),
    ],
)
def test_bad_options_are_one_line_that_names_the_option(
    options: str, said: str, deployed: list[Arguments], capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy(*options.split()) == 2
    assert capsys.readouterr().err == f"srb: {said}\n"
    assert not deployed


def test_variables_of_a_web_machine_do_not_keep_it_from_deploying(
    deployed: list[Arguments], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRB_MAX_N", "128")
    assert deploy("--cluster", "auto", "--n-ctx", "512", "--log-level", "debug") == 0
    assert deployed[0].settings["n_ctx"] == 512
    assert "max_n" not in deployed[0].settings


def test_a_newer_version_has_a_registry_and_a_keeper_of_its_own() -> None:
    """Actors outlive `srb cluster stop` with the code that they began with."""
    assert registry.NAME.endswith(f"-{VERSION}")
    assert states.KEEPER.endswith(f"-{VERSION}")


def test_the_options_of_autoscaling_reach_serve(deployed: list[Arguments]) -> None:
    assert deploy("--replicas", "2", "--max-replicas", "6", "--target-branches", "8", "--scale-up-seconds", "5") == 0
    config = deployed[0].number["autoscaling_config"]
    assert (config["min_replicas"], config["max_replicas"], config["upscale_delay_s"]) == (2, 6, 5)
    assert config["policy"]["policy_kwargs"] == {"target": 8}
    assert deploy("--replicas", "3") == 0
    assert deployed[1].number == {"num_replicas": 3}


@pytest.mark.parametrize("option", ["--replicas", "--max-replicas"])
def test_rpc_nodes_are_for_one_replica(
    option: str, deployed: list[Arguments], capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy(option, "2", "--rpc", "10.0.0.2:50052") == 2
    assert capsys.readouterr().err == (
        "srb: rpc: a node serves one engine at a time, so only one replica can use it; leave out replicas and max_replicas\n"
    )
    assert not deployed
