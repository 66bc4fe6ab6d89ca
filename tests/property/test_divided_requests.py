"""A request that is divided among engines has the events of one on a single engine, in whatever order the parts speak."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srb.cluster.split import Whole, can_divide, divide, first_of, unite
from srb.config.sampling_params import SamplingParams
from srb.engine.fake import FakeModel
from srb.errors import EngineRestarted
from srb.wire.commands import BranchSpec, Explore, Generate, GetRequest
from srb.wire.events import Accepted, Delta, Done, Failed, PromptDone
from tests.engine_helpers import Driver, Outcome
from tests.walks import examples

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
        self.parts = divide(command, sequences)
        self.whole = Whole(command.request_id, self.parts.values())
        self.outcome = Outcome()
        self._waiting: dict[str, list[Any]] = {name: [] for name in self.parts}
        for name, part in self.parts.items():
            engine = self.drivers[name].engine
            self._waiting[name] += engine.submit(engine.prepare(part))

    def advance(self, turns: int = 10**6) -> None:
        """Let parts step and speak, in any order, for so many turns or until nothing is left to say."""
        for _ in range(turns):
            live = [name for name in self._waiting if self._waiting[name] or self.drivers[name].engine.has_work]
            if not live:
                return
            name = self.chance.choice(live)
            if self._waiting[name] and self.chance.random() < 0.7:
                self._say([self._waiting[name].pop(0)])
            elif self.drivers[name].engine.has_work:
                self._waiting[name] += self.drivers[name].engine.step()

    def _say(self, events: list[Any]) -> None:
        for event in events:
            for said in self.whole.take(event):
                self.outcome.take(said)

    def lose(self, name: str) -> None:
        del self._waiting[name], self.drivers[name]
        self._say([Failed(self.parts[name].request_id, EngineRestarted.code, "lost")])

    def described(self) -> dict[str, Any]:
        """Return the request's description, from its parts that have not ended."""
        values = []
        for name, waiting in self._waiting.items():
            self._say(waiting)
            waiting.clear()
            if (part := self.parts[name].request_id) in self.drivers[name].engine._requests:
                values.append(self.drivers[name].engine.serve_query(GetRequest("q", part)))
        return unite(values) if values else {}


SEQUENCES = st.lists(st.integers(2, 6), min_size=2, max_size=4)


def named(sequences: list[int]) -> dict[str, int]:
    return {f"r{number}": count for number, count in enumerate(sequences)}


@settings(max_examples=examples(25))
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


@settings(max_examples=examples(25))
@given(SEQUENCES, st.integers(4, 20), st.integers(0, 60), st.integers(0, 10**6))
def test_a_lost_replica_ends_its_own_branches_alone(sequences: list[int], n: int, turns: int, seed: int) -> None:
    command = request(n, seed=seed)
    cluster = Cluster(command, named(sequences), random.Random(seed))
    cluster.advance(turns)
    parts = cluster.parts
    lost = cluster.chance.choice(list(parts))
    first = first_of(parts[lost].request_id)
    own = set(range(first, first + len(parts[lost].branches)))
    had_ended = own & cluster.outcome.ends.keys()
    is_over = parts[lost].request_id not in cluster.whole.open_parts
    cluster.lose(lost)
    cluster.advance()
    alone, outcome = on_one_engine(command), cluster.outcome
    assert len(outcome.terminal) == 1, "it ends, and once"
    if len(parts) == 1:
        return
    was_running = set() if is_over else own - had_ended
    failed = {place for place, end in outcome.ends.items() if end.code == EngineRestarted.code}
    assert failed == was_running
    assert outcome.ends.keys() == set(range(n))
    for place in set(range(n)) - failed:
        assert outcome.texts[place] == alone.texts[place]


@settings(max_examples=examples(25))
@given(SEQUENCES, st.integers(4, 20), st.integers(0, 60), st.integers(0, 10**6))
def test_the_description_has_the_text_that_was_sent(sequences: list[int], n: int, turns: int, seed: int) -> None:
    cluster = Cluster(request(n, seed=seed), named(sequences), random.Random(seed))
    cluster.advance(turns)
    described = cluster.described()
    for branch in described.get("branches", []):
        assert branch["text"] == cluster.outcome.texts.get(branch["index"], "")
        assert branch["seed"] == (seed + branch["index"]) % (2**32 - 1)
        if "ended" in branch:
            assert branch["ended"]["index"] == branch["index"]
            assert branch["ended"]["request_id"] == "whole"


def test_the_first_part_has_what_is_said_once_and_each_has_branches_that_follow_each_other() -> None:
    parts = divide(request(10, report_progress=True, state="chapter"), {"a": 6, "b": 6})
    assert [part.report_progress for part in parts.values()] == [True, False]
    assert [part.state for part in parts.values()] == ["chapter", ""]
    assert [part.request_id for part in parts.values()] == ["whole+0", "whole+5"]
    assert [[spec.seed for spec in part.branches] for part in parts.values()] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert [len(part.branches) for part in divide(request(9), {"a": 2, "b": 4}).values()] == [4, 5]


def test_branches_that_look_at_each_other_or_may_be_joined_stay_together() -> None:
    command = request(30)
    assert can_divide(command)
    for change in (
        {"distinct_first": True},
        {"distinct_words": True},
        {"sibling_penalty": 1.0},
        {"explore": Explore()},
        {"prompt_logprobs": True},
        {"linger": 5.0},
    ):
        assert not can_divide(replace(command, **change))
