"""The prefix tree after a year: deep stories, long prompts, very many nodes. Costs are `make bench-tree`'s.

Each night the sizes are a year's. Those of each day are deeper than Python's limit of recursion.
"""

from __future__ import annotations

import pytest

from bench.tree import PROMPT, TimedEngine
from srb.engine.tree.host import MAX_RECENT
from srb.engine.tree.residency import PARK_TOKENS


@pytest.mark.timeout(600)  # half a minute alone
@pytest.mark.parametrize(
    ("turns", "n", "cache_cells"),
    [
        (2500, 1, 10**6),
        (300, 1, 0),
        pytest.param(10_000, 1, 10**6, marks=pytest.mark.long),
        pytest.param(10_000, 3, 10**6, marks=pytest.mark.long),
        pytest.param(1000, 1, 0, marks=pytest.mark.long),
    ],
)
def test_a_story_of_thousands_of_turns_goes_on(turns: int, n: int, cache_cells: int) -> None:
    desk = TimedEngine(cache_cells=cache_cells)
    text = list(PROMPT)
    for turn in range(turns):
        text += [*desk.ask(text, n, 2).texts[turn % n], 400]
    assert len(text) == len(PROMPT) + 3 * turns
    desk.engine.check_invariants()
    before = desk.engine.stats()["prompt_tokens_total"]
    desk.ask(text, n, 2)
    assert desk.engine.stats()["prompt_tokens_total"] - before <= 2  # the branch's last token and the writer's word
    parked = (
        len(text) / (PARK_TOKENS / 4) if not cache_cells else 0
    )  # parked in short nodes, which merge once they are back
    assert desk.path_length(text) < MAX_RECENT + 20 + parked


def test_a_story_can_go_back_to_each_of_its_turns() -> None:
    desk, text, turns = TimedEngine(), list(PROMPT), []
    for turn in range(600):
        turns.append(text)
        text = [*text, *desk.ask(text, 2, 3).texts[turn % 2], 400]
    for back in (1, 10, 300, 599, 450):
        before = desk.engine.stats()["prompt_tokens_total"]
        desk.ask(turns[-back], 2, 3)
        assert desk.engine.stats()["prompt_tokens_total"] - before <= 2
        desk.engine.check_invariants()


def test_a_prompt_that_ended_within_a_merged_node_is_found_with_its_logits() -> None:
    desk, text, turns = TimedEngine(cache_cells=10**6), list(PROMPT), []
    for _ in range(50):
        turns.append(text)
        text = [*text, *desk.ask(text, 1, 3).texts[0], 400]
    assert desk.path_length(text) < MAX_RECENT + 10
    computed = desk.engine.stats()["prompt_tokens_total"]
    for back in (1, 20, 49, 30):
        assert desk.match(turns[-back]).logits is not None
        desk.ask(turns[-back], 2, 3)
        desk.engine.check_invariants()
    assert desk.engine.stats()["prompt_tokens_total"] == computed


@pytest.mark.parametrize("cache_cells", [0, 10**6])
@pytest.mark.parametrize("size", [100_000, pytest.param(500_000, marks=pytest.mark.long)])
def test_a_prompt_of_very_many_tokens_is_kept_and_found(size: int, cache_cells: int) -> None:
    desk = TimedEngine(cache_cells=cache_cells)
    prompt = [400 + i * 7919 % 4000 for i in range(size)]
    desk.ask(prompt, 2, 2)
    desk.engine.check_invariants()
    before = desk.engine.stats()["prompt_tokens_total"]
    desk.ask([*prompt[:-1000], 9, 9], 2, 2)
    assert desk.engine.stats()["prompt_tokens_total"] - before == 2
    desk.engine.check_invariants()


@pytest.mark.parametrize("nodes", [10_000, pytest.param(50_000, marks=pytest.mark.long)])
def test_very_many_nodes_are_kept_in_order_and_forgotten_one_by_one(nodes: int) -> None:
    desk = TimedEngine(cache_bytes=1200 * nodes)
    desk.fill(nodes)
    desk.engine.check_invariants()
    stats = desk.engine.stats()
    assert stats["tree_nodes"] >= nodes
    while desk.engine.stats()["nodes_dropped_total"] < 1000:
        desk.ask([*PROMPT, *([400 + desk.nodes % 4000] * 3)], 64)
    stats = desk.engine.stats()
    assert stats["tree_parked_bytes"] <= 1200 * nodes
    desk.engine.check_invariants()
