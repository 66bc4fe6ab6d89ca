"""Requests that are being prepared hold up no cancel and no question, and each ends once, whatever crosses it."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any

import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.process import intake as module
from srb.engine.process.intake import CancelItem, DisconnectItem, Intake, QueryItem, SubmitItem, Work
from srb.errors import Cancelled, InvalidRequest, NotFound
from srb.progress import FairSemaphore, go_on
from srb.wire.commands import (
    AddBranches,
    BranchSpec,
    Cancel,
    CountTokens,
    Detokenize,
    Embed,
    Generate,
    GetSlots,
    Rerank,
    StateAction,
    Tokenize,
)
from srb.wire.events import Rejected, Reply
from tests.processes import DEADLINE, wait_for


class Prepared:
    """A prepared command; it has to be submitted or closed."""

    def __init__(self, command: Any) -> None:
        self.command = command
        self.is_closed = threading.Event()

    def close(self) -> None:
        assert not self.is_closed.is_set()
        self.is_closed.set()


def _goes_on() -> bool:
    """Whether the work of the context is still wanted."""
    try:
        go_on()
    except Cancelled:
        return False
    return True


class SlowEngine:
    """An engine that prepares a command when the test lets it, and refuses those whose name is "bad"."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.made: list[Prepared] = []

    def prepare(self, command: Any, is_wanted: Any) -> Prepared:
        self.is_wanted = is_wanted
        self.begun.put(command.request_id)
        assert self.gate.acquire(timeout=DEADLINE)
        if command.request_id == "bad":
            raise InvalidRequest("bad")
        if command.request_id == "bug":
            raise ZeroDivisionError
        self.made.append(Prepared(command))
        return self.made[-1]

    def tokenize(self, parts: Any, *_: bool) -> list[int]:
        if parts[0] == "slow":
            self.goes_on = partial(copy_context().run, _goes_on)
            self.begun.put("tokens")
            assert self.gate.acquire(timeout=DEADLINE)
        return [len(parts)]

    def count_tokens(self, command: CountTokens) -> int:
        self.begun.put(command.request_id)
        assert self.gate.acquire(timeout=DEADLINE)
        return len(command.prompt)

    def knows_media(self, command: Generate) -> bool:
        if command.media == ("broken",):
            raise InvalidRequest("base64")
        return command.media == ("known",)

    def has_grammar(self, command: Any) -> bool:
        if command.request_id == "gone":
            raise NotFound("no such request")
        return any(spec.has_grammar for spec in getattr(command, "branches", ()))

    def detokenize(self, tokens: Any, special: bool) -> list[bytes]:
        return [b"x"] * len(tokens)


class Line:
    """A connection that puts sent events into a queue."""

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(self, events: list[Any]) -> None:
        for event in events:
            self.sent.put(event)


class Desk:
    """An Intake that is open, its engine and one connection."""

    def __init__(self) -> None:
        self.engine, self.line, self.intake = SlowEngine(), Line(), Intake()
        self.intake.open(self.engine)

    def take(self, *commands: Any) -> None:
        for command in commands:
            self.intake.take(self.line, command)  # type: ignore[arg-type]

    def generate(self, request_id: str, prompt: str = "a", n: int = 2) -> None:
        self.take(Generate(request_id, (prompt,), tuple(BranchSpec(seed) for seed in range(n))))

    def next_item(self) -> Any:
        return self.intake.inbox.get(timeout=DEADLINE)

    def next_event(self) -> Any:
        return self.line.sent.get(timeout=DEADLINE)

    def begun(self) -> str:
        return self.engine.begun.get(timeout=DEADLINE)

    def lose(self) -> None:
        self.intake.disconnect(self.line)  # type: ignore[arg-type]


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.engine.gate.release(1000)
    made.intake.refuse_all()


def test_queries_and_cancels_do_not_wait_for_a_request_in_preparation(desk: Desk) -> None:
    desk.generate("slow")
    desk.begun()
    desk.take(GetSlots("slots"), Cancel("another"), Tokenize("t", ("a",), True, True), Detokenize("d", (1, 2)))
    assert isinstance(desk.next_item(), QueryItem)
    assert desk.next_item() == CancelItem(desk.line, Cancel("another"))  # type: ignore[arg-type]
    assert desk.next_event() == Reply("t", [1])
    assert desk.next_event() == Reply("d", ["x", "x"])


def test_queries_and_cancels_do_not_wait_for_a_long_tokenization(desk: Desk) -> None:
    desk.take(Tokenize("t", ("slow",), True, True), GetSlots("slots"))
    desk.begun()
    assert isinstance(desk.next_item(), QueryItem)
    desk.generate("a")
    assert desk.begun() == "a"
    desk.engine.gate.release(2)
    assert {desk.next_item().request_id, desk.next_event().request_id} == {"a", "t"}


def check_that_a_text_passes(desk: Desk, command: Generate) -> None:
    """Check that a text is prepared while a request is, which takes long."""
    desk.take(command)
    assert desk.begun() == command.request_id
    desk.generate("text")
    assert desk.begun() == "text"
    desk.take(Cancel(command.request_id))
    assert desk.next_event().request_id == command.request_id
    desk.engine.gate.release(2)
    assert desk.next_item().request_id == "text"


def test_a_text_does_not_wait_for_a_picture_that_is_encoded(desk: Desk) -> None:
    check_that_a_text_passes(desk, Generate("picture", (-1,), (BranchSpec(0),), media=("aGk=",)))


@pytest.mark.parametrize("form", [{"grammar": "root ::= [a-z]"}, {"json_schema": "{}"}])
def test_a_text_does_not_wait_for_a_grammar_that_is_compiled(desk: Desk, form: dict[str, str]) -> None:
    specs = (BranchSpec(0), BranchSpec(1, sampling=SamplingParams(**form)))
    check_that_a_text_passes(desk, Generate("formed", ("a",), specs))


def test_requests_with_grammars_are_prepared_beside_each_other(desk: Desk) -> None:
    """The grammars take turns. In one lane, a request would wait for all grammars of the one before it."""
    specs = (BranchSpec(0, sampling=SamplingParams(grammar="root ::= [a-z]")),)
    ids = {f"formed{number}" for number in range(module.NUM_GRAMMAR_LANES)}
    desk.take(*(Generate(name, ("a",), specs) for name in ids))
    assert {desk.begun() for _ in ids} == ids
    desk.take(Generate("later", ("a",), specs), Cancel("later"))
    assert desk.next_event().request_id == "later"
    desk.engine.gate.release(len(ids))
    assert {desk.next_item().request_id for _ in ids} == ids


def test_branches_for_a_request_that_is_gone_are_refused_where_requests_are_prepared(desk: Desk) -> None:
    desk.take(AddBranches("gone", "r", ((None, (), (), ()),)))
    assert desk.begun() == "gone"
    desk.engine.gate.release()
    assert desk.next_item().request_id == "gone"


LONG = "a" * (module.SHORT + 1)


@pytest.mark.parametrize(
    "command",
    [
        Generate("long", (LONG,), (BranchSpec(0),)),
        Generate("long", ("a",), (BranchSpec(0, append=(LONG,)), BranchSpec(1))),
        Generate("long", ("a",), (BranchSpec(0, sampling=SamplingParams(penalty_prompt=(LONG,))),)),
        Generate("long", tuple(range(module.SHORT)), (BranchSpec(0),)),
        AddBranches("long", "r", ((None, (LONG,), (), ()),)),
        Embed("long", (("a",), (LONG,))),
        Rerank("long", "a", ("a", LONG)),
    ],
)
def test_a_short_request_does_not_wait_for_a_long_text(desk: Desk, command: Any) -> None:
    check_that_a_text_passes(desk, command)


def test_a_short_text_is_tokenized_while_long_ones_are(desk: Desk) -> None:
    desk.take(Tokenize("long", ("slow", LONG), True, True))
    assert desk.begun() == "tokens"
    desk.take(CountTokens("count", (LONG,), ()), Tokenize("t", ("a",), True, True))
    assert desk.begun() == "count"
    assert desk.next_event() == Reply("t", [1])
    desk.take(CountTokens("short", ("a",), ()))
    assert desk.begun() == "short"
    desk.engine.gate.release(3)
    assert {desk.next_event().request_id for _ in range(3)} == {"long", "count", "short"}


def test_owners_have_their_turns_in_a_lane(desk: Desk) -> None:
    for name, owner in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")):
        desk.take(Generate(name, ("x",), (BranchSpec(0),), owner=owner))
    desk.engine.gate.release(6)
    assert [desk.next_item().request_id for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_of_one_owner_the_smallest_comes_first(desk: Desk) -> None:
    for name, size in (("a", 5), ("b", 3000), ("c", 2000), ("d", 1)):
        desk.generate(name, "x" * size)
        if name == "a":
            desk.begun()
    desk.engine.gate.release(4)
    assert [desk.next_item().request_id for _ in range(4)] == ["a", "d", "c", "b"]


def test_the_long_texts_of_one_owner_to_tokenize_leave_lanes_for_those_of_others(desk: Desk) -> None:
    for number in range(3 * module.NUM_LONG_TEXT_LANES):
        desk.take(CountTokens(str(number), (LONG,), (), owner="a"))
    for _ in range(module.NUM_LONG_TEXT_LANES // 2):
        desk.begun()
    desk.take(CountTokens("another", (LONG,), (), owner="b"))
    assert desk.begun() == "another"
    desk.engine.gate.release(1000)


def test_the_long_texts_of_one_owner_leave_lanes_for_those_of_others(desk: Desk) -> None:
    for number in range(3 * module.NUM_LONG_LANES):
        desk.take(Generate(str(number), (LONG,), (BranchSpec(0),), owner="a"))
    begun = {desk.begun() for _ in range(module.NUM_LONG_LANES // 2)}
    desk.take(Generate("another", (LONG,), (BranchSpec(0),), owner="b"))
    assert desk.begun() == "another"
    assert desk.engine.begun.empty()
    desk.engine.gate.release(1000)
    assert len(begun) == module.NUM_LONG_LANES // 2


def test_a_long_text_that_nobody_waits_for_is_wanted_no_more(desk: Desk) -> None:
    desk.take(Tokenize("t", ("slow", LONG), True, True))
    assert desk.begun() == "tokens"
    assert desk.engine.goes_on()
    desk.take(Cancel("t"))
    assert desk.next_event().code == "cancelled"
    assert not desk.engine.goes_on()
    desk.engine.gate.release()


def test_memory_is_given_back_after_large_texts_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    given: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(module, "give_back", lambda: given.put(threading.current_thread().name))
    desk.take(Tokenize("long", (LONG,), True, True), Tokenize("large", ("a" * module.LARGE,), True, True))
    assert given.get(timeout=DEADLINE) == "long texts"
    desk.take(Tokenize("again", (LONG,), True, True))
    assert {desk.next_event().request_id for _ in range(3)} == {"long", "large", "again"}
    assert given.empty()


def see(request_id: str, medium: str) -> Generate:
    return Generate(request_id, (-1,), (BranchSpec(0), BranchSpec(1)), media=(medium,))


@pytest.mark.parametrize("medium", ["known", "broken"])
def test_a_picture_that_is_known_or_refused_does_not_wait_for_one_that_is_encoded(desk: Desk, medium: str) -> None:
    desk.take(see("new", "a"), see("newer", "b"))
    assert desk.begun() == "new"
    desk.take(see("other", medium))
    assert desk.begun() == "other"
    desk.engine.gate.release(3)
    assert {desk.next_item().request_id for _ in range(3)} == {"new", "newer", "other"}


def test_only_lanes_of_long_work_give_way_to_decodes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    given: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(module, "give_way", lambda: given.put(threading.current_thread().name))
    desk.take(see("known", "known"))
    desk.engine.gate.release()
    assert desk.next_item().request_id == "known"
    assert given.empty()
    desk.take(see("new", "new"))
    assert [desk.engine.begun.get(timeout=DEADLINE) for _ in range(2)] == ["known", "new"]
    assert given.get(timeout=DEADLINE) == "encoding"
    desk.take(CountTokens("count", (-1,), ("new",)), Tokenize("text", ("a",), True, True))
    desk.engine.gate.release(3)
    assert {desk.line.sent.get(timeout=DEADLINE).request_id for _ in range(2)} == {"count", "text"}
    assert given.empty()
    desk.take(Tokenize("long", (LONG,), True, True))
    desk.generate("longer", LONG)
    desk.engine.gate.release(2)
    assert {given.get(timeout=DEADLINE) for _ in range(2)} == {"long texts", "long requests"}


def test_a_cancel_finds_a_request_whose_picture_waits_to_be_encoded(desk: Desk) -> None:
    desk.take(see("new", "a"), see("newer", "b"), see("newest", "c"))
    assert desk.begun() == "new"
    desk.take(Cancel("newer"), Cancel("newest", 1))
    assert desk.next_event() == Rejected.of("newer", Cancelled("the request was cancelled"))
    desk.engine.gate.release(2)
    assert [desk.next_item().request_id for _ in range(2)] == ["new", "newest"]
    assert desk.next_item() == CancelItem(desk.line, Cancel("newest", 1))  # type: ignore[arg-type]
    assert desk.line.sent.empty()


def test_the_encoding_for_a_cancelled_request_is_wanted_no_more(desk: Desk) -> None:
    desk.take(see("new", "a"))
    assert desk.begun() == "new"
    desk.take(Cancel("new", 1))
    assert desk.engine.is_wanted()
    desk.take(Cancel("new"))
    assert desk.next_event().code == "cancelled"
    assert not desk.engine.is_wanted()


def test_a_picture_is_counted_beside_requests_and_texts(desk: Desk) -> None:
    desk.take(CountTokens("count", ("See", -1), ("aGk=",)))
    assert desk.begun() == "count"
    desk.take(Tokenize("t", ("quick",), True, True))
    assert desk.next_event() == Reply("t", [1])
    desk.engine.gate.release()
    assert desk.next_event() == Reply("count", 2)


def test_requests_reach_the_inbox_in_their_order(desk: Desk) -> None:
    for name in "abcde":
        desk.generate(name)
    desk.engine.gate.release(5)
    assert [desk.next_item().request_id for _ in range(5)] == list("abcde")


def test_a_request_that_is_cancelled_while_it_is_prepared_ends_at_once_and_leaves_nothing(desk: Desk) -> None:
    desk.generate("a")
    desk.begun()
    desk.take(Cancel("a"))
    assert desk.next_event().code == "cancelled"
    desk.generate("b")
    desk.engine.gate.release(2)
    assert desk.next_item().request_id == "b"
    assert desk.engine.made[0].is_closed.wait(DEADLINE)
    assert desk.line.sent.empty()
    assert desk.intake.inbox.empty()


def test_a_request_that_is_cancelled_before_its_turn_is_never_prepared(desk: Desk) -> None:
    for name in "abc":
        desk.generate(name)
    desk.begun()
    desk.take(Cancel("b"))
    assert desk.next_event() == Rejected("b", "cancelled", "the request was cancelled", {})
    desk.engine.gate.release(3)
    assert [desk.next_item().request_id for _ in range(2)] == ["a", "c"]
    assert [each.command.request_id for each in desk.engine.made] == ["a", "c"]


def test_cancels_of_single_branches_follow_their_request(desk: Desk) -> None:
    desk.generate("a", n=3)
    desk.begun()
    desk.take(Cancel("a", 2), Cancel("a", 0))
    assert desk.intake.inbox.empty()
    desk.engine.gate.release()
    items = [desk.next_item() for _ in range(3)]
    assert isinstance(items[0], SubmitItem)
    assert [item.command.index for item in items[1:]] == [2, 0]
    desk.take(Cancel("a"))
    assert desk.next_item().command == Cancel("a")


@pytest.mark.parametrize(("name", "code"), [("bad", "invalid_request"), ("bug", "internal_error")])
def test_a_request_that_cannot_be_prepared_is_refused_and_the_next_one_served(desk: Desk, name: str, code: str) -> None:
    desk.generate(name)
    desk.generate("good")
    desk.engine.gate.release(2)
    assert (desk.next_event().request_id, desk.next_item().request_id) == (name, "good")


def test_an_id_that_is_being_prepared_is_in_use(desk: Desk) -> None:
    desk.generate("a")
    desk.generate("a")
    assert desk.next_event().code == "invalid_request"
    desk.engine.gate.release(2)
    assert desk.next_item().request_id == "a"


def test_a_lost_connection_puts_nothing_into_the_inbox_after_its_disconnect(desk: Desk) -> None:
    desk.generate("a")
    desk.generate("b")
    desk.begun()
    desk.lose()
    assert desk.next_item() == DisconnectItem(desk.line)  # type: ignore[arg-type]
    desk.engine.gate.release(2)
    for thread in threading.enumerate():
        if thread.name == "requests":
            thread.join(DEADLINE)
    assert [each.is_closed.is_set() for each in desk.engine.made] == [True]  # the one that had begun
    assert desk.intake.inbox.empty()


def test_requests_in_lanes_are_refused_when_the_engine_stops(desk: Desk) -> None:
    desk.generate("a")
    desk.generate("b")
    desk.begun()
    desk.intake.refuse_all()
    assert [desk.next_event().code for _ in range(2)] == ["shutting_down"] * 2
    desk.generate("c")
    assert desk.next_event() == Rejected("c", "shutting_down", "the server is shutting down", {})
    desk.engine.gate.release(2)
    assert desk.intake.inbox.empty()


def test_texts_that_wait_have_a_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 5_000)
    desk.generate("a", "x" * 8_000)  # one alone always may
    desk.generate("b", "x")
    assert desk.next_event().code == "queue_full"
    desk.engine.gate.release()
    assert desk.next_item().request_id == "a"
    desk.generate("c", "x")
    desk.take(StateAction("s", "erase", "", 0))
    desk.engine.gate.release(2)
    assert {desk.next_item().request_id for _ in range(2)} == {"c", "s"}


def test_before_the_model_is_loaded_everything_is_refused() -> None:
    closed, line = Intake(), Line()
    for command in (Generate("g", ("a",), (BranchSpec(1),)), Tokenize("t", ("a",), True, True), GetSlots("s")):
        closed.take(line, command)  # type: ignore[arg-type]
        assert line.sent.get(timeout=DEADLINE) == Rejected(
            command.request_id, "loading", "the model is being loaded", {}
        )


@pytest.mark.parametrize("seed", range(20))
def test_every_request_ends_once_whenever_it_is_cancelled(seed: int) -> None:
    """The test plays the decode thread: a submitted request ends when it is cancelled."""
    random, desk = Random(seed), Desk()
    ids, ends = [str(number) for number in range(60)], Counter[str]()
    desk.engine.gate.release(60)
    for request_id in ids:
        desk.generate(request_id)
        if random.random() < 0.7:
            desk.take(*(Cancel(random.choice(ids[max(0, int(request_id) - 5) : int(request_id) + 1])) for _ in "ab"))
    for request_id in ids:
        desk.take(Cancel(request_id))
    desk.lose()
    running: dict[str, Any] = {}
    while not isinstance(item := desk.next_item(), DisconnectItem):
        if isinstance(item, SubmitItem):
            running[item.request_id] = item.request
        elif item.command.request_id in running:
            running.pop(item.command.request_id).close()
            ends[item.command.request_id] += 1
    while not desk.line.sent.empty():
        ends[desk.line.sent.get().request_id] += 1
    assert not running
    assert ends == Counter(ids)
    for thread in threading.enumerate():
        if thread.name == "requests":
            thread.join(DEADLINE)
    assert all(each.is_closed.is_set() for each in desk.engine.made)


# What the heartbeat sees -----------------------------------------------------------------------------------------------


def working(desk: Desk) -> list[Work]:
    return desk.intake.works()


def test_the_work_of_a_lane_is_seen_until_it_is_done(desk: Desk) -> None:
    assert working(desk) == []
    desk.generate("a", prompt="a" * 5000)
    desk.begun()
    [work] = working(desk)
    assert work.characters > 5000
    assert not work.encodes
    desk.engine.gate.release()
    desk.next_item()
    wait_for(lambda: not working(desk), "the lane waits")


def test_a_picture_that_begins_is_progress_and_those_that_wait_for_it_wait_for_nothing_else(desk: Desk) -> None:
    other = Line()
    desk.take(Generate("a", ("x",), (BranchSpec(1),), media=("unknown",)))
    desk.begun()
    [first] = working(desk)
    assert first.encodes
    desk.intake.take(other, Generate("b", ("x",), (BranchSpec(1),), media=("unknown",)))  # type: ignore[arg-type]
    desk.begun()
    assert len({work.progressed_at for work in working(desk)}) == 1
    before = working(desk)[0].progressed_at
    assert desk.engine.is_wanted()
    assert {work.progressed_at > before for work in working(desk)} == {True}


@pytest.mark.parametrize("leaves", ["client", "worker", "nobody"])
def test_work_that_never_ends_is_seen_whoever_has_left_and_its_request_refused_once(desk: Desk, leaves: str) -> None:
    desk.generate("a")
    desk.begun()
    if leaves == "client":
        desk.take(Cancel("a"))
    elif leaves == "worker":
        desk.lose()
    [work] = working(desk)
    for _ in range(2):
        work.refuse(InvalidRequest("too long"))
    assert desk.next_event().code == ("invalid_request" if leaves == "nobody" else "cancelled")
    assert desk.line.sent.empty()
    assert len(working(desk)) == 1


class TakingTurns(SlowEngine):
    """An engine whose requests are prepared in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = FairSemaphore(1)

    def prepare(self, command: Any, is_wanted: Any) -> Prepared:
        with self.turns:
            return super().prepare(command, is_wanted)


def test_a_request_that_waits_for_its_turn_makes_progress_and_is_alone_to_blame_once_it_has_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grammars of many requests wait longer than one may take; counted as hung, they would end the engine."""
    monkeypatch.setattr("srb.progress.LOOK_SECONDS", 0.001)
    desk.engine = TakingTurns()
    desk.intake.open(desk.engine)
    specs = (BranchSpec(0, sampling=SamplingParams(grammar="root ::= [a-z]")),)
    desk.take(Generate("first", ("a",), specs))
    desk.begun()
    [first] = working(desk)
    desk.take(Generate("second", ("a",), specs))
    wait_for(lambda: len(working(desk)) == 2, "the second waits")

    def waiting() -> float:
        [second] = [work for work in working(desk) if work.job.command.request_id == "second"]
        return second.progressed_at

    before = waiting()
    wait_for(lambda: waiting() > before, "to wait is progress")
    assert first in working(desk)
    desk.engine.gate.release()
    assert desk.begun() == "second"
    began = waiting()
    assert began > before
    desk.take(Tokenize("t", ("a",), True, True))
    assert desk.next_event().request_id == "t"
    assert waiting() == began
    desk.engine.gate.release()


def test_a_request_that_is_cancelled_while_it_waits_for_its_turn_is_not_prepared(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srb.progress.LOOK_SECONDS", 0.001)
    desk.engine = TakingTurns()
    desk.intake.open(desk.engine)
    specs = (BranchSpec(0, sampling=SamplingParams(grammar="root ::= [a-z]")),)
    desk.take(Generate("first", ("a",), specs))
    desk.begun()
    desk.take(Generate("second", ("a",), specs))
    wait_for(lambda: len(working(desk)) == 2, "the second waits")
    desk.take(Cancel("second"))
    assert desk.next_event().code == "cancelled"
    wait_for(lambda: len(working(desk)) == 1, "the second has left")
    assert desk.engine.begun.empty()
    desk.engine.gate.release()
