"""A worker's relay and replicas on TCP ports that answer as a test says: every request gets an answer or an end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from dataclasses import asdict, replace
from typing import Any

import pytest

from srb.cluster.door import TOKEN_LENGTH, texts_token
from srb.cluster.homes import Homes
from srb.cluster.members import Members
from srb.cluster.registry import Entry
from srb.cluster.relay import Relay
from srb.cluster.totals import Totals
from srb.engine.fake import FakeModel
from srb.errors import Conflict, EngineHung, EngineRestarted, NotFound, QueueFull, ShuttingDown, SRBError, Unavailable
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import (
    AddBranches,
    Attach,
    BranchSpec,
    Cancel,
    ForgetTexts,
    Generate,
    GetRequest,
    GetSlots,
    GetStats,
    ListRequests,
    StateAction,
    TakeTexts,
    Tokenize,
    digest_of,
)
from srb.wire.events import (
    Accepted,
    BranchAdded,
    BranchEnded,
    Delta,
    Done,
    Failed,
    FinishReason,
    Hello,
    Ready,
    Rejected,
    Reply,
)
from srb.wire.framing import frame, read_frame
from tests.processes import DEADLINE

MODEL = asdict(FakeModel(n_seq_max=4).info("fake"))
NEWER = {**MODEL, "alias": "newer"}
TOKEN = "t" * TOKEN_LENGTH


class Replica:
    """A replica's port. `asked` has the commands as they arrive; `describe` answers GetRequest and ListRequests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = 1
        self.version = VERSION
        self.tries = 0  # connections
        self.model = MODEL
        self.asked: asyncio.Queue[Any] = asyncio.Queue()
        self.describe: Callable[[Any], Any] | None = None
        self._writers: dict[str, asyncio.StreamWriter] = {}  # of the connection on which each request arrived
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self) -> Entry:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1")
        port: int = self._server.sockets[0].getsockname()[1]
        return Entry(host="127.0.0.1", port=port, token=TOKEN, node="n", gpus=[], state="running", alias="m", pid=1)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.tries += 1
        with contextlib.suppress(EOFError, OSError):
            assert (await reader.readexactly(TOKEN_LENGTH)).decode() == TOKEN
            writer.write(frame(encode([Hello(self.version, self.pid, "")])) + frame(encode([Ready(self.model)])))
            while True:
                for command in decode(await read_frame(reader)):
                    self._writers[command.request_id] = writer
                    if self.describe is not None and isinstance(
                        command, GetRequest | ListRequests | GetSlots | GetStats
                    ):
                        self.say(self.describe(command))
                    else:
                        self.asked.put_nowait(command)
        self._open.discard(writer)
        writer.close()

    @property
    def known(self) -> Set[str]:
        """The ids of all that it was asked."""
        return self._writers.keys()

    async def next(self, kind: type) -> Any:
        while not isinstance(command := await self.asked.get(), kind):
            pass
        return command

    def say(self, *events: Any) -> None:
        """Send events on the connection of the first one's request."""
        self._writers[events[0].request_id].write(frame(encode(events)))

    def say_nonsense(self, request_id: str) -> None:
        """Send an event that only begins a connection."""
        self._writers[request_id].write(frame(encode([Ready(MODEL)])))

    def drop(self) -> None:
        """Lose all connections and the port."""
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Lose all connections, as when the engine starts again."""
        for writer in self._open:
            writer.transport.abort()


class Worker:
    """A web worker's end of a relay."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._events: list[Any] = []

    def send(self, command: Any) -> None:
        self._writer.write(frame(encode([command])))

    async def next(self, *kinds: type) -> Any:
        while True:
            while not self._events:
                self._events = decode(await read_frame(self._reader))
            event = self._events.pop(0)
            if isinstance(event, kinds):
                return event


class Bench:
    """A relay with its worker, and replicas."""

    def __init__(
        self, relay: Relay, members: Members, worker: Worker, replicas: dict[str, Replica], entries: dict[str, Entry]
    ) -> None:
        self.relay = relay
        self.members = members
        self.worker = worker
        self.replicas = replicas
        self._entries = entries

    def note(self, name: str, state: str) -> None:
        """Let the registry say that a replica is in another state."""
        self._entries[name] = {**self._entries[name], "state": state}
        self.members.update(self._entries)
        self.relay.leave_hanging()  # as the bridge does

    async def begun(self, command: Generate) -> Replica:
        """Send a request; return the replica that gets it."""
        self.worker.send(command)
        tasks = {asyncio.create_task(each.next(Generate)): each for each in self.replicas.values()}
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        [task] = done
        assert task.result().request_id == command.request_id
        return tasks[task]

    def beside(self, replica: Replica) -> Replica:
        [other] = [each for each in self.replicas.values() if each is not replica]
        return other


@contextlib.asynccontextmanager
async def bench(number: int = 2, newer: int = 0) -> AsyncIterator[Bench]:
    """Give replicas, and as many more with another model."""
    number += newer
    replicas = {f"r{each}": Replica(f"r{each}") for each in range(number)}
    for each in range(number - newer, number):
        replicas[f"r{each}"].model = NEWER
    entries = {name: await replica.listen() for name, replica in replicas.items()}
    ready = asyncio.Event()
    members = Members(lambda: ready.set() if len(members.reachable) == number else None)
    members.update(entries)
    await ready.wait()
    ends = socket.socketpair()
    relay = Relay(*await asyncio.open_unix_connection(sock=ends[0]), members)
    running = asyncio.create_task(relay.run(Hello(VERSION, 1, "")))
    worker = Worker(*await asyncio.open_unix_connection(sock=ends[1]))
    await worker.next(Ready)
    try:
        yield Bench(relay, members, worker, replicas, entries)
    finally:
        worker._writer.close()
        await running
        members.close()
        for replica in replicas.values():
            replica.drop()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), DEADLINE))  # type: ignore[arg-type]


def request(request_id: str, n: int = 1) -> Generate:
    return Generate(
        request_id, (f"{request_id} begins a text of its own.",), tuple(BranchSpec(seed) for seed in range(n))
    )


def test_an_event_that_nobody_expects_ends_the_requests_of_its_replica(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with bench(1) as here:
            replica = await here.begun(request("a"))
            replica.say(Accepted("a", 3))
            replica.say_nonsense("a")
            failed = await here.worker.next(Failed)
            assert (failed.request_id, failed.code) == ("a", EngineRestarted.code)
            assert "closing a channel to r0" in caplog.text
            assert await here.begun(request("b")) is replica, "over a new connection"
            replica.say(Accepted("b", 3), Done("b", 3, 0, 1, 0.0, 0.0))
            assert (await here.worker.next(Done)).request_id == "b"

    play(scene)


def test_a_request_that_is_divided_at_its_second_replica_outlives_the_first() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            for name in ("r1", "r2"):
                here.members.affinity.leave(name)
            first = await here.begun(request("a", n=6))  # whole, as long as there is no other
            for name in ("r1", "r2"):
                here.members.affinity.join(name)
            first.say(Rejected.of("a", ShuttingDown("bye")))
            for name in ("r1", "r2"):
                other = here.replicas[name]
                part = await other.next(Generate)
                assert len(part.branches) == 3
                other.say(Accepted(part.request_id, 3))
            await here.worker.next(Accepted)
            first.drop()
            while "r0" in here.members.affinity.replicas:
                await asyncio.sleep(0)
            here.replicas["r2"].say(Delta(part.request_id, 0, "text", [1]))
            assert isinstance(await here.worker.next(Delta, Failed), Delta)

    play(scene)


@pytest.mark.parametrize("n", [1, 6], ids=["whole", "divided"])
def test_a_replica_that_ends_with_requests_on_it_was_lost_since_the_service_goes_on(n: int) -> None:
    async def scene() -> None:
        async with bench() as here:
            if n > 1:
                lead, other = await divided(here)
                other.say(Accepted("a+3", 3))
            else:
                lead = await here.begun(request("a"))
            part = "a" if n == 1 else "a+0"
            lead.say(Accepted(part, 3), Delta(part, 0, "text", [1]), Failed(part, ShuttingDown.code, "bye"))
            failed = await here.worker.next(Failed, BranchEnded, Done, Rejected)
            assert (failed.request_id, failed.code) == ("a", EngineRestarted.code)
            assert lead.name in failed.message

    play(scene)


def test_a_replicas_load_is_what_it_reports_and_what_was_sent_since() -> None:
    async def scene() -> None:
        async with bench() as here:
            busy = {"branches_running": 3.0, "branches_waiting": 2.0}
            for each in here.replicas.values():
                stats = busy if each.name == "r0" else {}
                each.describe = lambda command, stats=stats: Reply(command.request_id, stats)  # type: ignore[misc]
            watching = asyncio.create_task(here.members.watch_loads())
            affinity = here.members.affinity
            while affinity._load("r0") < 5:
                await asyncio.sleep(0.01)
            for number in range(4):
                assert (await here.begun(request(f"{number}"))).name == "r1"
            assert (affinity._load("r0"), affinity._load("r1")) == (5, 4)
            assert affinity._sequences == {"r0": MODEL["n_seq_max"], "r1": MODEL["n_seq_max"]}
            watching.cancel()

    play(scene)


def test_a_full_queue_is_told_only_when_all_are_full() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            first = await here.begun(request("a"))
            first.say(Rejected.of("a", QueueFull("one is full")))
            others = [each for each in here.replicas.values() if each is not first]
            waiting = [asyncio.create_task(each.next(Generate)) for each in others]
            [task], _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            second = others[waiting.index(task)]
            second.say(Rejected.of("a", QueueFull("two are full")))
            third = others[1 - waiting.index(task)]
            assert (await waiting[1 - waiting.index(task)]).request_id == "a"
            third.say(Rejected.of("a", QueueFull("all are full")))
            refused = await here.worker.next(Accepted, Failed, Rejected)
            assert (refused.code, refused.message) == (QueueFull.code, "all are full")

    play(scene)


def test_a_divided_request_is_refused_when_the_queues_of_all_are_full() -> None:
    async def scene() -> None:
        async with bench() as here:
            lead, other = await divided(here)
            lead.say(Rejected.of("a+0", QueueFull("full")))
            other.say(Rejected.of("a+3", QueueFull("full")))
            assert (await other.next(Generate)).request_id == "a+0", "it is the other's turn"
            assert (await lead.next(Generate)).request_id == "a+3"
            other.say(Rejected.of("a+0", QueueFull("full")))
            refused = await here.worker.next(Accepted, Failed, Rejected)
            assert (refused.request_id, refused.code) == ("a", QueueFull.code)
            assert await lead.next(Cancel) == Cancel("a+3")
            assert not here.relay._open

    play(scene)


async def divided(here: Bench) -> tuple[Replica, Replica]:
    """Begin a request that both replicas have a part of; return the one with the first branch before the other."""
    here.worker.send(request("a", 6))
    parts = {(await each.next(Generate)).request_id: each for each in here.replicas.values()}
    return parts["a+0"], parts["a+3"]


def test_branches_that_are_added_count_as_load_until_their_request_ends() -> None:
    async def scene() -> None:
        async with bench(1) as here:
            replica = await here.begun(request("a", n=2))
            replica.say(Accepted("a", 3), BranchAdded("a", 2, 7), BranchAdded("a", 3, 8))
            replica.say(BranchAdded("a", 0, 0, resumed=True))  # it counts already
            while not (await here.worker.next(BranchAdded)).resumed:
                pass
            assert here.members.affinity._open == {"r0": 4}
            replica.say(Done("a", 3, 0, 1, 0.0, 0.0))
            await here.worker.next(Done)
            assert here.members.affinity._open == {"r0": 0}

    play(scene)


@pytest.mark.parametrize("has_ended", [False, True], ids=["the other runs", "the other has ended"])
@pytest.mark.parametrize("how", ["drop", "refuse", "hang"])
def test_a_part_that_its_replica_has_not_accepted_begins_again_at_one_that_has_another(
    how: str, has_ended: bool
) -> None:
    async def scene() -> None:
        async with bench() as here:
            lead, other = await divided(here)
            end = (*ends("a+3", 3), Done("a+3", 3, 0, 3, 0.0, 0.0))
            other.say(Accepted("a+3", 3), *(end if has_ended else ()))
            if how == "drop":
                lead.drop()
            elif how == "hang":
                here.note(lead.name, "hung")
            else:
                lead.say(Rejected.of("a+0", QueueFull("full")))
            again = await other.next(Generate)
            assert (again.request_id, [spec.seed for spec in again.branches]) == ("a+0", [0, 1, 2])
            if not has_ended:
                other.say(*end)
            other.say(Accepted("a+0", 3), *ends("a+0", 3), Done("a+0", 3, 0, 3, 0.0, 0.0))
            told = [await here.worker.next(Accepted, BranchEnded, Done, Failed, Rejected) for _ in range(8)]
            assert [type(event) for event in told] == [Accepted, *[BranchEnded] * 6, Done]
            assert {event.request_id for event in told} == {"a"}
            assert sorted(event.index for event in told if isinstance(event, BranchEnded)) == [0, 1, 2, 3, 4, 5]
            assert set(here.members.affinity._open.values()) <= {0}

    play(scene)


def test_all_parts_of_a_divided_request_have_one_model_though_an_update_changes_it() -> None:
    async def scene() -> None:
        async with bench(2, newer=2) as here:
            for number in range(8):
                here.worker.send(request(f"{number}", n=16))  # more than all have together
                parts = {f"{number}+0", f"{number}+8"}
                while not parts <= {part for each in here.replicas.values() for part in each.known}:
                    await asyncio.sleep(0)
                asked = {name: part for name, each in here.replicas.items() for part in parts & each.known}
                assert [*asked] in (["r0", "r1"], ["r2", "r3"])
                for name, part in asked.items():
                    here.replicas[name].say(Rejected.of(part, Unavailable("no")))
                assert (await here.worker.next(Rejected)).request_id == f"{number}"

    play(scene)


def test_replicas_with_another_model_than_most_take_no_requests_and_are_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with bench(3, newer=1) as here:
            own = {"r0", "r1", "r2"}
            assert set(here.members.affinity.replicas) == own
            told = f"replica r3 has another model ({NEWER['alias']})"
            assert here.members.model is not None
            assert (here.members.degraded, here.members.model["alias"]) == (told, MODEL["alias"])
            assert "replica r3 takes no requests" in caplog.text
            for number in range(12):
                assert (await here.begun(request(f"{number}"))).name in own

    play(scene)


def test_an_update_changes_the_model_for_all_when_most_have_the_new_one() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            seen = []
            for number, name in enumerate(here.replicas):
                member, replica = here.members.get(name), here.replicas[name]
                assert member is not None
                replica.model, tries = NEWER, replica.tries
                replica.cut()
                while replica.tries == tries or member.link is None or member.is_odd is not (number == 0):
                    await asyncio.sleep(0.01)
                assert here.members.model is not None
                seen.append((set(here.members.affinity.replicas), here.members.model["alias"]))
            assert seen == [
                ({"r1", "r2"}, MODEL["alias"]), ({"r0", "r1"}, NEWER["alias"]), ({"r0", "r1", "r2"}, NEWER["alias"]),
            ]  # fmt: skip
            assert here.members.degraded == ""

    play(scene)


def test_a_replica_with_another_model_takes_over_where_no_other_is_left() -> None:
    async def scene() -> None:
        async with bench(2, newer=1) as here:
            for name in ("r0", "r1"):
                here.note(name, "leaving")
            assert set(here.members.affinity.replicas) == {"r2"}
            assert here.members.degraded == ""
            assert (await here.begun(request("a"))).name == "r2"

    play(scene)


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (ListRequests("r", ""), "merge"),
        (StateAction("r", "save", "x", 0), "act_on_state"),
        (GetRequest("r", "t"), "ask_all"),
    ],
)
def test_an_answer_that_fails_is_an_internal_error(
    command: Any, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr(f"srb.cluster.relay.{part}", broken if part != "merge" else None)

    async def scene() -> None:
        async with bench() as here:
            for each in here.replicas.values():
                each.describe = lambda command: Reply(command.request_id, [])
            here.worker.send(command)
            refused = await here.worker.next(Reply, Rejected)
            assert (refused.request_id, refused.code) == ("r", SRBError.code)
            assert "request r could not be answered" in caplog.text

    play(scene)


def test_a_question_that_a_replica_does_not_answer_is_asked_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.relay._QUESTION_SECONDS", 0.05)

    async def scene() -> None:
        async with bench() as here:
            here.worker.send(Tokenize("q", ("a",), False, False))
            replicas = [*here.replicas.values()]
            for each in replicas:  # one after the other
                await each.next(Tokenize)
            first, second = sorted(replicas, key=lambda each: each.name)
            first.say(Rejected.of("q", ShuttingDown("bye")))
            await asyncio.sleep(0.1)
            second.say(Reply("q", [7]))
            answer = await here.worker.next(Reply, Rejected, Failed)
            assert answer == Reply("q", [7])

    play(scene)


@pytest.mark.parametrize("state", ["hung", "silent"])
def test_what_a_replica_has_not_accepted_when_it_begins_to_hang_goes_to_another(state: str) -> None:
    async def scene() -> None:
        async with bench() as here:
            first = await here.begun(request("a"))
            here.note(first.name, state)
            second = here.beside(first)
            assert (await second.next(Generate)).request_id == "a"
            second.say(Accepted("a", 3), Delta("a", 0, "text", [1]))
            assert isinstance(await here.worker.next(Accepted, Delta, Failed), Accepted)
            assert await first.next(Cancel) == Cancel("a")  # which it reads when it goes on
            first.say(Accepted("a", 3), Delta("a", 0, "late", [1]))
            first.say(Done("a", 3, 0, 1, 0.0, 0.0))
            await asyncio.sleep(0.05)  # until the relay has read that
            second.say(Delta("a", 0, "more", [2]), Done("a", 3, 0, 2, 0.0, 0.0))
            told = [await here.worker.next(Accepted, Delta, Done, Failed) for _ in range(3)]
            assert [event.text for event in told[:2]] == ["text", "more"]
            assert isinstance(told[2], Done)
            here.note(second.name, state)
            here.worker.send(request("b"))
            await asyncio.sleep(0.05)
            here.note(first.name, state)  # nobody is left who does not hang
            assert "b" in first.known | second.known

    play(scene)


@pytest.mark.parametrize("state", ["hung", "silent"])
def test_a_replica_that_hangs_does_not_count_as_ready(state: str) -> None:
    async def scene() -> None:
        async with bench() as here:
            for each in here.replicas.values():
                each.describe = lambda command: Reply(command.request_id, {"branches_running": 1, "steps_total": 10})
            here.worker.send(GetStats("both"))
            both = (await here.worker.next(Reply)).value
            assert (both["branches_running"], both["steps_total"]) == (2, 20)
            here.note("r0", state)
            here.replicas["r0"].describe = None
            here.worker.send(GetStats("one"))
            one = (await here.worker.next(Reply)).value
            assert one["cluster"]["replicas"].keys() == {"r1"}
            assert (one["branches_running"], one["steps_total"]) == (1, 20)
            here.note("r1", state)
            here.worker.send(GetStats("none"))
            assert (await here.worker.next(Reply, Rejected)).code == EngineHung.code
            here.note("r0", "running")
            here.replicas["r0"].describe = here.replicas["r1"].describe
            here.worker.send(GetStats("again"))
            assert (await here.worker.next(Reply)).value["cluster"]["replicas"].keys() == {"r0"}

    play(scene)


def test_a_replica_that_hangs_adds_no_branches_to_a_request() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            for hanging, replicas in ((0, 3), (1, 2), (2, 1), (3, 1)):
                for name in list(here.replicas)[:hanging]:
                    here.note(name, "hung")
                assert here.members.model is not None
                assert here.members.model["replicas"] == replicas

    play(scene)


def test_counters_do_not_fall_when_replicas_leave_start_again_or_are_lost() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            counts = dict.fromkeys(here.replicas, 10)
            for each in here.replicas.values():
                each.describe = lambda command, name=each.name: Reply(command.request_id, {"steps_total": counts[name]})  # type: ignore[misc]

            async def total() -> Any:
                here.worker.send(GetStats("stats"))
                return (await here.worker.next(Reply)).value["steps_total"]

            assert await total() == 30
            counts["r0"], here.replicas["r0"].pid = 1, 2  # another engine
            here.replicas["r0"].cut()
            while await total() != 31:
                await asyncio.sleep(0.01)
            counts["r1"] = 15
            here.note("r1", "leaving")
            assert await total() == 36
            here.replicas["r1"].drop()
            while len(here.members.reachable) > 2:
                await asyncio.sleep(0.01)
            assert await total() == 36
            here.replicas["r2"].cut()  # the same engine
            while len(here.members.reachable) > 1:
                await asyncio.sleep(0)
            while len(here.members.reachable) < 2:
                await asyncio.sleep(0.01)
            assert await total() == 36

    play(scene)


def test_numbers_that_may_be_old_are_answered_from_memory_and_others_are_asked_for_together() -> None:
    async def scene() -> None:
        async with bench() as here:
            asked = dict.fromkeys(here.replicas, 0)

            def describe(command: Any, name: str) -> Reply:
                asked[name] += 1
                return Reply(command.request_id, {"branches_running": 1})

            for each in here.replicas.values():
                each.describe = lambda command, name=each.name: describe(command, name)  # type: ignore[misc]
            for number in range(20):
                here.worker.send(GetStats(f"check{number}", max_age=DEADLINE))
                assert (await here.worker.next(Reply)).value["branches_running"] == 2
            assert asked == {"r0": 1, "r1": 1}
            for number in range(20):
                here.worker.send(GetStats(f"scrape{number}"))
            for _ in range(20):
                await here.worker.next(Reply)
            assert asked["r0"] <= 3, "the first one's, and one for all that came meanwhile"
            before = asked["r0"]
            here.replicas["r0"].cut()  # the engine starts again
            while len(here.members.ready) == 2:
                await asyncio.sleep(0)
            while len(here.members.ready) < 2:
                await asyncio.sleep(0.01)
            here.worker.send(GetStats("new", max_age=DEADLINE))
            assert (await here.worker.next(Reply)).value["branches_running"] == 2
            assert asked["r0"] == before + 1, "what the engine before it told is forgotten"

    play(scene)


def test_a_control_goes_straight_to_the_replica_that_another_bridge_has_told_of() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            target, gone, other = (f"{number:032x}" for number in range(3))
            told = Homes()
            for request_id, home in ((target, "r1"), (gone, "lost"), (other, "r2")):
                told.note(request_id, home)
            told.forget(other)
            told.note("part+4", "r0")
            news = told.take_news()
            assert told.take_news() == {}
            here.members.hear(news)
            here.worker.send(GetRequest("one", target))
            asked = await here.replicas["r1"].next(GetRequest)
            assert (asked.request_id, asked.target) == ("one", target)
            here.replicas["r1"].say(Reply("one", {"id": target}))
            assert (await here.worker.next(Reply)).value == {"id": target}
            for request_id in (gone, other):  # of which no replica here is known to have it: all are asked
                here.worker.send(GetRequest(f"of {request_id}", request_id))
                for each in here.replicas.values():
                    assert (await each.next(GetRequest)).target == request_id
            assert here.members.affinity.take_news() == {}, "homes are no texts"
            here.members.keep_news(news)
            assert here.members.take_news() == news

    play(scene)


def test_counters_of_many_engines_are_kept_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.totals._MOST_ENGINES", 3)
    totals = Totals()
    for number in range(10):
        totals.note(("r", number), {"steps_total": 2, "running": 1})
        totals.note(("r", number), {"steps_total": 1})  # an answer that was overtaken
    assert totals.sum() == {"steps_total": 20}


@pytest.mark.parametrize("n", [1, 6], ids=["whole", "divided"])
def test_a_request_that_was_cancelled_begins_nowhere_else(n: int) -> None:
    async def scene() -> None:
        async with bench() as here:
            if n == 1:
                lead, name = await here.begun(request("a")), "a"
                other = here.beside(lead)
            else:
                (lead, other), name = await divided(here), "a+0"
            here.worker.send(Cancel("a"))
            assert await lead.next(Cancel) == Cancel(name)
            lead.say(Rejected.of(name, ShuttingDown("bye")))
            assert (await here.worker.next(Rejected, Accepted, Done)).request_id == "a"
            assert name not in other.known

    play(scene)


def ends(request_id: str, number: int) -> list[BranchEnded]:
    return [BranchEnded(request_id, index, FinishReason.LIMIT, 1) for index in range(number)]


@pytest.mark.parametrize("state", ["hung", "silent"])
def test_a_replica_that_hangs_gets_no_new_request_as_long_as_there_is_another(state: str) -> None:
    async def scene() -> None:
        async with bench() as here:
            first = await here.begun(request("a"))
            first.say(Accepted("a", 3))
            await here.worker.next(Accepted)
            here.note(first.name, state)
            second = here.beside(first)
            assert await here.begun(request("a")) is second, "though the first has computed this text"
            second.say(Accepted("a", 3), Done("a", 3, 0, 1, 0.0, 0.0))
            await here.worker.next(Done)
            here.note(second.name, state)
            (await here.begun(request("b"))).say(Accepted("b", 3))
            await here.worker.next(Accepted)
            here.note(first.name, "running")
            assert await here.begun(request("c")) is first

    play(scene)


def described(request_id: str, number: int) -> dict[str, Any]:
    branches = [
        {"index": index, "seed": index, "state": "running", "length": 1, "max_tokens": 9} for index in range(number)
    ]
    return {"id": request_id, "state": "running", "age": 1.0, "prompt_tokens": 1, "linger": 0.0, "branches": branches}


def test_a_divided_request_is_found_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the worker of another web machine, which knows nothing of it."""
    monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 0.2)

    def having(part: str) -> Callable[[Any], Any]:
        def describe(command: Any) -> Any:
            if isinstance(command, ListRequests):
                return Reply(command.request_id, [described(part, 2)] if part.startswith(command.prefix) else [])
            if command.target == part:
                return Reply(command.request_id, described(part, 2))
            return Rejected.of(command.request_id, NotFound("no such request"))

        return describe

    async def scene() -> None:
        async with bench() as here:
            here.replicas["r0"].describe = having("whole+0")
            here.worker.send(ListRequests("list", ""))
            [listed] = (await here.worker.next(Reply)).value
            assert (listed["id"], [branch["index"] for branch in listed["branches"]]) == ("whole", [0, 1])
            here.worker.send(GetRequest("get", "whole", ""))
            assert (await here.worker.next(Reply, Rejected)).code == Unavailable.code, (
                "the other replica may have a part"
            )
            here.replicas["r1"].describe = having("whole+2")
            here.worker.send(GetRequest("again", "whole", ""))
            found = (await here.worker.next(Reply, Rejected)).value
            assert (found["id"], [branch["index"] for branch in found["branches"]]) == ("whole", [0, 1, 2, 3])
            for command in (Attach("attach", "whole"), AddBranches("add", "whole", ((None, (), (), ()),))):
                here.worker.send(command)
                assert (await here.worker.next(Reply, Rejected)).code == Conflict.code
            here.worker.send(GetRequest("none", "nobody", ""))
            assert (await here.worker.next(Reply, Rejected)).code == NotFound.code
            assert not here.relay._open

    play(scene)


@pytest.mark.parametrize("question", [ListRequests("list", ""), GetSlots("list")])
def test_a_list_waits_for_no_replica_that_hangs_and_the_log_names_one_that_is_silent(
    question: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 0.1)

    def has(name: str) -> Callable[[Any], Any]:
        found = [described(name, 1)] if isinstance(question, ListRequests) else [{"id": name}]
        return lambda command: Reply(command.request_id, found)

    async def scene() -> None:
        async with bench() as here:
            here.replicas["r0"].describe = has("a")
            here.worker.send(question)
            assert [each["id"] for each in (await here.worker.next(Reply)).value] == ["a"]
            assert "a list lacks what replica r1 has" in caplog.text
            caplog.clear()
            here.note("r1", "hung")
            monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 10 * DEADLINE)
            here.worker.send(question)
            assert [each["id"] for each in (await here.worker.next(Reply)).value] == ["a"]
            here.note("r0", "silent")
            here.worker.send(question)
            refused = await here.worker.next(Reply, Rejected)
            assert refused.code == EngineHung.code
            assert "lacks" not in caplog.text

    play(scene)


def of_key(name: str, number: int, n: int) -> Generate:
    return replace(request(f"{name}{number}", n), owner=f"key @{name}")


def test_where_replicas_are_full_a_request_of_the_key_with_more_branches_waits_at_the_bridge() -> None:
    async def scene() -> None:
        async with bench(2) as here:  # of four sequences each
            for number in range(4):
                await here.begun(of_key("alice", number, 2))
            await here.begun(of_key("alice", 4, 2))  # with one key it is the replicas' queue
            await here.begun(of_key("bob", 0, 2))  # the key with fewer waits there for the next sequence
            here.worker.send(of_key("alice", 5, 1))
            here.worker.send(of_key("alice", 6, 1))
            second = await here.begun(of_key("bob", 1, 2))
            assert not {"alice5", "alice6"} & {each for replica in here.replicas.values() for each in replica.known}
            assert len(here.members.fair_queue) == 2
            for number in range(2):  # now 6 of 8 sequences are in use by alice, and bob has 4 branches
                home = here.replicas[here.members.homes.get(f"alice{number}")]
                home.say(Accepted(f"alice{number}", 3), Done(f"alice{number}", 3, 0, 1, 0.0, 0.0))
                await here.worker.next(Done)
            assert len(here.members.fair_queue) == 2, "ten branches are open"
            second.say(Accepted("bob1", 3), Done("bob1", 3, 0, 1, 0.0, 0.0))
            await here.worker.next(Done)
            assert len(here.members.fair_queue) == 2
            home = here.replicas[here.members.homes.get("bob0")]
            home.say(Accepted("bob0", 3), Done("bob0", 3, 0, 1, 0.0, 0.0))
            await here.worker.next(Done)
            while here.members.fair_queue:
                await asyncio.sleep(0)
            assert sum(here.members.affinity._open.values()) == 8

    play(scene)


@pytest.mark.parametrize("how", ["cancelled", "left", "gone"])
def test_a_request_that_waits_at_the_bridge_can_be_given_up(how: str) -> None:
    async def scene() -> None:
        async with bench(1) as here:
            for number in range(2):
                await here.begun(of_key("alice", number, 2))
            replica = await here.begun(of_key("bob", 0, 1))
            here.worker.send(of_key("alice", 2, 1))
            while not here.members.fair_queue:
                await asyncio.sleep(0)
            if how == "gone":
                here.worker._writer.close()
            else:
                here.worker.send(Cancel("alice2", leaves=how == "left"))
            if how == "cancelled":
                refused = await here.worker.next(Rejected)
                assert (refused.request_id, refused.code) == ("alice2", "cancelled")
            while here.members.fair_queue:
                await asyncio.sleep(0)
            if how == "gone":
                while here.relay._open:
                    await asyncio.sleep(0)
            else:
                replica.say(Accepted("bob0", 3), Done("bob0", 3, 0, 1, 0.0, 0.0))
                await here.worker.next(Done)
            assert "alice2" not in replica.known
            assert here.members.fair_queue._open == ({} if how == "gone" else {"key @alice": 4})

    play(scene)


def test_a_replica_that_comes_gives_those_that_wait_their_turn() -> None:
    async def scene() -> None:
        async with bench(2) as here:
            other = here.replicas["r1"]
            other.version = VERSION + 1
            other.cut()
            while "r1" in here.members.affinity.replicas:
                await asyncio.sleep(0)
            for number in range(2):
                await here.begun(of_key("alice", number, 2))
            await here.begun(of_key("bob", 0, 1))
            here.worker.send(of_key("alice", 2, 1))
            while not here.members.fair_queue:
                await asyncio.sleep(0)
            other.version = VERSION
            assert (await other.next(Generate)).request_id == "alice2"

    play(scene)


def test_those_that_wait_at_the_bridge_are_told_in_the_numbers_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.fair_queue.MAX_WAITING", 1)

    async def scene() -> None:
        async with bench(1) as here:
            for number in range(2):
                await here.begun(of_key("alice", number, 2))
            await here.begun(of_key("bob", 0, 1))
            here.worker.send(of_key("alice", 2, 1))
            here.worker.send(of_key("alice", 3, 1))
            refused = await here.worker.next(Rejected)
            assert (refused.request_id, refused.code) == ("alice3", QueueFull.code)
            here.replicas["r0"].describe = lambda command: Reply(command.request_id, {"requests_deferred": 3})
            here.worker.send(GetStats("numbers"))
            assert (await here.worker.next(Reply)).value["requests_deferred"] == 4

    play(scene)


def done(request_id: str) -> Done:
    return Done(request_id, 3, 0, 1, 0.0, 0.0)


def turn(request_id: str, story: str = "the lighthouse") -> Generate:
    return replace(request(request_id), session=story)


async def next_texts(replica: Replica) -> TakeTexts:
    taken: TakeTexts = await replica.next(TakeTexts)
    replica.say(Reply(taken.request_id, len(taken.stories)))
    return taken


def door_of(bench: Bench, replica: Replica) -> tuple[str, int, str]:
    return "127.0.0.1", bench._entries[replica.name]["port"], texts_token(TOKEN)


def test_the_stories_that_rest_at_a_replica_that_leaves_are_taken_by_the_others_at_once() -> None:
    async def scene() -> None:
        async with bench(3) as made:
            homes = {}
            for number in range(12):
                homes[f"story {number}"] = home = await made.begun(turn(f"{number:032x}", f"story {number}"))
                home.say(done(f"{number:032x}"))
                await made.worker.next(Done)
            leaving = homes["story 0"]
            others = [each for each in made.replicas.values() if each is not leaving]
            made.note(leaving.name, "leaving")
            taken: dict[str, Replica] = {}
            for other in others:
                command = await next_texts(other)
                assert (command.door, command.is_coming) == (door_of(made, leaving), False)
                taken |= dict.fromkeys(command.stories, other)
            expected = [story for story, home in homes.items() if home is leaving]
            assert taken.keys() == set(map(digest_of, expected))
            for number, story in enumerate(expected):
                assert await made.begun(turn(f"{100 + number:032x}", story)) is taken[digest_of(story)]
            assert not any(isinstance(each, TakeTexts) for other in others for each in queued(other))

    play(scene)


def queued(replica: Replica) -> list[Any]:
    return [replica.asked.get_nowait() for _ in range(replica.asked.qsize())]


def test_a_story_that_runs_at_a_replica_that_leaves_is_looked_for_there_by_its_next_requests() -> None:
    async def scene() -> None:
        async with bench() as made:
            leaving = await made.begun(turn("a"))
            leaving.say(Accepted("a", 3))
            await made.worker.next(Accepted)
            made.note(leaving.name, "leaving")
            other = made.beside(leaving)
            for request_id in ("b", "c"):
                made.worker.send(turn(request_id))
                taken = await next_texts(other)
                assert taken == TakeTexts(
                    taken.request_id, (digest_of("the lighthouse"),), door_of(made, leaving), True
                )
                assert (await other.next(Generate)).request_id == request_id
            leaving.say(done("a"))
            assert (await made.worker.next(Reply, Done)).request_id == "a", "answers to what the bridge says stay there"
            made.worker.send(turn("d"))
            await next_texts(other)
            assert (await other.next(Generate)).request_id == "d"
            made.worker.send(turn("e"))
            assert isinstance(await other.asked.get(), Generate)

    play(scene)


def test_a_story_whose_replica_is_gone_is_looked_for_in_folders_again() -> None:
    async def scene() -> None:
        async with bench() as made:
            gone = await made.begun(turn("a"))
            other = made.beside(gone)
            gone.say(done("a"))
            await made.worker.next(Done)
            gone.drop()
            while len(made.members.ready) > 1:
                await asyncio.sleep(0)
            made.worker.send(turn("b"))
            assert (await next_texts(other)).door is None

    play(scene)


def test_a_request_that_a_full_replica_refuses_looks_for_its_story_where_that_was() -> None:
    async def scene() -> None:
        async with bench(3) as made:
            leaving = await made.begun(turn("a"))
            leaving.say(Accepted("a", 3))
            await made.worker.next(Accepted)
            made.note(leaving.name, "leaving")
            del made.replicas[leaving.name]
            full = await made.begun(turn("b"))
            full.say(Rejected.of("b", QueueFull("full")))
            taken = await next_texts(made.beside(full))
            made.replicas[leaving.name] = leaving
            assert taken.door == door_of(made, leaving)

    play(scene)


def test_a_deleted_story_is_forgotten_by_replicas_that_leave_too() -> None:
    async def scene() -> None:
        async with bench() as made:
            leaving, other = made.replicas.values()
            made.note(leaving.name, "leaving")
            made.worker.send(ForgetTexts("f", (digest_of("the lighthouse"),)))
            for replica in (leaving, other):
                command = await replica.next(ForgetTexts)
                replica.say(Reply(command.request_id, {"tokens": 5}))
            assert (await made.worker.next(Reply)).request_id == "f"

    play(scene)
