"""Walks over the decode loop: workers come and die between two steps, requests rest, controls come after long absences.

The oracle knows who reads what and since when, from commands and answers alone. A request lives for as long as it was
promised, a refusal changes nothing, each reader misses no word, and nothing is logged as an error.
"""

from __future__ import annotations

import itertools
import logging
import queue
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.fake import FakeModel
from srb.engine.process.intake import CancelItem, DisconnectItem, QueryItem, SubmitItem
from srb.engine.process.loop import DecodeLoop
from srb.errors import SRBError
from srb.wire.commands import (
    AddBranches,
    Attach,
    BranchSpec,
    Cancel,
    ChangeBranch,
    Generate,
    GetRequest,
    StopBranches,
)
from srb.wire.events import TERMINAL, Accepted, Attached, BranchAdded, Delta, Rejected, Reply
from tests.engine_helpers import plain
from tests.walks import examples

EPSILON = 1e-6
AT = st.sampled_from([0, 0, 1])  # the number of a worker
LINGER = st.sampled_from([0.0, 0.0, 4.0, 60.0])


@dataclass(eq=False)
class Line:
    """A worker's connection, and what it was sent."""

    number: int

    events: list[Any] = field(default_factory=list, repr=False)

    def send(self, events: Sequence[Any]) -> None:
        self.events += events


class Errors(logging.Handler):
    """What is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@dataclass
class Known:
    """What the oracle knows of a request that has been accepted."""

    linger: float
    came_at: float
    readers: set[Line]
    left_at: float = 0.0  # when the last reader left
    wanted_at: float = 0.0  # when somebody last joined, or gave it more to write
    rested_at: float = 0.0  # when it was first seen resting, in the present rest
    rests: bool = False
    may_go: bool = False  # somebody has ended it, or it is over and does not linger

    def must_live_at(self, now: float) -> bool:
        """Whether nobody may have ended the request by itself so far."""
        if self.may_go:
            return False
        if self.readers and not self.rests:
            return True
        return self.linger > 0 and now < self.ends_at - EPSILON

    @property
    def ends_at(self) -> float:
        """The time at which the request has lingered for long enough, if nothing happens before."""
        return max(self.came_at, self.left_at, self.wanted_at, self.rested_at) + self.linger


Act = Callable[[dict[str, Any]], None]


class LoopWalk(RuleBasedStateMachine):
    @initialize(
        n_ctx=st.sampled_from([64, 200, 4096]),
        n_seq_max=st.integers(2, 8),
        max_queue=st.integers(1, 4),
        max_running=st.sampled_from([0, 0, 1, 2]),
        decodes_ahead=st.booleans(),
        request_timeout=st.sampled_from([0, 0, 40]),
        first=st.lists(st.tuples(AT, st.sampled_from([1, 200]), LINGER), max_size=3),
    )
    def begin(
        self,
        n_ctx: int,
        n_seq_max: int,
        max_queue: int,
        max_running: int,
        decodes_ahead: bool,
        request_timeout: int,
        first: list[tuple[int, int, float]],
    ) -> None:
        self.now = 0.0
        model = FakeModel(n_ctx=n_ctx, n_seq_max=n_seq_max, decodes_ahead=decodes_ahead)
        options = EngineOptions(
            max_queue=max_queue, max_running=max_running, request_timeout=request_timeout, queue_timeout=0
        )
        self.engine = Engine(model, options, clock=lambda: self.now)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.loop = DecodeLoop(self.engine, self.inbox)
        self.workers = [Line(1), Line(2)]
        self.probe = Line(0)
        self.lines = [*self.workers, self.probe]  # also those that were lost
        self.known: dict[str, Known] = {}
        self.acts: list[Act] = []  # what the oracle learns from the answers of the next turn, in the order of the items
        self.seen: dict[Line, int] = defaultdict(int)  # events of a line that the oracle has read
        self.texts: dict[tuple[Line, str], dict[int, str]] = {}  # that a reader has gathered
        self.ids = (f"r{number}" for number in itertools.count())
        self.asked = (f"c{number}" for number in itertools.count())
        self.errors = Errors()
        self.log = logging.getLogger("srb.engine")
        self.log.addHandler(self.errors)
        for at, max_tokens, linger in [
            (0, 200, 0.0),
            (0, 1, 4.0),
            *first,
        ]:  # one that runs and one that rests, as with a writer
            self.submit(at, (1, 2), 1, max_tokens, linger, 0, 0)
        self.turns(3)

    # ---- items

    @rule(
        at=AT,
        prompt=st.lists(st.integers(0, 20), min_size=1, max_size=12).map(tuple),
        n=st.integers(1, 4),
        max_tokens=st.sampled_from([1, 2, 5, 200]),
        linger=LINGER,
        max_lingering=st.sampled_from([0, 0, 1]),
        max_unread=st.sampled_from([0, 0, 2]),
    )
    def submit(
        self,
        at: int,
        prompt: tuple[int, ...],
        n: int,
        max_tokens: int,
        linger: float,
        max_lingering: int,
        max_unread: int,
    ) -> None:
        worker, request_id = self.workers[at], next(self.ids)
        specs = tuple(BranchSpec(seed, max_tokens, sampling=SamplingParams(ignore_eos=True)) for seed in range(n))
        limits = {"max_lingering": max_lingering, "max_unread": max_unread}
        command = Generate(request_id, prompt, specs, linger=linger, can_grow=True, owner="o", **limits)
        try:
            request = self.engine.prepare(command)
        except SRBError:
            return
        self._compared(SubmitItem(worker, request_id, request), request_id, request_id)  # type: ignore[arg-type]

        def learn(answers: dict[str, Any]) -> None:
            if isinstance(answers[request_id], Accepted):
                self.known[request_id] = Known(linger, self.now, {worker})

        self.acts.append(learn)

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        at=AT,
        index=st.integers(0, 3),
        more=st.integers(-1, 9),
        max_running=st.sampled_from([0, 0, 1]),
    )
    def change(self, data: st.DataObject, at: int, index: int, more: int, max_running: int) -> None:
        target, name = self._any(data), next(self.asked)
        command = ChangeBranch(name, target, index, more=more, max_running=max_running)
        self._compared(QueryItem(self.workers[at], command), name, target)  # type: ignore[arg-type]
        self._wanted_by(name, target)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), at=AT, origin=st.none() | st.integers(0, 2), count=st.integers(1, 3))
    def add(self, data: st.DataObject, at: int, origin: int | None, count: int) -> None:
        target, name = self._any(data), next(self.asked)
        try:
            growth = self.engine.prepare(AddBranches(name, target, (plain(),) * count, origin=origin))
        except SRBError:
            return
        self._compared(SubmitItem(self.workers[at], name, growth), name, target)  # type: ignore[arg-type]
        self._wanted_by(name, target)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), at=AT)
    def attach(self, data: st.DataObject, at: int) -> None:
        worker, target, name = self.workers[at], self._any(data), next(self.asked)
        self.inbox.put(QueryItem(worker, Attach(name, target)))  # type: ignore[arg-type]

        def learn(answers: dict[str, Any]) -> None:
            if isinstance(answers[name], Attached):
                self.known[target].readers.add(worker)
                self.known[target].wanted_at = self.now

        self.acts.append(learn)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), at=AT, leaves=st.booleans(), index=st.none() | st.integers(0, 2))
    def cancel(self, data: st.DataObject, at: int, leaves: bool, index: int | None) -> None:
        worker, target = self.workers[at], self._any(data)
        self.inbox.put(CancelItem(worker, Cancel(target, None if leaves else index, leaves=leaves)))  # type: ignore[arg-type]

        def learn(_: dict[str, Any]) -> None:
            known = self.known[target]
            if worker in known.readers and leaves:
                self._leaves(target, worker)
            elif worker in known.readers and index is None:
                known.may_go = True

        self.acts.append(learn)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), at=AT, index=st.none() | st.integers(0, 2))
    def stop(self, data: st.DataObject, at: int, index: int | None) -> None:
        target, name = self._any(data), next(self.asked)
        self._compared(QueryItem(self.workers[at], StopBranches(name, target, index=index)), name, target)  # type: ignore[arg-type]

        def learn(answers: dict[str, Any]) -> None:
            if isinstance(answers[name], Reply) and index is None:
                self.known[target].may_go = True

        self.acts.append(learn)

    @rule(data=st.data(), at=AT)
    def lose(self, data: st.DataObject, at: int) -> None:
        """A worker dies during a step that may take long; another one takes its place."""
        worker = self.workers[at]
        self._pass_time(data)
        self.inbox.put(DisconnectItem(worker))  # type: ignore[arg-type]
        self.workers[at] = Line(len(self.lines))
        self.lines.append(self.workers[at])

        def learn(_: dict[str, Any]) -> None:
            for target, known in self.known.items():
                if worker in known.readers:
                    self._leaves(target, worker)

        self.acts.append(learn)

    # ---- time

    @rule(times=st.integers(1, 6))
    def turns(self, times: int) -> None:
        for _ in range(times):
            self._turn()

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self._turn()
        self._pass_time(data)

    def _pass_time(self, data: st.DataObject) -> None:
        """Go on to a moment in which something may be decided: shortly before or after a request may end, or now."""
        ends = [known.ends_at for request_id, known in self.known.items() if request_id in self.engine._requests]
        moments = sorted({end + more for end in ends for more in (-0.5, 0.5) if end + more > self.now})
        self.now = data.draw(st.sampled_from([self.now, self.now + 0.5, *moments, *moments]))

    def _turn(self) -> None:
        before = {request_id for request_id in self.known if request_id in self.engine._requests}
        due = {request_id for request_id in before if not self.known[request_id].must_live_at(self.now)}
        assert self.loop.turn(wait=False)
        answers: dict[str, Any] = {}
        ended: set[str] = set()
        for line in self.lines:
            for event in line.events[self.seen[line] :]:
                self._read(line, event, answers, ended)
            self.seen[line] = len(line.events)
        for act in self.acts:
            act(answers)
        self.acts.clear()
        for request_id, known in self.known.items():
            is_idle = request_id in self.engine._requests.idle
            if is_idle and not known.rests:
                known.rested_at = self.now
            if request_id in self.engine._requests:
                known.rests = is_idle
                known.may_go |= not known.linger and not known.readers
            elif request_id in before:
                may_go = request_id in due or (request_id in ended and not known.linger)
                assert may_go or not known.must_live_at(self.now), f"{request_id} ended too early: {known}, {self.now}"

    def _read(self, line: Line, event: Any, answers: dict[str, Any], ended: set[str]) -> None:
        """Gather what a reader has read of a request."""
        if isinstance(event, Accepted | Rejected | Reply | Attached):
            answers[event.request_id] = event
        if isinstance(event, Attached):
            told = {branch["index"]: branch["text"] for branch in event.value["branches"]}
            self.texts.setdefault((line, event.target), defaultdict(str)).clear()
            self.texts[line, event.target].update(told)
        text = self.texts.setdefault((line, event.request_id), defaultdict(str))
        if isinstance(event, Delta) or (isinstance(event, BranchAdded) and not event.resumed):
            text[event.index] += event.text
        elif isinstance(event, TERMINAL):
            ended.add(event.request_id)

    # ---- what always holds

    @invariant()
    def nothing_is_logged_as_an_error(self) -> None:
        assert not getattr(self, "errors", Errors()).texts, self.errors.texts

    @invariant()
    def engine_and_loop_agree(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.engine.check_invariants()
        if self.acts:
            return
        for request_id, readers in self.loop._readers.items():
            assert request_id in self.engine._requests, f"{request_id} has readers and has ended"
            assert set(readers) == self.known[request_id].readers, request_id  # type: ignore[comparison-overlap]
        for request in self.engine._requests:
            assert request.request_id in self.loop._readers, f"{request!r} has nobody to send to"
            assert request.is_unread == (not self.known[request.request_id].readers), repr(request)
            described = self.engine._life.steering.describe(request)
            for line in self.known[request.request_id].readers:
                text = self.texts[line, request.request_id]
                for branch in described["branches"]:
                    assert text[branch["index"]] == branch["text"], f"{request!r}: a reader has missed text"

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        try:
            for _ in range(10_000):
                self._turn()
                if not self.engine.has_work and self.inbox.empty():
                    break
            assert not self.engine.has_work, f"{self.engine.stats()}"
            self.now += 1000
            self._turn()
            assert not list(self.engine._requests)
            assert not self.loop._readers
            for (line, request_id), _ in self.texts.items():
                ends = [each for each in line.events if isinstance(each, TERMINAL) and each.request_id == request_id]
                reads = request_id in self.known and line in self.known[request_id].readers
                assert reads <= len(ends) <= 1, f"{line} of {request_id}: {ends}"
            assert self.engine.model.open_samplers == 0  # type: ignore[attr-defined]
            self.nothing_is_logged_as_an_error()
        finally:
            self.log.removeHandler(self.errors)

    # ---- help

    def _any(self, data: st.DataObject) -> str:
        """Return one of the last requests, which may have ended."""
        return data.draw(st.sampled_from(list(self.known)[-6:]))

    def _leaves(self, target: str, worker: Line) -> None:
        known = self.known[target]
        known.readers.discard(worker)
        if not known.readers:
            known.left_at = self.now

    def _wanted_by(self, name: str, target: str) -> None:
        def learn(answers: dict[str, Any]) -> None:
            if isinstance(answers[name], Reply):
                self.known[target].wanted_at = self.now

        self.acts.append(learn)

    def _compared(self, item: Any, name: str, target: str) -> None:
        """Put an item into the inbox between two looks at all other requests: if it is refused they are equal."""
        others = [request_id for request_id in self.known if request_id != target]
        looks = [[next(self.asked) for _ in others] for _ in range(2)]
        for names, middle in zip(looks, (item, None), strict=True):
            for look, other in zip(names, others, strict=True):
                self.inbox.put(QueryItem(self.probe, GetRequest(look, other)))  # type: ignore[arg-type]
            if middle is not None:
                self.inbox.put(middle)

        def learn(answers: dict[str, Any]) -> None:
            if isinstance(answers[name], Rejected):
                before, after = ([_without_age(answers[look]) for look in names] for names in looks)
                assert before == after, f"{item} was refused ({answers[name].message}), and changed another request"

        self.acts.append(learn)


def _without_age(answer: Any) -> Any:
    return {**answer.value, "age": 0} if isinstance(answer, Reply) else answer.code


LoopWalk.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestLoopWalk = pytest.mark.timeout(600)(LoopWalk.TestCase)
