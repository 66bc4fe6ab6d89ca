"""Python's garbage collector in the engine: what it visits, by its own count."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from bench.tree import PROMPT, TimedEngine
from srb.engine.process import garbage
from srb.engine.process.garbage import spare_old_objects, tidy


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The generations that were collected; ten times as often as in the engine, so that a small tree is enough."""
    monkeypatch.setattr(garbage, "_YOUNG", garbage._YOUNG // 10)
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    thresholds = gc.get_threshold()
    spare_old_objects()
    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def test_no_collection_visits_the_whole_tree_while_requests_run(collections: list[int]) -> None:
    desk = TimedEngine()
    desk.fill(6_000)
    desk.ask(PROMPT, 8)
    assert collections, "the tree has grown by too little"
    assert 2 not in collections
    assert collections.count(0) >= collections.count(1) > 0


def test_what_was_left_when_the_engine_was_idle_is_not_visited_again(collections: list[int]) -> None:
    desk = TimedEngine()
    desk.fill(5_000)
    tidy()
    assert gc.get_freeze_count() > desk.nodes
    assert len(gc.get_objects()) < desk.nodes
    assert collections[-1] == 2
    cycle: list[Any] = []
    cycle.append(cycle)
    del cycle
    before = gc.get_stats()[2]["collected"]
    tidy()
    assert gc.get_stats()[2]["collected"] == before + 1
