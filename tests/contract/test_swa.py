"""Models with sliding windows: long texts beside each other, cut, parked and gone on with as if they were computed anew.

The cells are f32 and flash attention is off, so that equal texts have equal logits but for the order of sums.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama import swa
from srb.engine.llama.memory_estimate import memory_estimate
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.swa import available_memory, small_cells
from srb.engine.model import Batch, DecodeStatus, Logits, Model
from srb.wire.commands import ContextShift
from tests.contract.conftest import BESIDE_STATES
from tests.contract.rounding import ROUNDING, needs_equal_texts
from tests.contract.writers import N_CTX, Writer, evening, words

CHUNK = 8192
TOLERANCE = 2e-2 * ROUNDING  # llama.cpp's GELU is rounded to f16; other texts differ by ones
MODES = pytest.mark.parametrize("swa_full", ["on", "off"])


class Texts:
    """Sequences of a model with the texts that they hold, and a second model that computes any text anew."""

    def __init__(self, model: LlamaModel, cold: LlamaModel) -> None:
        self.model = model
        self._cold = cold
        self.texts: dict[int, list[int]] = {seq_id: [] for seq_id in range(model.n_seq_max)}

    def write(self, seq_id: int, tokens: list[int]) -> None:
        self._compute(self.model, seq_id, tokens, len(self.texts[seq_id]))
        self.texts[seq_id] += tokens

    def check(self, seq_id: int, tolerance: float = TOLERANCE) -> None:
        """Assert that the next token's logits are those of the same text in an empty context."""
        tokens = [*self.texts[seq_id], 7]
        self._cold.clear()
        cold = self._compute(self._cold, 0, tokens, 0)
        self.write(seq_id, [7])
        assert np.allclose(self._last, cold, atol=tolerance), f"sequence {seq_id} of {len(tokens)} tokens"

    def fill(self) -> None:
        """Assert that removed texts leave every cell free, by one text that takes them all."""
        for seq_id in self.texts:
            self.model.remove(seq_id)
            self.texts[seq_id] = []
        self.write(0, words(N_CTX, 0))

    def _compute(self, model: Model, seq_id: int, tokens: list[int], position: int) -> Logits:
        for start in range(0, len(tokens), model.n_ubatch):
            batch = Batch()
            row = batch.add(seq_id, position + start, tokens[start : start + model.n_ubatch], want_logits=True)
            assert model.decode(batch) is DecodeStatus.OK
            self._last = model.logits(row).copy()
        return self._last

    @property
    def used_cells(self) -> int:
        """Return how many cells the texts take at most."""
        return sum(map(len, self.texts.values()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arch", ["gemma2", "gemma3", "gemma4", "gpt-oss"])
def test_whatever_is_cut_beside_it_a_text_goes_on_as_if_computed_anew(
    load: Callable[..., LlamaModel], arch: str, seed: int
) -> None:
    chance = random.Random(seed)
    texts = Texts(load(arch, swa_full="on", n_seq_max=5), load(arch, swa_full="on", n_seq_max=2))
    model, held = texts.model, texts.texts
    assert model.supports_partial_reuse
    for turn in range(60):
        seq_id = chance.choice(list(held))
        others = [other for other in held if held[other] and other != seq_id]
        act = chance.choice(["write", "write", "write", "again", "fork", "truncate", "remove", "park", "splice"])
        if act == "write" and len(held[seq_id]) < 400:
            texts.write(seq_id, words(min(chance.choice([3, 40, 150]), N_CTX - 20 - texts.used_cells), turn))
        elif act == "again" and others and not held[seq_id]:
            texts.write(seq_id, held[chance.choice(others)][: max(1, N_CTX - 50 - texts.used_cells)])
        elif act == "fork" and others and not held[seq_id]:
            source = chance.choice(others)
            end = chance.choice([None, chance.randint(1, len(held[source]))])
            if len(held[source]) < N_CTX - 100 - texts.used_cells:
                model.fork(source, seq_id, end)
                held[seq_id] = held[source][:end]
        elif act == "truncate" and held[seq_id]:
            end = chance.randint(1, len(held[seq_id]))
            model.truncate(seq_id, end)
            del held[seq_id][end:]
        elif act == "remove":
            model.remove(seq_id)
            held[seq_id] = []
        elif act == "park" and held[seq_id]:
            start = chance.choice([0, chance.randrange(len(held[seq_id]))])
            blob = model.save(seq_id, start)
            if start:
                model.truncate(seq_id, start)
            else:
                model.remove(seq_id)
            assert model.restore(seq_id, blob)
        elif act == "splice" and others:
            source = chance.choice(others)
            pairs = zip(held[source], held[seq_id], strict=False)
            if same := len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))):
                model.splice(source, seq_id, same)
        if turn % 3 == 0 and texts.used_cells < N_CTX - 10:
            if cut := chance.choice([other for other in held if held[other]] or [0]):
                del held[cut][chance.randrange(len(held[cut])) + 1 :]
                model.truncate(cut, len(held[cut]))
            texts.check(cut)
    texts.fill()


def test_a_text_that_is_cut_before_the_end_of_a_chunk_still_has_the_chunk(load: Callable[..., LlamaModel]) -> None:
    """Tokens of llama 4's next chunk see nothing of the last one, whose cells llama.cpp would give to others."""
    options = {"n_ctx": CHUNK + 2560, "n_batch": 1024, "n_ubatch": 1024, "flash_attn": "on"}
    texts = Texts(load("llama4", **options, n_seq_max=3), load("llama4", **options, n_seq_max=2))
    texts.write(1, words(10, 1))
    texts.write(0, words(CHUNK - 50, 2))
    texts.write(0, words(90, 3))
    texts.model.remove(1)  # so that the next cells are looked for from the first one on
    texts.write(2, words(2500, 4))
    texts.model.truncate(0, CHUNK - 20)
    del texts.texts[0][CHUNK - 20 :]
    texts.check(0, tolerance=0.1)  # flash attention rounds cells and queries to f16


def test_a_splice_and_a_cut_free_the_cells_that_they_replace(load: Callable[..., LlamaModel]) -> None:
    texts = Texts(load(swa_full="on", n_seq_max=5), load(swa_full="on", n_seq_max=2))
    for seq_id in (0, 1):
        texts.write(seq_id, words(300, 1))
    texts.model.splice(0, 1, 200)
    texts.model.truncate(1, 250)
    texts.write(2, words(N_CTX - 350, 2))


@MODES
@pytest.mark.parametrize("cache_cells", [0, 10**6])
def test_a_writers_long_evening_gives_the_texts_of_cold_runs(
    load: Callable[..., LlamaModel], swa_full: str, cache_cells: int
) -> None:
    writer = Writer(load(swa_full=swa_full), cache_cells)
    asked = evening(writer)
    assert writer.engine.stats()["tokens_restored_total"] > 0 or cache_cells
    cold = load(swa_full="on", n_seq_max=2)
    for name, prompt, tokens, _ in asked:
        cold.clear()
        [expected], computed = Writer(cold).ask(prompt)
        assert computed == len(prompt)
        assert tokens == expected, name


def test_with_the_full_cache_an_edit_computes_the_text_from_there_on(load: Callable[..., LlamaModel]) -> None:
    computed = {name: count for name, _, _, count in evening(Writer(load(swa_full="on")))}
    assert computed["take half"] == 1
    assert computed["edit 200 tokens back"] == 200
    assert computed["go back three turns"] <= 20
    assert computed["the first words again"] == 1


@needs_equal_texts
@MODES
def test_eight_branches_of_a_long_prompt_are_what_each_is_alone(load: Callable[..., LlamaModel], swa_full: str) -> None:
    prompt = words(500, 4)
    together, _ = Writer(load(swa_full=swa_full)).ask(prompt, n=8, count=40)
    assert len({tuple(tokens) for tokens in together}) == 8
    cold = load(swa_full="on", n_seq_max=2)
    alone, _ = Writer(cold).ask(prompt, n=8, count=40)
    assert together == alone


@MODES
def test_a_text_goes_on_across_a_context_shift(load: Callable[..., LlamaModel], swa_full: str) -> None:
    """A shift computes the kept text again, whatever the cache."""
    model, prompt = load(swa_full=swa_full), words(350, 4)
    n_ctx = model.n_ctx_seq
    count = n_ctx - len(prompt) + 20
    [tokens], _ = Writer(model).ask(prompt, count=count, shift=ContextShift(4))
    full = [*prompt, *tokens][:n_ctx]
    rest = full[:5] + full[5 + (n_ctx - 5) // 2 :]
    [expected], _ = Writer(load(swa_full="on", n_seq_max=2)).ask(rest)
    assert tokens[n_ctx - len(prompt) :][:12] == expected


def test_a_small_cache_without_a_spare_cell_has_room_for_every_window(load: Callable[..., LlamaModel]) -> None:
    """Six windows of 32 cells and a ubatch of 64 fill the 256 cells that llama.cpp rounds to; the scratch has none."""
    options = {"swa_full": "off", "n_seq_max": 6, "n_batch": 64, "n_ubatch": 64}
    assert small_cells(Settings(**options), 32) == 6 * 32 + 64
    texts = Texts(load(**options), load(swa_full="on", n_seq_max=2))
    model = texts.model
    assert model.n_seq_max == 6
    for turn in range(2):
        for seq_id in range(6):
            texts.write(seq_id, words(64 + seq_id, seq_id))
        batch = Batch()  # a ubatch of all sequences
        for seq_id in range(6):
            batch.add(seq_id, len(texts.texts[seq_id]), words(10, turn), want_logits=True)
            texts.texts[seq_id] += words(10, turn)
        assert model.decode(batch) is DecodeStatus.OK
        for seq_id in range(6):
            span, state = model.save(seq_id, 20), model.save_state(seq_id)
            texts.check(seq_id)
            model.truncate(seq_id, 20)
            assert model.restore(seq_id, span)
            del texts.texts[seq_id][-1]
            assert model.restore_state(seq_id, state)
            texts.check(seq_id)
        model.remove(5)
        model.fork(0, 5)
        texts.texts[5] = list(texts.texts[0])
        texts.check(5)
        texts.check(0)
    for seq_id in texts.texts:
        model.remove(seq_id)


# ---- which cache


def native(gguf: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, free: int, **changes: Any) -> LlamaModel:
    monkeypatch.setattr(swa, "available_memory", lambda: free)
    on_cpu = {"n_gpu_layers": 0, "n_ctx": N_CTX, "n_ubatch": 64, "threads": 1}
    return LlamaModel.load(Settings(model=str(gguf("gemma3")), **(on_cpu | changes)))


@pytest.mark.parametrize(("share", "cuts"), [(1.9, False), (2.1, True)])
def test_auto_takes_the_full_size_where_the_kv_store_is_half_of_the_free_memory(
    gguf: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    share: float,
    cuts: bool,
) -> None:
    # six layers of two heads of 16 keys and 16 values, in f16
    size = N_CTX * 6 * 2 * (16 + 16) * 2
    with caplog.at_level(logging.INFO):
        model = native(gguf, monkeypatch, int(share * size), mmap="off")
    assert model.has_states is not cuts
    [line] = [record.message for record in caplog.records if "sliding windows of 32 tokens" in record.message]
    assert ("full-size cache" if cuts else "small cache of 256 cells") in line
    assert "swa_full = auto" in line
    model.close()


@pytest.mark.parametrize(("arch", "most"), [("gemma3", 1.0), ("gpt-oss", 1.0), ("gemma4", 1.01)])
def test_the_full_size_is_known_before_it_is_made(load: Callable[..., LlamaModel], arch: str, most: float) -> None:
    model = load(arch)
    settings = model._settings.model_copy(update={"swa_full": "on"})
    store = memory_estimate(settings).store
    assert store <= swa.kv_bytes(settings, model._model) <= most * store


def test_off_is_full_size_where_the_small_cache_would_be_no_smaller(
    gguf: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_seq_max, cuts in ((0, False), (40, True)):
        model = native(gguf, monkeypatch, 0, swa_full="off", n_seq_max=n_seq_max)
        assert model.has_states is not cuts
        model.close()


@pytest.mark.parametrize(
    ("n_ctx", "n_seq_max", "count"),
    [(4096, 0, 32), (4096, 5, 5), (12 * 32 + 64, 16, 11), (10 * 32 + 64, 0, 9), (3 * 32 + 64, 2, 2)],  # and the scratch
)
def test_windows_beside_states_are_as_many_as_there_is_room_for(
    load: Callable[..., LlamaModel], n_ctx: int, n_seq_max: int, count: int
) -> None:
    model = load(BESIDE_STATES, n_ctx=n_ctx, n_seq_max=n_seq_max)
    assert (model.has_states, model.n_seq_max) == (True, count)
    for seq_id in range(count):
        for start in (0, 20):
            batch = Batch()
            batch.add(seq_id, start, words(20, seq_id), want_logits=False)
            assert model.decode(batch) is DecodeStatus.OK
    found = memory_estimate(
        Settings(model=str(model._settings.model), n_ctx=n_ctx, n_seq_max=n_seq_max, n_ubatch=64, n_batch=64)
    )
    assert (found.memory, found.windows, found.n_seq_max) == ("hybrid", "", count)
    assert not any("windows" in remark.text for remark in found.remarks)


def test_texts_are_reused_as_a_whole_where_branches_have_no_room_for_windows(
    load: Callable[..., LlamaModel], caplog: pytest.LogCaptureFixture
) -> None:
    model = load(BESIDE_STATES, n_ctx=9 * 32 + 63, anew=True)
    assert (model.has_states, model.supports_partial_reuse, model.n_seq_max) == (False, False, 32)
    [line] = [
        record.message for record in caplog.records if "has no room for 10 windows of 32 tokens" in record.message
    ]
    assert "reused only as a whole" in line
    [remark] = [each for each in memory_estimate(model._settings).remarks if "windows" in each.text]
    assert remark.change.startswith("n_ctx = 512")
    writer, prompt = Writer(model), words(40, 1)
    [text], _ = writer.ask(prompt)
    assert Writer(load(BESIDE_STATES, n_seq_max=2)).ask(prompt)[0] == [text]


def test_the_small_cache_is_as_large_as_llama_servers() -> None:
    """llama-server has four slots and the same n_ubatch."""
    for window in (32, 512, 1024, 4096):
        assert small_cells(Settings(), window) == -(-(4 * window + 512) // 256) * 256


def test_the_full_size_and_kept_texts_take_no_more_than_llama_server_keeps_texts_in() -> None:
    """By default: its --cache-ram is 8192 MiB, beside the small cache."""
    assert swa.MOST_BYTES + Settings().cache_ram_mib * 2**20 == 8192 * 2**20
    free = 10**12
    assert swa.is_affordable(swa.MOST_BYTES, free)
    assert not swa.is_affordable(swa.MOST_BYTES + 1, free)
    assert not swa.is_affordable(1001, 2001)


def test_the_memory_that_is_free_is_the_control_groups_if_that_is_less(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/app"
    for folder in (group, tmp_path / "proc/self"):
        folder.mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:  4000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/app\n")
    assert available_memory(tmp_path) == 4000 * 1024
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("700000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 200000\n")
    assert available_memory(tmp_path) == 500000
