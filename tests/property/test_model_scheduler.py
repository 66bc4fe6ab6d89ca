"""Walks of ModelScheduler: never too many engines, no model ends its requests or turn early, no wish is forgotten."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from srb.models.scheduler import Grant, ModelScheduler, Refuse, Start, State, Stop
from tests.walks import examples

NAMES = ["a", "b", "c", "d"]
SECONDS = 5.0


class World:
    """The engines and the calls around ModelScheduler, and the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.max_engines = self.random.randint(1, 3)
        self.turns = ModelScheduler(NAMES, self.max_engines, SECONDS)
        self.engines: dict[str, str] = {}  # starting, running or ending
        self.loaded_at: dict[str, float] = {}
        self.waiting: dict[str, str] = {}
        self.held: dict[str, str] = {}
        self.done: Counter[str] = Counter()
        self.unloaded: set[str] = set()
        self.count = 0
        self.started: list[str] = []  # in the last plan

    def plan(self) -> None:
        before = {each.name: each.state for each in self.turns.models}
        self.started = []
        for action in self.turns.plan(self.now):
            match action:
                case Start(name):
                    assert name not in self.engines
                    self.started.append(name)
                    self.engines[name] = "starting"
                case Stop(name):
                    assert name not in self.held.values(), "a model ends under its requests"
                    assert self.engines[name] in ("starting", "running")
                    self.engines[name] = "ending"
                case Grant(id_):
                    self.held[id_] = self.waiting.pop(id_)
                    assert self.engines[self.held[id_]] == "running"
                case Refuse(id_, reason):
                    assert reason
                    del self.waiting[id_]
                    self.done["refused"] += 1
        assert len(self.engines) <= self.max_engines
        for each in self.turns.models:
            if each.state is State.DRAINING and before[each.name] is State.LOADED and each.held:
                assert self.now - self.loaded_at[each.name] >= SECONDS - 1e-6 or each.name in self.unloaded
        assert {each.name for each in self.turns.models if each.has_engine} == set(self.engines)

    def ask(self) -> None:
        self.count += 1
        id_, name = str(self.count), self.random.choice(NAMES)
        self.waiting[id_] = name
        if self.random.random() < 0.5:  # its file has changed
            self.turns.retry(name)
        self.turns.want(id_, name, self.now)

    def finish(self, *, also_waiting: bool) -> None:
        ids = [*self.held, *(self.waiting if also_waiting else ())]
        if ids:
            id_ = self.random.choice(ids)
            self.done["answered" if id_ in self.held else "left"] += 1
            self.held.pop(id_, None)
            self.waiting.pop(id_, None)
            self.turns.leave(id_, self.now)

    def move_engine(self, *, may_fail: bool) -> None:
        if not self.engines:
            return
        name = self.random.choice(list(self.engines))
        fails = may_fail and self.random.random() < 0.2
        if self.engines[name] == "starting" and not fails:
            self.engines[name], self.loaded_at[name] = "running", self.now
            self.unloaded.discard(name)
            self.turns.ready(name, self.now)
        elif self.engines[name] == "ending" or fails:
            del self.engines[name]
            for id_ in [id_ for id_, held in self.held.items() if held == name]:
                del self.held[id_]
                self.turns.leave(id_, self.now)
            self.turns.ended(name, self.now, "it broke", is_final=self.random.random() < 0.3)

    def crowd(self) -> None:
        """Say of a model that was to be started that the memory has no room for it, as is known only beside another."""
        for name in self.started:
            if self.engines.get(name) == "starting" and len(self.engines) > 1 and self.random.random() < 0.4:
                del self.engines[name]
                self.turns.no_room(name)

    def command(self) -> None:
        name = self.random.choice(NAMES)
        if self.random.random() < 0.5:
            self.turns.load(name, self.now)
        else:
            self.unloaded.add(name)
            self.turns.unload(name)

    def step(self) -> None:
        move = self.random.random()
        if move < 0.35:
            self.ask()
        elif move < 0.6:
            self.finish(also_waiting=self.random.random() < 0.2)
        elif move < 0.9:
            self.move_engine(may_fail=True)
        elif move < 0.93:
            self.command()
        self.now += self.random.choice([0.0, 0.01, 0.1, 1.0])
        self.plan()
        self.crowd()

    def settle(self) -> None:
        """Let calls end and engines move, until nobody waits."""
        for _ in range(2000):
            if not self.waiting and not self.held:
                return
            self.finish(also_waiting=False)
            self.move_engine(may_fail=False)
            self.plan()
            wake_at = self.turns.wake_at(self.now)
            self.now = max(self.now + 0.01, wake_at) if wake_at is not None else self.now + 0.01
            self.plan()
        raise AssertionError(f"calls wait for ever: {self.turns!r}")


@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_wish_is_served_or_refused_and_no_turn_ends_early(seed: int) -> None:
    world = World(seed)
    for _ in range(400):
        world.step()
    world.settle()
    assert sum(world.done.values()) <= world.count
    assert world.done["answered"] > 10
