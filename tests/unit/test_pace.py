"""Prompts beside branches, and one person's branches beside another's, get what a step has time for, and never nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.media import Vectors
from srb.engine.model import Batch, Blob, DecodeStatus, LoraScales
from srb.engine.pace import FIRST, LEAST, Pace
from srb.engine.shares import divide
from srb.wire.commands import Embed
from srb.wire.events import Done, Failed
from tests.engine_helpers import Always, Driver, solo
from tests.text_stores import MemoryTexts

N_UBATCH = 512


@dataclass
class Machine:
    """Seconds that a step takes on some machine: so many by itself, and for each token."""

    plain: float
    each: float
    steps: list[float] = field(default_factory=list)

    def seconds(self, num_tokens: int) -> float:
        return self.plain + self.each * num_tokens


FAST = Machine(0.03, 0.0015)  # SmolLM2 on two cores
SLOW = Machine(0.3, 0.04)  # seven billion parameters on a CPU
CARD = Machine(0.01, 0.00005)


class Timed(FakeModel):
    """A fake model whose decodes take the time of a machine on the driver's clock."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__(n_ctx=20_000, n_seq_max=80, n_batch=2048, n_ubatch=N_UBATCH)
        self.seconds = seconds
        self.driver: Driver | None = None
        self.took: list[tuple[int, float]] = []  # tokens and seconds of each decode

    def decode(self, batch: Batch) -> DecodeStatus:
        assert self.driver is not None
        took = self.seconds(len(batch))
        self.driver.now += took
        self.took.append((len(batch), took))
        return super().decode(batch)


def timed(seconds: Callable[[int], float], step_seconds: float) -> tuple[Driver, Timed]:
    model = Timed(seconds)
    driver = Driver(model, step_seconds=step_seconds)
    model.driver = driver
    return driver, model


def compute_prompt(driver: Driver, tokens: int, **options: Any) -> tuple[float, int]:
    """Compute a prompt of so many tokens and its first token; return seconds and steps."""
    prompt = [place % 40 for place in range(tokens)]
    asked, began, steps = driver.submit(prompt, max_tokens=1, **options), driver.now, 0
    while not driver.result(asked).terminal:
        driver.step()
        steps += 1
    return driver.now - began, steps


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
@pytest.mark.parametrize("n", [1, 8])
def test_a_long_prompt_makes_no_step_of_a_writer_long_and_takes_less_than_twice_its_time(
    machine: Machine, n: int
) -> None:
    step_seconds = 0.05 if machine is CARD else 0.15
    driver, model = timed(machine.seconds, step_seconds)
    alone, _ = compute_prompt(timed(machine.seconds, step_seconds)[0], 6000)
    driver.submit("the old king", n=n, max_tokens=5000, ignore_eos=True)
    for _ in range(10):
        driver.step()
    del model.took[:]
    beside, _ = compute_prompt(driver, 6000)
    gaps = sorted(seconds for _, seconds in model.took)
    assert gaps[len(gaps) * 99 // 100] <= max(0.25, 2 * machine.seconds(16 + n))
    # Here a step has a time of its own however few tokens it has, which a small step of a slow machine does not pay back.
    assert beside <= (2.5 if machine is SLOW else 1.6) * alone


class Attentive(Timed):
    """A model whose token takes the longer, the more tokens stand before it: SmolLM2 on two cores."""

    def __init__(self) -> None:
        super().__init__(lambda _: 0.015 + self.tokens_seconds)

    def decode(self, batch: Batch) -> DecodeStatus:
        self.tokens_seconds = 0.0004 * len(batch) + 4e-7 * sum(batch.positions)
        return super().decode(batch)


def test_each_prompt_has_the_time_of_a_step_from_its_beginning_though_the_end_of_the_one_before_was_slow() -> None:
    model = Attentive()
    driver = Driver(model, step_seconds=0.2)
    model.driver = driver
    driver.submit("the old king", max_tokens=5000, ignore_eos=True)
    for _ in range(10):
        driver.step()
    for _ in range(2):
        driver.now += 1.0
        del model.took[:]
        seconds, steps = compute_prompt(driver, 6000, cache_prompt=False)
    assert max(seconds for _, seconds in model.took) <= 0.25
    assert seconds / steps >= 0.17, "as in steps of 0.2 s, but for the last one"
    tokens = [tokens for tokens, _ in model.took if tokens > 1]
    assert tokens[0] > 1.5 * tokens[-2]


def test_a_prompt_alone_takes_whole_steps() -> None:
    driver, model = timed(FAST.seconds, 0.15)
    compute_prompt(driver, 2000)
    assert max(tokens for tokens, _ in model.took) == N_UBATCH


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
def test_a_prompt_of_low_priority_takes_short_steps_since_somebody_may_come(machine: Machine) -> None:
    step_seconds = 0.05 if machine is CARD else 0.15
    alone, _ = compute_prompt(timed(machine.seconds, step_seconds)[0], 3000)
    driver, model = timed(machine.seconds, step_seconds)
    seconds, _ = compute_prompt(driver, 3000, priority=1)
    assert max(seconds for _, seconds in model.took) <= max(
        1.5 * step_seconds, machine.seconds(2 * LEAST), machine.seconds(FIRST)
    )
    assert seconds <= (2.0 if machine is SLOW else 1.6) * alone


def test_branches_that_nobody_reads_hold_no_prompt_back() -> None:
    driver, model = timed(FAST.seconds, 0.15)
    left = driver.submit("the old king", n=4, max_tokens=5000, ignore_eos=True, linger=10.0**6)
    for _ in range(5):
        driver.step()
    driver.leave(left)
    del model.took[:]
    compute_prompt(driver, 2000)
    assert max(tokens for tokens, _ in model.took) >= N_UBATCH - 8


def test_without_a_limit_a_step_takes_as_long_as_it_takes() -> None:
    driver, model = timed(FAST.seconds, 0.0)
    driver.submit("the old king", max_tokens=5000, ignore_eos=True)
    driver.step()
    compute_prompt(driver, 2000)
    assert max(tokens for tokens, _ in model.took) == N_UBATCH
    assert Pace(0.0).most_prompt(3) is None


def test_texts_are_the_same_at_any_pace() -> None:
    driver, _ = timed(FAST.seconds, 0.15)
    ids = [driver.submit([place % (7 + other) for place in range(400)], 2, other, 20) for other in range(4)]
    driver.run()
    for other, request_id in enumerate(ids):
        for index in range(2):
            expected = solo([place % (7 + other) for place in range(400)], other + index, 20).texts[0]
            assert driver.result(request_id).texts[index] == expected


def test_the_pace_follows_a_machine_that_becomes_slower_and_faster_again() -> None:
    pace = Pace(0.15)
    assert pace.most_prompt(1) == FIRST
    pace.note(1, 0, 0.03)
    for _ in range(20):
        pace.note(1, (most := pace.most_prompt(1) or 0), 0.03 + most * 0.001)
    assert pace.most_prompt(1) == pytest.approx(120, rel=0.05)
    for _ in range(4):
        pace.note(1, (most := pace.most_prompt(1) or 0), 0.03 + most * 0.004)
    assert (pace.most_prompt(1) or 0) < 40
    for _ in range(30):
        pace.note(1, (most := pace.most_prompt(1) or 0), 0.03 + most * 0.001)
    assert (pace.most_prompt(1) or 0) > 100


def test_one_step_that_was_held_up_does_not_stop_prompts() -> None:
    pace = Pace(0.15)
    pace.note(1, 0, 0.03)
    for _ in range(20):
        pace.note(1, 100, 0.13)
    pace.note(1, 100, 60.0)  # the machine slept
    assert (pace.most_prompt(1) or 0) >= 50


@pytest.mark.parametrize("plain", [0.2, 1.0, 30.0])
def test_a_prompt_has_its_share_where_branches_alone_take_longer_than_a_step_should(plain: float) -> None:
    pace = Pace(0.15)
    pace.note(8, 0, plain)
    pace.note(8, 16, plain * 1.5)
    most = pace.most_prompt(8)
    assert most is not None
    assert most >= LEAST
    assert most * plain / 32 == pytest.approx(plain * 5 / 3, rel=0.1)


def test_a_size_that_was_not_measured_counts_as_the_latest_one() -> None:
    pace = Pace(0.15)
    pace.note(4, 0, 0.05)
    pace.note(4, 50, 0.1)
    assert pace.most_prompt(5) == pace.most_prompt(4) == 100


@pytest.mark.parametrize("is_beside", [True, False], ids=["beside a branch", "alone"])
def test_embeddings_beside_branches_take_as_many_tokens_as_a_step_has_time_for(is_beside: bool) -> None:
    driver, model = timed(FAST.seconds, 0.15)
    model.n_embed_tokens, model.n_embed_inputs = 512, 64
    sizes: list[int] = []

    def embed(inputs: Sequence[Sequence[int]], lora: LoraScales) -> list[Vectors] | None:
        sizes.append(sum(map(len, inputs)))
        driver.now += FAST.each * sizes[-1]
        return FakeModel.embed(model, inputs, lora)

    model.embed = embed  # type: ignore[method-assign]
    if is_beside:
        driver.submit("the old king", max_tokens=5000, ignore_eos=True)
        driver.step()
    driver.take(driver.engine.submit(driver.engine.prepare(Embed("e", ((1, 2, 3, 4, 5, 6, 7, 8),) * 200))))
    while len(driver.engine._embeddings):
        driver.take(driver.engine.step())
    assert sum(sizes) >= 1600
    if is_beside:
        assert sizes[0] <= FIRST  # nobody knows yet how long they take
        assert 0.9 * 0.15 <= FAST.each * max(sizes) <= 0.15
    else:
        assert max(sizes) == 512


ALICE, BOB = "key @alice", "key @bob"


def seconds_of(driver: Driver, tokens: int, prompt: int = 20, **options: Any) -> float:
    """Return the seconds of a request of BOB's whose prompt nobody has sent before."""
    began = driver.now
    asked = driver.submit(
        [place % 37 for place in range(prompt)], max_tokens=tokens, ignore_eos=True, owner=BOB, **options
    )
    while not driver.result(asked).terminal:
        driver.step()
    return driver.now - began


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
@pytest.mark.parametrize("n", [64, 16, 2])
@pytest.mark.parametrize("tokens", [16, 200])
def test_many_branches_of_one_person_make_another_wait_for_less_than_twice_as_long(
    machine: Machine, n: int, tokens: int
) -> None:
    alone = seconds_of(timed(machine.seconds, 0.2)[0], tokens)
    driver, _ = timed(machine.seconds, 0.2)
    driver.submit("the old king", n=n, max_tokens=5000, ignore_eos=True, owner=ALICE)
    for _ in range(10):
        driver.step()
    under_way = machine.seconds(n)  # when he asks, a step of hers is
    seconds_of(driver, 20)  # till sizes of steps are known
    assert seconds_of(driver, tokens) <= 2 * alone + under_way


def alice_writes(machine: Machine, n: int) -> tuple[Driver, Timed]:
    """Let ALICE write n branches for some steps."""
    driver, model = timed(machine.seconds, 0.2)
    driver.submit("the old king", n=n, max_tokens=5000, ignore_eos=True, owner=ALICE)
    for _ in range(10):
        driver.step()
    return driver, model


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
def test_many_branches_of_one_person_sit_out_the_step_in_which_another_ones_prompt_comes(machine: Machine) -> None:
    driver, model = alice_writes(machine, 64)
    compute_prompt(driver, 2000, owner=BOB)  # till times of steps and tokens are known
    seconds_of(driver, 4)
    for _ in range(5):
        driver.step()
    driver.submit([place % 31 for place in range(30)], max_tokens=4, ignore_eos=True, owner=BOB)
    driver.step()
    assert model.took[-1][0] <= 30, "none of hers"


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
def test_they_sit_out_for_no_long_prompt(machine: Machine) -> None:
    driver, model = alice_writes(machine, 8)
    seconds_of(driver, 4)  # till sizes of steps are known
    asked = driver.submit([place % 37 for place in range(3000)], max_tokens=1, owner=BOB)
    driver.step()
    assert model.took[-1][0] > 8, "a part of the prompt, beside hers"
    while not driver.result(asked).terminal:
        driver.step()
    gaps = sorted(seconds for _, seconds in model.took[-40:])
    assert gaps[-1] <= max(0.25, 2 * machine.seconds(16 + 8))


def test_they_sit_out_for_no_prompt_that_has_no_room_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, model = alice_writes(FAST, 64)
    driver.submit([place % 37 for place in range(30)], max_tokens=4, ignore_eos=True, owner=BOB)
    # As a picture that is computed whole and needs more cells than are free.
    monkeypatch.setattr("srb.engine.scheduler._to_prefill", lambda *_: iter(()))
    for _ in range(5):
        before = len(model.took)
        driver.step()
        assert len(model.took) == before + 1


def test_one_branch_of_a_person_goes_on_beside_a_long_prompt_of_another() -> None:
    driver, model = timed(FAST.seconds, 0.2)
    hers = driver.submit("the old king", max_tokens=5000, ignore_eos=True, owner=ALICE)
    for _ in range(10):
        driver.step()
    before = driver.engine.find(hers, ALICE).branches[0].length
    _, steps = compute_prompt(driver, 6000, owner=BOB)
    assert driver.engine.find(hers, ALICE).branches[0].length - before >= 0.9 * steps
    assert max(seconds for _, seconds in model.took) <= 0.25


def test_branches_of_one_person_take_turns_and_none_is_left_behind() -> None:
    driver, _ = timed(FAST.seconds, 0.2)
    hers = driver.submit("the old king", n=50, max_tokens=400, ignore_eos=True, owner=ALICE)
    driver.submit("an older king", n=1, max_tokens=1000, ignore_eos=True, owner=BOB)
    for _ in range(100):
        driver.step()
        lengths = [branch.length for branch in driver.engine.find(hers, ALICE).branches]
        assert max(lengths) - min(lengths) <= 2
    assert 20 < max(lengths) < 90, "they have a share, not all"


def test_people_who_have_equally_much_to_compute_share_each_step() -> None:
    driver, model = timed(FAST.seconds, 0.2)
    for owner in (ALICE, BOB, "127.0.0.1"):
        driver.submit("the old king", n=4, max_tokens=50, ignore_eos=True, owner=owner)
    for _ in range(20):
        driver.step()
    assert {tokens for tokens, _ in model.took[-10:]} == {12}


@pytest.mark.parametrize("machine", [FAST, SLOW, CARD], ids=["fast", "slow", "card"])
@pytest.mark.parametrize("weight", [2, 3, 8])
def test_who_has_more_weight_has_as_much_more_of_the_time(machine: Machine, weight: int) -> None:
    driver, _ = timed(machine.seconds, 0.2)
    hers = driver.submit("the old king", n=30, max_tokens=5000, ignore_eos=True, owner=ALICE, weight=weight)
    his = driver.submit("an older king", n=30, max_tokens=5000, ignore_eos=True, owner=BOB)
    for _ in range(30):
        driver.step()

    def lengths() -> list[int]:
        pairs = ((hers, ALICE), (his, BOB))
        return [sum(branch.length for branch in driver.engine.find(*pair).branches) for pair in pairs]

    before = lengths()
    for _ in range(300):
        driver.step()
    alices, bobs = (after - old for after, old in zip(lengths(), before, strict=True))
    assert bobs > 0
    assert 0.7 * weight <= alices / bobs <= 1.3 * weight


@pytest.mark.parametrize(
    ("owners", "step_seconds"), [((ALICE, ALICE), 0.2), ((ALICE, BOB), 0.0)], ids=["one person", "no pace"]
)
def test_all_branches_are_in_each_step_of_one_person_and_where_no_time_is_given(
    owners: tuple[str, str], step_seconds: float
) -> None:
    driver, model = timed(FAST.seconds, step_seconds)
    driver.submit("the old king", n=60, max_tokens=100, ignore_eos=True, owner=owners[0])
    driver.submit("an older king", n=1, max_tokens=100, ignore_eos=True, owner=owners[1])
    for _ in range(20):
        driver.step()
    assert model.took[-1][0] == 61


def test_texts_are_the_same_in_turns() -> None:
    driver, _ = timed(FAST.seconds, 0.2)
    hers = driver.submit("the old king", 40, 0, 30, owner=ALICE)
    his = driver.submit("an older king", 1, 7, 30, owner=BOB)
    driver.run()
    for index in range(40):
        assert driver.result(hers).texts[index] == solo("the old king", index, 30).texts[0]
    assert driver.result(his).texts == solo("an older king", 7, 30).texts


@pytest.mark.parametrize(
    ("wanted", "most", "weights", "shares"),
    [
        ({"a": 64, "b": 1}, 8, {}, {"b": 1, "a": 7}),
        ({"a": 64, "b": 64, "c": 2}, 12, {}, {"c": 2, "a": 5, "b": 5}),
        ({"a": 3, "b": 4}, 100, {}, {"a": 3, "b": 4}),
        ({"a": 9, "b": 9, "c": 9}, 1, {}, {"a": 1, "b": 1, "c": 1}),
        ({"a": 64, "b": 64}, 12, {"a": 3}, {"a": 9, "b": 3}),
        ({"a": 64, "b": 64, "c": 2}, 14, {"a": 2, "c": 5}, {"c": 2, "a": 8, "b": 4}),
        ({"a": 64, "b": 9}, 10, {"a": 99}, {"a": 9, "b": 1}),
    ],
)
def test_a_step_is_divided_by_weights_and_what_one_leaves_is_the_others(
    wanted: dict[str, int], most: int, weights: dict[str, int], shares: dict[str, int]
) -> None:
    assert divide(wanted, most, {owner: weights.get(owner, 1) for owner in wanted}) == shares


# What else takes a step's time -------------------------------------------------------------------------------------------


class Restoring(Timed):
    """A model that takes a while to restore a node, by the driver's clock."""

    def __init__(self, seconds: Callable[[int], float], restore_seconds: float = 1.0) -> None:
        super().__init__(seconds)
        self.restore_seconds = restore_seconds
        self.restored = 0

    def restore(self, seq_id: int, blob: Blob) -> bool:
        assert self.driver is not None
        self.driver.now += self.restore_seconds
        self.restored += 1
        return super().restore(seq_id, blob)


@pytest.mark.parametrize("step_seconds", [0.0, 0.15])
def test_restored_texts_come_one_after_another_between_the_tokens_of_a_writer(step_seconds: float) -> None:
    model = Restoring(FAST.seconds)
    model.driver = driver = Driver(model, step_seconds=step_seconds, cache_cells=0)
    prompts = [[number, *range(30)] for number in range(5)]
    for prompt in prompts:
        driver.submit(prompt, max_tokens=1)
        driver.run()
    writer = driver.submit("the old king", max_tokens=500, ignore_eos=True)
    driver.step()
    driver.step()
    assert driver.engine.stats()["kv_cells_idle"] == 0, "all of them are parked"
    asked = [driver.submit([*prompt, 7], max_tokens=1) for prompt in prompts]
    steps: list[tuple[int, int]] = []  # the texts restored and the writer's new tokens of each
    while not all(driver.result(each).terminal for each in asked):
        before, written = model.restored, len(driver.result(writer).tokens[0])
        driver.step()
        steps.append((model.restored - before, len(driver.result(writer).tokens[0]) - written))
    restored = [count for count, _ in steps if count]
    assert sum(restored) == len(prompts)
    assert max(restored) == (1 if step_seconds else len(prompts))
    assert all(one[1] or next_one[1] for one, next_one in pairwise(steps)), (
        "the writer has a token in every second step"
    )


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_long_text_is_restored_in_parts_between_the_tokens_of_a_writer(is_stored: bool, leaves: bool) -> None:
    model, texts = Restoring(FAST.seconds, 0.01), MemoryTexts(is_eager=True) if is_stored else None
    model.driver = driver = Driver(model, step_seconds=0.15, cache_cells=0, texts=texts)
    prompt = [place % 40 for place in range(6000)]
    driver.submit(prompt, max_tokens=1)
    driver.run()
    if texts is not None:
        driver.engine.collect()
        assert not driver.engine._residency.stored.is_busy
        host = driver.engine._residency.host
        while host._spare:
            host.budget = host.used_bytes - 1
            host.make_room()
        host.budget = 10**9
    writer = driver.submit("the old king", max_tokens=500, ignore_eos=True)
    driver.step()
    driver.step()
    asked = driver.submit([*prompt, 7], max_tokens=1)
    steps: list[tuple[int, int]] = []  # the nodes restored and the writer's new tokens of each
    while not driver.result(asked).terminal:
        before, written = model.restored, len(driver.result(writer).tokens[0])
        driver.step()
        steps.append((model.restored - before, len(driver.result(writer).tokens[0]) - written))
        if leaves and sum(count for count, _ in steps) > 8:
            driver.cancel(asked)
    assert max(count for count, _ in steps) <= 0.15 / 4 / 0.01 + 1
    assert all(one[1] or next_one[1] for one, next_one in pairwise(steps))
    if not leaves:
        assert sum(count for count, _ in steps) >= 6000 // 256
        assert driver.result(asked).events[1].cached_tokens == 6000
    driver.run()
    assert driver.engine._residency.held is None
    assert driver.engine.stats()["kv_cells_idle"] == 0, "nothing is held"


def test_a_failed_decode_lets_go_of_a_text_that_is_being_restored() -> None:
    model = Restoring(FAST.seconds, 0.01)
    model.driver = driver = Driver(model, step_seconds=0.15, cache_cells=0)
    prompt = [place % 40 for place in range(6000)]
    driver.submit(prompt, max_tokens=1)
    driver.run()
    writer = driver.submit("the old king", max_tokens=50, ignore_eos=True)
    driver.step()
    driver.step()
    asked = driver.submit([*prompt, 7], max_tokens=3, ignore_eos=True)
    while driver.engine._residency.held is None:
        driver.step()
    model.failures.append(DecodeStatus.FATAL)
    driver.run()
    assert driver.engine._residency.held is None
    assert [type(driver.result(each).terminal[0]) for each in (writer, asked)] == [Failed, Done]
    assert driver.result(asked).events[1].cached_tokens < 6000, "what was restored is computed again"


def test_the_pace_of_prompts_is_not_that_of_restores() -> None:
    pace = Pace(0.15)
    pace.note(1, 0, 0.03)
    pace.note(1, 50, 0.08)
    assert pace.most_prompt(1) == 120
    assert pace.most_prompt(1, spent=0.06) == pytest.approx(60, abs=1)
    assert pace.most_prompt(1, spent=9.0) == pytest.approx(54, abs=1)  # the least share of a prompt


def test_a_draft_model_reads_no_more_beside_writers_than_a_step_has_time_for() -> None:
    drafts = Timed(SLOW.seconds)
    model = Timed(FAST.seconds)
    model.driver = drafts.driver = driver = Driver(model, step_seconds=0.15, draft_model=drafts, max_draft=4)

    class Reads(Always):
        def may_read(self, lag: int, foreseen: int) -> bool:
            return True

    driver.engine._speculation._decision = Reads()
    driver.submit([place % 40 for place in range(2000)], max_tokens=300, ignore_eos=True)
    for _ in range(150):
        driver.step()
    read = [tokens for tokens, _ in drafts.took if tokens > 4]
    assert sum(read) > 1000
    assert max(read) <= FIRST
