"""How long steps take by their tokens, and how many drafted tokens pay by that."""

from __future__ import annotations

from srb.engine.step_times import StepTimes


def measured(**seconds: float) -> StepTimes:
    """Return times in which each size, `t1` for 1, was measured often."""
    times = StepTimes()
    for name, each in seconds.items():
        for _ in range(100):
            times.note(int(name[1:]), each)
    return times


def test_drafts_are_added_while_they_pay() -> None:
    times = StepTimes()
    assert times.best_addition(1, [0.9] * 4, 1.03) == 0  # nothing is known yet
    times.note(1, 1.0)
    assert times.best_addition(1, [0.9] * 4, 1.03) == 4  # larger steps are tried
    assert measured(t1=1, t2=1.1, t3=1.2, t4=1.3, t5=1.4).best_addition(1, [0.9, 0.8, 0.05, 0.04], 1.03) == 2
    assert measured(t1=1, t2=2, t3=3, t4=4, t5=5).best_addition(1, [0.9] * 4, 1.03) == 0  # each token costs a step


def test_a_gain_has_to_be_as_large_as_asked_for() -> None:
    times = measured(t1=1, t2=1.2)
    assert times.best_addition(1, [0.3], 1.08) == 1
    assert times.best_addition(1, [0.3], 1.09) == 0
    assert times.best_addition(1, [0.01], 1.02) == 0


def test_a_step_between_two_measured_ones_is_tried_if_it_may_take_less_than_their_mean() -> None:
    assert measured(t8=1, t32=6).best_addition(8, [0.9] * 24, 1.03) == 0
    assert measured(t8=1, t32=1.5).best_addition(8, [0.9] * 10 + [0.1] * 14, 1.03) == 10
    stairs = measured(t1=1, t5=1.5, t9=2)
    assert stairs.best_addition(1, [1.0] * 8, 1.03) == 7
    for _ in range(3):
        stairs.note(8, 1.9)
    assert stairs.best_addition(1, [1.0] * 8, 1.03) == 8


def test_beyond_the_measured_ones_times_are_thought_to_grow_less() -> None:
    times = measured(t8=1, t12=1.2)
    assert times.best_addition(8, [0.9] * 24, 1.03) == 24
    assert abs(times.growth(8, 0, 4) - 0.05) < 1e-9
    assert abs(times.growth(8, 0, 12) - (0.2 + 8 * 0.03) / 12) < 1e-9
    assert measured(t8=1, t12=2.4).best_addition(8, [0.9] * 24, 1.03) == 0


def test_no_step_is_planned_that_may_take_longer_than_may_be_lost() -> None:
    times = StepTimes()
    times.note(1, 1.0)
    assert times.best_addition(1, [0.9] * 8, 1.03, most_loss=4.0) == 4  # unknown ones may take a second for each token
    assert times.best_addition(1, [0.9] * 8, 1.03, most_loss=0.5) == 0
    times = measured(t1=1, t3=1.2, t9=1.8)
    assert times.best_addition(1, [0.9] * 8, 1.03, most_loss=0.25) == 2
    assert times.best_addition(1, [0.9] * 8, 1.03, most_loss=1.0) > 5
    assert times.best_addition(1, [0.9] * 8, 1.03, most_loss=-1.0) == 0


def test_the_first_slow_step_of_a_size_is_not_its_time() -> None:
    times = measured(t1=1)
    for seconds in (9.0, 1.2, 1.2):
        assert times.best_addition(1, [0.9] * 3, 1.03) == 3
        times.note(4, seconds)
    assert times.best_addition(1, [0.9] * 3, 1.03) == 3


def test_times_of_long_ago_are_measured_again() -> None:
    times = measured(t1=1, t5=9)
    assert times.best_addition(1, [0.9] * 4, 1.03) == 0
    for _ in range(5000):
        times.note(1, 1.0)
    assert times.best_addition(1, [0.9] * 4, 1.03) == 4


def test_a_single_slow_step_does_not_end_speculation() -> None:
    times = StepTimes()
    for _ in range(50):
        for size, seconds in ((1, 1.0), (2, 1.1), (3, 1.2), (4, 1.2)):
            times.note(size, seconds)
    times.note(4, 100.0)
    assert times.best_addition(1, [0.9, 0.9, 0.9], 1.03) == 3


def test_the_time_that_was_spent_on_drafts_is_spent_with_them_or_without() -> None:
    times = measured(t1=1, t2=1.3, t3=1.6, t4=1.9, t5=2.2)
    assert times.best_addition(1, [0.5, 0.4, 0.3, 0.2], 1.0) == 2
    assert times.best_addition(1, [0.5, 0.4, 0.3, 0.2], 1.0, spent=1.0) == 3


def test_a_step_that_drafts_compete_with_is_fresh_for_some_steps() -> None:
    times = StepTimes()
    for _ in range(3):
        assert not times.is_fresh(1, 64)
        times.note(1, 1.0)
    assert times.is_fresh(1, 64)
    for _ in range(65):
        times.note(5, 1.0)
    assert not times.is_fresh(1, 64)
    assert times.is_fresh(1, 65)
    times.note(1, 1.0)
    assert times.is_fresh(1, 0)
