"""What the prefix tree promises: nothing that is known is computed again, and nothing known is lost while there is room."""

from __future__ import annotations

import pytest

from srb.engine.fake import FakeModel
from srb.engine.match import common_length
from srb.protocol import Done
from tests.engine_helpers import Driver, Outcome, solo

PROMPT = "the old king said to the girl near the river that the boat was lost"


def done(outcome: Outcome) -> Done:
    (event,) = outcome.terminal
    assert isinstance(event, Done)
    return event


def computed(driver: Driver) -> float:
    return driver.engine.stats()["prompt_tokens_total"]


def text_of(driver: Driver, request_id: str, branch: int) -> list[int]:
    return driver.model.tokenize(PROMPT, True, True) + driver.result(request_id).tokens[branch]


@pytest.mark.parametrize("branch", range(8))
def test_going_on_from_any_branch_computes_one_token(branch: int) -> None:
    driver = Driver()
    first = driver.submit(PROMPT, n=8, max_tokens=20, ignore_eos=True)
    driver.run()
    before = computed(driver)
    tokens = text_of(driver, first, branch)
    second = driver.submit(tokens, n=4, seed=99)
    driver.run()
    assert computed(driver) - before == 1
    assert done(driver.result(second)).cached_tokens == len(tokens) - 1
    assert driver.result(second).texts[2] == solo(tokens, seed=101).texts[0]


def test_the_same_prompt_again_computes_nothing() -> None:
    driver = Driver()
    driver.submit(PROMPT, n=2)
    driver.run()
    before = computed(driver)
    again = driver.submit(PROMPT, n=2)
    driver.run()
    assert computed(driver) == before
    assert driver.result(again).texts[1] == solo(PROMPT, seed=2).texts[0]


def test_a_prompt_that_is_there_begins_without_a_decode_while_another_runs() -> None:
    driver = Driver()
    driver.submit(PROMPT)
    driver.run()
    driver.submit([5] * 30, n=4, max_tokens=50, ignore_eos=True)
    for _ in range(3):
        driver.step()
    again, decodes = driver.submit(PROMPT, n=2, max_tokens=9, ignore_eos=True), driver.model.n_decodes
    driver.step()
    assert driver.model.n_decodes == decodes
    assert [len(tokens) for tokens in driver.result(again).tokens.values()] == [1, 1]
    driver.step()
    assert driver.model.n_decodes == decodes + 1
    assert [len(tokens) for tokens in driver.result(again).tokens.values()] == [2, 2]


def test_eight_identical_requests_at_once_cost_one_prefill() -> None:
    driver = Driver(FakeModel(n_ubatch=64))
    ids = [driver.submit(PROMPT, seed=i) for i in range(8)]
    driver.run()
    assert computed(driver) == len(driver.model.tokenize(PROMPT, True, True))
    assert driver.model.n_decodes == max(len(driver.result(request_id).tokens[0]) for request_id in ids)
    assert [driver.result(request_id).texts[0] for request_id in ids] == [solo(PROMPT, i).texts[0] for i in range(8)]


def test_a_common_beginning_of_requests_at_once_is_computed_once() -> None:
    driver = Driver(FakeModel(n_ctx=2000, n_ubatch=16))
    beginning, ends = [7, 8, 9] * 40, [[20 + i] * 10 for i in range(8)]
    ids = [driver.submit([*beginning, *end], n=2, seed=i) for i, end in enumerate(ends)]
    driver.run()
    assert computed(driver) == len(beginning) + 8 * 10
    for i, (request_id, end) in enumerate(zip(ids, ends, strict=True)):
        assert driver.result(request_id).texts[1] == solo([*beginning, *end], seed=i + 1).texts[0]


def test_who_waits_for_a_prompt_goes_on_when_its_request_is_cancelled() -> None:
    driver = Driver(FakeModel(n_ubatch=8))
    prompt = [7, 8, 9] * 30
    first, *others = [driver.submit(prompt, seed=i) for i in range(4)]
    driver.submit("a fox", max_tokens=40, ignore_eos=True)  # so that prompts are computed in small chunks
    for _ in range(3):
        driver.step()
    driver.cancel(first)
    driver.run()
    assert [driver.result(request_id).texts[0] for request_id in others] == [
        solo(prompt, i).texts[0] for i in (1, 2, 3)
    ]


def test_cache_prompt_false_uses_nothing_and_leaves_nothing() -> None:
    driver = Driver()
    driver.submit(PROMPT, n=2)
    driver.run()
    before, nodes = computed(driver), driver.engine.stats()["tree_nodes"]
    request_id = driver.submit(PROMPT, n=2, cache_prompt=False)
    driver.run()
    assert computed(driver) - before == len(driver.model.tokenize(PROMPT, True, True))
    assert done(driver.result(request_id)).cached_tokens == 0
    assert driver.engine.stats()["tree_nodes"] == nodes


def test_idle_cells_beyond_the_budget_are_parked_and_come_back() -> None:
    driver = Driver(cache_cells=0)
    first = driver.submit(PROMPT, n=8, max_tokens=20, ignore_eos=True)
    driver.run()
    stats = driver.engine.stats()
    assert stats["kv_cells_used"] == 0
    assert stats["tree_tokens_parked"] > 8 * 15
    before = computed(driver)
    tokens = text_of(driver, first, 5)
    second = driver.submit(tokens, seed=99)
    driver.run()
    assert computed(driver) - before == 1
    assert driver.result(second).texts[0] == solo(tokens, seed=99).texts[0]


def test_parking_a_long_text_takes_many_steps_of_bounded_work() -> None:
    driver = Driver(FakeModel(n_ctx=4096, n_batch=4096, n_ubatch=4096), cache_cells=0)
    driver.submit([7, 8, 9] * 700, max_tokens=1)
    most, parked = 0.0, 0.0
    while driver.engine.has_work:
        driver.step()
        now = driver.engine.stats()["tree_tokens_parked"]
        most, parked = max(most, now - parked), now
    assert parked == 2100
    assert most <= 512


def test_without_host_memory_the_least_recent_is_forgotten() -> None:
    driver = Driver(cache_cells=40, cache_bytes=0)
    for prompt in ("a fox", PROMPT):
        driver.submit(prompt, n=2)
        driver.run()
    stats = driver.engine.stats()
    assert stats["kv_cells_idle"] <= 40
    assert stats["tree_tokens_parked"] == stats["tree_parked_bytes"] == 0
    assert stats["nodes_dropped_total"] > 0


def test_host_memory_is_a_budget_too() -> None:
    driver = Driver(cache_cells=0, cache_bytes=16 * 50)
    for i in range(10):
        driver.submit([10 + i] * 20, n=2)
        driver.run()
        assert driver.engine.stats()["tree_parked_bytes"] <= 16 * 50


def test_a_deep_conversation_needs_one_sequence_for_its_path() -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=4), cache_bytes=0)
    tokens = driver.model.tokenize(PROMPT, True, True)
    for turn in range(30):
        request_id = driver.submit(tokens, seed=turn, max_tokens=20, ignore_eos=True)
        driver.run()
        tokens = [*tokens, *driver.result(request_id).tokens[0], 5, 6]
        assert turn == 0 or done(driver.result(request_id)).cached_tokens >= len(tokens) - 20 - 2 - 5
    assert driver.engine.stats()["sequences_used"] <= 2


def test_memory_that_cannot_be_cut_is_reused_at_exact_ends() -> None:
    driver = Driver(FakeModel(can_cut=False))
    first = driver.submit(PROMPT, n=4, max_tokens=20, ignore_eos=True)
    driver.run()
    before = computed(driver)
    tokens = [*text_of(driver, first, 3), 5]
    second = driver.submit(tokens, seed=99)
    driver.run()
    assert computed(driver) - before == 2  # the branch's last token, which was never computed, and the new one
    assert driver.result(second).texts[0] == solo(tokens, seed=99).texts[0]


@pytest.mark.parametrize(
    ("a", "b", "offset", "length"),
    [
        ([1, 2, 3], [1, 2, 3], 0, 3),
        ([1, 2, 3], [9, 1, 2, 4], 1, 2),
        ([1], [2], 0, 0),
        ([1, 2], [1], 0, 1),
        ([1], [1], 1, 0),
    ],
)
def test_common_length(a: list[int], b: list[int], offset: int, length: int) -> None:
    assert common_length(a, b, offset) == length
