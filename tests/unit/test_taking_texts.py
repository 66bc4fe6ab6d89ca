"""Texts of a story that another engine of the model has kept are taken over, beside texts that are known here."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from srb.engine.fake import FakeModel
from srb.engine.process.text_folder import TextFolder
from srb.wire.commands import KEY, ForgetTexts, TakeTexts, digest_of
from tests.engine_helpers import Driver, solo
from tests.processes import DEADLINE, wait_for
from tests.text_stores import MemoryTexts

PREFACE = [place % 40 for place in range(300)]
STORIES = {f"story {number}": [*PREFACE, *([number + 2, 5, 9, number + 11] * 70)] for number in range(12)}


def engine(texts: Any, memory: dict[str, bool] | None = None, **options: Any) -> Driver:
    model = FakeModel(n_ctx=6000, n_seq_max=20, n_batch=512, **(memory or {}))
    return Driver(model, texts=texts, **({"cache_cells": 0, "cache_bytes": 10**8} | options))


def run(driver: Driver) -> None:
    stored = driver.engine._residency.stored
    while driver.engine.has_work or stored.is_busy:
        if driver.engine.has_work or isinstance(driver.texts, MemoryTexts):
            driver.step()
            driver.deliver()
        else:
            wait_for(partial(has_news, driver), "files are read and written")
        driver.collect()
    driver.engine.check_invariants()


def has_news(driver: Driver) -> bool:
    driver.collect()
    return driver.engine.has_work or not driver.engine._residency.stored.is_busy


def computed(driver: Driver, story: str, more: list[int] | None = None, n: int = 1) -> int:
    """Write on in a story; return how many tokens of its prompt were computed."""
    prompt = [*STORIES[story], *(more or [])]
    asked = driver.submit(prompt, n, max_tokens=6, ignore_eos=True, session=story)
    while not driver.result(asked).terminal:
        driver.step()
        driver.collect()
    run(driver)
    assert driver.result(asked).texts[0] == solo(prompt, 1, 6, ignore_eos=True).texts[0]
    return len(prompt) - driver.result(asked).terminal[0].cached_tokens


@pytest.mark.parametrize("knows", ["nothing", "the preface", "another story", "the story"])
def test_the_stories_of_an_engine_that_ended_are_not_computed_again(knows: str) -> None:
    there = MemoryTexts()
    first = engine(there)
    for story in STORIES:
        computed(first, story)
    first.engine.store_texts(1000.0)
    here = MemoryTexts()
    second = engine(here)
    if knows == "the preface":
        second.submit(PREFACE, max_tokens=3)
    elif knows == "another story":
        computed(second, "story 7")
    elif knows == "the story":
        second.submit(STORIES["story 3"], max_tokens=3)
    run(second)
    here.others.append(there)
    again = [computed(second, story) for story in STORIES]
    assert sum(again) <= len(STORIES)  # the last token of each, whose logits are needed
    second.engine.check_invariants()
    third = engine(here)  # what was taken is this engine's own
    here.others.clear()
    assert sum(computed(third, story) for story in STORIES) <= len(STORIES)


@pytest.mark.parametrize("memory", [{"has_states": True}, {"supports_partial_reuse": False}])
def test_stories_of_memory_with_states_or_that_cannot_be_cut_are_taken_too(memory: dict[str, bool]) -> None:
    there, here = MemoryTexts(), MemoryTexts()
    first = engine(there, memory)
    for story in STORIES:
        computed(first, story)
    first.engine.store_texts(1000.0)
    second = engine(here, memory)
    here.others.append(there)
    assert sum(computed(second, story, [7, 8]) for story in STORIES) == 2 * len(STORIES)
    second.engine.check_invariants()
    third = engine(here, memory)
    here.others.clear()
    assert sum(computed(third, story, [7, 8, 9]) for story in STORIES) <= 3 * len(STORIES)


@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_while_others_write_the_texts_are_taken_and_every_text_is_right(cache_cells: int) -> None:
    there, here = MemoryTexts(), MemoryTexts()
    first = engine(there)
    for story in list(STORIES)[:8]:
        computed(first, story, n=3)
    first.engine.store_texts(1000.0)
    second = engine(here, cache_cells=cache_cells)
    writers = [second.submit([*PREFACE, *[3, 4] * number], 2, max_tokens=300, ignore_eos=True) for number in (1, 20)]
    for _ in range(5):
        second.step()
    here.others.append(there)
    for story in list(STORIES)[:8]:
        asked = second.submit(STORIES[story], max_tokens=6, ignore_eos=True, session=story)
        while not second.result(asked).terminal:
            second.step()
        assert second.result(asked).terminal[0].cached_tokens >= len(STORIES[story]) - 1
        second.engine.check_invariants()
    run(second)
    assert all(end.length == 300 for writer in writers for end in second.result(writer).ends.values())


def digests(*stories: str) -> tuple[str, ...]:
    return tuple(map(digest_of, stories))


def test_a_story_that_was_elsewhere_meanwhile_is_looked_for_again_by_its_next_request() -> None:
    there, here = MemoryTexts(), MemoryTexts()
    second = engine(here)
    computed(second, "story 3")  # looked for, and nobody has it
    first = engine(there)
    turn = [4, 8, 15] * 40
    computed(first, "story 3", turn)
    first.engine.store_texts(1000.0)
    here.others.append(there)
    door = ("10.0.0.2", 9191, "t" * 64)
    assert second.engine.serve_query(TakeTexts("", digests("story 3", "story 4"), door, is_coming=True)) == 2
    assert computed(second, "story 3", turn) == 1
    assert here.looks[1:] == [(*digests("story 3"), door, [*STORIES["story 3"], *turn])]
    assert computed(second, "story 3", [*turn, 7]) <= 2
    assert len(here.looks) == 2


def test_stories_of_a_replica_that_leaves_are_there_before_they_are_asked_for() -> None:
    there, here = MemoryTexts(), MemoryTexts()
    first, second = engine(there), engine(here)
    for story in STORIES:
        computed(first, story)
    first.engine.store_texts(1000.0)
    here.others.append(there)
    second.engine.serve_query(TakeTexts("", digests(*STORIES)))
    here.deliver()
    second.engine.collect()
    here.others.clear()
    assert sum(computed(second, story) for story in STORIES) == len(STORIES)
    assert len(here.looks) == len(STORIES)
    second.engine.check_invariants()


def test_a_request_waits_for_the_texts_of_others_no_longer_than_computing_them_would_take() -> None:
    here = MemoryTexts()
    here.deliver = lambda count=0: None  # type: ignore[method-assign]  # nobody answers
    driver = engine(here)
    asked = driver.submit(STORIES["story 1"], max_tokens=6, ignore_eos=True, session="story 1")

    def has_begun() -> bool:
        for _ in range(5):
            driver.step()
        return driver.engine.stats()["requests_processing"] == 1

    assert not has_begun()
    most = len(STORIES["story 1"]) / 50  # seconds; nothing is known of the pace yet
    driver.now += most - 1
    assert not has_begun()
    driver.now += 1
    assert has_begun()
    while not driver.result(asked).terminal:
        driver.step()
    assert driver.result(asked).terminal[0].cached_tokens == 0


@pytest.mark.parametrize("gone", ["story", "key"])
def test_a_text_that_is_forgotten_on_its_way_does_not_come_back(gone: str) -> None:
    there, here = MemoryTexts(), MemoryTexts()
    first, second = engine(there), engine(here)
    owner = f"{KEY}her"
    other = [place % 7 + 50 for place in range(200)]
    first.submit(STORIES["story 1"], max_tokens=6, session="story 1", owner=owner)
    run(first)
    first.submit(other, max_tokens=6, session="story 2")
    run(first)
    first.engine.store_texts(1000.0)
    here.others.append(there)
    second.engine.serve_query(TakeTexts("", digests("story 1", "story 2")))
    forgotten = ForgetTexts("", digests("story 1")) if gone == "story" else ForgetTexts("", (), digests(owner))
    second.engine.serve_query(forgotten)
    here.deliver()
    second.engine.collect()
    assert not any(forgotten.has(record.asker) for record, *_ in here.files.values())
    here.others.clear()
    assert computed(second, "story 1") == len(STORIES["story 1"])
    asked = second.submit(other, max_tokens=6, session="story 2")
    run(second)
    assert second.result(asked).terminal[0].cached_tokens == len(other) - 1


def test_without_a_session_or_without_others_nothing_is_looked_for() -> None:
    store = MemoryTexts()
    store.take = None  # type: ignore[assignment]
    driver = engine(store)
    driver.submit(PREFACE, max_tokens=3)
    run(driver)


def test_two_servers_keep_texts_beside_each_other_and_one_that_goes_on_has_those_of_both(tmp_path: Path) -> None:
    folders = [TextFolder(tmp_path, "0" * 32, 10**9) for _ in range(2)]
    assert len({folder.folder for folder in folders}) == 2
    first, second = (engine(folder) for folder in folders)
    for story in list(STORIES)[:5]:
        computed(first, story)
    first.engine.store_texts(float(DEADLINE))
    folders[0].close(DEADLINE)
    assert sum(computed(second, story) for story in list(STORIES)[:5]) == 5
    assert second.engine.stats()["stored_texts_lost_total"] == 0
    second.engine.store_texts(float(DEADLINE))
    folders[1].close(DEADLINE)
    for folder in tmp_path.glob("*-2"):
        assert (folder / "index").stat().st_size > 1000
