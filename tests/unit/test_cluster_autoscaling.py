"""The number of replicas follows the open branches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from srb.cluster.autoscaling import OPEN_BRANCHES, BranchesPolicy


def context(running: int, reports: dict[str, float] | None) -> Any:
    metrics = None if reports is None else {OPEN_BRANCHES: reports}
    return SimpleNamespace(target_num_replicas=running, aggregated_metrics=metrics)


@pytest.mark.parametrize(
    ("running", "reports", "wanted"),
    [
        (1, {"a": 0.0}, 1),
        (1, {"a": 8.0}, 1),
        (1, {"a": 8.5}, 2),
        (1, {"a": 100.0}, 13),
        (3, {"a": 8.0, "b": 4.0, "c": 4.0}, 2),
        (3, {"a": 0.0, "b": 0.0, "c": 0.0}, 1),
        (2, {"a": 20.0}, 3),
    ],
    ids=str,
)
def test_replicas_follow_the_open_branches(running: int, reports: dict[str, float], wanted: int) -> None:
    assert BranchesPolicy(target=8)(context(running, reports)) == (wanted, {})


@pytest.mark.parametrize("reports", [None, {}], ids=str)
def test_without_reports_nothing_changes(reports: dict[str, float] | None) -> None:
    assert BranchesPolicy(target=8)(context(3, reports)) == (3, {})
