"""Recurrent and hybrid models, and small windows: texts go on from checkpoints as if they were computed anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, Blob, DecodeStatus, Logits, Model
from srb.wire.commands import AddBranches, BranchSpec, Generate
from srb.wire.events import Delta, Reply
from tests.contract.rounding import ROUNDING
from tests.contract.writers import N_CTX, Writer, evening, words

TOLERANCE = 2e-2 * ROUNDING  # other texts differ by ones
EVERY = 64
WINDOWED = ["gemma3", "gemma4", "gpt-oss"]
ARCHITECTURES = pytest.mark.parametrize(
    "arch", ["mamba", "mamba2", "rwkv7", "lfm2", "lfm2, windows", "falcon-h1", "granite-hybrid", "qwen3next", *WINDOWED]
)
Load = Callable[..., LlamaModel]


def warm(load: Load, arch: str, **changes: Any) -> LlamaModel:
    """Load a model with states: one with windows with their small cache."""
    model = load(arch, **({"swa_full": "off"} if arch in WINDOWED else {}), **changes)
    assert model.has_states
    return model


def cold(load: Load, arch: str) -> LlamaModel:
    return load(arch, n_seq_max=2, swa_full="on")


class Texts:
    """Sequences of a model with their texts and the states at some of their places, and a model that computes anew."""

    def __init__(self, model: LlamaModel, cold: LlamaModel) -> None:
        self.model = model
        self._cold = cold
        self.texts: dict[int, list[int]] = {seq_id: [] for seq_id in range(model.n_seq_max)}
        self.states: dict[int, dict[int, Blob]] = {seq_id: {0: None} for seq_id in self.texts}

    def write(self, seq_id: int, tokens: list[int]) -> None:
        self._compute(self.model, seq_id, tokens, len(self.texts[seq_id]))
        self.texts[seq_id] += tokens
        self.states[seq_id][len(self.texts[seq_id])] = self.model.save_state(seq_id)

    def end_at(self, seq_id: int, end: int) -> None:
        """Give a sequence, which ends at `end` now, the state that was saved there."""
        assert self.model.restore_state(seq_id, self.states[seq_id][end])

    def forget(self, seq_id: int) -> None:
        self.model.remove(seq_id)
        self.texts[seq_id], self.states[seq_id] = [], {0: None}

    def check(self, seq_id: int) -> None:
        """Assert that the next token's logits are those of the same text in an empty context."""
        tokens = [*self.texts[seq_id], 7]
        self._cold.clear()
        cold = self._compute(self._cold, 0, tokens, 0)
        found = self._compute(self.model, seq_id, [7], len(tokens) - 1)
        self.texts[seq_id].append(7)
        self.states[seq_id][len(tokens)] = self.model.save_state(seq_id)
        assert np.allclose(found, cold, atol=TOLERANCE), f"sequence {seq_id} of {len(tokens)} tokens"

    def _compute(self, model: Model, seq_id: int, tokens: list[int], position: int) -> Logits:
        for start in range(0, len(tokens), model.n_ubatch):
            batch = Batch()
            row = batch.add(seq_id, position + start, tokens[start : start + model.n_ubatch], want_logits=True)
            assert model.decode(batch) is DecodeStatus.OK
            last = model.logits(row).copy()
        return last


@ARCHITECTURES
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_cut_beside_it_a_text_goes_on_from_its_states(load: Load, arch: str, seed: int) -> None:
    chance = random.Random(seed)
    texts = Texts(warm(load, arch, n_seq_max=6), cold(load, arch))
    model, held, states = texts.model, texts.texts, texts.states
    for turn in range(60):
        seq_id = chance.choice(list(held))
        others = [other for other in held if held[other] and other != seq_id]
        act = chance.choice(["write", "write", "write", "fork", "cut", "remove", "park", "splice"])
        room = N_CTX - 30 - sum(map(len, held.values()))
        place = chance.choice(list(states[seq_id]))
        if act == "write" and room > 0:
            texts.write(seq_id, words(min(chance.choice([3, 40, 90]), room), turn))
        elif act == "fork" and others and not held[seq_id]:
            source = chance.choice(others)
            end = chance.choice([end for end in states[source] if end])
            model.fork(source, seq_id, None if end == len(held[source]) else end)
            held[seq_id] = held[source][:end]
            states[seq_id] = {place: state for place, state in states[source].items() if place <= end}
            if end < len(held[source]):
                texts.end_at(seq_id, end)
        elif act == "cut" and place:
            model.truncate(seq_id, place)
            held[seq_id] = held[seq_id][:place]
            states[seq_id] = {end: state for end, state in states[seq_id].items() if end <= place}
            texts.end_at(seq_id, place)
        elif act == "remove":
            texts.forget(seq_id)
        elif act == "park" and held[seq_id]:
            start, end = chance.randrange(len(held[seq_id])), len(held[seq_id])
            span = model.save(seq_id, start)
            model.truncate(seq_id, start) if start else model.remove(seq_id)
            assert model.restore(seq_id, span)
            texts.end_at(seq_id, end)
        elif act == "splice" and others:
            source = chance.choice(others)
            same = next(
                (i for i, pair in enumerate(zip(held[source], held[seq_id], strict=False)) if pair[0] != pair[1]),
                min(len(held[source]), len(held[seq_id])),
            )
            if same:
                model.splice(source, seq_id, same)
        if turn % 3 == 0 and (others := [other for other in held if held[other]]):
            texts.check(chance.choice(others))
    for seq_id in held:
        texts.forget(seq_id)
    texts.write(0, words(N_CTX, 0))  # every cell is free


COLD_TEXTS: dict[tuple[str, tuple[int, ...]], list[int]] = {}  # by architecture and prompt, of all tests


@pytest.fixture
def cold_text(load: Load) -> Callable[[str, list[int]], list[int]]:
    """Return a function that has the text that a model with an empty memory writes; it is computed for the first test."""
    models: dict[str, LlamaModel] = {}

    def of(arch: str, prompt: list[int]) -> list[int]:
        key = arch, tuple(prompt)
        if key not in COLD_TEXTS:
            model = models.get(arch) or models.setdefault(arch, cold(load, arch))
            model.clear()
            [COLD_TEXTS[key]], computed = Writer(model, cache_bytes=0).ask(prompt)
            assert computed == len(prompt)
        return COLD_TEXTS[key]

    return of


@ARCHITECTURES
@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_writers_long_evening_gives_the_texts_of_cold_runs(
    load: Load, arch: str, cache_cells: int, cold_text: Callable[[str, list[int]], list[int]]
) -> None:
    writer = Writer(warm(load, arch), cache_cells, checkpoint_every=EVERY)
    asked = evening(writer)
    stats = writer.engine.stats()
    assert stats["checkpoints_loaded_total"] > 0
    assert stats["tokens_restored_total"] > 0 or cache_cells
    for name, prompt, tokens, _ in asked:
        assert tokens == cold_text(arch, prompt), name


@ARCHITECTURES
def test_an_edit_computes_at_most_the_spacing_more_than_from_its_place(load: Load, arch: str) -> None:
    computed = {name: count for name, _, _, count in evening(Writer(warm(load, arch), checkpoint_every=EVERY))}
    assert computed["continue"] <= 21  # the words after the branch, and its last token
    assert computed["take half"] <= 6 + 1 + EVERY
    assert computed["edit 200 tokens back"] <= 200 + EVERY
    assert computed["go back three turns"] <= 20 + 1
    assert computed["the first words again"] <= 60


@ARCHITECTURES
@pytest.mark.parametrize("cache_bytes", [0, 20_000, 200_000])
def test_with_little_host_memory_texts_are_right_and_more_is_computed(
    load: Load, arch: str, cache_bytes: int, cold_text: Callable[[str, list[int]], list[int]]
) -> None:
    asked = evening(Writer(warm(load, arch, n_seq_max=4), 10**6, cache_bytes, checkpoint_every=EVERY))
    for name, prompt, tokens, _ in asked:
        assert tokens == cold_text(arch, prompt), name


@ARCHITECTURES
def test_a_long_branch_has_checkpoints_too(load: Load, arch: str) -> None:
    writer = Writer(warm(load, arch), checkpoint_every=EVERY)
    prompt = words(20, 1)
    [tokens], _ = writer.ask(prompt, count=300)
    half = [*prompt, *tokens[:150]]
    [text], computed = writer.ask([*half, 300])
    assert computed <= EVERY + 1
    assert Writer(cold(load, arch)).ask([*half, 300])[0] == [text]


@ARCHITECTURES
def test_a_fork_in_the_middle_of_a_running_branch_computes_at_most_the_spacing(load: Load, arch: str) -> None:
    model, prompt = warm(load, arch, n_seq_max=4), words(120, 3)
    engine = Engine(
        model, EngineOptions(max_queue=10, cache_bytes=10**8, checkpoint_every=EVERY), clock=iter(range(10**6)).__next__
    )
    decoded = count_tokens(model)
    likeliest = SamplingParams(temperature=0, ignore_eos=True)
    engine.submit(
        engine.prepare(Generate("r", tuple(prompt), (BranchSpec(1, 260, sampling=likeliest),), can_grow=True))
    )
    written: dict[int, list[int]] = {0: []}
    while len(written[0]) < 200:
        take_step(engine, written)
    before, of_origin = sum(decoded), len(written[0])
    # a word of the fork's own, then as the model goes on
    fork = AddBranches("c", "r", ((7, (300,), (("max_tokens", 8),), ()),), origin=0, token=130)
    *_, answer = engine.submit(engine.prepare(fork))
    assert isinstance(answer, Reply)
    [index] = answer.value["indices"]
    written[index] = []
    while len(written[index]) < 8:
        take_step(engine, written)
    computed = sum(decoded) - before - (len(written[0]) - of_origin)
    assert computed <= EVERY + 1 + 8
    anew, _ = Writer(cold(load, arch)).ask([*prompt, *written[0][:130], 300], count=8)
    assert anew == [written[index][-8:]]


def count_tokens(model: LlamaModel) -> list[int]:
    """Return a list that gets the number of tokens of each decode from now on."""
    decode, sizes = model.decode, list[int]()

    def counted(batch: Batch) -> DecodeStatus:
        sizes.append(len(batch))
        return decode(batch)

    model.decode = counted  # type: ignore[method-assign]
    return sizes


def take_step(engine: Engine, written: dict[int, list[int]]) -> None:
    for event in engine.step():
        if isinstance(event, Delta):
            written[event.index] += event.tokens
    engine.check_invariants()
