"""The number of threads on machines that are used for something else too: traces of windows, without a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, floor

import pytest

from srb.engine.llama.thread_count import ThreadCount, Window

WINDOW = 0.5


@dataclass
class SharedMachine:
    """A machine whose scheduler is fair: the threads and the other programs get equal parts of too few cores."""

    cores: int
    others: Callable[[float], float] = lambda now: 0.0  # cores that other programs want at a time
    tells_idle: bool = True
    has_ticks: bool = False  # idle time is told in whole hundredths of a second
    idle: float = 0.0  # core-seconds so far
    now: float = 0.0
    counts: list[int] = field(default_factory=list)  # the number of threads in each window

    def window(self, threads: int, seconds: float = WINDOW, part: float = 1.0) -> Window:
        """Return what a window shows if steps run for `part` of it."""
        others = self.others(self.now)
        wanted = threads + others
        lack = max(0.0, wanted - self.cores)
        waited = lack * threads / wanted
        idle = max(0.0, self.cores - others - threads * part) * seconds
        self.idle += idle
        if self.has_ticks:
            idle = (floor(self.idle * 100) - floor((self.idle - idle) * 100)) / 100
        self.now += seconds
        steps = seconds * part
        ran = (threads - waited) * steps
        return Window(seconds, steps, ran, waited * steps, idle if self.tells_idle else None)

    def run(self, count: ThreadCount, seconds: float, window: float = WINDOW) -> None:
        end = self.now + seconds
        while self.now < end:
            self.counts.append(count.count)
            count.note(self.window(count.count, window))

    def run_as_asked(self, count: ThreadCount, seconds: float, step: float = 0.026) -> list[tuple[float, int]]:
        """Run with windows of whole steps, as long as the number asks for; return each change with its time."""
        end, changes = self.now + seconds, []
        while self.now < end:
            before = count.count
            count.note(self.window(before, ceil(count.window / step) * step))
            if count.count != before:
                changes.append((self.now, count.count))
        return changes

    @property
    def changes(self) -> int:
        return sum(one != other for one, other in zip(self.counts, self.counts[1:], strict=False))


def busy_until(end: float, cores: float = 1.0) -> Callable[[float], float]:
    return lambda now: cores if now < end else 0.0


def bursts(busy: float, period: float, cores: float = 1.0) -> Callable[[float], float]:
    return lambda now: cores if now % period < busy else 0.0


@pytest.mark.parametrize("cores", [1, 2, 4, 16, 64])
def test_on_a_quiet_machine_every_core_computes_all_the_time(cores: int) -> None:
    machine, count = SharedMachine(cores), ThreadCount(cores)
    machine.run(count, 60)
    assert set(machine.counts) == {cores}


@pytest.mark.parametrize("cores", [2, 3, 4, 8, 16, 64])
def test_a_busy_core_is_left_after_one_window_and_taken_again_soon_after_it_is_free(cores: int) -> None:
    machine, count = SharedMachine(cores, busy_until(20)), ThreadCount(cores)
    machine.run(count, 20)
    assert machine.counts[1] == machine.counts[-1] == cores - 1
    assert machine.changes == 1
    machine.run(count, 2)
    assert count.count == cores
    machine.run(count, 20)
    assert machine.changes == 2


@pytest.mark.parametrize(("cores", "others", "best"), [(4, 2, 2), (4, 4, 1), (64, 32, 32), (16, 8, 8), (2, 5, 1)])
def test_several_busy_cores_are_left_within_a_few_windows(cores: int, others: float, best: int) -> None:
    machine, count = SharedMachine(cores, busy_until(10, others)), ThreadCount(cores)
    machine.run(count, 8 * WINDOW)
    assert count.count == best
    machine.run(count, 10)
    assert count.count == cores  # all at once, not one after the other


def test_on_one_core_there_is_nothing_to_choose() -> None:
    machine, count = SharedMachine(1, busy_until(10)), ThreadCount(1)
    machine.run(count, 20)
    assert set(machine.counts) == {1}


@pytest.mark.parametrize("others", [0.05, 0.2, 0.4])
def test_on_two_cores_a_light_load_costs_less_than_a_thread(others: float) -> None:
    """A web worker and a browser that shows the text use some of a core."""
    machine, count = SharedMachine(2, lambda now: others), ThreadCount(2)
    machine.run(count, 30)
    assert set(machine.counts) == {2}


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_no_steady_load_makes_the_number_swing(cores: int) -> None:
    """But for one window in which one more is tried."""
    for tenths in range(20 * cores):
        machine, count = SharedMachine(cores, lambda now, tenths=tenths: tenths / 20), ThreadCount(cores)
        machine.run(count, 10)
        settled = len(machine.counts)
        machine.run(count, 60)
        numbers = machine.counts[settled:]
        tried = sum(number != max(set(numbers), key=numbers.count) for number in numbers)
        assert tried <= 1, f"{tenths / 20} cores of {cores}: {numbers}"


def test_a_short_burst_changes_nothing() -> None:
    count = ThreadCount(2)
    waiting = Window(WINDOW, WINDOW, ran=0.9, waited=0.1, idle=0.0)
    assert [count.note(waiting) for _ in range(20)] == [2] * 20


def test_between_long_bursts_every_core_computes() -> None:
    machine, count = SharedMachine(2, bursts(busy=3, period=13)), ThreadCount(2)
    machine.run(count, 130)
    free = [threads for place, threads in enumerate(machine.counts) if place * WINDOW % 13 >= 3 + 2]
    assert set(free) == {2}


def test_a_core_that_is_lost_again_and_again_is_taken_less_often() -> None:
    machine, count = SharedMachine(2, bursts(busy=1, period=3)), ThreadCount(2)
    machine.run(count, 60)
    first, machine.counts = machine.changes, []
    machine.run(count, 60)
    assert first < 40
    assert machine.changes <= first
    assert machine.counts.count(2) < len(machine.counts) / 4


def test_patience_is_short_again_after_a_core_was_kept() -> None:
    machine, count = SharedMachine(2, bursts(busy=1, period=3)), ThreadCount(2)
    machine.run(count, 60)
    machine.others = lambda now: 0.0
    machine.run(count, 30)
    assert count.count == 2
    machine.others = busy_until(machine.now + 1)
    machine.run(count, 1)
    assert count.count == 1
    machine.run(count, 2)
    assert count.count == 2


@pytest.mark.parametrize("seconds", [0.5, 0.7, 4.0, 30.0])
def test_the_length_of_a_step_plays_no_part(seconds: float) -> None:
    """Steps of one token, of a batch of a size never seen, and of a long prompt: only the part of the time counts."""
    quiet, busy = SharedMachine(4), SharedMachine(4, lambda now: 1.0)
    count = ThreadCount(4)
    assert count.note(quiet.window(4, seconds)) == 4
    assert count.note(busy.window(4, seconds)) == 3


def test_prompts_between_decode_steps_change_nothing() -> None:
    machine, count = SharedMachine(4), ThreadCount(4)
    for _ in range(50):
        machine.run(count, 3 * WINDOW)
        machine.run(count, 2.3, window=2.3)
    assert set(machine.counts) == {4}


def test_waits_beside_steps_lower_nothing() -> None:
    """While nothing is computed the process may wait for a core as well, for instance while a model is loaded."""
    count = ThreadCount(4)
    assert count.note(Window(30.0, 0.0, ran=1.0, waited=20.0, idle=0.0)) == 4
    assert count.note(Window(0.5, 0.05, ran=0.05, waited=0.4, idle=0.0)) == 4


def test_short_requests_on_a_busy_machine_lower_the_number_too() -> None:
    machine, count = SharedMachine(2, lambda now: 1.0), ThreadCount(2)
    assert count.note(machine.window(2, seconds=1.0, part=0.3)) == 1


def test_after_a_pause_with_free_cores_the_next_request_begins_with_all_threads() -> None:
    machine, count = SharedMachine(2, busy_until(5)), ThreadCount(2)
    machine.run(count, 5)
    assert count.count == 1
    assert count.note(machine.window(1, seconds=600, part=0)) == 2


def test_a_pause_on_a_busy_machine_raises_nothing() -> None:
    machine, count = SharedMachine(2, lambda now: 1.0), ThreadCount(2)
    machine.run(count, 5)
    assert count.note(machine.window(1, seconds=600, part=0)) == 1


def test_where_idle_cores_are_not_told_more_threads_are_tried_now_and_then() -> None:
    machine, count = SharedMachine(2, busy_until(300), tells_idle=False), ThreadCount(2)
    machine.run(count, 300)
    assert machine.counts.count(2) <= 5  # one window each, after twice the time of the one before
    machine.run(count, 200)
    assert count.count == 2


def test_programs_of_low_priority_keep_no_core_for_ever() -> None:
    """They fill every core, so that none is ever idle, but threads that want it need not wait."""
    count = ThreadCount(4)
    assert count.note(SharedMachine(4, lambda now: 1.0).window(4)) == 3
    numbers = [count.note(Window(WINDOW, WINDOW, ran=count.count * WINDOW, waited=0.0, idle=0.0)) for _ in range(100)]
    assert numbers[50] == 3
    assert numbers[-1] == 4


def test_the_way_down_in_several_steps_does_not_make_the_way_up_slow() -> None:
    machine, count = SharedMachine(64, busy_until(5, 60)), ThreadCount(64)
    machine.run(count, 5)
    assert machine.changes >= 2
    machine.run(count, 2)
    assert count.count == 64


def test_the_number_stays_between_one_and_the_most() -> None:
    count = ThreadCount(8)
    hopeless = Window(1.0, 1.0, ran=0.1, waited=50.0, idle=0.0)
    assert count.note(hopeless) == 1
    idle = replace(hopeless, waited=0.0, ran=1.0, idle=1000.0)
    assert [count.note(idle) for _ in range(5)][-1] == 8


# Windows as long as the number asks for, with idle time as coarse as the system tells it


@pytest.mark.parametrize("ended", [20.0, 20.07, 20.2, 20.33])
@pytest.mark.parametrize("step", [0.012, 0.026, 0.045])
def test_when_the_other_program_ends_its_core_computes_again_within_a_few_steps(ended: float, step: float) -> None:
    machine, count = SharedMachine(2, busy_until(ended), has_ticks=True), ThreadCount(2)
    assert [number for _, number in machine.run_as_asked(count, 19, step)] == [1]
    [(taken, number)] = machine.run_as_asked(count, 20, step)
    assert number == 2
    assert taken - ended < 3 * (0.05 + step), "the window in which it ended, and two more"


@pytest.mark.parametrize(("cores", "most"), [(4, 0.4), (8, 0.7), (16, 1.3), (64, 1.7)])
def test_more_cores_need_longer_windows_for_their_ticks(cores: int, most: float) -> None:
    machine, count = SharedMachine(cores, busy_until(20), has_ticks=True), ThreadCount(cores)
    machine.run_as_asked(count, 19.5)
    [(taken, number)] = machine.run_as_asked(count, 20)
    assert number == cores
    assert taken - 20 < most


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_no_steady_load_makes_the_number_swing_in_short_windows(cores: int) -> None:
    for tenths in range(20 * cores):
        machine, count = (
            SharedMachine(cores, lambda now, tenths=tenths: tenths / 20, has_ticks=True),
            ThreadCount(cores),
        )
        machine.run_as_asked(count, 10)
        changes = machine.run_as_asked(count, 60)
        assert len(changes) <= 2, f"{tenths / 20} cores of {cores}: {changes}"


@pytest.mark.parametrize(("busy", "period"), [(0.7, 1.0), (0.85, 1.0), (1.0, 1.3), (2.0, 3.0), (0.3, 0.5)])
def test_a_program_that_rests_now_and_then_keeps_its_core(busy: float, period: float) -> None:
    """Each rest may be taken for its end once, and then never one as short for a while."""
    machine, count = SharedMachine(2, bursts(busy, period), has_ticks=True), ThreadCount(2)
    first = machine.run_as_asked(count, 60)
    later = machine.run_as_asked(count, 60)
    assert len(first) <= 30, first
    assert len(later) <= 12, later
