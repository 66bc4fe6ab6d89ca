"""The bridge between workers and replicas, with engines as in a cluster and without Ray."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srb.cluster import members, relay, slots
from srb.cluster.affinity import Affinity
from srb.cluster.bridge import Bridge
from srb.cluster.door import REFUSED, Door
from srb.cluster.members_file import MembersFile
from srb.cluster.registry import Entry
from srb.cluster.replica_engine import ReplicaEngine
from srb.cluster.routing import choose
from srb.cluster.states import StateKeeper, StateShare
from srb.config.sampling_params import SamplingParams
from srb.config.settings import SOCKET_NAME, Settings
from srb.errors import Conflict, EngineLoading, EngineRestarted, InvalidRequest, NotFound, QueueFull, Unavailable
from srb.files.text_entry import read_header
from srb.wire.commands import (
    AddBranches,
    Attach,
    BranchSpec,
    Cancel,
    ChangeBranch,
    Generate,
    GetRequest,
    GetSlots,
    GetStats,
    ListRequests,
    StateAction,
    StopBranches,
    Tokenize,
)
from srb.wire.events import (
    Accepted,
    Attached,
    BranchEnded,
    Delta,
    Done,
    Failed,
    Hello,
    PromptDone,
    Ready,
    Rejected,
    Reply,
)
from tests.processes import DEADLINE, PYTHON, ROOT, Worker, brief, children, clean_environ, endless, is_alive, wait_for

WITHOUT_RAY = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "ray" else real(name, *more)
import srb.serve.gunicorn_conf
"""


ENGINE = {"model": "fake:", "n_ctx": 100_000}


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE)

    def close(self) -> None:
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # until the sockets that they have closed are


class OneReplica:
    """An engine with a door, as the actor has them."""

    def __init__(self, loop: Loop, model: str = "fake:", **changed: Any) -> None:
        self._loop = loop
        settings = {**ENGINE, "model": model, **changed}
        self.engine = ReplicaEngine(Settings(**settings), settings)
        self.door = Door(self.engine.socket_path)

    def open(self) -> OneReplica:
        self._loop.run(self.engine.wait_ready())
        self.port = self._loop.run(self.door.open("127.0.0.1"))
        return self

    def close(self) -> None:
        async def act() -> None:
            self.door.close()

        self._loop.run(act())
        self.engine.close()

    @property
    def pid(self) -> int:
        """The engine's pid."""
        [pid] = wait_for(lambda: children(self.engine._process.pid), "there is an engine")
        return pid

    def entry(self, state: str = "running") -> Entry:
        address = {"host": "127.0.0.1", "port": self.port, "token": self.door.token}
        return Entry(**address, node="n", gpus=[], state=state, alias="fake:", pid=1)  # type: ignore[typeddict-item]


class NoReports:
    """A reporter that remembers the state."""

    state = ""

    def report_state(self, state: str, message: str = "", percent: int | None = None) -> None:
        self.state = state

    def beat(self) -> None:
        pass


class Bridged:
    """A bridge, listening in a folder."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.loop = loop
        self.reports = NoReports()
        self.workers: list[Worker] = []
        loop.run(self._start())

    async def _start(self) -> None:
        self.bridge = Bridge(self.reports, "me", MembersFile(self.folder, "head:6379"))
        self.server = await asyncio.start_unix_server(self.bridge.connected, self.folder / SOCKET_NAME)
        self.bridge.start()

    def update(self, **entries: Entry) -> None:
        self.entries = entries

        async def act() -> None:
            self.bridge.members.update(entries)

        self.loop.run(act())

    def worker(self) -> Worker:
        self.workers.append(Worker(self.folder))
        return self.workers[-1]

    def open_requests(self) -> int:
        return sum(len(relay._open) for relay in self.bridge._relays)

    def break_door(self, name: str) -> None:
        """Let new connections to a replica fail, while the bridge's own goes on."""

        async def act() -> None:
            member = self.bridge.members.get(name)
            assert member is not None
            member.entry = {**member.entry, "port": 1}

        self.loop.run(act())

    def wait_ready(self, number: int) -> None:
        wait_for(lambda: len(self.bridge.members.ready) == number, f"{number} replicas are ready")

    def close(self) -> None:
        async def act() -> None:
            self.server.close()
            self.bridge.members.close()

        for worker in self.workers:
            worker.close()
        self.loop.run(act())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the replicas of a machine that does much else answer late: they are not silent."""
    limits = [
        (relay, "_ASK_SECONDS"),
        (relay, "_QUESTION_SECONDS"),
        (members, "_NUMBERS_SECONDS"),
        (slots, "_LOOK_SECONDS"),
    ]
    for module, name in limits:
        monkeypatch.setattr(module, name, DEADLINE)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    own = Loop()
    yield own
    own.close()


@pytest.fixture(scope="module")
def pair(loop: Loop) -> Iterator[tuple[OneReplica, OneReplica]]:
    """Two replicas; leave both running."""
    replicas = OneReplica(loop), OneReplica(loop)
    yield replicas[0].open(), replicas[1].open()
    for replica in replicas:
        replica.close()


@pytest.fixture(scope="module")
def steady(loop: Loop) -> Iterator[tuple[OneReplica, OneReplica]]:
    """Two replicas with 50 steps a second, so that many branches run for minutes; leave both running."""
    replicas = OneReplica(loop, "fake:50"), OneReplica(loop, "fake:50")
    yield replicas[0].open(), replicas[1].open()
    for replica in replicas:
        replica.close()


@pytest.fixture
def bridged(loop: Loop, pair: tuple[OneReplica, OneReplica], tmp_path: Path) -> Iterator[Bridged]:
    """A bridge to both replicas."""
    made = Bridged(loop, tmp_path / "bridge")
    made.update(a=pair[0].entry(), b=pair[1].entry())
    made.wait_ready(2)
    yield made
    made.close()


def placed(name: str, request_id: str) -> Generate:
    """Return an endless request whose text is placed on the replica of this name, if each has as many stories."""
    for number in range(1000):
        text = f"{request_id} {number} is the number of a story that nobody has told yet, and that nobody will tell."
        command = Generate(request_id, (text,), endless(request_id).branches)
        scratch = Affinity()
        for each in ("a", "b"):
            scratch.join(each)
        if choose(scratch, command) == name:
            return command
    raise AssertionError("no text is placed there")


def test_a_worker_sees_one_engine(bridged: Bridged) -> None:
    worker = bridged.worker()
    assert worker.next(Hello).server_id == "me"
    assert worker.next(Ready).model["alias"] == "fake:"
    worker.send(brief("one"))
    first, *_, last = (type(event) for event in _until_done(worker, "one"))
    assert (first, last) == (Accepted, Done)
    assert bridged.reports.state == "running"


def _until_done(worker: Worker, request_id: str) -> list[Any]:
    seen = []
    for event in worker.events():
        if event.request_id == request_id:
            seen.append(event)
            if isinstance(event, (Done, Failed, Rejected, Reply)):
                return seen
    raise AssertionError("unreachable")


def test_questions_to_all_have_one_answer(both: tuple[Bridged, Bridged]) -> None:
    bridged, _ = both
    worker = bridged.worker().ready()
    worker.send(placed("a", "on a"), placed("b", "on b"))
    worker.next(Accepted), worker.next(Accepted)
    wait_for(lambda: worker.stats()["branches_running"] == 4, "two branches run on each replica")
    stats = worker.stats()
    assert stats["kv_cells"] == 2 * ENGINE["n_ctx"]  # type: ignore[operator]
    assert set(stats["cluster"]["replicas"]) == {"a", "b"}  # type: ignore[index]
    worker.send(ListRequests("list", ""))
    assert {request["id"] for request in worker.next(Reply).value} == {"on a", "on b"}
    worker.send(GetSlots("slots"))
    assert {slot["replica"] for slot in worker.next(Reply).value} == {"a", "b"}
    worker.send(Tokenize("tokens", ("a b",), False, False))
    assert worker.next(Reply).value
    worker.send(Cancel("on a", leaves=True), Cancel("on b", leaves=True))
    wait_for(lambda: worker.stats()["branches_running"] == 0, "both requests are cancelled")
    assert bridged.open_requests() == 0


def test_a_reader_finds_a_request_through_any_bridge(bridged: Bridged, loop: Loop, pair: Any, tmp_path: Path) -> None:
    other = Bridged(loop, tmp_path / "other")
    other.update(a=pair[0].entry(), b=pair[1].entry())
    other.wait_ready(2)
    owner, reader = bridged.worker().ready(), other.worker().ready()
    owner.send(placed("b", "read"))
    owner.next(Accepted)
    reader.send(Attach("attach", "read"))
    assert reader.next(Attached, Rejected).target == "read"
    assert reader.next(Delta).request_id == "read"
    reader.send(GetRequest("get", "nobody"))
    assert reader.next(Rejected).code == NotFound.code
    reader.send(StopBranches("stop", "read"))
    assert {type(reader.next(Reply, Done)), type(reader.next(Reply, Done))} == {Reply, Done}
    assert owner.next(Done).request_id == "read"
    wait_for(lambda: other.open_requests() == bridged.open_requests() == 0, "nothing is left of it")
    other.close()


def test_a_killed_engine_ends_its_own_requests_alone(loop: Loop, pair: Any, tmp_path: Path) -> None:
    third = OneReplica(loop).open()
    bridged = Bridged(loop, tmp_path / "bridge")
    try:
        bridged.update(a=pair[0].entry(), b=third.entry())
        bridged.wait_ready(2)
        worker = bridged.worker().ready()
        worker.send(placed("a", "stays"), placed("b", "dies"))
        assert {worker.next(Accepted).request_id, worker.next(Accepted).request_id} == {"stays", "dies"}
        os.kill(third.pid, signal.SIGKILL)
        failed = worker.next(Failed)
        assert (failed.request_id, failed.code) == ("dies", EngineRestarted.code)
        assert "b" in failed.message, "the message names the replica"
        worker.send(*(brief(f"new {number}") for number in range(20)))
        assert {worker.next(Done, Failed, Rejected).request_id for _ in range(20)} == {f"new {n}" for n in range(20)}
        assert worker.next(Delta).request_id == "stays"
        bridged.wait_ready(2)  # its supervisor has started another engine
        worker.send(brief("later"))
        assert worker.next(Accepted, Rejected).request_id == "later"
    finally:
        bridged.close()
        third.close()


def test_a_request_that_its_replica_has_not_taken_goes_to_another(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    bridged.break_door("b")
    for number in range(5):
        worker.send(placed("b", f"moved {number}"))
        answer = worker.next(Accepted, Failed, Rejected)
        assert (type(answer), answer.request_id) == (Accepted, f"moved {number}")
        worker.send(Cancel(f"moved {number}", leaves=True))


def many(request_id: str, n: int = 24, max_tokens: int = 8, **options: Any) -> Generate:
    """A request with more branches than an engine over FakeModel has sequences (16)."""
    ignores = SamplingParams(ignore_eos=True)
    specs = tuple(BranchSpec(100 + index, max_tokens, sampling=ignores) for index in range(n))
    return Generate(request_id, ("A story with many ends. " * 5,), specs, can_grow=True, **options)


def texts(events: list[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for event in events:
        if isinstance(event, Delta):
            found[event.index] = found.get(event.index, "") + event.text
    return found


def answer_and(worker: Worker, kind: type) -> tuple[Any, Any]:
    """Return the answer to a control and the event that comes with it, in whatever order."""
    found = [worker.next(Reply, Rejected, kind) for _ in range(2)]
    [event] = [each for each in found if isinstance(each, kind)]
    [answer] = [each for each in found if each is not event]
    return answer, event


def test_more_branches_than_an_engine_has_are_divided_and_one_stream(
    bridged: Bridged, loop: Loop, tmp_path: Path
) -> None:
    worker = bridged.worker()
    assert worker.next(Ready).model["replicas"] == 2
    alone = Bridged(loop, tmp_path / "alone")
    alone.update(a=bridged.entries["a"])
    alone.wait_ready(1)
    single = alone.worker().ready()
    worker.send(many("divided"))
    single.send(many("single"))
    divided, expected = _until_done(worker, "divided"), _until_done(single, "single")
    assert texts(divided) == texts(expected)
    kinds = [type(event) for event in divided]
    assert kinds[0] is Accepted
    assert kinds.count(Accepted) == kinds.count(PromptDone) == kinds.count(Done) == 1
    ends = {event.index: event for event in divided if isinstance(event, BranchEnded)}
    assert ends.keys() == set(range(24))
    assert divided[-1].prompt_tokens == expected[-1].prompt_tokens
    assert divided[-1].completion_tokens == 24 * 8
    wait_for(lambda: bridged.open_requests() == 0, "nothing is left of it")
    alone.close()


def test_a_request_whose_replica_has_just_gone_is_not_divided(bridged: Bridged, loop: Loop) -> None:
    worker = bridged.worker().ready()
    member = bridged.bridge.members.get("a")
    assert member is not None

    async def swap(link: Any) -> Any:
        member.link, before = link, member.link
        return before

    link = loop.run(swap(None))
    try:
        worker.send(placed("a", "alone"))
        worker.next(Accepted)
        assert bridged.bridge.members.homes.get("alone") == "a"
    finally:
        loop.run(swap(link))
    worker.send(Cancel("alone"))
    worker.next(Done)


def test_branches_that_look_at_each_other_stay_on_one_replica(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    worker.send(many("together", distinct_first=True))
    assert len([event for event in _until_done(worker, "together") if isinstance(event, BranchEnded)]) == 24
    assert not bridged.bridge.members.homes._replicas


@pytest.fixture
def both(loop: Loop, steady: tuple[OneReplica, OneReplica], tmp_path: Path) -> Iterator[tuple[Bridged, Bridged]]:
    """Two bridges, as of two web machines, to the same two replicas."""
    bridges = Bridged(loop, tmp_path / "one"), Bridged(loop, tmp_path / "other")
    for bridge in bridges:
        bridge.update(a=steady[0].entry(), b=steady[1].entry())
        bridge.wait_ready(2)
    yield bridges
    for bridge in bridges:
        bridge.close()


def test_a_divided_request_is_controlled_through_any_bridge(both: tuple[Bridged, Bridged]) -> None:
    bridged, other = both
    owner, reader = bridged.worker().ready(), other.worker().ready()
    owner.send(many("whole", max_tokens=-1, owner="192.0.2.1"))  # without a key: whoever knows the id may control it
    owner.next(Accepted)
    for asking in (reader, owner):
        asking.send(ListRequests("list", "192.0.2.1"))
        [listed] = asking.next(Reply).value
        assert [branch["index"] for branch in listed["branches"]] == list(range(24))
        assert [branch["seed"] for branch in listed["branches"]] == list(range(100, 124))
    for asking, index in ((reader, 5), (reader, 18), (owner, 6), (owner, 19)):  # of each replica
        asking.send(StopBranches("stop one", "whole", index=index))
        answer, ended = (
            answer_and(owner, BranchEnded) if asking is owner else (reader.next(Reply), owner.next(BranchEnded))
        )
        assert answer.value["index"] == ended.index == index
    reader.send(StopBranches("stop again", "whole", index=5))
    assert reader.next(Reply, Rejected).code == Conflict.code
    for refused in (
        Attach("refused", "whole"),
        AddBranches("refused", "whole", ((None, (), (), ()),)),
        AddBranches("refused", "whole", ((None, (), (), ()),), origin=7, character=3),
        ChangeBranch("refused", "whole", 11, more=10),
    ):
        for asking in (reader, owner):
            asking.send(refused)
            rejected = asking.next(Reply, Rejected, Attached)
            assert (rejected.code, "divided among replicas" in rejected.message) == (Conflict.code, True)
    owner.send(Cancel("whole", index=0))
    assert owner.next(BranchEnded).index == 0
    reader.send(GetRequest("get", "whole"))
    described = reader.next(Reply, Rejected).value
    states = {branch["index"]: branch["state"] for branch in described["branches"]}
    assert states.keys() == set(range(24))
    assert states[0] == states[5] == states[18] == "ended"
    reader.send(GetRequest("get", "whole", owner="somebody else"))
    assert reader.next(Reply, Rejected).code == NotFound.code

    reader.send(StopBranches("stop all", "whole"))
    assert reader.next(Reply, Rejected).value == {"id": "whole", "state": "ended"}
    assert owner.next(Done).request_id == "whole"
    wait_for(lambda: other.open_requests() == bridged.open_requests() == 0, "nothing is left of it")


def test_a_request_with_linger_stays_on_one_replica_and_can_be_joined(both: tuple[Bridged, Bridged]) -> None:
    bridged, other = both
    owner, reader = bridged.worker().ready(), other.worker().ready()
    owner.send(many("lingers", linger=600.0))
    owner.next(Accepted)
    reader.send(Attach("attach", "lingers"))
    assert len(reader.next(Attached, Rejected).value["branches"]) == 24
    owner.send(Cancel("lingers"))
    owner.next(Done)


def test_a_divided_request_goes_on_without_the_replica_that_is_lost(loop: Loop, steady: Any, tmp_path: Path) -> None:
    third = OneReplica(loop, "fake:50").open()
    bridged = Bridged(loop, tmp_path / "bridge")
    try:
        bridged.update(a=steady[0].entry(), b=third.entry())
        bridged.wait_ready(2)
        worker, other = bridged.worker().ready(), bridged.worker().ready()
        worker.send(many("half", max_tokens=-1))
        worker.next(Accepted)
        seen: set[int] = set()
        while len(seen) < 24:
            seen.add(worker.next(Delta).index)
        os.kill(third.pid, signal.SIGKILL)
        lost = [worker.next(BranchEnded, Done, Failed) for _ in range(12)]
        assert {event.code for event in lost} == {EngineRestarted.code}
        first = min(event.index for event in lost)
        assert sorted(event.index for event in lost) == list(range(first, first + 12)), "the branches of one replica"
        assert worker.next(Delta, Done, Failed).index not in range(first, first + 12)
        other.send(GetRequest("get", "half"))
        left = other.next(Reply, Rejected).value["branches"]
        assert {branch["index"] for branch in left} == set(range(24)) - set(range(first, first + 12))
        worker.send(Cancel("half"))
        assert worker.next(Done, Failed).request_id == "half"
    finally:
        bridged.close()
        third.close()


def test_the_branches_of_a_part_that_its_replica_has_not_taken_wait_at_another(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    bridged.break_door("b")
    worker.send(many("half", n=20))
    events = _until_done(worker, "half")
    assert [type(events[0]), type(events[-1])] == [Accepted, Done]
    ends = [event for event in events if isinstance(event, BranchEnded)]
    assert sorted((event.index, event.code) for event in ends) == [(index, "") for index in range(20)]
    wait_for(lambda: worker.stats()["requests_processing"] == 0, "nothing is left of it")


def test_a_divided_request_that_a_part_refuses_is_refused_whole(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    command = many("refused", max_tokens=-1)
    broken = replace(command.branches[3], append=(10**9,))  # no token of the vocabulary
    worker.send(replace(command, branches=(*command.branches[:3], broken, *command.branches[4:])))
    assert "append" in worker.next(Accepted, Rejected).message
    wait_for(lambda: worker.stats()["requests_processing"] == 0, "the other part is cancelled")
    assert bridged.open_requests() == 0


def test_a_replica_that_leaves_finishes_what_it_has(bridged: Bridged, pair: Any) -> None:
    worker = bridged.worker().ready()
    specs = (BranchSpec(1, 3000),)
    text = placed("b", "long").prompt
    worker.send(Generate("long", text, specs))
    worker.next(Accepted)
    bridged.update(a=pair[0].entry(), b=pair[1].entry("leaving"))
    bridged.wait_ready(1)
    worker.send(Generate("new", text, specs))
    seen = [worker.next(BranchEnded, Failed, Rejected) for _ in range(2)]
    assert {event.request_id for event in seen if isinstance(event, BranchEnded)} == {"long", "new"}
    wait_for(lambda: pair[1].door.num_open == 0, "the leaving replica has no connection left")


def test_the_requests_of_a_replica_that_leaves_are_found_until_they_end(
    loop: Loop, steady: tuple[OneReplica, OneReplica], tmp_path: Path
) -> None:
    """Through the bridge that divided them, and through one that starts only then."""
    bridged, later = Bridged(loop, tmp_path / "one"), Bridged(loop, tmp_path / "later")
    bridged.update(a=steady[0].entry(), b=steady[1].entry())
    bridged.wait_ready(2)
    owner = bridged.worker().ready()
    owner.send(many("leaves", max_tokens=-1))
    owner.next(Accepted)
    for bridge in (bridged, later):
        bridge.update(a=steady[0].entry(), b=steady[1].entry("leaving"))
        bridge.wait_ready(1)
    wait_for(lambda: len(later.bridge.members.reachable) == 2, "the bridge reaches both")
    reader = later.worker().ready()
    for asking in (owner, reader):
        asking.send(ListRequests("list", ""))
        [listed] = asking.next(Reply).value
        assert [branch["index"] for branch in listed["branches"]] == list(range(24))
        assert not [branch for branch in listed["branches"] if branch["state"] == "ended"]
    for index in (4, 15):  # one of each replica
        reader.send(StopBranches("stop", "leaves", index=index))
        assert reader.next(Reply).value["index"] == owner.next(BranchEnded).index == index
    owner.send(StopBranches("stop all", "leaves"))
    assert {type(owner.next(Reply, Done)), type(owner.next(Reply, Done))} == {Reply, Done}
    wait_for(lambda: steady[1].door.num_open == 0, "no bridge keeps the leaving replica")
    for bridge in (bridged, later):
        bridge.close()


def test_without_a_replica_requests_are_refused_at_once(loop: Loop, tmp_path: Path) -> None:
    bridged = Bridged(loop, tmp_path / "bridge")
    worker = bridged.worker()
    worker.next(Hello)
    worker.send(brief("early"), GetStats("stats"))
    assert [worker.next(Rejected).code for _ in range(2)] == [EngineLoading.code] * 2
    assert bridged.reports.state == "starting"
    bridged.close()


def test_states_go_by_their_name(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    worker.send(Generate("named", ("A text with a name.",), (BranchSpec(1, 3),), state="chapter"))
    worker.next(Done)
    worker.send(Generate("again", ("A text with a name.",), (BranchSpec(1, 3),), state="chapter"))
    assert worker.next(Done).cached_tokens > 0


def in_slot(worker: Worker, name: str, request_id: str, slot: int, more: str = "") -> Done:
    """Let a short request run in a slot of the replica of this name, and return its end."""
    command = placed(name, request_id)
    worker.send(replace(command, prompt=(command.prompt[0] + more,), branches=(BranchSpec(1, 3),), id_slot=slot))  # type: ignore[operator]
    done = worker.next(Done, Failed, Rejected)
    assert isinstance(done, Done), done
    return done


def acted(worker: Worker, action: str, name: str, slot: int) -> Any:
    """Return the number of tokens of an action on a slot, or its refusal."""
    worker.send(StateAction(f"{action} {slot}", action, name, slot))
    answer = worker.next(Reply, Rejected)
    return answer.value["tokens"] if isinstance(answer, Reply) else answer.error


def test_a_slot_is_saved_and_erased_on_the_replica_that_has_its_newest_text(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    older = in_slot(worker, "b", "older", 5, more=" It is the longer one of the two.")
    newer = in_slot(worker, "a", "newer", 5)
    assert older.prompt_tokens > newer.prompt_tokens
    assert acted(worker, "save", "newest", 5) == newer.prompt_tokens + 3 - 1  # the last one has not been computed
    assert acted(worker, "erase", "", 5) > 0
    refusal = acted(worker, "save", "none", 5)
    assert isinstance(refusal, InvalidRequest)
    assert "Slot 5 has no text" in refusal.message, "the older text of another replica is not slot 5's any more"
    assert acted(worker, "erase", "", 5) == 0
    assert (
        in_slot(worker, "b", "older", 6, more=" It is the longer one of the two.").cached_tokens == older.prompt_tokens
    )


def test_a_replica_that_answers_late_still_has_the_newest_text(
    bridged: Bridged, pair: tuple[OneReplica, OneReplica]
) -> None:
    worker = bridged.worker().ready()
    began = time.monotonic()
    in_slot(worker, "b", "older", 5, more=" It is the longer one of the two.")
    newer = in_slot(worker, "a", "newer", 5)
    os.kill(pair[0].pid, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        worker.send(StateAction("late", "save", "newest", 5))
        wait_for(lambda: time.monotonic() - stopped > stopped - began, "it is later than the two texts are apart")
    finally:
        os.kill(pair[0].pid, signal.SIGCONT)
    answer = worker.next(Reply, Rejected)
    assert isinstance(answer, Reply), answer
    assert answer.value["tokens"] == newer.prompt_tokens + 3 - 1


def test_no_slot_is_saved_while_a_replica_does_not_say_what_it_has(
    bridged: Bridged, pair: tuple[OneReplica, OneReplica], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bridged.worker().ready()
    in_slot(worker, "a", "saved", 3)
    with monkeypatch.context() as impatient:
        impatient.setattr("srb.cluster.slots._LOOK_SECONDS", 0.2)
        os.kill(pair[1].pid, signal.SIGSTOP)
        try:
            refusal = acted(worker, "save", "unknown", 3)
        finally:
            os.kill(pair[1].pid, signal.SIGCONT)
    assert type(refusal) is Unavailable
    assert "replica b" in refusal.message
    assert acted(worker, "save", "known", 3) > 0


def test_a_state_is_restored_where_it_is_and_the_slots_next_request_goes_there(
    bridged: Bridged, loop: Loop, pair: tuple[OneReplica, OneReplica], tmp_path: Path
) -> None:
    worker = bridged.worker().ready()
    done = in_slot(worker, "a", "restored", 7)
    names = (f"chapter{number}" for number in range(100))
    name = next(each for each in names if _first(bridged, StateAction("r", "restore", each)) == "b")
    saved = acted(worker, "save", name, 7)
    assert saved == done.prompt_tokens + 2
    later = Bridged(loop, tmp_path / "later")  # knows no text
    try:
        later.update(a=pair[0].entry(), b=pair[1].entry())
        later.wait_ready(2)
        reader = later.worker().ready()
        assert acted(reader, "restore", name, 7) == saved
        reader.send(replace(placed("b", "in slot 7"), id_slot=7), placed("b", "in no slot"))
        assert {reader.next(Accepted).request_id for _ in range(2)} == {"in slot 7", "in no slot"}
        assert later.bridge.members.homes.get("in slot 7") == "a"
        assert later.bridge.members.homes.get("in no slot") == "b"
        refusal = acted(reader, "restore", "nobody", 7)
        assert isinstance(refusal, InvalidRequest)
        assert "Unable to restore" in refusal.message
    finally:
        later.close()


def _first(bridged: Bridged, command: StateAction) -> str | None:
    """Return the replica that a new bridge asks first."""
    scratch = Affinity()
    for name in bridged.entries:
        scratch.join(name)
    return choose(scratch, command)


def test_a_full_queue_is_told(loop: Loop, tmp_path: Path) -> None:
    replica = OneReplica(loop, max_queue=1, parallel=1).open()
    bridged = Bridged(loop, tmp_path / "bridge")
    try:
        bridged.update(a=replica.entry())
        bridged.wait_ready(1)
        worker = bridged.worker().ready()
        for request_id in ("runs", "waits"):
            worker.send(endless(request_id))
            worker.next(Accepted)
        worker.send(endless("refused"))
        refusal = worker.next(Rejected)
        assert (refusal.request_id, refusal.code) == ("refused", QueueFull.code)
    finally:
        bridged.close()
        replica.close()


def test_without_a_replica_no_slot_is_saved(loop: Loop, tmp_path: Path) -> None:
    bridged = Bridged(loop, tmp_path / "bridge")
    worker = bridged.worker()
    worker.next(Hello)
    for action in ("save", "restore", "erase"):
        assert isinstance(acted(worker, action, "x", 0), EngineLoading)
    bridged.close()


def test_a_story_goes_on_at_another_replica_when_its_own_is_gone(loop: Loop, tmp_path: Path) -> None:
    """By a restore of the state in the folder that they share, and not by computing the text again."""
    states = tmp_path / "states"
    first, second = (OneReplica(loop, state_dir=str(states)).open() for _ in range(2))
    bridged = Bridged(loop, tmp_path / "bridge")
    text = "The keeper of the light had not spoken to anyone for nine days. " * 5
    try:
        bridged.update(a=first.entry())
        bridged.wait_ready(1)
        worker = bridged.worker().ready()
        worker.send(Generate("one", (text,), (BranchSpec(1, 3),), state="story"))
        known = worker.next(Done).prompt_tokens
        wait_for(lambda: (states / "story.srbstate").exists(), "the state is on the disk")
        first.close()
        wait_for(lambda: not bridged.bridge.members.ready, "the bridge has noticed")
        bridged.update(b=second.entry())
        bridged.wait_ready(1)
        worker.send(
            Generate("two", (text + "Then the boat came back, and it was empty.",), (BranchSpec(1, 3),), state="story")
        )
        done = worker.next(Done, Failed, Rejected)
        assert isinstance(done, Done), done
        assert done.cached_tokens >= known - 1, "the other replica has computed the text again"
        assert done.restored_tokens == done.cached_tokens
    finally:
        bridged.close()
        for replica in (first, second):
            replica.close()


class LocalKeeper:
    """The keeper of states as an actor, without Ray."""

    def __init__(self, max_bytes: int) -> None:
        keeper = StateKeeper(max_bytes)
        self.keep, self.look, self.fetch = (
            SimpleNamespace(remote=_awaited(each)) for each in (keeper.keep, keeper.look, keeper.fetch)
        )


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:
        return method(*arguments)

    return call


def test_without_a_common_folder_a_story_goes_on_by_the_keeper(
    loop: Loop, pair: tuple[OneReplica, OneReplica], tmp_path: Path
) -> None:
    """And back, with the longer text, which the first replica has not seen."""
    keeper = LocalKeeper(1 << 20)
    shares = [StateShare(each.engine.states_folder, keeper) for each in pair]
    text, known = "Nobody had lit the lamp since the war, and the ships went by in the dark. " * 5, 0
    try:
        for replica, share in zip(pair, shares, strict=True):
            loop.run(share.open(replica.engine.states_socket))
        for turn, place in enumerate((0, 1, 0)):
            made = Bridged(loop, tmp_path / f"bridge {turn}")
            made.update(only=pair[place].entry())
            made.wait_ready(1)
            worker = made.worker().ready()
            worker.send(Generate("turn", (text,), (BranchSpec(1, 3),), state="lamp"))
            done = worker.next(Done, Failed, Rejected)
            assert isinstance(done, Done), done
            assert done.cached_tokens >= known, f"turn {turn} computes what another replica has saved"
            known = done.prompt_tokens - 1
            wait_for(lambda known=known: _kept_tokens(loop, keeper, "lamp") >= known, "the keeper has it")  # type: ignore[misc]
            text += f"In week {turn} a girl came up the stairs with a can of oil. "
            made.close()
    finally:
        for share in shares:
            share.close()


def _kept_tokens(loop: Loop, keeper: LocalKeeper, name: str) -> int:
    found = loop.run(keeper.fetch.remote(name, -1))
    return 0 if found is None else int(read_header(BytesIO(found[1]))["tokens"])


class SilentKeeper:
    """A keeper that never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keep, self.look, self.fetch = (
            SimpleNamespace(remote=self._never(name)) for name in ("keep", "look", "fetch")
        )

    def _never(self, name: str) -> Callable[..., Any]:
        async def call(*_: Any) -> Any:
            self.asked.append(name)
            await asyncio.Event().wait()

        return call


def test_requests_with_a_state_are_computed_when_the_keeper_is_silent(loop: Loop, tmp_path: Path) -> None:
    """It is asked once, and not again for each of the requests that follow."""
    replica, keeper = OneReplica(loop).open(), SilentKeeper()
    share = StateShare(replica.engine.states_folder, keeper)
    bridged = Bridged(loop, tmp_path / "bridge")
    try:
        loop.run(share.open(replica.engine.states_socket))
        bridged.update(only=replica.entry())
        bridged.wait_ready(1)
        worker = bridged.worker().ready()
        for number in range(3):
            worker.send(Generate("r", (f"Text {number}.",), (BranchSpec(1, 3),), state=f"state{number}"))
            assert isinstance(worker.next(Done, Failed, Rejected), Done)
            wait_for((replica.engine.states_folder / f"state{number}.srbstate").exists, "it is written all the same")
        assert keeper.asked == ["look"]
    finally:
        share.close()
        bridged.close()
        replica.close()


def test_a_state_that_the_keeper_refuses_stays_with_its_replica(
    loop: Loop, pair: tuple[OneReplica, OneReplica], bridged: Bridged
) -> None:
    share = StateShare(pair[0].engine.states_folder, LocalKeeper(10))
    loop.run(share.open(pair[0].engine.states_socket))
    try:
        made = Bridged(loop, bridged.folder.parent / "one")
        made.update(only=pair[0].entry())
        made.wait_ready(1)
        worker = made.worker().ready()
        for _ in range(2):
            worker.send(
                Generate("big", ("A text that is too large for the keeper.",), (BranchSpec(1, 3),), state="big")
            )
            done = worker.next(Done, Failed, Rejected)
            wait_for((pair[0].engine.states_folder / "big.srbstate").exists, "the replica has it")
        assert done.cached_tokens > 0
        made.close()
    finally:
        share.close()


def test_a_worker_that_leaves_ends_its_requests(bridged: Bridged) -> None:
    worker, other = bridged.worker().ready(), bridged.worker().ready()
    worker.send(endless("left"))
    worker.next(Accepted)
    worker.close()
    wait_for(lambda: other.stats()["requests_processing"] == 0, "the request is cancelled")
    wait_for(lambda: len(bridged.bridge._relays) == 1, "its relay is gone")


@pytest.mark.parametrize("token", [b"x" * 64, b"", pickle.dumps(print) * 10], ids=["wrong", "none", "pickle"])
def test_the_door_opens_to_its_token_alone(pair: Any, token: bytes) -> None:
    with socket.create_connection(("127.0.0.1", pair[0].port), timeout=DEADLINE) as visitor:
        visitor.sendall(token[:64])
        visitor.shutdown(socket.SHUT_WR)
        try:
            told = b""
            while more := visitor.recv(100):
                told += more
            assert told in (b"", REFUSED)
        except ConnectionResetError:
            pass  # closed with our bytes unread


def test_a_worker_that_sends_no_frames_is_closed(bridged: Bridged) -> None:
    worker = bridged.worker().ready()
    worker.frames.send(pickle.dumps([print]))
    assert worker.is_closed()


def test_an_engine_that_hangs_is_unhealthy_and_one_that_restarts_is_not(loop: Loop) -> None:
    replica = OneReplica(loop)
    try:
        loop.run(replica.engine.wait_ready())
        pid = replica.pid
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: replica.engine.state == "hung", "the engine counts as hung")
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: replica.engine.state == "running", "it counts as running again")
        os.kill(pid, signal.SIGKILL)
        seen: set[str] = set()

        def has_another() -> bool:
            seen.add(replica.engine.state)
            pids = children(replica.engine._process.pid)
            return replica.engine.state == "running" and bool(pids) and pid not in pids

        wait_for(has_another, "another engine runs")
        assert seen <= {"running", "restarting", "starting"}, "it never counts as hung or failed"
    finally:
        supervisor = replica.engine._process.pid
        replica.engine.close()
    assert not is_alive(supervisor)
    assert replica.engine.state == "failed"


def test_without_ray_the_server_does_not_start_and_says_so_in_one_line() -> None:
    done = subprocess.run(
        [PYTHON, "-c", WITHOUT_RAY], env=clean_environ(cluster="auto"), cwd=ROOT, capture_output=True, text=True,
        timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "srb: cluster needs Ray, which is not installed: pip install 'llama-srb[cluster]'\n"
