"""The decode loop routes events to connections: several may read a request, and the last one that leaves ends it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.engine.process.intake import CancelItem, DisconnectItem, QueryItem, StopItem, SubmitItem
from srb.engine.process.loop import DecodeLoop
from srb.errors import NotFound, ShuttingDown
from srb.wire.commands import (
    AddBranches,
    Attach,
    BranchSpec,
    Cancel,
    ChangeBranch,
    Generate,
    GetRequest,
    GetStats,
    StopBranches,
)
from srb.wire.events import TERMINAL, Attached, BranchAdded, BranchEnded, Delta, Done, Failed, Rejected, Reply, Resting
from tests.engine_helpers import Driver
from tests.processes import DEADLINE

Kind = type[Any]


@dataclass(eq=False)
class Line:
    """A connection: what was sent to it, in order."""

    sent: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    seen: list[Any] = field(default_factory=list)

    def send(self, events: list[Any]) -> None:
        for event in events:
            self.sent.put(event)

    def next(self, *kinds: Kind) -> Any:
        """Return the next event of one of these classes."""
        while True:
            self.seen.append(self.sent.get(timeout=DEADLINE))
            if isinstance(self.seen[-1], kinds):
                return self.seen[-1]

    def catch_up(self) -> list[Any]:
        """Return all events so far."""
        while not self.sent.empty():
            self.seen.append(self.sent.get())
        return self.seen

    def text(self, request_id: str, index: int = 0) -> str:
        deltas = (event for event in self.seen if isinstance(event, Delta))
        return "".join(d.text for d in deltas if (d.request_id, d.index) == (request_id, index))


class Desk:
    """A loop in a thread of its own, over an engine with a fake model."""

    def __init__(self, model: FakeModel) -> None:
        self.engine = Engine(model, EngineOptions(max_queue=10), clock=time.monotonic)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.tidied: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether the engine had work
        self.loop = DecodeLoop(self.engine, self.inbox, lambda: self.tidied.put(self.engine.has_work))
        self.thread = threading.Thread(target=self.loop.run, daemon=True)
        self.thread.start()

    def submit(self, line: Line, request_id: str, max_tokens: int = -1, n: int = 1, linger: float = 0.0) -> None:
        specs = tuple(BranchSpec(seed, max_tokens, sampling=SamplingParams(ignore_eos=True)) for seed in range(n))
        command = Generate(request_id, ("Once upon",), specs, linger=linger, can_grow=True)
        self.inbox.put(SubmitItem(line, request_id, self.engine.prepare(command)))  # type: ignore[arg-type]

    def add(self, line: Line, command: AddBranches) -> None:
        self.inbox.put(SubmitItem(line, command.request_id, self.engine.prepare(command)))  # type: ignore[arg-type]

    def ask(self, line: Line, command: Any) -> None:
        self.inbox.put(QueryItem(line, command))  # type: ignore[arg-type]

    def cancel(self, line: Line, command: Cancel) -> None:
        self.inbox.put(CancelItem(line, command))  # type: ignore[arg-type]

    def lose(self, line: Line) -> None:
        self.inbox.put(DisconnectItem(line))  # type: ignore[arg-type]

    def stats(self) -> dict[str, float]:
        line = Line()
        self.ask(line, GetStats("stats"))
        values: dict[str, float] = line.next(Reply).value
        return values

    def stop(self) -> None:
        self.inbox.put(StopItem())
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()


@pytest.fixture(params=[False, True], ids=["", "text during the next decode"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(FakeModel(n_ctx=100_000, decodes_ahead=request.param))
    yield made
    made.stop()


def test_several_connections_read_one_request_and_each_has_its_whole_text(desk: Desk) -> None:
    first, second = Line(), Line()
    desk.submit(first, "a", max_tokens=200)
    first.next(Delta)
    desk.ask(second, Attach("attach", "a"))
    snapshot = second.next(Attached).value["branches"][0]["text"]
    for line in (first, second):
        line.next(BranchEnded)
        line.next(Done)
    assert snapshot
    assert snapshot + second.text("a") == first.text("a")
    assert {event.request_id for event in second.seen[1:]} == {"a"}


class Counting(Line):
    """A connection that counts the tokens sent to it."""

    num_tokens = 0

    def send(self, events: list[Any]) -> None:
        self.num_tokens += sum(len(event.tokens) for event in events if isinstance(event, Delta))
        super().send(events)


class Forking(FakeModel):
    """A model that notes at each flush the number of forks since the last, and of tokens that `line` has been sent."""

    def __init__(self, line: Counting) -> None:
        super().__init__()
        self.flushes: list[tuple[int, int]] = []
        self._line = line
        self._forks = 0

    def fork(self, source: int, target: int, end: int | None = None) -> None:
        super().fork(source, target, end)
        self._forks += 1

    def flush(self) -> None:
        if self._forks:
            self.flushes.append((self._forks, self._line.num_tokens))
        self._forks = 0


def test_branches_are_forked_after_their_first_tokens_are_sent() -> None:
    line = Counting()
    model = Forking(line)
    desk = Desk(model)
    desk.submit(line, "a", max_tokens=2, n=4)
    line.next(Done)
    desk.stop()
    assert (4, 4) in model.flushes


def test_a_connection_that_attaches_twice_gets_each_event_once(desk: Desk) -> None:
    line = Line()
    desk.submit(line, "a", max_tokens=100, linger=60)
    for name in ("b", "c"):
        desk.ask(line, Attach(name, "a"))
        line.next(Attached)
    if not any(isinstance(event, Resting) for event in line.seen):
        line.next(Resting)
    tokens = [token for event in line.seen if isinstance(event, Delta) for token in event.tokens]
    assert len(tokens) == 100


def test_an_unknown_request_is_not_attached_to(desk: Desk) -> None:
    line = Line()
    desk.ask(line, Attach("attach", "nothing"))
    refused = line.next(Rejected)
    assert (refused.request_id, refused.code) == ("attach", NotFound.code)


def test_a_connection_that_closes_takes_only_requests_along_that_nobody_else_reads(desk: Desk) -> None:
    first, second = Line(), Line()
    desk.submit(first, "shared", max_tokens=5000)
    desk.submit(first, "alone")
    desk.ask(second, Attach("attach", "shared"))
    second.next(Attached)
    desk.lose(first)
    second.next(Delta)
    assert desk.stats()["requests_processing"] == 1
    assert not [event for event in first.catch_up() if isinstance(event, TERMINAL)]
    desk.lose(second)
    assert desk.stats()["requests_processing"] == 0


def test_one_reader_that_leaves_gets_nothing_more_and_the_other_does(desk: Desk) -> None:
    first, second = Line(), Line()
    desk.submit(first, "a", max_tokens=3000)
    first.next(Delta)
    desk.ask(second, Attach("attach", "a"))
    second.next(Attached)
    desk.cancel(first, Cancel("a", leaves=True))
    desk.stats()  # the cancel has been handled
    count = len(first.catch_up())
    second.next(Done)
    assert len(first.catch_up()) == count
    desk.cancel(first, Cancel("a", leaves=True))  # has left before: ignored
    assert desk.stats()["requests_processing"] == 0


def test_only_a_reader_may_cancel_and_then_it_ends_for_all(desk: Desk) -> None:
    first, second, stranger = Line(), Line(), Line()
    desk.submit(first, "a", linger=60)
    desk.ask(second, Attach("attach", "a"))
    second.next(Attached)
    desk.cancel(stranger, Cancel("a"))
    desk.cancel(stranger, Cancel("a", leaves=True))
    assert desk.stats()["requests_processing"] == 1
    desk.cancel(second, Cancel("a"))
    first.next(Done)
    second.next(Done)


def test_a_request_that_lingers_goes_on_without_readers_and_is_read_again(desk: Desk) -> None:
    first, second = Line(), Line()
    desk.submit(first, "a", max_tokens=300, linger=60)
    first.next(Delta)
    desk.lose(first)
    desk.ask(second, Attach("attach", "a"))
    snapshot = second.next(Attached).value["branches"][0]["text"]
    second.next(Resting)
    desk.ask(second, GetRequest("get", "a"))
    [branch] = second.next(Reply).value["branches"]
    assert snapshot + second.text("a") == branch["text"]
    assert branch["length"] == 300


def test_the_end_of_a_rest_wakes_the_loop(desk: Desk) -> None:
    line = Line()
    desk.submit(line, "a", max_tokens=3, linger=0.05)
    line.next(Resting)
    line.next(Done)
    assert not desk.engine.has_work


def test_a_rest_that_nobody_reads_ends_and_leaves_nothing(desk: Desk) -> None:
    line = Line()
    desk.submit(line, "a", max_tokens=3, linger=0.2)
    line.next(Resting)
    desk.lose(line)
    deadline = time.monotonic() + DEADLINE
    while desk.stats()["requests_resting"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert desk.loop._readers == {}


def test_a_control_is_answered_to_its_sender_and_its_events_go_to_the_readers(desk: Desk) -> None:
    reader, sender = Line(), Line()
    desk.submit(reader, "a", n=2)
    reader.next(Delta)
    desk.add(sender, AddBranches("add", "a", ((None, (), (), ()),), origin=0))
    assert sender.next(Reply).value == {"indices": [2], "seeds": [2]}
    assert reader.next(BranchAdded).index == 2
    desk.ask(sender, ChangeBranch("change", "a", 1, more=50_000))
    assert sender.next(Reply).value["index"] == 1
    desk.ask(sender, StopBranches("stop", "a", index=1))
    assert sender.next(Reply).value["state"] == "ended"
    assert reader.next(BranchEnded).index == 1
    desk.ask(sender, StopBranches("again", "a", index=1))
    assert sender.next(Rejected).extra == {"state": "ended"}
    desk.ask(sender, StopBranches("all", "a"))
    assert sender.next(Reply).value == {"id": "a", "state": "ended"}
    reader.next(Done)
    assert not [event for event in sender.catch_up() if event.request_id == "a"]


def test_every_reader_is_told_once_when_the_engine_ends_also_of_requests_that_rest() -> None:
    desk, first, second = Desk(FakeModel(n_ctx=100_000)), Line(), Line()
    desk.submit(first, "rests", max_tokens=3, linger=60)
    first.next(Resting)
    desk.submit(first, "runs")
    for name in ("rests", "runs"):
        desk.ask(second, Attach(name[::-1], name))
        second.next(Attached)
    desk.stop()
    desk.loop.fail_all(ShuttingDown("the server is shutting down"))
    for line in (first, second):
        failed = [event for event in line.catch_up() if isinstance(event, Failed)]
        assert sorted((event.request_id, event.code) for event in failed) == [
            ("rests", "shutting_down"), ("runs", "shutting_down"),
        ]  # fmt: skip
    assert desk.engine.model.open_samplers == 0  # type: ignore[attr-defined]


def test_the_engine_tidies_up_once_after_each_time_of_work(desk: Desk) -> None:
    assert not desk.tidied.get(timeout=DEADLINE)
    for turn in range(2):
        line = Line()
        desk.submit(line, f"r{turn}", max_tokens=50)
        line.next(Done)
        assert not desk.tidied.get(timeout=DEADLINE)
    desk.stats()
    assert desk.tidied.empty(), "a query is no work"


def test_cells_that_are_lost_while_nothing_runs_are_told_in_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    assert not desk.tidied.get(timeout=DEADLINE)
    line = Line()
    desk.submit(line, "r", max_tokens=5)
    line.next(Done)
    assert not desk.tidied.get(timeout=DEADLINE)
    assert not caplog.messages
    desk.submit(line, "s", max_tokens=5)
    line.next(Done)
    desk.engine._residency._branch_cells += 7
    desk.engine._residency._free_ids.pop()
    assert not desk.tidied.get(timeout=DEADLINE)
    cells, sequences = (message for message in caplog.messages if "while nothing runs" in message)
    assert "7 cells belong to branches" in cells
    assert "sequences are accounted for" in sequences


def test_an_error_in_a_step_has_a_note_of_what_was_planned() -> None:
    driver = Driver(FakeModel())
    driver.submit("a secret prompt", n=3)
    driver.step()
    driver.model.decode = lambda batch: 1 / 0  # type: ignore[method-assign, return-value, assignment]
    with pytest.raises(ZeroDivisionError) as raised:
        driver.step()
    [note] = raised.value.__notes__
    assert "step 2 of 3 tokens: 1 of <branch 0 RUNNING" in note
    assert "1 requests, 0 at rest" in note
    assert "secret" not in note


class Slipping(Engine):
    """An engine in which what it does with one request goes wrong."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name in ("submit", "cancel", "leave", "control", "attach"):
            setattr(self, name, partial(self._slip, getattr(self, name)))

    def _slip(self, act: Any, about: Any, *others: Any) -> Any:
        if "bad" in (about, getattr(about, "request_id", ""), getattr(about, "target", "")):
            raise KeyError("a slip")
        return act(about, *others)


@pytest.mark.parametrize("command", ["submit", "cancel", "leave", "stop", "attach", "lose"])
def test_an_error_of_our_own_fails_one_request_and_no_other(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("tests.unit.test_decode_loop.Engine", Slipping)
    desk, line, other = Desk(FakeModel(n_ctx=100_000)), Line(), Line()
    desk.submit(other, "good", max_tokens=5000)
    other.next(Delta)
    name = "bad" if command == "submit" else "fine"
    desk.submit(line, name, max_tokens=50_000)
    if command != "submit":
        line.next(Delta)
        desk.engine._requests.active["bad"] = bad = desk.engine._requests.active.pop("fine")  # its name is what slips
        desk.loop._readers["bad"] = desk.loop._readers.pop("fine")
        bad.request_id = "bad"
    if command == "lose":
        desk.lose(line)
    elif command in ("cancel", "leave"):
        desk.cancel(line, Cancel("bad", leaves=command == "leave"))
    elif command == "stop":
        desk.ask(line, StopBranches("ask", "bad"))
    elif command == "attach":
        desk.ask(line, Attach("ask", "bad"))
    if command not in ("leave", "lose"):
        assert "KeyError" in line.next(Failed, Rejected).message
    if command in ("stop", "attach"):
        assert line.next(Failed, Rejected).request_id == "ask"
    other.next(Done)
    assert desk.stats()["requests_processing"] == 0
    desk.stop()
    assert desk.engine.model.open_samplers == 0  # type: ignore[attr-defined]


def test_a_worker_that_dies_ends_no_loop_when_a_rest_is_over_in_the_same_step() -> None:
    """The end of one of its requests came with the end of another's rest, which the loop then looked for in vain."""
    now = 0.0
    engine = Engine(FakeModel(n_ctx=100_000), EngineOptions(max_queue=10), clock=lambda: now)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    loop, line, other = DecodeLoop(engine, inbox), Line(), Line()

    def submit(reader: Line, request_id: str, max_tokens: int, linger: float = 0.0) -> None:
        specs = (BranchSpec(1, max_tokens, sampling=SamplingParams(ignore_eos=True)),)
        inbox.put(SubmitItem(reader, request_id, engine.prepare(Generate(request_id, ("a",), specs, linger=linger))))  # type: ignore[arg-type]

    submit(line, "runs", 1000)
    submit(line, "rests", 2, linger=10.0)
    submit(other, "another", 1000)
    while not any(isinstance(event, Resting) for event in line.catch_up()):
        loop.turn(wait=False)
    now = 10.5
    inbox.put(DisconnectItem(line))  # type: ignore[arg-type]
    loop.turn(wait=False)
    assert set(loop._readers) == {"another", "rests"}, "it lingers anew, since its reader was there until now"
    assert not [event for event in other.catch_up() if isinstance(event, TERMINAL)]
