"""Texts that a store keeps are found by the next engine, span by span, and nothing waits for them to be written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srb.engine.fake import FakeModel
from srb.engine.model import Blob, Record, Scope
from srb.engine.tokens import NEXT, tokens_of
from srb.engine.tree.residency import Residency
from srb.wire.events import PromptDone
from tests.engine_helpers import Driver, solo
from tests.text_stores import MemoryStates, MemoryTexts

STORY = [place % 40 for place in range(600)]


def engine(store: MemoryTexts, **options: Any) -> Driver:
    return Driver(FakeModel(n_ctx=4000, n_seq_max=20, n_batch=512), texts=store, cache_cells=0, **options)


def write(
    driver: Driver, store: MemoryTexts, prompt: Sequence[int], n: int = 1, tokens: int = 20, **options: Any
) -> str:
    """Write a text, and let the store have all of it."""
    asked = driver.submit(prompt, n, 1, tokens, ignore_eos=True, **options)
    run(driver, store)
    assert not driver.engine._residency.stored.is_busy
    return asked


def run(driver: Driver, store: MemoryTexts) -> None:
    """Run all requests, and let the store do what it is asked for."""
    while driver.engine.has_work or driver.engine._residency.stored.is_busy:
        driver.step()
        store.deliver()
        driver.collect()
    driver.engine.check_invariants()


def cached(driver: Driver, store: MemoryTexts, prompt: Sequence[int], **options: Any) -> int:
    """Return how many tokens of a text an engine does not compute."""
    asked = driver.submit(prompt, max_tokens=1, **options)
    run(driver, store)
    return next(event.cached_tokens for event in driver.result(asked).events if isinstance(event, PromptDone))


def texts_of(driver: Driver, asked: str, n: int) -> list[list[int]]:
    return [list(driver.result(asked).tokens[index]) for index in range(n)]


def test_the_next_engine_finds_a_text_and_writes_as_the_first_would() -> None:
    store = MemoryTexts()
    first = engine(store)
    asked = write(first, store, STORY, n=3)
    branches = texts_of(first, asked, 3)
    second = engine(store)
    assert second.engine.stats()["tree_tokens_parked"] >= len(STORY) + 3 * 19
    for tokens in branches:
        text = [*STORY, *tokens]
        assert cached(second, store, text) == len(text) - 1
    stats = second.engine.stats()
    assert stats["stored_tokens_read_total"] >= len(STORY)
    assert stats["stored_hits_total"] == 3
    assert stats["stored_seconds_saved_total"] > stats["prompt_seconds_total"], "three tokens were computed"
    assert store.num_reads == 0, "the engine waited for none"
    again = write(second, store, STORY, n=3)
    assert texts_of(second, again, 3) == branches
    assert second.result(again).texts[0] == solo(STORY, 1, 20, ignore_eos=True).texts[0]


def test_what_texts_have_in_common_is_stored_once() -> None:
    store = MemoryTexts()
    driver = engine(store)
    for story in range(16):
        write(driver, store, [*STORY, 50 + story, *STORY[:40]])
    tokens = sum(len(tokens) for _, tokens, _ in store.files.values())
    assert tokens <= len(STORY) + 16 * 62
    driver = engine(store)
    for story in range(16):
        assert cached(driver, store, [*STORY, 50 + story, *STORY[:40]]) == len(STORY) + 40


def test_a_text_that_goes_on_writes_its_new_tokens_alone() -> None:
    store = MemoryTexts()
    driver, text = engine(store), list(STORY)
    written = []
    for _ in range(10):
        asked = write(driver, store, text)
        text += driver.result(asked).tokens[0]
        written.append(driver.engine.stats()["stored_tokens_written_total"])
    assert written[-1] == len(text) - 1
    driver = engine(store)
    assert cached(driver, store, text) == len(text) - 1
    assert cached(driver, store, text[:350]) == 349, "going back"


def test_an_engine_that_is_killed_loses_only_what_was_not_written() -> None:
    store = MemoryTexts()
    driver = engine(store)
    write(driver, store, STORY)
    driver.submit([*STORY, 7, 7, 7], max_tokens=50, ignore_eos=True)
    for _ in range(20):
        driver.step()
    driver = engine(store)
    assert cached(driver, store, [*STORY, 7, 7, 7]) >= len(STORY)
    assert cached(driver, store, STORY) == len(STORY) - 1


@pytest.mark.parametrize("memory", [{}, {"has_states": True}])
def test_a_text_is_stored_while_another_that_begins_like_it_is_being_written(memory: dict[str, bool]) -> None:
    store = MemoryTexts()
    driver = with_memory(store, memory)
    writer = driver.submit([*STORY[:300], 9], max_tokens=400, ignore_eos=True)
    asked = driver.submit([*STORY[:300], 7], max_tokens=5, ignore_eos=True)
    for _ in range(60):
        driver.step()
        store.deliver()
    assert driver.result(asked).terminal
    assert not driver.result(writer).terminal
    text = [*STORY[:300], 7, *driver.result(asked).tokens[0]]
    assert found(with_memory(store, memory), text) >= len(text) - 1


def test_texts_beyond_host_memory_stay_in_the_store_and_come_back() -> None:
    store = MemoryTexts()
    small = 110_000
    driver = engine(store, cache_bytes=small)
    stories = [[story, *STORY] for story in range(12)]
    for story in stories:
        write(driver, store, story)
        assert driver.engine._residency.host.used_bytes <= small
    assert [min(cached(driver, store, story), len(STORY)) for story in stories] == [len(STORY)] * 12
    without = engine(none := MemoryTexts(0), cache_bytes=small)
    for story in stories:
        write(without, none, story)
    assert sum(cached(without, none, story) for story in stories) < 9 * len(STORY)


@pytest.mark.parametrize("place", ["beginning", "middle", "end"])
def test_a_record_that_is_lost_costs_what_hangs_on_it_and_no_more(place: str) -> None:
    store = MemoryTexts()
    first = engine(store)
    text = [*STORY, *first.result(write(first, store, STORY)).tokens[0], 9, 9]
    by_start = sorted(store.files.values(), key=lambda file: file[0].start)
    lost = by_start[{"beginning": 0, "middle": 1, "end": -1}[place]][0]
    store.lost.add(lost.id)
    driver = engine(store)
    assert cached(driver, store, text) == lost.start
    assert driver.engine.stats()["stored_texts_lost_total"] == 1
    assert not {record.id for record, *_ in store.files.values()} & {lost.id}
    run(driver, store)
    assert cached(engine(store), store, text) == len(text) - 1, "it is written again"


def test_the_budget_forgets_the_text_that_was_used_longest_ago() -> None:
    store = MemoryTexts()
    driver = engine(store)
    for story in range(6):
        write(driver, store, [story, *STORY])
    store.budget = sum(record.nbytes for record, *_ in store.files.values()) * 2 // 3
    driver = engine(store)
    assert cached(driver, store, [5, *STORY]) == len(STORY)
    assert cached(driver, store, [0, *STORY]) < len(STORY)
    assert sum(record.nbytes for record, *_ in store.files.values()) <= store.budget


@pytest.mark.parametrize("memory", [{}, {"has_states": True}])
def test_a_name_is_a_pin_on_the_texts_of_the_store(memory: dict[str, bool]) -> None:
    store = MemoryTexts()
    driver = with_memory(store, memory)
    for story, name in ((30, ""), (31, "chapter-1"), (32, ""), (33, "")):
        write(driver, store, [story, *STORY], state=name)
    nbytes = driver.engine.stats()["stored_bytes"]
    store.budget = int(nbytes * 0.6)
    write(driver, store, [34, *STORY])
    assert driver.engine.stats()["stored_bytes"] <= store.budget
    later = with_memory(store, memory)
    assert found(later, [31, *STORY]) == len(STORY) + 1, "the oldest but one, and it has a name"
    assert found(later, [32, *STORY]) < len(STORY)
    assert found(later, [34, *STORY]) >= len(STORY)
    store.budget = int(nbytes * 0.2)
    write(driver, store, [35, *STORY])
    assert driver.engine.stats()["stored_bytes"] <= store.budget, "names fill no disk"
    driver.engine.check_invariants()


def test_the_budget_holds_while_a_text_waits_to_be_written_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a free sequence to be copied in, perhaps for ever; what is written of it stays."""
    store = MemoryTexts()
    states = MemoryStates(store)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20, n_batch=512), texts=store, states=states, cache_cells=0)
    driver.deliver = lambda: None  # type: ignore[method-assign]
    story = [39, *STORY]
    driver.submit(story, max_tokens=2000, ignore_eos=True, state="chapter-1")
    stored = driver.engine._residency.stored
    while stored.pressed is None or not stored._writes:
        driver.step()
        driver.take(driver.engine.collect())
    monkeypatch.setattr(Residency, "can_copy", False)
    monkeypatch.setattr(Residency, "store_some", lambda *_: None)  # which writes more behind it
    store.deliver()
    driver.take(driver.engine.collect())
    first = next(iter(store.files))
    nbytes = store.files[first][0].nbytes
    for other in range(8):
        store.budget = nbytes // 2 if other == 7 else 3 * nbytes
        asked = driver.submit([other, *STORY], max_tokens=4)
        while not driver.result(asked).terminal or driver.engine._residency.stored._writes:
            driver.step()
            store.deliver()
            driver.take(driver.engine.collect())
        assert driver.engine.stats()["stored_bytes"] <= max(store.budget, nbytes)
        assert first in store.files
    assert not states.saved
    monkeypatch.undo()
    run(driver, store)
    assert states.saved["chapter-1"][0].tokens == tokens_of(story)


def test_a_full_disk_harms_nobody_and_is_tried_again() -> None:
    store = MemoryTexts()
    store.is_full = True
    driver = engine(store)
    write(driver, store, STORY)
    assert not store.files
    store.is_full = False
    write(driver, store, [*STORY, 9, 9])
    assert cached(engine(store), store, STORY) == len(STORY) - 1


def with_memory(store: MemoryTexts, memory: dict[str, bool], **options: Any) -> Driver:
    return Driver(FakeModel(n_ctx=4000, n_seq_max=20, **memory), texts=store, **{"cache_cells": 0} | options)


@pytest.mark.parametrize("memory", [{"has_states": True}, {"supports_partial_reuse": False}])
@pytest.mark.parametrize("cache_cells", [0, 4000])
def test_texts_go_on_after_a_restart_whatever_memory_keeps_of_them(memory: dict[str, bool], cache_cells: int) -> None:
    store = MemoryTexts()
    first = with_memory(store, memory, cache_cells=cache_cells)
    branches = texts_of(first, write(first, store, STORY, n=3), 3)
    first.engine.store_texts(10)
    store.deliver()
    second = with_memory(store, memory)
    for index, tokens in enumerate(branches):
        text = [*STORY, *tokens, 7]
        assert cached(second, store, text) == len(text) - 2, "the last token of a branch is not computed"
        again = second.submit([*STORY, *tokens[:10], 7], max_tokens=20, ignore_eos=True)
        run(second, store)
        alone = solo([*STORY, *tokens[:10], 7], 1, 20, ignore_eos=True)
        assert second.result(again).texts[0] == alone.texts[0], index
    assert store.num_reads == 0, "the engine waited for none"
    second.engine.check_invariants()


def test_states_beyond_host_memory_stay_in_the_store_and_come_back() -> None:
    store = MemoryTexts()
    driver = with_memory(store, {"has_states": True}, cache_bytes=100_000, checkpoint_every=32)
    stories = [[story, *STORY] for story in range(6)]
    for story in stories:
        write(driver, store, story)
        assert driver.engine._residency.host.used_bytes <= 100_000
    assert [min(cached(driver, store, story), 600) for story in stories] == [600] * 6
    states = driver.engine._residency.stored._states
    assert any(each.state is None for each in states.values()), "memory has not room for all"
    driver.engine.check_invariants()


def test_a_state_that_is_lost_costs_the_tokens_since_the_one_before() -> None:
    store = MemoryTexts()
    driver = with_memory(store, {"has_states": True}, checkpoint_every=100)
    write(driver, store, STORY)
    states = sorted((record for record, *_ in store.files.values() if record.is_state), key=lambda each: each.start)
    assert [each.start for each in states[-2:]] == [600, 619], "the prompt's end and the branch's"
    assert len(states) > 4
    store.lost |= {states[-1].id, states[-2].id}
    driver = with_memory(store, {"has_states": True}, checkpoint_every=100)
    assert cached(driver, store, [*STORY, 7]) == states[-3].start
    assert driver.engine.stats()["stored_texts_lost_total"] == 1
    assert states[-2].id not in {record.id for record, *_ in store.files.values()}
    driver.engine.check_invariants()


def test_states_that_stand_close_together_are_not_all_stored() -> None:
    store = MemoryTexts()
    driver = with_memory(store, {"has_states": True}, checkpoint_every=128)
    write(driver, store, STORY)
    places = sorted(record.start for record, *_ in store.files.values() if record.is_state)
    assert len(places) < driver.engine.stats()["checkpoints"]
    assert all(after - before <= 2 * 128 for before, after in itertools.pairwise(places))


@pytest.mark.parametrize("span", [("x", "", 300, []), ("x", "a", 700, []), ("x", "none", 300, []), ("x", "s", 300, [])])
def test_a_state_without_a_place_is_removed(span: tuple[str, str, int, Sequence[int]]) -> None:
    store = records(("a", "", 0, STORY), ("s", "a", 300, []), span)
    driver = with_memory(store, {"has_states": True})
    assert set(store.files) == {"a", "s"}
    driver.engine.check_invariants()


def test_a_prompt_in_use_is_stored_while_its_branches_write() -> None:
    store = MemoryTexts()
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)  # which parks nothing by itself
    asked = driver.submit(STORY, 3, 1, 300, ignore_eos=True)
    while not driver.result(asked).terminal and sum(len(tokens) for _, tokens, _ in store.files.values()) < len(STORY):
        driver.step()
        store.deliver()
    assert not driver.result(asked).terminal
    killed = engine(store)
    assert cached(killed, store, [*STORY, 7]) == len(STORY)


def test_copies_beside_requests_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store, began = MemoryTexts(), []
    model = FakeModel(n_ctx=4000, n_seq_max=20)
    driver, save = Driver(model, texts=store), model.save

    def slow(seq_id: int, start: int) -> Blob:
        began.append(driver.now)
        driver.now += 0.005
        return save(seq_id, start)

    monkeypatch.setattr(model, "save", slow)
    driver.submit(STORY, 2, 1, 400, ignore_eos=True)
    while driver.engine.has_work and len(began) < 3:
        driver.now += 0.02
        driver.step()
        store.deliver()
    assert min(later - earlier for earlier, later in itertools.pairwise(began)) >= 0.5


def test_texts_that_stay_in_the_kv_store_are_written_and_stay() -> None:
    store = MemoryTexts()
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)  # which parks nothing by itself
    asked = driver.submit(STORY, 3, 1, 300, ignore_eos=True)
    while not driver.result(asked).terminal:
        driver.step()
    used = driver.engine.stats()["kv_cells_used"]
    run(driver, store)
    assert driver.engine.stats()["kv_cells_used"] == used
    killed = engine(store)
    for tokens in texts_of(driver, asked, 3):
        text = [*STORY, *tokens]
        assert cached(killed, store, text) == len(text) - 1
    assert len({tuple(tokens) for _, tokens, _ in store.files.values()}) == len(store.files), "nothing is written twice"


def test_a_text_that_is_joined_while_its_state_is_kept_is_cut_before_it_is_parked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryTexts()
    driver = with_memory(store, {"has_states": True}, cache_cells=4000)
    text = [*STORY, *texts_of(driver, write(driver, store, STORY), 1)[0]]
    write(driver, store, [*text, *STORY[:60]])
    room = driver.engine._residency
    leaf = room._idle.oldest_leaf
    assert leaf is not None

    def keep(*_: object, **__: object) -> None:  # it may evict others, which joins the parts of this text
        room.stored.note_absorbed(leaf, leaf.absorb_parent())
        room._num_live -= 1

    monkeypatch.setattr(room.states, "keep", keep)
    assert room.park_one()
    driver.engine.check_invariants()
    assert len(leaf.stored) == 1


def test_a_full_disk_does_not_keep_an_idle_engine_busy() -> None:
    store = MemoryTexts()
    store.is_full = True
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)
    driver.submit(STORY, max_tokens=20, ignore_eos=True)
    driver.run()
    assert not driver.engine.has_work


def test_an_orderly_end_stores_what_nothing_has_written_yet() -> None:
    store = MemoryTexts(is_eager=True)
    driver = Driver(FakeModel(n_ctx=4000, n_seq_max=20), texts=store)
    asked = driver.submit(STORY, max_tokens=20, ignore_eos=True)
    while not driver.result(asked).terminal:
        driver.step()
    driver.engine.store_texts(10)
    text = [*STORY, *driver.result(asked).tokens[0]]
    assert cached(engine(store), store, text) == len(text) - 1


def test_texts_of_other_scopes_are_stored_apart() -> None:
    store = MemoryTexts()
    driver = engine(store)
    write(driver, store, STORY, cache_salt="alice")
    driver = engine(store)
    assert cached(driver, store, STORY) == 0
    assert cached(driver, store, STORY, cache_salt="alice") == len(STORY) - 1


def test_a_text_that_is_used_from_memory_is_not_the_one_that_the_budget_forgets() -> None:
    store = MemoryTexts()
    driver = engine(store)
    for story in range(6):
        write(driver, store, [story, *STORY])
    for _ in range(3):
        write(driver, store, [0, *STORY])
    store.budget = sum(record.nbytes for record, *_ in store.files.values()) * 2 // 3
    write(driver, store, [7, *STORY])
    driver = engine(store)
    assert cached(driver, store, [0, *STORY]) == len(STORY)
    assert cached(driver, store, [1, *STORY]) < len(STORY)


def records(*spans: tuple[str, str, int, Sequence[int]]) -> MemoryTexts:
    """Return a store with records: id, parent, start, and tokens, with no KV worth reading."""
    store = MemoryTexts()
    for id_, parent, start, tokens in spans:
        record = Record(id_, parent, start, start + len(tokens), 4, Scope())
        store.files[id_] = record, tokens_of(tokens), np.zeros(4, np.uint8)
    return store


def found(driver: Driver, text: Sequence[int]) -> int:
    tree = driver.engine._tree
    return tree.match(tokens_of([*text, NEXT]), tree.root(Scope())).length


def test_a_record_whose_first_tokens_another_one_has_is_found_with_all_behind_it() -> None:
    """The end of the first record was dropped, so the tree wrote some of its tokens again."""
    first, again, rest = list(range(2, 40)), [*range(22, 40), 3, 4, 5], [9, 9, 8]
    store = records(
        ("a", "", 0, first), ("b", "a", 20, again), ("c", "b", 41, rest), ("d", "b", 36, [1, 1]), ("e", "b", 39, [2, 6])
    )
    driver = engine(store)
    driver.engine.check_invariants()
    text = [*first[:20], *again]
    assert found(driver, [*text, *rest]) == len(text) + len(rest)
    assert found(driver, [*text[:36], 1, 1]) == 38
    assert found(driver, [*text[:39], 2, 6]) == 41
    assert store.files.keys() == {*"abcde"}


@pytest.mark.parametrize("start", [10, 20])
@pytest.mark.parametrize("end", [30, 38])
def test_a_record_that_another_one_has_whole_keeps_what_stands_behind_it(start: int, end: int) -> None:
    first = list(range(2, 40))
    store = records(
        ("a", "", 0, first), ("b", "a", start, first[start:end]), ("c", "b", end, [9, 9]), ("d", "b", 25, [8])
    )
    driver = engine(store)
    driver.engine.check_invariants()
    assert found(driver, [*first[:end], 9, 9]) == end + 2
    assert found(driver, [*first[:25], 8]) == 26
    assert found(driver, first) == len(first)
    assert store.files.keys() == {*"abcd"}


@pytest.mark.parametrize(
    "span",
    [
        ("b", "b", 5, [7]), ("b", "c", 5, [7]), ("b", "a", 9, [7]), ("b", "a", 0, [7]), ("b", "", 5, [7]),
        ("b", "a", 5, []),
    ],
    ids=str,
)  # fmt: skip
def test_a_record_without_a_place_is_removed(span: tuple[str, str, int, Sequence[int]]) -> None:
    store = records(("a", "", 0, [2, 3, 4, 5, 6]), span, ("c", "b", 6, [8]))
    driver = engine(store)
    driver.engine.check_invariants()
    assert store.files.keys() == {"a"}


def test_a_long_story_beyond_the_budget_loses_its_end_alone() -> None:
    spans = [(str(place), str(place - 1) if place else "", place * 2, [place % 40, 5]) for place in range(3000)]
    store = records(*spans)
    store.budget = 4 * 1000
    driver = engine(store, cache_bytes=10**8)
    assert store.files.keys() == {str(place) for place in range(1000)}
    assert found(driver, [token for _, _, _, tokens in spans for token in tokens]) == 2000


def test_an_orderly_end_stores_what_a_full_disk_refused() -> None:
    store = MemoryTexts()
    store.is_full = True
    driver = engine(store)
    write(driver, store, STORY)
    store.is_full = False
    driver.engine.store_texts(10)
    assert cached(engine(store), store, STORY) == len(STORY) - 1


class CountedTexts(MemoryTexts):
    num_fetches = 0

    def fetch(self, record: Record, done: Callable[[Blob | None], None]) -> None:
        self.num_fetches += 1
        super().fetch(record, done)


def begun(driver: Driver, asked: str) -> bool:
    return any(isinstance(event, PromptDone) for event in driver.result(asked).events)


def wait_until_begun(driver: Driver, asked: str) -> None:
    while not begun(driver, asked):
        driver.step()


def test_a_text_that_waits_for_room_is_read_once_and_keeps_its_turn() -> None:
    store = CountedTexts()
    write(engine(store), store, STORY)
    some = 11_000  # bytes, for the nodes and a part of their KV
    driver = Driver(FakeModel(n_ctx=1200, n_seq_max=20, n_batch=512), texts=store, cache_cells=0, cache_bytes=some)
    longest = driver.submit([7] * 700, max_tokens=100, ignore_eos=True)
    driver.step()
    story = driver.submit([*STORY, 9], max_tokens=5)
    for _ in range(5):
        driver.step()
    num_fetches = store.num_fetches
    late = driver.submit([8] * 390, max_tokens=5)
    wait_until_begun(driver, story)
    assert not begun(driver, late), "overtaken"
    run(driver, store)
    assert driver.result(longest).terminal
    assert store.num_fetches == num_fetches > 0


def test_texts_that_no_request_of_this_server_can_have_disturb_nobody() -> None:
    store = records(("a", "", 0, [10**9, 5]), ("b", "", 0, [4, 2**31 - 1]), ("c", "", 0, [2, 3]))
    record, tokens, blob = store.files["c"]
    scope = Scope((0.5, 1.0, float("nan")), "\0salt")  # of adapters that there are no more
    store.files["c"] = replace(record, scope=scope), tokens, blob
    driver = engine(store)
    asked = write(driver, store, [2, *STORY])
    assert driver.result(asked).texts[0] == solo([2, *STORY], 1, 20, ignore_eos=True).texts[0]
    assert store.files.keys() >= {*"abc"}
