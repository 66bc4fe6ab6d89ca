"""Whether to draft: over steps of scripted seconds, drafts are added where they pay, and lose hardly any time elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.engine.draft_decision import DraftBudget, DraftDecision
from srb.engine.lookup import Chances

DEPTH = 8

Cost = Callable[[int], float]
Slow = Callable[[int, bool], float]  # of a step's number, and whether its size is new


@dataclass
class Run:
    """Steps of `n` branches whose every token is drafted rightly with one chance, and foreseen with another."""

    cost: Cost
    n: int = 1
    chance: float = 0.5
    told: float | None = None  # None: the true one
    noise: float = 0.0  # each step takes longer or shorter by a part of so much at most
    pass_cost: float = 0.0  # seconds of a draft model's pass; 0: drafts come from the text
    room: int = 31
    slow: Slow = lambda nth, is_new: 1.0  # times as long as usual that the nth step takes for which there are drafts

    def __post_init__(self) -> None:
        self.random = random.Random(1)
        self.decision = DraftDecision()
        self.seconds = self.without = 0.0
        self.drafted: list[int] = []  # in each step
        self.sizes: set[int] = set()  # of the steps with drafts
        self.tried = 0  # steps for which there were drafts

    def steps(self, count: int) -> Run:
        for _ in range(count):
            self._step()
        return self

    def _step(self) -> None:
        told = self.chance if self.told is None else self.told
        may_draft, spent, added = self.decision.begin(self.n), 0.0, 0
        depth = DEPTH if may_draft else 0
        if depth and self.pass_cost:
            depth = min(depth, self.decision.num_passes(self.n))
            if depth:
                least = self.decision.least_chance(self.n)
                depth = next((deep for deep in range(1, depth) if told ** (deep + 1) < least), depth)
                spent = self._noisy(self.pass_cost * depth) * self.slow(self.tried, False)
                self.decision.note_asked(self.n, depth, spent)
        if depth:
            chances = sorted((told ** (place + 1) for place in range(depth) for _ in range(self.n)), reverse=True)
            added = self.decision.count(chances[: self.room])
        accepted = sum(self._right(added // self.n + (branch < added % self.n)) for branch in range(self.n))
        slow = 1.0
        if added:
            slow = self.slow(self.tried, self.n + added not in self.sizes)
            self.sizes.add(self.n + added)
        seconds = self._noisy(self.cost(self.n + added)) * slow + spent
        self.decision.end(self.n + added, accepted, seconds)
        self.seconds += seconds
        self.without += self.cost(self.n) * (self.n + accepted) / self.n
        self.drafted.append(added)
        self.tried += bool(added or spent)

    def _right(self, depth: int) -> int:
        return next((place for place in range(depth) if self.random.random() >= self.chance), depth)

    def _noisy(self, seconds: float) -> float:
        return seconds * (1 + self.random.uniform(-self.noise, self.noise))

    @property
    def gain(self) -> float:
        return self.without / self.seconds

    def best_fixed(self) -> float:
        """Return how many times faster the best fixed number of drafted tokens for each branch is."""
        depths = range(self.room // self.n + 1)
        return max(
            sum(self.chance**place for place in range(depth + 1))
            * self.cost(self.n)
            / (self.cost(self.n * (1 + depth)) + depth * self.pass_cost)
            for depth in depths[: DEPTH + 1]
        )


def affine(slope: float) -> Cost:
    return lambda size: 1 + slope * (size - 1)


def stairs(size: int) -> float:
    """Return the seconds of steps that are computed four tokens at a time."""
    return 1 + 0.5 * ((size - 1) // 4)


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.6])
def test_drafts_end_soon_where_each_token_takes_as_long_as_a_step(n: int, noise: float, chance: float) -> None:
    run = Run(lambda size: float(size), n, chance, noise=noise).steps(1000)
    assert run.seconds <= 1.02 * run.without
    assert sum(drafted > 0 for drafted in run.drafted[50:]) < 100


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("cost", [affine(0.0), affine(0.1), affine(0.33), stairs])
@pytest.mark.parametrize("chance", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_drafts_are_nearly_as_good_as_the_best_fixed_number(n: int, cost: Cost, chance: float, noise: float) -> None:
    run = Run(cost, n, chance, noise=noise).steps(1500)
    best = run.best_fixed()
    assert run.gain > 1 + 0.85 * (best - 1) - 0.05
    assert run.gain > 0.98


@pytest.mark.parametrize("told", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 8])
def test_chances_that_are_foreseen_wrongly_lose_little(n: int, told: float) -> None:
    run = Run(affine(0.2), n, 0.1, told).steps(1500)
    assert run.seconds <= 1.01 * run.without + 7 * run.cost(n)


@given(
    slope=st.floats(0.0, 2.0),
    n=st.integers(1, 16),
    chance=st.floats(0.0, 1.0),
    told=st.floats(0.0, 1.0),
    pass_cost=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_whatever_is_foreseen_the_lost_time_has_a_bound(
    slope: float, n: int, chance: float, told: float, pass_cost: float
) -> None:
    run = Run(affine(slope), n, chance, told, pass_cost=pass_cost).steps(400)
    # What was saved before may be lost again; a bit more where tokens take longer than any before.
    assert run.seconds <= 1.01 * run.without + 10 * run.cost(n)


def test_a_text_that_stops_repeating_itself_loses_what_few_steps_take() -> None:
    run = Run(affine(0.1), 1, 0.95).steps(500)
    assert run.gain > 2
    before, without = run.seconds, run.without
    run.told, run.chance = 0.95, 0.0  # and it is not even noticed
    run.steps(500)
    assert run.seconds - before <= 1.01 * (run.without - without) + 18


def test_a_text_that_begins_to_repeat_itself_is_drafted_soon() -> None:
    run = Run(affine(0.1), 1, 0.02).steps(500)
    assert run.gain > 0.98
    run.chance = 0.95
    run.steps(100)
    assert sum(run.drafted[-50:]) > 150


def test_a_machine_that_becomes_slower_is_no_reason_to_stop_for_long() -> None:
    run = Run(affine(0.1), 1, 0.95).steps(300)
    run.cost = lambda size: 2 * affine(0.1)(size)
    run.steps(300)
    run.seconds = run.without = 0.0
    run.steps(300)
    assert run.gain > 1 + 0.8 * (run.best_fixed() - 1)


def test_single_slow_steps_do_not_end_drafts() -> None:
    run = Run(affine(0.1), 1, 0.9).steps(100)
    slow = random.Random(2)
    run.cost = lambda size: affine(0.1)(size) * (10 if slow.random() < 0.03 else 1)
    run.steps(1000)
    assert sum(drafted > 0 for drafted in run.drafted) > 900


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("factor", [3, 20, 400])
@pytest.mark.parametrize("nth", [0, 1, 5])
@pytest.mark.parametrize("pass_cost", [0.0, 0.08])
def test_a_slow_step_of_a_new_size_does_not_end_drafts(n: int, factor: float, nth: int, pass_cost: float) -> None:
    """A page fault or another program holds up a step with drafts, whose size was not or hardly measured before."""
    run = Run(affine(0.05), n, 0.9, pass_cost=pass_cost, slow=lambda step, _: factor if step == nth else 1.0).steps(50)
    assert sum(drafted > 0 for drafted in run.drafted) > 30
    run.steps(450)
    assert sum(drafted > 0 for drafted in run.drafted) > 400


@given(nth=st.integers(0, 60), factor=st.floats(1.0, 1000.0), n=st.integers(1, 8), chance=st.floats(0.7, 1.0))
def test_no_single_slow_step_ends_drafts(nth: int, factor: float, n: int, chance: float) -> None:
    run = Run(affine(0.05), n, chance, slow=lambda step, _: factor if step == nth else 1.0).steps(200)
    assert sum(drafted > 0 for drafted in run.drafted[-100:]) > 80


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("seconds", [20.0, 200.0])
def test_steps_that_are_always_slow_with_drafts_are_tried_twice(n: int, seconds: float) -> None:
    run = Run(lambda size: 1.0 if size == n else seconds, n, 0.3, 0.9).steps(1000)
    assert sum(drafted > 0 for drafted in run.drafted) == 2
    assert run.seconds <= run.without + 2 * seconds


def test_sizes_that_all_begin_slowly_lose_what_they_save_and_no_more() -> None:
    run = Run(affine(0.02), 2, 0.9, slow=lambda _, is_new: 20.0 if is_new else 1.0).steps(3000)
    assert run.seconds <= 1.005 * run.without + 6 + 2 * 30


@given(
    costs=st.lists(st.floats(1.0, 20.0), min_size=32, max_size=32),
    n=st.integers(1, 8),
    chance=st.floats(0.0, 1.0),
    told=st.floats(0.0, 1.0),
    slow=st.dictionaries(st.integers(0, 30), st.floats(1.0, 10.0), max_size=2),
)
def test_whatever_sizes_take_the_lost_time_has_a_bound(
    costs: list[float], n: int, chance: float, told: float, slow: dict[int, float]
) -> None:
    """Slow steps of some sizes are no chance: beside the budget, one that is owed and the next are lost at most."""
    costs[n - 1] = 1.0

    def cost(size: int) -> float:
        return costs[size - 1] if size <= len(costs) else 20.0

    run = Run(cost, n, chance, told, slow=lambda step, _: slow.get(step, 1.0)).steps(400)
    chances = sum(20.0 * factor for factor in slow.values())
    assert run.seconds <= 1.01 * run.without + 10 + 2 * 20 + chances


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_draft_model_that_pays_is_asked(n: int, noise: float) -> None:
    run = Run(affine(0.02), n, 0.85, noise=noise, pass_cost=0.08).steps(1000)
    assert run.gain > 1 + 0.8 * (run.best_fixed() - 1)


def jump(size: int) -> float:
    """Return the seconds of steps whose second token takes as long as the first, and those after it much less."""
    return 1.0 if size == 1 else 1.8 + 0.3 * (size - 2)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(("chance", "pass_cost"), [(0.9, 0.0), (0.95, 0.0), (0.9, 0.08), (0.95, 0.08), (0.95, 0.15)])
def test_drafts_that_pay_if_they_are_long_alone_are_long(chance: float, pass_cost: float, noise: float) -> None:
    run = Run(jump, 1, chance, noise=noise, pass_cost=pass_cost).steps(1500)
    assert run.best_fixed() > 1.1
    assert run.gain > 1 + 0.7 * (run.best_fixed() - 1)


@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize(("chance", "pass_cost"), [(0.0, 0.1), (0.3, 0.5), (1.0, 1.0), (0.9, 2.0)])
def test_a_draft_model_that_does_not_pay_is_hardly_asked(n: int, chance: float, pass_cost: float) -> None:
    run = Run(affine(0.1), n, chance, 0.9, pass_cost=pass_cost).steps(2000)
    assert run.seconds <= 1.01 * run.without + 7 * run.cost(n)
    assert sum(drafted > 0 for drafted in run.drafted) < 200


def test_a_draft_model_that_begins_to_pay_is_found() -> None:
    run = Run(affine(0.02), 1, 0.0, 0.8, pass_cost=0.08).steps(500)
    assert run.drafted[-100:].count(0) > 80
    run.chance = 0.9
    run.steps(1000)
    assert run.drafted[-100:].count(0) < 20


def test_a_budget_is_what_was_saved_and_a_share_of_the_time() -> None:
    budget = DraftBudget()
    assert budget.seconds == 0
    budget.note(1.0, 1.0)
    assert 6.0 < budget.seconds < 6.1
    budget.note(4.0, 1.0, saved=-5.0)
    assert 1.0 < budget.seconds < 1.1
    assert budget.is_low(1.0)
    for _ in range(200):
        budget.note(1.0, 1.0)
    assert 2.0 < budget.seconds < 2.1
    budget.note(1.0, 1.0, saved=100.0)
    assert budget.seconds == 16.0
    assert not budget.is_low(1.0)


def test_one_doubtful_loss_is_owed_until_drafts_have_paid_it() -> None:
    budget = DraftBudget()
    assert budget.weigh(-20.0, True) == 0
    assert budget.owed == 20.0
    assert budget.weigh(-1.0, False) == -1.0
    assert budget.weigh(2.0, True) == 2.0
    budget.note(0.0, 1.0, saved=17.0)  # of 6 + 17 seconds, 16 can be saved up
    assert (budget.seconds, budget.owed) == (16.0, 13.0)
    budget.note(0.0, 1.0, saved=20.0)
    assert (budget.seconds, budget.owed) == (16.0, 0.0)
    assert budget.weigh(-7.0, True) == -7.0  # the budget can well pay it
    assert budget.weigh(-9.0, True) == 0
    assert budget.weigh(-6.0, True) == -15.0  # twice is no chance
    assert budget.owed == 0


def test_chances_are_learned_by_kind_and_sooner_in_a_copy() -> None:
    chances = Chances([0.5, 0.5])
    for _ in range(200):
        chances.note(0, True)
    assert chances[0] > 0.97
    assert chances[1] == 0.5
    assert chances.mean > 0.9
    copy = chances.copy()
    for _ in range(5):
        chances.note(0, False)
        copy.note(0, False)
    assert copy[0] < chances[0] < 0.95
