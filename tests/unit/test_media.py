"""Media in prompts, on the fake: whatever else runs, a text about a picture is the one it has alone."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from srb.engine import media
from srb.engine.fake import FakeModel
from srb.engine.media import MediaFiles, media_tokens
from srb.engine.model import DecodeStatus
from srb.engine.preparing import _file
from srb.engine.request import Request
from srb.engine.tokens import run_start, tokens_of
from srb.errors import Cancelled, ContextExceeded, InvalidRequest, NotSupported
from srb.files.media_files import MediaKind, kind_of
from srb.wire.commands import BranchSpec, ContextShift, Generate, StateAction
from srb.wire.events import Done, PromptDone
from tests.engine_helpers import Driver, Outcome
from tests.media import b64, png, wav
from tests.processes import DEADLINE
from tests.walks import examples

FILES = tuple(map(b64, (png(seed=1), png(seed=2), wav(0.01))))
FOX = "the old king said "


def driver(n_ctx: int = 512, **options: Any) -> Driver:
    names = ("has_states", "supports_partial_reuse", "has_sections")
    memory = {name: options.pop(name) for name in names if name in options}
    model = FakeModel(n_ctx, reads_media=True, n_ubatch=16, n_adapters=1, **memory)
    return Driver(model, **options)


def alone(prompt: tuple[str | int, ...], seed: int, **options: Any) -> Outcome:
    made = driver(4096)
    request_id = made.submit(prompt, 1, seed, media=FILES, **options)
    made.run()
    return made.result(request_id)


def encoded(made: Driver) -> int:
    return made.engine._preparer.media.encoded_total


def cached(made: Driver, request_id: str) -> int:
    [done] = [event for event in made.result(request_id).events if isinstance(event, PromptDone)]
    return done.cached_tokens


def test_branches_about_a_picture_encode_it_once_and_compute_it_once() -> None:
    made = driver()
    request_id = made.submit((FOX, -1, " then"), 8, 1, media=FILES)
    [prompt] = [len(made.request(request_id).prefix.tokens)]
    made.run()
    assert encoded(made) == 1
    assert made.engine.stats()["prompt_tokens_total"] == prompt
    for index in range(8):
        assert made.result(request_id).texts[index] == alone((FOX, -1, " then"), 1 + index).texts[0]


def test_texts_about_other_pictures_are_others() -> None:
    texts = {alone((FOX, -1 - which, " then"), 1).texts[0] for which in range(3)}
    assert len(texts) == 3


def test_the_next_turn_and_other_requests_find_the_picture_in_the_tree() -> None:
    made = driver()
    first = made.submit((FOX, -1, " then"), 1, 1, media=FILES)
    computed = len(made.request(first).prefix.tokens)
    made.run()
    tokens = tuple(made.result(first).tokens[0])
    more = made.submit((FOX, -1, " then", *tokens, 5, 6), 1, 2, media=FILES)
    same = made.submit((FOX, -1, " then"), 1, 3, media=FILES)
    made.run()
    assert cached(made, more) >= computed
    assert cached(made, same) == computed
    assert encoded(made) == 1


def test_the_end_of_a_request_tells_its_tokens_of_pictures_and_sounds() -> None:
    made = driver()
    lengths = []
    for part, brackets in ((-1, 2), (-2, 2), (-3, 0)):  # alone; a picture has a bracket before and after it
        request_id = made.submit((part,), 1, 1, 1, media=FILES, add_special=False)
        lengths.append(len(made.request(request_id).prefix.tokens) - brackets)
    request_id = made.submit((FOX, -1, -2, " then", -3), 2, 1, 4, media=FILES)
    made.run()
    expected = lengths[0] + lengths[1], lengths[2]
    events = made.result(request_id).events
    told = [each for each in events if isinstance(each, (PromptDone, Done))]
    assert [(each.image_tokens, each.audio_tokens) for each in told] == [expected] * 2
    stats = made.engine.stats()
    assert (stats["prompt_image_tokens_total"], stats["prompt_audio_tokens_total"]) == (
        2 * expected[0],
        2 * expected[1],
    )


def test_files_that_are_encoded_and_those_that_were_known_are_counted() -> None:
    ticks = iter(range(100))
    files = MediaFiles(FakeModel(reads_media=True).encoder, clock=lambda: next(ticks) * 0.5)
    for data in (png(seed=1), png(seed=2), png(seed=1)):
        files.append_to(tokens_of(()), data, "prompt")
    told = files.stats()
    size = told.pop("media_cache_bytes")
    assert told == {"media_encoded_total": 2, "media_reused_total": 1, "media_encode_seconds_total": 1.0}
    files.append_to(tokens_of(()), png(seed=3), "prompt")
    assert files.stats()["media_cache_bytes"] > size > 0


def test_a_prompt_that_begins_or_ends_with_media_is_computed_as_any_other() -> None:
    made = driver()
    prompts: list[tuple[str | int, ...]] = [(-1,), (-1, -2), (FOX, -3), (-3, FOX, -1, -1)]
    ids = [made.submit(prompt, 2, 4, media=FILES) for prompt in prompts * 2]
    made.run()
    for request_id, prompt in zip(ids, prompts * 2, strict=True):
        assert made.result(request_id).texts[1] == alone(prompt, 5).texts[0]


SECTIONS = {"has_sections": True}
MEMORIES = [{}, {"has_states": True}, {"supports_partial_reuse": False}, SECTIONS, SECTIONS | {"has_states": True}]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("seed", range(examples(12)))
def test_under_pressure_and_after_failures_every_text_is_the_one_it_has_alone(
    seed: int, memory: dict[str, bool]
) -> None:
    """Prompts are dropped, parked, evicted, cancelled, retried in parts: media are computed again, and never in parts."""
    luck = random.Random(seed)
    limits = {"cache_cells": luck.choice([0, 30, 10**6]), "cache_bytes": luck.choice([0, 3000, 10**6])}
    made = driver(luck.randint(110, 220), **memory, **limits, checkpoint_every=luck.choice([-1, 8]))
    asked: dict[str, tuple[tuple[str | int, ...], int, int]] = {}
    for _ in range(25):
        parts: list[str | int] = [
            luck.choice([FOX, -1, -2, -3, " then", "a boat " * 4, 7]) for _ in range(luck.randint(1, 4))
        ]
        prompt = (FOX, *parts) if luck.random() < 0.7 else tuple(parts)
        n, first = luck.randint(1, 4), luck.randint(0, 50)
        options = {"cache_prompt": luck.random() < 0.8, "lora": ((0, luck.choice([0.0, 0.0, 0.5])),)}
        try:
            request_id = made.submit(prompt, n, first, media=FILES, **options)
        except ContextExceeded:
            continue
        asked[request_id] = prompt, first, options["lora"]
        for _ in range(luck.randint(0, 12)):
            if luck.random() < 0.1:
                made.model.failures.append(luck.choice([DecodeStatus.NO_ROOM, DecodeStatus.OK]))
            if made.engine.has_work:
                made.step()
        if luck.random() < 0.15:
            made.cancel(luck.choice(list(asked)))
    made.run()
    for request_id, (prompt, first, lora) in asked.items():
        for index, text in made.result(request_id).texts.items():
            whole = alone(prompt, first + index, lora=lora).texts[0]
            end = made.result(request_id).ends[index]
            assert text == whole or ((end.truncated or end.reason == "cancelled") and whole.startswith(text))


@pytest.mark.parametrize("memory", [SECTIONS, SECTIONS | {"has_states": True}])
def test_a_picture_that_was_cancelled_in_parts_leaves_no_part_of_it(memory: dict[str, bool]) -> None:
    made = driver(**memory)
    made.model.n_ubatch = 5
    request_id = made.submit((FOX, -1, " then"), 1, 1, media=FILES)
    prefix = made.request(request_id).prefix
    while not (run := prefix.media[0]).start < prefix.num_computed < run.end:
        made.step()
    made.cancel(request_id)
    assert made.engine.stats()["kv_cells_used"] == run.start
    again = made.submit((FOX, -1, " then"), 2, 1, media=FILES)
    made.run()
    assert made.result(again).texts[1] == alone((FOX, -1, " then"), 2).texts[0]


def test_the_text_of_a_slot_that_ends_with_media_is_saved_with_them() -> None:
    made = driver()
    request_id = made.submit((FOX, -3), 1, 1, 0, media=FILES)
    count = len(made.request(request_id).prefix.tokens)
    made.run()
    for action in ("save", "restore"):
        [reply] = made.engine.submit(made.engine.prepare(StateAction("s", action, "a name", 0)))
        assert reply.value["tokens"] == count


def test_penalties_look_at_the_text_beside_media(monkeypatch: pytest.MonkeyPatch) -> None:
    histories: list[list[int]] = []
    new_sampler = FakeModel.new_sampler

    def noted(model: FakeModel, params: Any, seed: int, history: Any, min_tokens: int = 0) -> Any:
        histories.append(list(history))
        return new_sampler(model, params, seed, history, min_tokens)

    monkeypatch.setattr(FakeModel, "new_sampler", noted)
    made = driver()
    request_id = made.submit((FOX, -1, -3, " then"), 3, 1, media=FILES)
    prompt = made.request(request_id).prefix.tokens
    assert histories == [[token for token in prompt if token >= 0]]


def test_a_long_text_is_parked_in_parts_that_begin_outside_of_pictures() -> None:
    made = driver(1024, has_sections=True, cache_cells=0)
    prompt = (FOX, *(-1, -2) * 30)
    first = made.submit(prompt, 1, 1, media=FILES)
    made.run()
    while made.engine.has_work:
        made.step()
    assert made.engine.stats()["nodes_parked_total"] > 1
    for end in (len(prompt), 40, 11):
        other = made.submit((*prompt[:end], " then"), 1, 5, media=FILES)
        made.run()
        assert made.result(other).texts[0] == alone((*prompt[:end], " then"), 5).texts[0]
    assert cached(made, first) == 0


def test_tokens_are_counted_as_they_would_be_encoded() -> None:
    files = MediaFiles(FakeModel(reads_media=True).encoder)
    for data in (png(seed=1), wav(0.01)):
        count, tokens = files.count(data, "prompt"), tokens_of(())
        assert files.encoded_total == 0
        MediaFiles(FakeModel(reads_media=True).encoder).append_to(tokens, data, "prompt")
        assert count == len(tokens)
    with pytest.raises(InvalidRequest, match="'prompt': should be a picture"):
        files.count(b"text", "prompt")


def test_a_file_is_checked_once_and_others_are_never_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def note(data: bytes, reads_webp: bool) -> MediaKind:
        checked.append(data)
        return kind_of(data, reads_webp)

    monkeypatch.setattr(media, "kind_of", note)
    monkeypatch.setattr(media, "MAX_CHECKED", 2)
    files = MediaFiles(FakeModel(reads_media=True).encoder)
    one, two, three = (png(seed=seed) for seed in range(3))
    broken = one[:-30]

    def ask(data: bytes) -> None:
        files.append_to(tokens_of(()), data, "prompt")

    for data in (one, one, two, one):
        ask(data)
    assert checked == [one, two]
    for _ in range(2):  # what was refused is checked again
        with pytest.raises(InvalidRequest, match="'prompt': is damaged"):
            ask(broken)
    assert checked == [one, two, broken, broken]
    for data in (three, one, two):  # the one that was used last stays
        ask(data)
    assert checked[4:] == [three, two]


def test_vectors_that_were_dropped_are_made_again() -> None:
    model = FakeModel(reads_media=True)
    files = MediaFiles(model.encoder, cache_bytes=100)
    first, second = png(seed=1), png(seed=2)
    for data in (first, first, second, first):
        files.append_to(tokens_of(()), data, "prompt")
    assert files.encoded_total == 3


def test_media_take_no_context_shift() -> None:
    made = driver(256)
    request_id = made.submit((FOX, -1), 1, 1, 400, media=FILES, shift=ContextShift())
    made.run()
    assert made.result(request_id).ends[0].truncated


def test_tokens_of_media_are_no_tokens_of_a_vocabulary() -> None:
    tokens = media_tokens(b"a picture", 5000)
    assert max(tokens) < -1
    assert len(set(tokens)) > 4990
    assert tokens == media_tokens(b"a picture", 5000)
    assert tokens[:3] != media_tokens(b"another", 3)


def test_a_text_is_never_cut_within_media() -> None:
    tokens = tokens_of([1, 2, -5, -6, -7, 3, -8])
    assert [run_start(tokens, place) for place in range(8)] == [0, 1, 2, 2, 2, 5, 6, 7]


def test_a_model_without_a_projector_names_the_flag() -> None:
    with pytest.raises(InvalidRequest, match="--mmproj"):
        Driver().submit((FOX, -1), media=FILES)


def test_bad_media_are_refused_with_the_field() -> None:
    made = driver()
    with pytest.raises(InvalidRequest, match="'prompt': should be base64"):
        made.submit((FOX, -1), media=("not base64!",))
    with pytest.raises(InvalidRequest, match="'image_data': should be a picture"):
        made.submit((FOX, -1), media=(b64(b"%PDF"),), media_field="image_data")
    with pytest.raises(InvalidRequest, match="n_ubatch"):
        Driver(FakeModel(reads_media=True, n_ubatch=4)).submit((FOX, -1), media=FILES)
    with pytest.raises(InvalidRequest, match="log-probabilities"):
        made.submit((FOX, -1), media=FILES, prompt_logprobs=True)
    with pytest.raises(ContextExceeded):
        driver(64).submit((-1,) * 20, media=FILES)
    assert made.model.open_samplers == 0


def test_a_projector_that_cannot_be_used_says_why_and_texts_go_on() -> None:
    model = FakeModel(reads_media=True)
    assert model.encoder is not None
    model.encoder.refusal = "its positions are not supported"
    made = Driver(model)
    with pytest.raises(NotSupported, match="'prompt': its positions are not supported"):
        made.submit((FOX, -1), media=FILES)
    made.submit(FOX)
    made.run()


@pytest.mark.parametrize("memory", [{}, SECTIONS, SECTIONS | {"has_states": True}])
def test_a_step_computes_two_ubatches_of_pictures_at_most_and_a_token_of_every_branch(memory: dict[str, bool]) -> None:
    """The pause of other branches: one share of prompts, and one picture that is computed whole."""
    made = driver(4096, **memory)
    story = made.request(made.submit(FOX, 4, 1, 400, ignore_eos=True))
    while not all(branch.tokens for branch in story.branches):
        made.step()
    prompts = [(-1 - which, " then", -2, -3, -1) for which in range(3)]
    seers = [made.request(made.submit(each, 1, 50, 400, media=FILES, ignore_eos=True)) for each in prompts]
    steps = 0
    while not all(request.prefix.is_complete for request in seers):
        running = [branch for request in (story, *seers) for branch in request.branches if branch.tokens]
        lengths = [len(branch.tokens) for branch in running]
        before = made.engine.stats()["prompt_tokens_total"]
        made.step()
        assert [len(branch.tokens) for branch in running] == [length + 1 for length in lengths]
        assert made.engine.stats()["prompt_tokens_total"] - before < 2 * made.model.n_ubatch
        steps += 1
    assert steps > 4


def test_requests_at_once_about_equal_pictures_encode_each_once() -> None:
    made = driver(4096)
    ready, encode = Barrier(8), made.model.encoder.encode  # type: ignore[union-attr]

    def slowly(*given: Any) -> Any:
        ready.wait(DEADLINE)  # the others ask for the same file meanwhile
        return encode(*given)

    made.model.encoder.encode = slowly  # type: ignore[union-attr,method-assign]
    files = made.engine._preparer.media

    def ask(place: int) -> int:
        if place:
            ready.wait(DEADLINE)
        tokens = tokens_of(())
        files.append_to(tokens, png(seed=1), "prompt")
        return len(tokens)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert files.encoded_total == 1


def test_files_for_a_cancelled_request_are_not_encoded_and_those_that_were_stay_known() -> None:
    made = driver(4096)
    files = made.engine._preparer.media
    command = Generate("r", (FOX, -1, -2), (BranchSpec(0, 1),), media=FILES)
    answers = iter([True, False])
    with pytest.raises(Cancelled):
        made.engine.prepare(command, lambda: next(answers))
    assert files.encoded_total == 1
    request = made.engine.prepare(command)
    assert files.encoded_total == 2
    assert isinstance(request, Request)
    request.close()
    assert made.model.open_samplers == 0


@pytest.mark.parametrize("file", [0, 2])
def test_base64_may_have_line_ends_and_lack_its_own(file: int) -> None:
    plain = FILES[file]
    lines = "\r\n".join(plain[at : at + 76] for at in range(0, len(plain), 76)) + "\n"
    for written in (lines, plain.rstrip("="), lines.replace("=", "")):
        assert _file(written, "images") == _file(plain, "images")
    for broken in ("a", plain + "!", "ab=c"):
        with pytest.raises(InvalidRequest, match="'images': should be base64"):
            _file(broken, "images")
