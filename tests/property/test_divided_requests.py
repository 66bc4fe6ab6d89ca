"""A request that is divided among engines has the events of one on a single engine, in whatever order the parts speak."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.cluster.split import Whole, can_divide, divide, for_part, of_whole, unite
from srb.engine.fake import FakeModel
from srb.errors import EngineRestarted
from srb.protocol import (
    Accepted,
    AddBranches,
    BranchEnded,
    BranchSpec,
    Delta,
    Done,
    Explore,
    Generate,
    GetRequest,
    PromptDone,
    Reply,
    Resting,
    SamplingParams,
)
from tests.engine_helpers import Driver, Outcome

PROMPT = "The lighthouse keeper had not spoken to anyone for nine days."


def request(n: int, seed: int = 1, max_tokens: int = 12, **options: Any) -> Generate:
    specs = tuple(BranchSpec(seed + place, max_tokens, sampling=SamplingParams()) for place in range(n))
    return Generate("whole", (PROMPT,), specs, can_grow=True, **options)


def on_one_engine(command: Generate) -> Outcome:
    driver = Driver(FakeModel(n_ctx=100_000, n_seq_max=256))
    driver.take(driver.engine.submit(driver.engine.prepare(command)))
    while driver.engine.has_work:
        driver.take(driver.engine.step())
    return driver.outcomes[command.request_id]


class Cluster:
    """Engines, and a divided request on them whose parts advance in a random order."""

    def __init__(self, command: Generate, sequences: Mapping[str, int], chance: random.Random) -> None:
        self.drivers = {name: Driver(FakeModel(n_ctx=100_000, n_seq_max=number)) for name, number in sequences.items()}
        self.chance = chance
        self.command = command
        parts = divide(command, sequences)
        self.whole = Whole.of(command, parts)
        self.readers = [(self.whole, Outcome())]
        self._waiting: dict[str, list[Any]] = {name: [] for name in parts}
        for name, part in parts.items():
            engine = self.drivers[name].engine
            self._waiting[name] += engine.submit(engine.prepare(part))

    @property
    def outcome(self) -> Outcome:
        return self.readers[0][1]

    def advance(self, turns: int = 10**6) -> None:
        """Let parts step and speak, in any order, for so many turns or until nothing is left to say."""
        for _ in range(turns):
            live = [name for name in self._waiting if self._waiting[name] or self.drivers[name].engine.has_work]
            if not live:
                return
            name = self.chance.choice(live)
            if self._waiting[name] and self.chance.random() < 0.7:
                self._say(name, [self._waiting[name].pop(0)])
            elif self.drivers[name].engine.has_work:
                self._waiting[name] += self.drivers[name].engine.step()

    def _say(self, name: str, events: list[Any]) -> None:
        for whole, outcome in self.readers:
            for event in events:
                for said in whole.take(name, event):
                    outcome.take(said)

    def say_all(self) -> None:
        for name, waiting in self._waiting.items():
            self._say(name, waiting)
            waiting.clear()

    def lose(self, name: str) -> None:
        del self._waiting[name], self.drivers[name]
        for whole, outcome in self.readers:
            for said in whole.lose(name, EngineRestarted.code, "lost"):
                outcome.take(said)

    def described(self) -> dict[str, Any]:
        return {
            name: self.drivers[name].engine.serve_query(GetRequest("q", "whole"))
            for name in self._waiting
            if "whole" in self.drivers[name].engine._registry
        }

    def join(self) -> Outcome:
        """Let another reader join; return its outcome, which begins with the texts so far."""
        self.say_all()
        described = {name: self.drivers[name].engine.attach("whole", "") for name in self._waiting}
        snapshot, outcome = unite(list(described.values())), Outcome()
        for branch in snapshot["branches"]:
            outcome.texts[branch["index"]] = branch["text"]
            if "ended" in branch:
                outcome.ends[branch["index"]] = BranchEnded(**branch["ended"])
        self.readers.append((Whole.joined("whole", described), outcome))
        return outcome

    def add(self, command: AddBranches) -> dict[str, Any]:
        described = self.described()
        name, changed = for_part(command, described, self.whole.total)
        engine = self.drivers[name].engine
        events = engine.submit(engine.prepare(changed))
        [reply] = [event for event in events if isinstance(event, Reply)]
        self._waiting[name] += [event for event in events if not isinstance(event, Reply)]
        value: dict[str, Any] = of_whole(changed, reply.value, described[name])
        return value


SEQUENCES = st.lists(st.integers(2, 6), min_size=2, max_size=4)


def named(sequences: list[int]) -> dict[str, int]:
    return {f"r{number}": count for number, count in enumerate(sequences)}


def written(outcome: Outcome) -> dict[int, str]:
    """Return the texts of the branches that have any."""
    return {index: text for index, text in outcome.texts.items() if text}


@settings(max_examples=25)
@given(SEQUENCES, st.integers(2, 30), st.integers(0, 10**6))
def test_branches_have_the_texts_of_one_engine(sequences: list[int], n: int, seed: int) -> None:
    command = request(n, seed=seed)
    cluster = Cluster(command, named(sequences), random.Random(seed))
    cluster.advance()
    alone, outcome = on_one_engine(command), cluster.outcome
    assert outcome.texts == alone.texts
    assert outcome.tokens == alone.tokens
    assert {place: (end.reason, end.length) for place, end in outcome.ends.items()} == {
        place: (end.reason, end.length) for place, end in alone.ends.items()
    }
    kinds = [type(event) for event in outcome.events]
    assert kinds[0] is Accepted
    assert kinds[-1] is Done
    assert kinds.count(Accepted) == kinds.count(PromptDone) == kinds.count(Done) == 1
    assert kinds.index(PromptDone) < kinds.index(Delta)
    [done], [expected] = outcome.terminal, alone.terminal
    assert (done.prompt_tokens, done.completion_tokens) == (expected.prompt_tokens, expected.completion_tokens)


@settings(max_examples=25)
@given(SEQUENCES, st.integers(4, 20), st.integers(0, 60), st.integers(0, 10**6))
def test_a_lost_replica_ends_its_own_branches_alone(sequences: list[int], n: int, turns: int, seed: int) -> None:
    command = request(n, seed=seed)
    cluster = Cluster(command, named(sequences), random.Random(seed))
    cluster.advance(turns)
    parts = cluster.whole.parts
    lost = cluster.chance.choice(list(parts))
    was_running = set(parts[lost].running)
    cluster.lose(lost)
    cluster.advance()
    alone, outcome = on_one_engine(command), cluster.outcome
    assert len(outcome.terminal) == 1, "it ends, and once"
    if len(parts) == 1:
        return
    failed = {place for place, end in outcome.ends.items() if end.code == EngineRestarted.code}
    assert failed == was_running
    assert outcome.ends.keys() == set(range(n))
    for place in set(range(n)) - failed:
        assert outcome.texts[place] == alone.texts[place]


@settings(max_examples=25)
@given(SEQUENCES, st.integers(4, 20), st.integers(0, 60), st.integers(0, 10**6))
def test_a_reader_that_joins_reads_on_where_the_description_ends(
    sequences: list[int], n: int, turns: int, seed: int
) -> None:
    cluster = Cluster(request(n, seed=seed, linger=5.0), named(sequences), random.Random(seed))
    cluster.advance(turns)
    joined = cluster.join()
    cluster.advance()
    assert written(joined) == written(cluster.outcome)
    assert joined.ends == cluster.outcome.ends
    assert cluster.outcome.rests
    rests = [event for event in cluster.outcome.events if isinstance(event, Resting)]
    assert len(rests) == 1
    assert rests[0].completion_tokens == sum(end.length for end in cluster.outcome.ends.values())


@settings(max_examples=25)
@given(SEQUENCES, st.integers(3, 12), st.integers(0, 40), st.integers(0, 10**6))
def test_added_branches_follow_the_others_and_forks_are_beside_their_origin(
    sequences: list[int], n: int, turns: int, seed: int
) -> None:
    cluster = Cluster(request(n, seed=seed, linger=5.0), named(sequences), random.Random(seed))
    cluster.advance(turns)
    cluster.say_all()
    added = cluster.add(AddBranches("add", "whole", ((None, (), (), ()),) * 2))
    assert added == {"indices": [n, n + 1], "seeds": [(seed + n) % (2**32 - 1), (seed + n + 1) % (2**32 - 1)]}
    origin = cluster.chance.randrange(n)
    forked = cluster.add(AddBranches("fork", "whole", ((None, (), (), ()),), origin=origin))
    assert forked["indices"] == [n + 2]
    joined = cluster.join()
    cluster.advance()
    outcome = cluster.outcome
    assert outcome.ends.keys() == set(range(n + 3))
    alone = on_one_engine(request(n + 2, seed=seed, linger=5.0))
    for place in range(n + 2):
        assert outcome.texts[place] == alone.texts[place], "an added branch is what it would be from the beginning"
    assert written(joined) == written(outcome)
    described = unite(list(cluster.described().values()))
    assert [branch["index"] for branch in described["branches"]] == list(range(n + 3))
    assert [branch["seed"] for branch in described["branches"]][: n + 2] == [seed + place for place in range(n + 2)]
    assert described["branches"][n + 2]["origin"] == origin


def test_few_replicas_are_used_and_the_first_has_what_is_said_once() -> None:
    parts = divide(request(10, report_progress=True, state="chapter"), {"a": 6, "b": 6, "c": 6})
    assert [len(part.branches) for part in parts.values()] == [5, 5]
    assert [part.report_progress for part in parts.values()] == [True, False]
    assert [part.state for part in parts.values()] == ["chapter", ""]
    assert [spec.place for spec in parts["a"].branches] == [0, 2, 4, 6, 8]
    assert [len(part.branches) for part in divide(request(9), {"a": 2, "b": 4}).values()] == [4, 5]


def test_text_waits_for_the_prompt_where_its_log_probabilities_are_asked_for() -> None:
    command = request(6, prompt_logprobs=True)
    cluster = Cluster(command, {"a": 3, "b": 3}, random.Random(1))
    cluster.say_all()
    while cluster.drivers["b"].engine.has_work:
        cluster._say("b", cluster.drivers["b"].engine.step())
    assert [type(event) for event in cluster.outcome.events] == [Accepted]
    cluster.advance()
    kinds = [type(event).__name__ for event in cluster.outcome.events]
    assert kinds.index("PromptLogprobs") < kinds.index("PromptDone") < kinds.index("Delta")
    assert cluster.outcome.texts == on_one_engine(command).texts


def test_branches_that_look_at_each_other_stay_together() -> None:
    command = request(30)
    assert can_divide(command)
    for change in (
        {"distinct_first": True},
        {"distinct_words": True},
        {"sibling_penalty": 1.0},
        {"explore": Explore()},
    ):
        assert not can_divide(replace(command, **change))
