"""Waits on a simulated cluster are no longer than by the rules of others, and stories are found through any bridge."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bench.waiting import Figures, Life, Simulation

LIFE = Life(100, 8, seconds=600, warm=150, replaced_every=200)
SEEDS = (1, 2, 3)


@cache
def told(rule: str, **given: Any) -> Figures:
    """Return the figures of several lives together."""
    found = Figures()
    for seed in SEEDS:
        done = Simulation(replace(LIFE, seed=seed, **given), rule).run()
        found.continued += done.continued
        found.found += done.found
        found.waits += done.waits
    return found


@pytest.mark.parametrize(
    "given", [{}, {"bridges": 4}, {"bridges": 4, "news": "doors"}], ids=["one bridge", "registry", "doors"]
)
def test_few_wait_longer_than_by_the_rules_of_others(given: dict[str, Any]) -> None:
    own = told("SRB", **given)
    assert own.wait(0.99) <= 1.2 * told("llm-d precise").wait(0.99)
    assert own.wait(0.99) <= told("bounded hash of the story").wait(0.99)


@pytest.mark.parametrize("news", ["registry", "doors"])
def test_turns_through_several_bridges_find_their_story_by_what_these_tell_each_other(news: str) -> None:
    own = told("SRB", bridges=4, news=news)
    assert own.found >= 0.92 * own.continued
    alone = told("SRB", bridges=4, news="")
    assert alone.found <= 0.75 * alone.continued
