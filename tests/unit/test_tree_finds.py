"""The prefix tree finds every text that it holds, however texts part and whichever of them were written last."""

from __future__ import annotations

import random
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.model import Scope
from srb.engine.tokens import tokens_of
from srb.engine.tree.kept import KeptText
from srb.engine.tree.match import Match, longest_match
from srb.engine.tree.node import Node, NodeState
from tests.engine_helpers import Driver, solo
from tests.text_stores import MemoryStates, MemoryTexts
from tests.tree_oracle import check_found

A, B, C, D = ([token] * 40 for token in (5, 6, 7, 8))  # texts that share nothing
HEAD = [*range(2, 40)] * 2

# Each text shares fewer tokens with another, or with what follows another, than were once worth a node.
PARTINGS = {
    "a child that matches whole has children within": [
        *([*A[:20], *C[:20]], [*C[:20], *B[:20]], [*A[:20], *C[:10], *B[:3]], A, [*A[:20], *C[:3]]),
    ],
    "one shared token, and then a child's inner child": [
        *([*HEAD, 5, *B], [*HEAD, 5, *C], [*HEAD, 5, *B, *D], [*HEAD, 5, *C[:1], *D]),
    ],
    "an inner child that goes on in its inner child": [
        *([*HEAD, *A], [*HEAD, *A[:20], *B], [*HEAD, *A[:20], *B[:9], *C], [*HEAD, *A[:20], *B[:9], *C[:4], *D]),
    ],
    "few tokens in common at each of many places": [[*HEAD[:i], *HEAD[50 + i :], 40 - i, *A] for i in range(1, 20)],
}


def ask(driver: Driver, tokens: list[int], seed: int = 1, **options: Any) -> tuple[list[int], int]:
    """Run a request to its end; return its text, as far as it was computed, and how many of its tokens were cached."""
    request = driver.submit(tokens, seed=seed, **{"max_tokens": 1, "ignore_eos": True} | options)
    driver.run()
    (done,) = driver.result(request).terminal
    return [*tokens, *driver.result(request).tokens[0]][:-1], done.cached_tokens


def roomy(cache_cells: int = 10**6, **memory: bool) -> Driver:
    model = FakeModel(n_ctx=20_000, n_seq_max=64, n_batch=1024, n_ubatch=1024, **memory)
    return Driver(model, cache_cells=cache_cells, cache_bytes=10**8)


@pytest.mark.parametrize("cache_cells", [10**6, 200, 0])
@pytest.mark.parametrize("texts", PARTINGS.values(), ids=PARTINGS)
def test_every_text_is_found_wherever_it_parted_from_others(texts: list[list[int]], cache_cells: int) -> None:
    for turn in range(4):
        driver, order = roomy(cache_cells), list(texts)
        if turn:
            order *= 2
            random.Random(turn).shuffle(order)
        for tokens in order:
            ask(driver, tokens)
            check_found(driver.engine, [(tokens_of(tokens), ())])
        for tokens in texts:
            assert ask(driver, [*tokens, 41])[1] == len(tokens)
        assert driver.engine.stats()["nodes_dropped_total"] == 0


@pytest.mark.parametrize("cache_cells", [10**6, 0])
@pytest.mark.parametrize("memory", [{}, {"has_states": True}])
def test_interleaved_chats_compute_their_new_tokens_alone(memory: dict[str, bool], cache_cells: int) -> None:
    driver, chance = roomy(cache_cells, **memory), random.Random(5)
    chats = [[*HEAD, *chance.sample(range(2, 6), 3)] for _ in range(16)]
    for turn in range(4):
        for number, chat in enumerate(chats):
            known = len(chat) if turn else 0
            chat += [3, 4, *(chance.randrange(2, 9) for _ in range(2)), *(chance.randrange(2, 40) for _ in range(30))]
            text, cached = ask(driver, chat, seed=number, max_tokens=30)
            assert cached >= known
            chats[number] = text


@pytest.mark.parametrize("common", [1, 15, 16, 238])
def test_texts_with_one_beginning_are_all_found_again(common: int) -> None:
    driver, chance = roomy(), random.Random(common)
    beginning = [chance.randrange(2, 40) for _ in range(common)]
    texts = [[*beginning, *(chance.randrange(2, 6) for _ in range(312))] for _ in range(12)]
    for tokens in texts:
        ask(driver, tokens)
    for tokens in texts:
        assert ask(driver, [*tokens, 41])[1] == len(tokens)


def test_memory_holds_no_token_twice_after_the_same_text() -> None:
    """Sixteen texts at once, each with one more token of a common beginning: none knows of the others when it begins."""
    driver = roomy()
    texts = [[*HEAD[:size], 40, *[41] * size] for size in range(1, 17)]
    for tokens in texts:
        driver.submit(tokens, max_tokens=1)
    driver.run()
    assert driver.engine.stats()["tree_tokens_resident"] == 16 + sum(1 + size for size in range(1, 17))
    assert driver.model.used_cells == driver.engine.stats()["kv_cells_used"]


def test_a_parked_text_is_split_and_only_what_is_shared_of_it_is_restored() -> None:
    driver = roomy(cache_cells=0)
    ask(driver, [*HEAD, *A, *B])
    ask(driver, [*C, *D])  # so that no cells of the first text are kept
    text, cached = ask(driver, [*HEAD, *A[:10], *C], max_tokens=9)
    assert cached == len(HEAD) + 10
    assert driver.engine.stats()["tokens_restored_total"] == len(HEAD) + 10
    expected = solo([*HEAD, *A[:10], *C], seed=1, max_tokens=9, ignore_eos=True)
    assert text[len(HEAD) + 10 + len(C) :] == expected.tokens[0][:-1]
    assert ask(driver, [*HEAD, *A, *B, 41])[1] == len(HEAD) + len(A) + len(B)


def test_a_parked_text_that_was_computed_again_comes_back_with_the_new_cells() -> None:
    """A branch that ends with what a parked one has written restores nothing, and needs no room for it."""
    driver = roomy(cache_cells=0)
    text, _ = ask(driver, HEAD, max_tokens=30)
    assert ask(driver, HEAD, max_tokens=30)[0] == text  # the same seed: the same text, computed again
    assert driver.engine.stats()["tokens_restored_total"] == 0  # the prompt's cells were kept
    assert driver.engine.stats()["tree_tokens_parked"] == len(text)
    assert ask(driver, [*text, 41])[1] == len(text)


def test_a_branch_that_ends_as_a_parked_one_began_takes_its_beginning_over() -> None:
    driver = roomy(cache_cells=0)
    bias = tuple((token, None) for token in range(2, 300) if token not in (5, 6))  # so that branches begin alike
    request = driver.submit(HEAD, n=8, max_tokens=30, ignore_eos=True, logit_bias=bias)
    driver.run()
    again = driver.submit(HEAD, n=8, seed=100, max_tokens=30, ignore_eos=True, logit_bias=bias)
    driver.run()
    assert driver.engine.stats()["tokens_restored_total"] == 0  # the prompt's cells were kept, and branches are new
    texts = [[*HEAD, *tokens[:-1]] for each in (request, again) for tokens in driver.result(each).tokens.values()]
    assert driver.engine.stats()["tree_tokens_parked"] == len(
        {tuple(text[:end]) for text in texts for end in range(1, 200)}
    )
    for text in texts:
        assert ask(driver, [*text, 41])[1] == len(text)


def test_a_prompt_being_computed_gives_what_it_has_to_others_beside_a_text_that_begins_alike() -> None:
    """What has come into the tree meanwhile begins as it does, so its beginning is shared before it is given away."""
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=32, n_batch=64, n_ubatch=64), cache_bytes=10**8)
    long = [2, 3, *HEAD, *A, *B, *C, *D]
    short = driver.submit([2, 3, 41], max_tokens=5, ignore_eos=True)
    first = driver.submit(long, max_tokens=5, ignore_eos=True)  # shares too little to wait
    driver.step()
    assert driver.result(short).tokens
    assert not driver.result(first).tokens
    third = driver.submit([*long[:60], 41, 41], max_tokens=5, ignore_eos=True)
    driver.run()
    (done,) = driver.result(third).terminal
    assert done.cached_tokens == 60
    assert driver.engine.stats()["prompt_tokens_total"] == len(long) + 3 + 2
    for request, prompt in ((first, long), (short, [2, 3, 41]), (third, [*long[:60], 41, 41])):
        assert driver.result(request).texts[0] == solo(prompt, seed=1, max_tokens=5, ignore_eos=True).texts[0]
    assert driver.model.used_cells == driver.engine.stats()["kv_cells_used"]


def test_a_text_with_a_state_is_taken_before_a_longer_one_that_is_computed_without() -> None:
    """Of memory that keeps states a prompt that is being computed again may have no place to go on from yet."""
    root = Node(None, tokens_of(()), NodeState.RESIDENT)
    known = Node(root, tokens_of(HEAD), NodeState.RESIDENT)
    computing = Node(root, tokens_of([*HEAD, *A, *B]), NodeState.COMPUTING, num_computed=90)
    for node in (known, computing):
        node.attach()
    deepest = {None: Match(known, shared=len(HEAD)), computing: Match(root, shared=90)}
    found = longest_match(tokens_of([*HEAD, *A, 41]), root, 116, lambda match: deepest[match.into])
    assert (found.node, found.shared, found.awaits) == (known, 90, computing)


def test_a_stored_text_shares_what_the_tree_has_of_it() -> None:
    stores = [MemoryTexts(is_eager=True) for _ in range(2)]
    states = MemoryStates(stores[0])
    driver, other = (
        Driver(FakeModel(n_ctx=20_000), cache_cells=0, cache_bytes=10**8, states=states, texts=store)
        for store in stores
    )
    text, _ = ask(driver, [*HEAD, *A])
    ask(driver, text, state="x")
    while driver.engine._named.is_busy:
        driver.engine.collect()
    ask(other, [*HEAD, *A[:10], *B])
    states.texts = stores[1]
    assert ask(other, [*text, 41], state="x")[1] == len(text)
    assert sum(len(node.tokens) for node in other.engine._tree.nodes()) == len(HEAD) + 10 + 30 + len(B) + 1


@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_stored_text_goes_on_from_a_beginning_that_is_known_and_not_stored(cache_cells: int) -> None:
    stores = MemoryTexts(is_eager=True), MemoryTexts()
    states = MemoryStates(stores[0])
    driver, other = (
        Driver(FakeModel(n_ctx=20_000), cache_cells=cells, cache_bytes=10**8, states=states, texts=store)
        for cells, store in zip((0, cache_cells), stores, strict=True)
    )
    ask(driver, HEAD)
    text, _ = ask(driver, [*HEAD, *A], state="x")
    while driver.engine._named.is_busy:
        driver.engine.collect()
    assert len(states.saved["x"][0].records) > 1
    ask(other, HEAD)
    states.texts = stores[1]
    assert ask(other, [*text, 41], state="x")[1] == len(text)


def test_a_text_that_begins_within_another_node_is_told_whole() -> None:
    """A named state's tokens, and those of a text that keeps its cells, are not its parent's beyond that place."""
    driver, texts = roomy(), ([*HEAD, *A], [*HEAD[:10], *B])
    for tokens in texts:
        ask(driver, tokens)
    for turn in range(20):  # newer prompts, so that the nodes of these merge
        ask(driver, [41, *[9 + turn] * 20])
    tree = driver.engine._tree
    nodes = [tree.match(tokens_of([*tokens, 41]), tree.root(Scope())).node for tokens in texts]
    assert any(node.is_inner for node in nodes)
    for node, tokens in zip(nodes, texts, strict=True):
        assert node.text().tolist() == tokens
        assert KeptText.of(node, len(tokens) - 1, 0).tokens.tolist() == tokens[:-1]


def test_the_cost_of_a_prompt_counts_idle_cells_within_a_needed_node() -> None:
    """A prompt that goes on in a child within a needed node holds what is before the child, and no more of the node."""
    driver = roomy()
    ask(driver, [*HEAD, *A])
    ask(driver, [*HEAD[:10], *B])
    tree, residency = driver.engine._tree, driver.engine._residency
    root = tree.root(Scope())
    for turn in range(20):  # newer prompts, so that the nodes of these merge
        ask(driver, [41, *[9 + turn] * 20])
    longer, inner = ([*HEAD, *A], [*HEAD[:10], *B])
    found = tree.match(tokens_of([*longer, 41]), root)
    at = residency.make_resident(found)
    prompt = tokens_of([*inner, 41])
    match = tree.match(prompt, root)
    assert match.length == len(inner)
    assert residency.cost(prompt, match) == len(B) + 1
    residency.unpin(at)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_cancelled_prompt_leaves_what_was_computed_of_it_where_it_is_found(keeps: bool) -> None:
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=32, n_batch=64, n_ubatch=64), cache_bytes=10**8)
    ask(driver, [2, 3, 41])
    long = [2, 3, *HEAD, *A, *B, *C]
    request = driver.submit(long, max_tokens=5, cache_prompt=keeps)
    driver.step()
    driver.step()
    driver.cancel(request)
    driver.run()
    computed = driver.engine.stats()["prompt_tokens_total"] - 3
    assert 64 <= computed < len(long)
    assert ask(driver, long)[1] == (2 + computed if keeps else 2)
    assert all(node.state is not NodeState.COMPUTING for node in driver.engine._tree.nodes())
