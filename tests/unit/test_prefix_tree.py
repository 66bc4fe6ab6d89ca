"""What the prefix tree promises: nothing that is known is computed again, and nothing known is lost while there is room."""

from __future__ import annotations

import pytest

from srb.engine.fake import FakeModel
from srb.engine.model import Scope
from srb.engine.tokens import common_length, has_at, tokens_of
from srb.engine.tree.host import MAX_RECENT
from srb.engine.tree.residency import PARK_TOKENS
from srb.wire.events import Done
from tests.engine_helpers import Driver, Outcome, parked_bytes, solo

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


def test_a_cached_prompt_begins_without_a_decode_while_another_runs() -> None:
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


def test_a_request_that_awaits_a_prompt_goes_on_when_that_prompt_is_cancelled() -> None:
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


def after_a_round(n: int = 8) -> tuple[Driver, list[int], str]:
    """Return a driver that has parked a prompt and `n` branches of 20 tokens, the prompt's tokens, and the request."""
    driver = Driver(FakeModel(n_ctx=2000, n_ubatch=64), cache_cells=0)
    prompt = [2 + place % 40 for place in range(300)]
    request = driver.submit(prompt, n=n, max_tokens=20, ignore_eos=True)
    driver.run()
    return driver, prompt, request


@pytest.mark.parametrize("branch", [0, 7])
def test_the_next_turn_takes_the_newest_text_back_and_restores_the_branch_alone(branch: int) -> None:
    driver, prompt, first = after_a_round()
    stats = driver.engine.stats()
    assert (stats["kv_cells_kept"], stats["kv_cells_used"], stats["sequences_used"]) == (len(prompt), 0, 0)
    tokens = [*prompt, *driver.result(first).tokens[branch], 7, 8, 9]
    second = driver.submit(tokens, n=2, seed=99)
    driver.step()
    assert driver.engine.stats()["kv_cells_kept"] == 0
    driver.run()
    assert done(driver.result(second)).cached_tokens >= len(tokens) - 4
    assert 0 < driver.engine.stats()["tokens_restored_total"] <= 20
    assert driver.result(second).texts[1] == solo(tokens, seed=100).texts[0]
    assert driver.engine.stats()["kv_cells_kept"] == len(tokens)


def test_a_dialogue_restores_nothing_from_turn_to_turn() -> None:
    driver, prompt, first = after_a_round(n=1)
    tokens = [*prompt, *driver.result(first).tokens[0]]
    for turn in range(5):
        assert driver.engine.stats()["kv_cells_kept"] == len(tokens) - 1  # the last token was not computed
        tokens += [7, 8, 9]
        request = driver.submit(tokens, seed=turn, max_tokens=20, ignore_eos=True)
        driver.run()
        assert done(driver.result(request)).cached_tokens == len(tokens) - 4
        assert driver.result(request).texts[0] == solo(tokens, seed=turn, max_tokens=20, ignore_eos=True).texts[0]
        tokens += driver.result(request).tokens[0]
    assert driver.engine.stats()["tokens_restored_total"] == 0


def test_branches_cut_short_again_and_again_keep_the_beginning() -> None:
    driver, prompt, first = after_a_round(n=1)
    text = [*prompt, *driver.result(first).tokens[0]]
    restored = driver.engine.stats()["tokens_restored_total"]
    for length in (12, 8, 15, 4):
        tokens = text[: len(prompt) + length]
        request = driver.submit(tokens, seed=length, max_tokens=20, ignore_eos=True)
        driver.run()
        expected = solo(tokens, seed=length, max_tokens=20, ignore_eos=True)
        assert driver.result(request).texts[0] == expected.texts[0]
        assert driver.engine.stats()["kv_cells_kept"] >= len(prompt)
    assert driver.engine.stats()["tokens_restored_total"] - restored <= 3 * 20, "the prompt was restored"


def test_a_kept_text_whose_beginning_is_in_nodes_is_counted_once() -> None:
    driver = Driver(FakeModel(n_ctx=2000, n_ubatch=64), cache_cells=100)
    driver.submit([2 + place % 40 for place in range(300)], max_tokens=20, ignore_eos=True)
    driver.run()
    stats = driver.engine.stats()
    assert 0 < stats["kv_cells_used"] <= 100
    assert stats["kv_cells_kept"] + stats["kv_cells_used"] == driver.model.used_cells == 319


def test_memory_of_restored_spans_is_freed_after_the_first_tokens() -> None:
    driver, prompt, _ = after_a_round()
    driver.submit([*prompt, 7, 8, 9], max_tokens=1)
    driver.step()
    assert driver.engine._residency._restored
    driver.run()
    assert not driver.engine._residency._restored


def test_going_back_within_the_newest_text_takes_back_what_is_left_of_it() -> None:
    driver, prompt, _ = after_a_round()
    tokens = [*prompt[:150], 7, 8, 9]
    request = driver.submit(tokens, seed=99)
    driver.run()
    assert driver.engine.stats()["tokens_restored_total"] == 0
    assert done(driver.result(request)).cached_tokens == 150
    assert driver.result(request).texts[0] == solo(tokens, seed=99).texts[0]


def test_another_text_frees_the_cells_that_are_kept() -> None:
    driver, prompt, _ = after_a_round()
    other = driver.submit([*range(41, 20, -1)], n=2, seed=5, max_tokens=30, ignore_eos=True)
    driver.step()
    assert driver.model.used_cells < len(prompt)
    driver.run()
    assert driver.result(other).texts[1] == solo([*range(41, 20, -1)], seed=6, max_tokens=30, ignore_eos=True).texts[0]
    again = driver.submit([*prompt, 7], seed=9)
    driver.run()
    assert driver.engine.stats()["tokens_restored_total"] == len(prompt)
    assert driver.result(again).texts[0] == solo([*prompt, 7], seed=9).texts[0]


def test_a_tree_that_is_cleared_keeps_no_cells() -> None:
    driver, prompt, _ = after_a_round()
    driver.engine._tree.clear()
    assert driver.engine.stats()["kv_cells_kept"] == driver.model.used_cells == 0
    driver.engine.check_invariants()
    again = driver.submit([*prompt, 7], seed=9)
    driver.run()
    assert driver.engine.stats()["tokens_restored_total"] == len(prompt)
    assert driver.result(again).texts[0] == solo([*prompt, 7], seed=9).texts[0]


def test_texts_whose_cells_lie_among_others_are_not_kept() -> None:
    driver = Driver(FakeModel(n_ctx=2000, n_ubatch=64), cache_cells=0)
    for first in (2, 3):
        driver.submit([first, *range(2, 40)] * 4, n=2, max_tokens=20, ignore_eos=True)
    driver.run()
    assert driver.engine.stats()["kv_cells_kept"] == 0


def test_a_kept_text_gives_way_where_all_cells_are_needed() -> None:
    driver = Driver(FakeModel(n_ctx=320, n_ubatch=64), cache_cells=0)
    prompt = [2 + place % 40 for place in range(250)]
    driver.submit(prompt, max_tokens=9)
    driver.run()
    assert driver.engine.stats()["kv_cells_kept"] == len(prompt) + 8
    other = [*prompt[:100], *range(41, 1, -1), *range(2, 42), *range(41, 1, -1), *range(2, 42), *range(41, 1, -1)]
    request = driver.submit(other, seed=3, max_tokens=9)
    driver.run()
    assert driver.result(request).texts[0] == solo(other, seed=3, max_tokens=9).texts[0]


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


@pytest.mark.parametrize("cache_bytes", [0, 10**6])
def test_cells_that_are_needed_take_the_end_of_a_long_text_not_all_of_it(cache_bytes: int) -> None:
    driver = Driver(FakeModel(n_ctx=4096, n_batch=4096, n_ubatch=4096), cache_bytes=cache_bytes)
    driver.submit([7, 8, 9] * 1000, max_tokens=1)
    driver.run()
    driver.submit([4, 5, 6] * 400, max_tokens=1)
    driver.run()
    before = computed(driver)
    driver.submit([7, 8, 9] * 900, max_tokens=1)
    driver.run()
    assert computed(driver) - before == 1


def test_nodes_of_a_continued_text_merge_into_few_long_ones() -> None:
    driver = Driver(FakeModel(n_ctx=20_000, n_batch=4096, n_ubatch=4096))
    tokens = [7] * 20
    for turn in range(130):
        request = driver.submit(tokens, n=2, seed=turn, max_tokens=10, ignore_eos=True)
        while driver.engine.has_work:  # `run` checks all of the tree after every step
            driver.outcomes[request].events += driver.engine.step()
        tokens = [*tokens, *range(11, 22), 22 + turn % 9]
    driver.engine.check_invariants()
    tree = driver.engine._tree
    path = tree.match(tokens_of([*tokens, 5]), tree.root(Scope())).node.path()
    assert sum(len(node.tokens) for node in path) >= 20 + 12 * 129
    assert len(path) <= MAX_RECENT + 10
    assert max(len(node.tokens) for node in path) > 2 * PARK_TOKENS


def test_without_host_memory_the_least_recently_used_node_is_evicted() -> None:
    driver = Driver(cache_cells=40, cache_bytes=0)
    for prompt in ("a fox", PROMPT):
        driver.submit(prompt, n=2)
        driver.run()
    stats = driver.engine.stats()
    assert stats["kv_cells_idle"] <= 40
    assert stats["tree_tokens_parked"] == stats["tree_parked_bytes"] == 0
    assert stats["nodes_dropped_total"] > 0


def test_host_memory_is_a_budget_too() -> None:
    budget = parked_bytes(3, 50)
    driver = Driver(cache_cells=0, cache_bytes=budget)
    for i in range(10):
        driver.submit([10 + i] * 20, n=2)
        driver.run()
        assert driver.engine.stats()["tree_parked_bytes"] <= budget
    assert driver.engine.stats()["tree_nodes"] >= 2


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
    driver = Driver(FakeModel(supports_partial_reuse=False))
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
    assert common_length(tokens_of(a), tokens_of(b), offset) == length


@pytest.mark.parametrize("length", [100, 300, 5_000, 9_000])
@pytest.mark.parametrize("offset", [0, 7])
def test_the_first_difference_of_long_texts_is_found_wherever_it_is(length: int, offset: int) -> None:
    a = tokens_of(i * 7919 % 4000 for i in range(length))
    for place in (0, 1, length // 2, length - 1, length):
        b = tokens_of([-1] * offset) + a[:place] + tokens_of([-1] * (length - place))
        assert common_length(a, b, offset) == place
        assert has_at(b, offset, a) == (place == length)
    assert not has_at(a[:-1], 0, a), "the text is shorter"


@pytest.mark.parametrize("seed", range(12))
def test_row_40_a_paused_branch_goes_on_where_anothers_prompt_ends(seed: int) -> None:
    driver = Driver(FakeModel(n_ctx=70 + seed * 4, n_seq_max=4 + seed % 6))
    ids = [driver.submit(PROMPT, n=2 + seed % 3, seed=seed + 10 * i, max_tokens=40, ignore_eos=True) for i in range(2)]
    asked: set[tuple[int, ...]] = set()
    for _ in range(2000):
        for _, tokens in driver.paused():
            if tuple(tokens) not in asked and len(asked) < 40:
                asked.add(tuple(tokens))
                driver.submit(tokens, max_tokens=1)
        if not driver.engine.has_work:
            break
        driver.step()
    driver.check_drained()
    assert asked
    for i, request_id in enumerate(ids):
        for index, end in driver.result(request_id).ends.items():
            assert (end.length, end.truncated) == (40, False)
            expected = solo(PROMPT, seed + 10 * i + index, max_tokens=40, ignore_eos=True)
            assert driver.result(request_id).texts[index] == expected.texts[0]


def test_a_series_of_cached_prompts_does_not_starve_running_branches() -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=100))
    driver.submit("a fox", max_tokens=1)
    driver.run()
    writer = driver.submit([5] * 30, max_tokens=200, ignore_eos=True)
    for _ in range(5):
        driver.step()
    before = len(driver.result(writer).tokens[0])
    for _ in range(20):
        driver.submit("a fox", max_tokens=1)
        driver.step()
    assert len(driver.result(writer).tokens[0]) - before >= 10


def test_logits_of_prompts_take_a_share_of_host_memory() -> None:
    size = 4 * FakeModel().n_vocab
    driver = Driver(FakeModel(n_ctx=10_000, n_seq_max=100), cache_bytes=8 * 5 * size)
    for number in range(20):
        driver.submit([10 + number] * 20, max_tokens=1)
        driver.run()
        assert driver.engine.stats()["tree_parked_bytes"] <= 5 * size
    before = computed(driver)
    driver.submit([10 + 19] * 20)  # among the last five: nothing is computed
    driver.run()
    assert computed(driver) == before
    driver.submit([10] * 20)  # its logits are gone: one token brings them back
    driver.run()
    assert computed(driver) - before == 1


def test_short_nodes_of_a_story_merge_and_are_cut_again() -> None:
    driver = Driver(FakeModel(n_ctx=4000), cache_bytes=8 * 4 * FakeModel().n_vocab)
    text, turns = driver.model.tokenize(PROMPT, True, True), []
    for turn in range(40):
        turns.append(text)
        request_id = driver.submit(text, n=3, seed=turn * 3, max_tokens=4, ignore_eos=True)
        driver.run()
        text = [*text, *driver.result(request_id).tokens[turn % 3], 7]
    nodes = driver.engine.stats()["tree_nodes"]
    assert nodes < 40 * 3 + 10  # the turns' own nodes have merged: without that it were 40 × 4
    for turn in (3, 20, 39):
        before = computed(driver)
        request_id = driver.submit([*turns[turn], 9], n=2, seed=500)
        driver.run()
        assert computed(driver) - before <= 2
        assert driver.result(request_id).texts[1] == solo([*turns[turn], 9], seed=501).texts[0]


def test_siblings_that_begin_alike_are_few_however_many_there_are() -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=64))
    prompts = [[7, 8, 9, 10 + i % 20, 10 + i // 20] for i in range(100)]
    for prompt in prompts:
        driver.submit(prompt, max_tokens=1)
        driver.run()
    root = driver.engine._tree.root(Scope())
    assert all(len(siblings) == 1 for node in root.subtree() for siblings in node.children.values())
    before = computed(driver)
    for prompt in prompts:
        driver.submit([*prompt, 5], max_tokens=1)
        driver.run()
    assert computed(driver) - before <= 100 * 2


def test_a_prompt_that_ends_before_it_is_computed_leaves_its_neighbours_as_they_are() -> None:
    driver = Driver(FakeModel(n_ctx=2000, n_ubatch=16))
    shared = [5] * 20
    for word in (7, 8):  # two texts that part after the shared tokens
        driver.submit([*shared, *[word] * 20], max_tokens=2)
        driver.run()
    driver.submit([9] * 200, max_tokens=2)  # takes the whole step
    driver.submit([*shared, *[10] * 20], max_tokens=2)
    driver.step()
    driver.cancel("r3")
    driver.run()
    again = driver.submit([*shared, *[7] * 20], max_tokens=2)
    driver.run()
    assert driver.result(again).terminal[0].cached_tokens >= 39
