"""A worker's relay and replicas on TCP ports that answer as a test says: every request gets an answer or an end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from dataclasses import asdict
from typing import Any

import pytest

from srb.cluster.door import TOKEN_LENGTH
from srb.cluster.members import Members
from srb.cluster.registry import Entry
from srb.cluster.relay import Relay
from srb.cluster.totals import Totals
from srb.engine.fake import FakeModel
from srb.errors import EngineHung, EngineRestarted, QueueFull, ShuttingDown, SRBError, Unavailable
from srb.framing import frame, read_frame
from srb.protocol import (
    VERSION,
    Accepted,
    Attach,
    Attached,
    BranchAdded,
    BranchEnded,
    BranchSpec,
    Cancel,
    Delta,
    Done,
    Failed,
    FinishReason,
    Generate,
    GetRequest,
    GetStats,
    Hello,
    ListRequests,
    Ready,
    Rejected,
    Reply,
    StateAction,
    Tokenize,
    decode,
    encode,
)
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
                    if self.describe is not None and isinstance(command, GetRequest | ListRequests | GetStats):
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
    members = Members(lambda: ready.set() if len(members.ready) == number else None)
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
                assert len((await other.next(Generate)).branches) == 3
                other.say(Accepted("a", 3))
            await here.worker.next(Accepted)
            first.drop()
            while "r0" in here.members.affinity.replicas:
                await asyncio.sleep(0)
            here.replicas["r1"].say(Delta("a", 0, "text", [1]))
            assert isinstance(await here.worker.next(Delta, Failed), Delta)

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
            for full in (lead, other):
                full.say(Rejected.of("a", QueueFull("full")))
            refused = await here.worker.next(Accepted, Failed, Rejected)
            assert refused.code == QueueFull.code

    play(scene)


async def divided(here: Bench, n: int = 6) -> tuple[Replica, Replica]:
    """Begin a request that both replicas have a part of; return the one with the first branch before the other."""
    here.worker.send(request("a", n))
    parts = {(await each.next(Generate)).branches[0].place: each for each in here.replicas.values()}
    return parts[0], parts[1]


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


def test_branches_that_are_added_to_a_divided_request_count_where_they_are() -> None:
    async def scene() -> None:
        async with bench() as here:
            lead, other = await divided(here)
            for part in (lead, other):
                part.say(Accepted("a", 3))
            other.say(BranchAdded("a", 3, 6, place=6), BranchAdded("a", 0, 1, resumed=True, place=1))
            while not (await here.worker.next(BranchAdded)).resumed:
                pass
            assert here.members.affinity._open == {lead.name: 3, other.name: 4}
            for part, number in ((lead, 3), (other, 4)):
                part.say(*ends(number), Done("a", 3, 0, number, 0.0, 0.0))
            await here.worker.next(Done)
            assert here.members.affinity._open == {lead.name: 0, other.name: 0}

    play(scene)


@pytest.mark.parametrize("has_ended", [False, True], ids=["the other runs", "the other has ended"])
@pytest.mark.parametrize("how", ["drop", "refuse"])
def test_a_divided_request_begins_again_when_a_part_is_lost_before_it_is_accepted(how: str, has_ended: bool) -> None:
    async def scene() -> None:
        async with bench() as here:
            lead, other = await divided(here)
            end = (Accepted("a", 3), *ends(3), Done("a", 3, 0, 3, 0.0, 0.0))
            if has_ended:
                other.say(*end)
                await asyncio.sleep(0.05)  # until the relay has read it
            if how == "drop":
                lead.drop()
            else:
                lead.say(Rejected.of("a", QueueFull("full")))
            if not has_ended:
                assert await other.next(Cancel) == Cancel("a")
                other.say(*end)
            again = await other.next(Generate)
            assert [spec.seed for spec in again.branches] == list(range(6))
            other.say(Accepted("a", 3), *ends(6), Done("a", 3, 0, 6, 0.0, 0.0))
            told = [await here.worker.next(Accepted, BranchEnded, Done, Failed, Rejected) for _ in range(8)]
            assert [type(event) for event in told] == [Accepted, *[BranchEnded] * 6, Done]

    play(scene)


def test_all_parts_of_a_divided_request_have_one_model_though_an_update_changes_it() -> None:
    async def scene() -> None:
        async with bench(2, newer=2) as here:
            for number in range(8):
                here.worker.send(request(f"{number}", n=16))  # more than all have together
                await asyncio.sleep(0.05)  # until the replicas have their parts
                asked = [name for name, each in here.replicas.items() if f"{number}" in each.known]
                assert asked in (["r0", "r1"], ["r2", "r3"])
                for name in asked:
                    here.replicas[name].say(Rejected.of(f"{number}", Unavailable("no")))
                await here.worker.next(Rejected)

    play(scene)


def test_a_divided_request_goes_to_another_model_when_no_replica_of_its_own_is_left() -> None:
    async def scene() -> None:
        async with bench(1, newer=1) as here:
            first = await here.begun(request("a", n=6))
            first.drop()
            assert len((await here.beside(first).next(Generate)).branches) == 6

    play(scene)


@pytest.mark.parametrize("how", ["in time", "cancelled"])
def test_a_reader_that_a_part_does_not_answer_does_not_hold_up_the_owner(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 0.1 if how == "in time" else DEADLINE)

    async def scene() -> None:
        async with bench() as here:
            lead, hangs = await divided(here)
            for each in (lead, hangs):
                each.say(Accepted("a", 3))
            await here.worker.next(Accepted)
            for reader in ("first", "second"):
                here.worker.send(Attach(reader, "a"))
            await lead.next(Attach), await hangs.next(Attach)
            lead.say(Attached("first", "a", described("a", 0, 2, 4)))
            lead.say(Delta("a", 0, "text", [1]))
            if how == "cancelled":
                for reader in ("second", "first"):
                    here.worker.send(Cancel(reader))
            told = [await here.worker.next(Delta, Attached, Rejected) for _ in range(3)]
            refused = [event for event in told if isinstance(event, Rejected)]
            assert {event.request_id for event in refused} == {"first", "second"}
            assert {event.code for event in refused} == {Unavailable.code}
            [delta] = [event for event in told if isinstance(event, Delta)]
            assert (delta.index, delta.text) == (0, "text")
            hangs.say(Attached("first", "a", described("a", 1, 3, 5)))  # too late
            hangs.say(Delta("a", 0, "more", [1]))
            delta = await here.worker.next(Delta, Attached)
            assert (delta.index, delta.text) == (1, "more")

    play(scene)


def test_parts_are_not_read_for_a_reader_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a worker that does not own the request."""
    monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 0.1)

    async def scene() -> None:
        async with bench() as here:
            for each, places in zip(here.replicas.values(), ((0, 2), (1,)), strict=True):
                each.describe = lambda command, places=places: Reply(command.request_id, described("a", *places))  # type: ignore[misc]
            here.worker.send(Attach("reader", "a"))
            answers, hangs = here.replicas.values()
            await answers.next(Attach), await hangs.next(Attach)
            answers.say(Attached("reader", "a", described("a", 0, 2)))
            assert (await here.worker.next(Attached, Rejected)).code == Unavailable.code
            assert await answers.next(Cancel) == Cancel("a", leaves=True)
            hangs.say(Attached("reader", "a", described("a", 1)))
            assert await hangs.next(Cancel) == Cancel("a", leaves=True)

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


@pytest.mark.parametrize("number", [2, 3])
def test_a_part_that_a_replica_has_not_accepted_when_it_begins_to_hang_goes_to_others(number: int) -> None:
    async def scene() -> None:
        async with bench(number) as here:
            here.worker.send(request("a", n=6))
            await asyncio.sleep(0.05)
            having = [each for each in here.replicas.values() if "a" in each.known]
            hangs, other = having
            await other.next(Generate), await hangs.next(Generate)
            other.say(Accepted("a", 3))
            here.note(hangs.name, "hung")
            [spare] = [each for each in here.replicas.values() if each not in having] or [other]
            if number == 2:
                await other.next(Cancel)
                other.say(*ends(3), Done("a", 3, 0, 3, 0.0, 0.0))
            assert len((await spare.next(Generate)).branches) == (6 if number == 2 else 3)
            spare.say(Accepted("a", 3))
            assert isinstance(await here.worker.next(Accepted, Rejected, Failed), Accepted)
            hangs.say(Accepted("a", 3), Done("a", 3, 0, 0, 0.0, 0.0))
            await asyncio.sleep(0.05)
            spare.say(Delta("a", 0, "text", [1]))
            assert isinstance(await here.worker.next(Delta, Done, Failed, Accepted), Delta)

    play(scene)


def test_a_divided_request_begins_again_though_a_part_that_should_end_hangs() -> None:
    async def scene() -> None:
        async with bench(3) as here:
            here.worker.send(request("a", n=12))
            lost, hangs, other = here.replicas.values()
            for each in here.replicas.values():
                await each.next(Generate)
            other.say(Accepted("a", 3), *ends(4), Done("a", 3, 0, 4, 0.0, 0.0))
            await asyncio.sleep(0.05)
            lost.drop()
            await hangs.next(Cancel)
            here.note(hangs.name, "silent")
            assert len((await other.next(Generate)).branches) == 12

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


def test_counters_of_many_engines_are_kept_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.totals._MOST_ENGINES", 3)
    totals = Totals()
    for number in range(10):
        totals.note(("r", number), {"steps_total": 2, "running": 1})
        totals.note(("r", number), {"steps_total": 1})  # an answer that was overtaken
    assert totals.sum() == {"steps_total": 20}


def test_a_divided_request_that_is_cancelled_before_it_begins_again_is_cancelled() -> None:
    async def scene() -> None:
        async with bench() as here:
            lead, other = await divided(here)
            lead.drop()
            await other.next(Cancel)
            here.worker.send(Cancel("a"))
            here.worker.send(ListRequests("list", ""))  # an answer to this comes after the Cancel was read
            other.say(Reply((await other.next(ListRequests)).request_id, []))
            await here.worker.next(Reply)
            other.say(Done("a", 3, 0, 0, 0.0, 0.0))
            await other.next(Generate)
            assert await other.next(Cancel) == Cancel("a")
            other.say(Accepted("a", 3), Done("a", 3, 0, 0, 0.0, 0.0))
            assert isinstance(await here.worker.next(Done, Failed, Rejected), Done)

    play(scene)


def ends(number: int) -> list[BranchEnded]:
    return [BranchEnded("a", index, FinishReason.LIMIT, 1) for index in range(number)]


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


def described(request_id: str, *places: int) -> dict[str, Any]:
    branches = [
        {"index": index, "place": place, "seed": place, "state": "running", "length": 1, "max_tokens": 9}
        for index, place in enumerate(places)
    ]
    return {
        "id": request_id, "state": "running", "age": 1.0, "prompt_tokens": 1, "linger": 0.0, "branches": branches,
        "num_places": 3, "num_parts": 2,
    }  # fmt: skip


def test_a_part_on_a_replica_that_does_not_answer_is_not_told_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srb.cluster.relay._ASK_SECONDS", 0.05)

    async def scene() -> None:
        async with bench() as here:
            here.replicas["r0"].describe = lambda command: Reply(
                command.request_id, [part] if isinstance(command, ListRequests) else part
            )
            part = described("divided", 0, 2)
            here.worker.send(ListRequests("list", ""))
            [listed] = (await here.worker.next(Reply)).value
            assert [branch["index"] for branch in listed["branches"]] == [0, 2]
            here.worker.send(GetRequest("get", "divided", ""))
            refused = await here.worker.next(Reply, Rejected)
            assert refused.code == Unavailable.code
            here.replicas["r1"].describe = here.replicas["r0"].describe
            part = described("divided", 1)
            here.worker.send(GetRequest("again", "divided", ""))
            found = await here.worker.next(Reply, Rejected)
            assert isinstance(found, Reply), found

    play(scene)
