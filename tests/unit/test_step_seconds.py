"""The histogram of steps: counted by engines, added up, shown."""

from __future__ import annotations

import pytest

from srb.cluster.routing import sum_stats
from srb.wire.step_seconds import StepSeconds, buckets_of, is_of_steps


def counted(*seconds: float) -> dict[str, float]:
    steps = StepSeconds()
    for each in seconds:
        steps.observe(each)
    return steps.stats()


@pytest.mark.parametrize(
    ("seconds", "first"), [(0.0, "0.005"), (0.005, "0.005"), (0.0051, "0.01"), (10.0, "10.0"), (10.1, "+Inf")]
)
def test_a_step_is_in_the_first_bucket_whose_end_it_does_not_exceed_and_in_all_after_it(
    seconds: float, first: str
) -> None:
    found = buckets_of(counted(seconds))
    assert found is not None
    buckets, total = found
    ends = [end for end, _ in buckets]
    assert [count for _, count in buckets] == [float(place >= ends.index(first)) for place in range(len(ends))]
    assert total == seconds


def test_the_histograms_of_two_engines_add_up_to_that_of_all_their_steps() -> None:
    both = sum_stats([counted(0.02, 0.3), counted(0.02, 20.0)])
    assert buckets_of(both) == buckets_of(counted(0.02, 0.3, 0.02, 20.0))
    assert all(is_of_steps(name) and name.endswith("_total") for name in both)  # totals are kept of such counters


def test_an_engine_that_counts_none_has_no_histogram() -> None:
    assert buckets_of({"n_decode_total": 3.0}) is None
