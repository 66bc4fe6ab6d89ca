"""Checkpoints of memory that keeps states: where they are, what an edit costs with them, and which are dropped."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from srb.engine.fake import FakeModel
from srb.engine.tree.checkpoints import AUTO, BRANCH_EVERY, CHECKPOINT_BYTES, Checkpoint, Checkpoints, Spacing
from srb.engine.tree.host import NODE_BYTES
from srb.wire.events import Done
from tests.engine_helpers import Driver, plain, solo

EVERY = 64


def words(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(2, 40), k=count)


def driver(cache_bytes: int = 10**6, cache_cells: int = 10**6, every: int = EVERY, **model: Any) -> Driver:
    made = FakeModel(**({"n_ctx": 8000, "n_batch": 512, "n_ubatch": 512} | model), has_states=True)
    return Driver(made, cache_bytes=cache_bytes, cache_cells=cache_cells, checkpoint_every=every)


def ask(at: Driver, prompt: list[int], max_tokens: int = 10, seed: int = 1, **options: Any) -> tuple[list[int], int]:
    """Return the tokens of one branch, and how many of the prompt's were computed; compare the text with the oracle."""
    request_id = at.submit(prompt, 1, seed, max_tokens, ignore_eos=True, **options)
    at.run()
    outcome = at.result(request_id)
    [done] = outcome.terminal
    assert isinstance(done, Done)
    assert outcome.texts[0] == solo(prompt, seed, max_tokens, ignore_eos=True, n_ctx_seq=8000, **options).texts[0]
    return outcome.tokens[0], len(prompt) - done.cached_tokens


@pytest.mark.parametrize("back", [1, 10, 63, 64, 65, 200, 500, 900])
@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_an_edit_computes_at_most_the_spacing_more_than_what_follows_it(back: int, cache_cells: int) -> None:
    at, prompt = driver(cache_cells=cache_cells), words(1000, 1)
    ask(at, prompt)
    edited = [*prompt[:-back], 41, *prompt[len(prompt) - back + 1 :]]
    assert ask(at, edited)[1] <= back + EVERY


@pytest.mark.parametrize("back", [10, 30, 60])
def test_the_last_tokens_of_a_prompt_have_checkpoints_closer_together(back: int) -> None:
    at, prompt = driver(), words(1000, 1)
    ask(at, prompt)
    assert ask(at, [*prompt[:-back], 41])[1] <= EVERY // 4 + 16 + 1


def test_a_text_that_goes_on_computes_only_what_is_new() -> None:
    at, text = driver(cache_cells=0), words(200, 1)
    for turn in range(8):
        tokens, computed = ask(at, text, 20, turn)
        assert turn == 0 or computed == 1 + 3  # the branch's last token, and the words after it
        text = [*text, *tokens, *words(3, turn)]


def test_half_of_a_long_branch_computes_at_most_the_spacing_of_branches() -> None:
    at, prompt = driver(), words(100, 1)
    tokens, _ = ask(at, prompt, 300)
    assert ask(at, [*prompt, *tokens[:170], 41])[1] <= BRANCH_EVERY + 1


@pytest.mark.parametrize("token", [1, 100, 170, 290])
@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_fork_in_the_middle_of_a_running_branch_goes_on_from_the_nearest_checkpoint(
    token: int, cache_cells: int
) -> None:
    at, prompt = driver(cache_cells=cache_cells), words(100, 1)
    request_id = at.submit(prompt, 1, 1, 400, ignore_eos=True, can_grow=True)
    outcome = at.result(request_id)
    while len(outcome.tokens[0]) < 300:
        at.step()
    before, written = at.model.n_tokens_decoded, list(outcome.tokens[0])
    [index] = at.add(request_id, plain(seed=5, max_tokens=8), origin=0, token=token)
    while index not in outcome.ends:
        at.step()
    of_origin = len(outcome.tokens[0]) - len(written)
    assert at.model.n_tokens_decoded - before - of_origin <= BRANCH_EVERY + 8
    assert outcome.tokens[index] == solo([*prompt, *written[:token]], 5, 8, ignore_eos=True).tokens[0]
    at.run()
    assert outcome.tokens[0] == solo(prompt, 1, 400, ignore_eos=True).tokens[0]


def test_the_place_where_two_prompts_part_gets_a_checkpoint_for_the_third() -> None:
    at, common = driver(every=512), words(300, 1)
    ask(at, [*common, *words(60, 2)])
    assert ask(at, [*common, *words(60, 3)])[1] > 60
    assert ask(at, [*common, *words(60, 4)])[1] == 60


def test_eight_branches_of_an_edited_prompt_share_one_state() -> None:
    at, prompt = driver(), words(300, 1)
    ask(at, prompt)
    request_id = at.submit([*prompt[:200], 41], 8, 5, 12, ignore_eos=True)
    loaded = at.engine.stats()["checkpoints_loaded_total"]
    at.run()
    assert at.engine.stats()["checkpoints_loaded_total"] - loaded <= 2
    for index in range(8):
        assert at.result(request_id).texts[index] == solo([*prompt[:200], 41], 5 + index, 12, ignore_eos=True).texts[0]


def test_a_rewound_branch_goes_back_to_its_checkpoint_and_not_to_its_prompt() -> None:
    at, prompt = driver(every=16), words(20, 1)
    text = solo(prompt, 3, 200, ignore_eos=True).texts[0]
    banned = text[700:712]
    computed = at.model.n_tokens_decoded
    request_id = at.submit(prompt, 1, 3, 200, ignore_eos=True, banned_strings=(banned,))
    at.run()
    outcome = at.result(request_id)
    assert outcome.texts[0] == solo(prompt, 3, 200, ignore_eos=True, banned_strings=(banned,)).texts[0]
    rewinds = at.engine.stats()["rewinds_total"]
    assert rewinds
    assert at.model.n_tokens_decoded - computed <= 20 + 200 + (16 + 16) * rewinds


def test_under_pressure_texts_are_parked_with_their_states_and_nothing_is_computed_again() -> None:
    at = driver(cache_cells=0, n_ctx=900, n_seq_max=4)
    texts = [words(300, seed) for seed in range(8)]
    for text in texts:
        ask(at, text)
    assert at.engine.stats()["tree_tokens_parked"] > 8 * 300
    assert [ask(at, [*text, 41])[1] for text in texts] == [1] * 8


def test_branches_that_are_paused_for_lack_of_cells_are_parked_and_compute_nothing_again() -> None:
    at, prompt = driver(n_ctx=600, n_seq_max=9), words(100, 1)
    request_id = at.submit(prompt, 8, 1, 150, ignore_eos=True)
    at.run()
    paused = at.engine.stats()["branches_paused_total"]
    assert paused > 0
    assert at.model.n_tokens_decoded <= 100 + 8 * 149 + paused  # a paused branch's newest token, for its logits
    for index in range(8):
        assert at.result(request_id).texts[index] == solo(prompt, 1 + index, 150, ignore_eos=True).texts[0]


@pytest.mark.parametrize("part", ["edited", "a half"])
@pytest.mark.parametrize("n_seq_max", [3, 16])
def test_no_state_is_saved_before_the_first_tokens_that_are_waited_for(part: str, n_seq_max: int) -> None:
    at, prompt = driver(n_seq_max=n_seq_max, every=256), words(300, 1)
    tokens, _ = ask(at, prompt, 100)
    asked = [*prompt[:200], 41, *prompt[201:]] if part == "edited" else [*prompt, *tokens[:50]]
    before = at.engine.stats()["checkpoints_saved_total"]
    request_id = at.submit(asked, 2, 5, 12, ignore_eos=True)
    while not at.result(request_id).tokens:
        at.step()
    saved = at.engine.stats()["checkpoints_saved_total"] - before
    assert saved == 0 or n_seq_max == 3  # there is no sequence to spare
    at.step()
    assert at.engine.stats()["checkpoints_saved_total"] - before > 0
    at.run()
    for index in range(2):
        assert at.result(request_id).texts[index] == solo(asked, 5 + index, 12, ignore_eos=True).texts[0]
    assert ask(at, asked)[1] <= 1


def test_a_checkpoint_that_is_not_saved_yet_is_gone_with_its_prompt() -> None:
    at, prompt = driver(n_ubatch=32, n_batch=32), words(300, 1)
    ask(at, prompt)
    request_id = at.submit([*prompt[:100], 41, *words(200, 2)], cache_prompt=False)
    for _ in range(4):
        at.step()
    at.cancel(request_id)
    at.run()
    assert at.engine.stats()["sequences_used"] == at.engine.stats()["sequences_idle"]


@pytest.mark.parametrize("cache_bytes", [0, 3000, 20_000])
def test_what_the_budget_has_no_room_for_is_computed_again(cache_bytes: int) -> None:
    at = driver(cache_bytes, n_ctx=1500)
    for seed in range(6):
        prompt = words(400, seed)
        ask(at, prompt)
        edited = [*prompt[:350], 41, *prompt[351:]]
        ask(at, edited)
        assert at.engine.stats()["tree_parked_bytes"] <= cache_bytes


def test_without_spacing_a_text_goes_on_from_the_ends_of_prompts_and_branches() -> None:
    at, prompt = driver(every=0), words(300, 1)
    tokens, _ = ask(at, prompt, 30)
    assert ask(at, [*prompt, 41])[1] == 1
    assert ask(at, [*prompt, *tokens, 41])[1] == 2
    assert ask(at, [*prompt[:200], 41])[1] == 201


def test_a_request_that_does_not_cache_leaves_no_checkpoint() -> None:
    at = driver()
    ask(at, words(500, 1), cache_prompt=False)
    assert at.engine.stats()["checkpoints_saved_total"] == 0


def test_a_prompt_that_is_cancelled_can_be_gone_on_with() -> None:
    at, prompt = driver(n_ubatch=32, n_batch=32), words(1000, 1)
    request_id = at.submit(prompt)
    for _ in range(15):
        at.step()
    computed = at.model.n_tokens_decoded
    at.cancel(request_id)
    at.run()
    assert computed > 300
    assert ask(at, prompt)[1] <= 1000 - computed + EVERY


def test_an_edited_prompt_that_is_cancelled_can_be_gone_on_with() -> None:
    at, prompt = driver(n_ubatch=32, n_batch=32), words(500, 1)
    ask(at, prompt)
    edited, before = [*prompt[:30], 41, *words(800, 2)], at.model.n_tokens_decoded
    request_id = at.submit(edited)
    for _ in range(15):
        at.step()
    computed = at.model.n_tokens_decoded - before
    at.cancel(request_id)
    at.run()
    assert computed > 300
    assert ask(at, edited)[1] <= len(edited) - computed + EVERY


def test_two_equal_edits_at_once_are_computed_once() -> None:
    at, prompt = driver(n_ubatch=32, n_batch=32), words(500, 1)
    ask(at, prompt)
    edited = [*prompt[:300], 41, *prompt[301:]]
    computed = at.model.n_tokens_decoded
    ids = [at.submit(edited, 1, seed, 5, ignore_eos=True) for seed in (1, 2)]
    at.run()
    assert at.model.n_tokens_decoded - computed <= 200 + EVERY + 2 * 5
    for seed, request_id in zip((1, 2), ids, strict=True):
        assert at.result(request_id).texts[0] == solo(edited, seed, 5, ignore_eos=True).texts[0]


def test_a_prompt_that_is_a_part_of_a_longer_text_is_computed_in_part_once() -> None:
    at, text = driver(), words(500, 1)
    ask(at, text)
    assert 0 < ask(at, text[:230])[1] <= EVERY
    assert ask(at, text[:230], seed=2)[1] == 0
    nodes = at.engine.stats()["tree_nodes"]
    ask(at, text[:230], seed=2)
    assert at.engine.stats()["tree_nodes"] == nodes


# ---- the plan of places


@pytest.mark.parametrize("every", [1, 7, 16, 64, 256])
def test_chunks_end_at_checkpoints_and_reach_the_end(every: int) -> None:
    spacing, chance = Spacing(every), random.Random(every)
    for _ in range(200):
        total = chance.randint(1, 2000)
        position = chance.randrange(total)
        shared = chance.choice([0, chance.randint(0, total)])
        while position < total:
            stop = spacing.next(position, total, shared)
            assert position < stop <= min(total, position + max(every, 2 * 16 + 16))
            position = stop


def test_checkpoints_are_at_ends_of_lines_that_are_near_and_at_most_the_spacing_apart() -> None:
    spacing, chance = Spacing(256), random.Random(1)
    lines = sorted(chance.sample(range(10_000), 60))

    def line_end(low: int, high: int) -> int:
        return max((line for line in lines if low < line <= high), default=high)

    places, position = [0], 0
    while position < 10_000:
        position = spacing.next(position, 10_000, 0, line_end)
        places.append(position)
    assert max(after - before for before, after in pairwise(places)) <= 256
    assert len(set(places) & set(lines)) > 10
    for chunk in (7, 100, 512):  # however many tokens are computed at once
        position, found = 0, [0]
        while position < 10_000:
            stop = spacing.next(position, 10_000, 0, line_end)
            position = min(stop, position + chunk)
            found += [stop] if position == stop else []
        assert found[:-4] == places[: len(found) - 4]


def test_a_prompt_of_a_few_new_tokens_is_one_chunk() -> None:
    assert Spacing(256).next(1030, 1040) == 1040
    assert Spacing(256).next(1010, 1040) == 1040
    assert Spacing(0).next(0, 10_000) == 10_000


def test_large_states_are_further_apart() -> None:
    spacing = Spacing(AUTO)
    spacing.note_size(10**5)
    assert spacing.every == 256
    spacing.note_size(75 * 2**20)
    assert spacing.every == 1024
    given = Spacing(100)
    given.note_size(10**9)
    assert (given.every, given.near) == (100, 25)


@pytest.mark.parametrize(("mib", "near", "worth"), [(0, 64, 16), (1, 64, 16), (19, 128, 64), (75, 512, 256)])
def test_large_states_are_saved_seldom_at_a_prompts_end(mib: int, near: int, worth: int) -> None:
    spacing = Spacing(AUTO)
    spacing.note_size(mib * 2**20)
    assert spacing.near == near
    last = 100 * spacing.every - 1  # tokens of a prompt; the last place is behind its round hundred of them
    places, position = [], 0
    while (position := spacing.next(position, last)) < last:
        places.append(position)
    assert last - places[-1] == near - 1
    assert spacing.next(places[-1], places[-1] + near + worth - 1) == places[-1] + near + worth - 1
    assert spacing.next(places[-1], places[-1] + near + worth) == places[-1] + near
    assert {after - before for before, after in pairwise(places) if before > last - spacing.every} == {near}
    assert max(after - before for before, after in pairwise(places)) <= spacing.every


# ---- what is dropped


def test_the_last_checkpoint_of_a_level_is_dropped_as_others_are() -> None:
    all_of_them, place = Checkpoints(), dict[int, Checkpoint]()
    for position, level in ((16, 0), (32, 1)):
        place[position] = Checkpoint(position, np.empty(100, np.uint8), 100, place, level)
        all_of_them.add(place[position])
    assert [all_of_them.drop_one() for _ in range(3)] == [True, True, False]
    assert not place


def test_the_newest_places_stay_dense_and_older_ones_are_thinned() -> None:
    spacing, all_of_them, place = Spacing(64), Checkpoints(), dict[int, Checkpoint]()
    for position in range(64, 64 * 257, 64):
        place[position] = Checkpoint(position, np.empty(100, np.uint8), 100, place, spacing.level(position))
        all_of_them.add(place[position])
        while len(all_of_them) > 32:
            assert all_of_them.drop_one()
    kept = sorted(place)
    assert len(kept) == 32
    assert kept[-4:] == [64 * number for number in range(253, 257)]
    assert kept[0] <= 64 * 64  # the oldest part of the text has some
    gaps = [after - before for before, after in pairwise(kept)]
    assert max(gaps) <= 64 * 64
    assert all_of_them.nbytes == 32 * (100 + CHECKPOINT_BYTES)


def test_checkpoints_take_at_most_half_of_the_budget_when_texts_need_it() -> None:
    budget = 60 * NODE_BYTES
    at = driver(budget, cache_cells=0, every=16, n_ctx=1000)
    for seed in range(12):
        ask(at, words(300, seed), 2)
    stats = at.engine.stats()
    assert stats["tree_parked_bytes"] <= budget
    assert 0 < stats["checkpoint_bytes"] <= budget // 2 + stats["checkpoint_bytes"] / stats["checkpoints"]
    assert stats["tree_tokens_parked"] > 300
