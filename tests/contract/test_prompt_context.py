"""Prompts in a context of their own: what is computed there is in the branches' context afterwards, and nothing else is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.engine.engine import Engine
from srb.engine.llama import prompt_context
from srb.engine.llama.kv_layout import Form, in_other_layout
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.prompt_context import LEAST, Split, flash_is_slow, split_of
from srb.engine.llama.sequences import Sequences
from srb.engine.llama.windows import Windows
from srb.engine.model import Batch, Blob, DecodeStatus, Logits
from srb.engine.tokens import tokens_of
from srb.protocol import BranchSpec, Delta, Event, Generate, PromptDone, SamplingParams
from srb.settings import Settings

N_CTX = 2048
TEXT = [2 + place * 7 % 40 for place in range(1200)]
TOLERANCE = 2e-2  # flash attention rounds queries to f16

Load = Callable[..., LlamaModel]


@pytest.fixture
def load(gguf: Callable[[str], Path]) -> Iterator[Load]:
    loaded: list[LlamaModel] = []

    def one(arch: str = "llama", **given: Any) -> LlamaModel:
        on_cpu = {"n_gpu_layers": 0, "n_ctx": N_CTX, "n_seq_max": 8, "threads": 1}
        settings = Settings(model=str(gguf(arch)), **(on_cpu | given))
        loaded.append(LlamaModel.load(settings))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()


@pytest.fixture(params=["llama", "gemma3", "lfm2", "falcon-h1", "qwen35", "qwen2vl"])
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def model(load: Load, arch: str) -> LlamaModel:
    return load(arch, swa_full="on")


@pytest.fixture
def exact(load: Load, arch: str) -> LlamaModel:
    """The same model with one context, without flash attention."""
    return load(arch, swa_full="on", flash_attn="off")


def batch_of(*spans: tuple[int, int, int]) -> Batch:
    """A batch of spans of TEXT, each of a sequence, with the logits of each one's last token wanted."""
    batch = Batch()
    for seq_id, start, end in spans:
        batch.add(seq_id, start, TEXT[start:end], want_logits=True)
    return batch


def compute(model: LlamaModel, *spans: tuple[int, int, int]) -> list[Logits]:
    batch = batch_of(*spans)
    assert model.decode(batch) is DecodeStatus.OK
    return [model.logits(row).copy() for row, wanted in enumerate(batch.wanted) if wanted]


def apart(model: LlamaModel, *spans: tuple[int, int, int], to_come: dict[int, int] | None = None) -> list[int]:
    """The sequences of a batch that would be computed in the context for prompts."""
    assert model._prompts is not None
    batch = batch_of(*spans)
    batch.to_come = to_come or {}
    return [chunk.seq_id for chunk in model._prompts.chunks(batch)]


def close(given: list[Logits], wanted: list[Logits]) -> bool:
    return len(given) == len(wanted) and np.allclose(given, wanted, atol=TOLERANCE)


def test_a_long_prompt_is_computed_apart_and_its_branches_go_on_from_it(model: LlamaModel, exact: LlamaModel) -> None:
    assert exact._prompts is None
    for each in (model, exact):
        compute(each, (0, 0, 512))
    assert apart(model, (0, 512, 900)) == [0]
    found = [compute(each, (0, 512, 900)) for each in (model, exact)]
    assert close(*found)
    for each in (model, exact):
        for seq_id in (1, 2, 3):
            each.fork(0, seq_id)
    assert apart(model, (1, 900, 901), (2, 900, 901)) == []
    assert close(*(compute(each, (1, 900, 901), (2, 900, 905), (3, 900, 901)) for each in (model, exact)))


def test_branches_beside_a_prompt_have_their_own_rows(model: LlamaModel, exact: LlamaModel) -> None:
    spans = (1, 0, 1), (2, 0, 300), (3, 0, 2), (4, 0, 200)
    assert apart(model, *spans) == [2, 4]
    assert close(*(compute(each, *spans) for each in (model, exact)))
    batch = batch_of(*spans)
    for row in (1, 299, 400, len(batch)):
        with pytest.raises(AssertionError, match="has no logits"):
            model.logits(row)
    greedy = SamplingParams(temperature=0.0)
    rows = [row for row, wanted in enumerate(batch.wanted) if wanted]
    samplers = [model.new_sampler(greedy, 1, ()) for _ in rows]
    model.sample_ahead([(sampler, row) for sampler, row in zip(samplers, rows, strict=True)])
    assert [sampler.sample(row) for sampler, row in zip(samplers, rows, strict=True)] == [
        int(model.logits(row).argmax()) for row in rows
    ]
    for sampler in samplers:
        sampler.close()


def test_long_text_behind_known_text_takes_that_along(model: LlamaModel, exact: LlamaModel) -> None:
    for each in (model, exact):
        compute(each, (0, 0, 500))
        each.fork(0, 1, 400)
        each.remove(0)
    assert apart(model, (1, 400, 401 + LEAST)) == []  # to copy 400 tokens would take longer
    assert apart(model, (1, 400, 401 + LEAST), to_come={1: 399 - LEAST}) == [1]  # not if the rest needs them, too
    assert apart(model, (1, 400, 399 + LEAST), to_come={1: 401 - LEAST}) == []
    assert apart(model, (1, 400, 800)) == [1]
    assert close(*(compute(each, (1, 400, 800)) for each in (model, exact)))


def with_texts(batch: Batch, *texts: list[int]) -> Batch:
    """Tell a batch the whole texts of its sequences, in the order of their numbers."""
    batch.texts = {seq_id: tokens_of(text) for seq_id, text in zip(sorted(set(batch.seq_ids)), texts, strict=True)}
    return batch


def decoded(model: LlamaModel, batch: Batch) -> list[Logits]:
    assert model.decode(batch) is DecodeStatus.OK
    return [model.logits(row).copy() for row, wanted in enumerate(batch.wanted) if wanted]


@pytest.mark.parametrize("known", [500, 420])
def test_a_prompt_goes_on_with_the_one_that_was_read_before_it(
    model: LlamaModel, exact: LlamaModel, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    changed = [*TEXT[:known], *reversed(TEXT[: 1100 - known])]
    copied: list[tuple[int, int]] = []
    copy = prompt_context._copy
    found = []
    for each in (model, exact):
        decoded(each, with_texts(batch_of((0, 0, 500)), TEXT))
        each.fork(0, 1, 400)  # as a kept text; recurrent layers have no state there, so 400 tokens are computed first
        each.remove(0)
        if each.has_states:
            each.remove(1)
            decoded(each, batch_of((1, 0, 400)))
        batch = Batch()
        batch.add(1, 400, changed[400:500], want_logits=True)
        with monkeypatch.context() as patched:
            patched.setattr(prompt_context, "_copy", lambda *given: (copied.append(given[4:]), copy(*given))[1])
            found.append(decoded(each, with_texts(batch, changed)))
    assert close(*found)
    if not model.has_states:  # whose text is computed a second time here, as another one
        assert copied == [(400, 500)]


def test_another_text_takes_the_place_of_the_one_that_was_read_before(model: LlamaModel, exact: LlamaModel) -> None:
    other = [*reversed(TEXT)]
    for each in (model, exact):
        decoded(each, with_texts(batch_of((0, 0, 500)), TEXT))
        each.remove(0)
    batch = Batch()
    batch.add(1, 0, other[:300], want_logits=True)
    found = [decoded(each, with_texts(batch, other)) for each in (model, exact)]
    assert close(*found)
    assert model._prompts is not None
    assert model._prompts._left is None
    assert len(model._prompts._texts) == 1
    model.clear()
    assert not model._prompts._texts


def test_a_text_that_is_cut_is_cut_there_too(model: LlamaModel, exact: LlamaModel) -> None:
    for each in (model, exact):
        compute(each, (0, 0, 600))
        each.truncate(0, 300)
        each.flush()
    assert model._prompts is not None
    assert [text.end for text in model._prompts._texts.values()] == [300]
    found = []
    for each in (model, exact):
        batch = Batch()
        batch.add(0, 300, TEXT[700:1000], want_logits=True)
        assert each.decode(batch) is DecodeStatus.OK
        found.append([each.logits(299).copy()])
    assert close(*found)
    model.remove(0)
    model.flush()
    assert not model._prompts._texts


class Crowd:
    """As many texts as a model has sequences, which share nothing, in one model with two contexts and one with one."""

    COUNT, LENGTH = 30, 40

    def __init__(self, load: Load, arch: str) -> None:
        self.models = [load(arch, n_seq_max=self.COUNT, flash_attn=kind, swa_full="on") for kind in ("auto", "off")]
        self.texts = [
            [2 + (place * 7 + seq_id) % 40 for place in range(self.LENGTH + 9)] for seq_id in range(self.COUNT)
        ]
        self.ends = [self.LENGTH] * self.COUNT
        for model in self.models:
            for seq_id, text in enumerate(self.texts):
                batch = Batch()
                batch.add(seq_id, 0, text[: self.LENGTH], want_logits=False)
                assert model.decode(batch) is DecodeStatus.OK

    def step(self, is_crowd: bool = True, seq_ids: Sequence[int] = range(COUNT)) -> None:
        """Let these texts go on by a token, in both models, and compare their logits."""
        found = []
        for model in self.models:
            batch = Batch(cells=sum(self.ends) if is_crowd else 0)
            rows = [
                batch.add(each, self.ends[each], [self.texts[each][self.ends[each]]], want_logits=True)
                for each in seq_ids
            ]
            assert model._prompts is None or bool(model._prompts.chunks(batch)) is is_crowd
            assert model.decode(batch) is DecodeStatus.OK
            found.append([model.logits(row).copy() for row in rows])
        for each in seq_ids:
            self.ends[each] += 1
        assert close(*found)

    @property
    def behind(self) -> set[int]:
        """The sequences of which the branches' context has not got all tokens."""
        prompts = self.models[0]._prompts
        assert prompts is not None
        assert {each for each, text in prompts._texts.items() if text.num_behind} == prompts._behind
        return set(prompts._behind)


@pytest.fixture
def crowd(load: Load, arch: str) -> Crowd:
    return Crowd(load, arch)


every_crowd = pytest.mark.parametrize("arch", ["llama", "gemma3", "qwen2vl", "deepseek2"])
ALL = set(range(Crowd.COUNT))


@every_crowd
def test_a_crowd_of_different_texts_is_computed_apart(crowd: Crowd) -> None:
    crowd.step()
    assert crowd.behind == ALL - {0}  # by the first text it is found out whether the form of saved texts is known
    crowd.step(is_crowd=False)
    assert not crowd.behind
    for _ in range(3):
        crowd.step()
    assert crowd.behind == ALL
    crowd.step(is_crowd=False, seq_ids=range(10))
    assert crowd.behind == ALL - set(range(10))
    one, other = crowd.models
    assert [len(one.save(each, 0)) for each in range(12)] == [len(other.save(0, 0))] * 10 + [len(other.save(20, 0))] * 2
    assert crowd.behind == ALL - set(range(12))
    crowd.step(seq_ids=range(10, Crowd.COUNT))
    assert crowd.behind == ALL - set(range(10))


@every_crowd
def test_a_text_of_a_crowd_is_whole_for_whatever_is_done_with_it(crowd: Crowd) -> None:
    for _ in range(4):
        crowd.step()
    spans = []
    for model in crowd.models:
        spans.append(model.save(4, 42))
        for seq_id in (1, 3, 5, 6):
            model.remove(seq_id)
        model.fork(0, 1)
        model.fork(2, 3, 42)  # within what a crowd has computed
        model.fork(4, 5, 42)
        assert model.restore(5, spans[-1])
        model.fork(8, 6)
        model.splice(6, 8, 43)
        model.truncate(7, 43)
        model.truncate(9, 20)
        model.flush()
    crowd.texts[1], crowd.texts[5], crowd.texts[6] = crowd.texts[0], crowd.texts[4], crowd.texts[8]
    crowd.texts[3] = crowd.texts[2]
    crowd.ends[3], crowd.ends[7], crowd.ends[9] = 42, 43, 20
    assert crowd.behind == ALL - {0, 1, 2, 3, 4, 5, 6, 8, 9}
    for _ in range(2):
        crowd.step(is_crowd=False)
        assert not crowd.behind
        crowd.step()
    for model in crowd.models:
        model.splice(6, 8, crowd.ends[6])
        model.remove(6)
        model.flush()
    assert crowd.behind == ALL - {6, 8}
    crowd.step(is_crowd=False, seq_ids=sorted(ALL - {6}))


def test_texts_of_a_crowd_that_make_room_are_whole(load: Load) -> None:
    crowd = Crowd(load, "llama")
    for _ in range(3):
        crowd.step()
    prompts = crowd.models[0]._prompts
    assert prompts is not None
    prompts.n_cells = 30 * 45  # as full as it is: a long prompt takes the place of others
    for model in crowd.models:
        model.remove(0)
        compute(model, (0, 0, 500))
    assert len(crowd.behind) < Crowd.COUNT - 5
    crowd.step(is_crowd=False, seq_ids=range(1, Crowd.COUNT))


def test_texts_of_a_crowd_stay_after_a_batch_without_room(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(load, "llama")
    for _ in range(3):
        crowd.step()
    with monkeypatch.context() as patch:
        patch.setattr(prompt_context, "compute", lambda *_: DecodeStatus.NO_ROOM)
        batch = Batch(cells=sum(crowd.ends))
        for each in range(Crowd.COUNT):
            batch.add(each, crowd.ends[each], [2], want_logits=True)
        assert crowd.models[0].decode(batch) is DecodeStatus.NO_ROOM
    assert not crowd.behind
    crowd.step(is_crowd=False)


@pytest.mark.parametrize("cache_cells", [0, 1000])
@every_crowd
def test_what_a_crowd_of_requests_wrote_can_be_gone_on_with(load: Load, arch: str, cache_cells: int) -> None:
    model, exact = (load(arch, n_seq_max=40, flash_attn=kind, swa_full="on") for kind in ("auto", "off"))
    engine = Engine(model, max_queue=40, clock=iter(range(10**6)).__next__, cache_cells=cache_cells, cache_bytes=10**8)
    prompts = {str(number): [2 + (number + place * 7) % 40 for place in range(30)] for number in range(30)}
    told: dict[str, list[int]] = {name: [] for name in prompts}
    wanted = SamplingParams(temperature=0, ignore_eos=True)
    for name, prompt in prompts.items():
        count = 12 + int(name) % 5
        engine.submit(engine.prepare(Generate(name, tuple(prompt), (BranchSpec(0, count, sampling=wanted),))))
    most_behind = steps = 0
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                told[event.request_id] += event.tokens
        steps += 1
        if steps == 12:
            engine.cancel("7")
        engine.check_invariants()
        assert model._prompts is not None
        most_behind = max(most_behind, len(model._prompts._behind))
    assert most_behind > 20
    for name in ("0", "7", "13", "29"):
        text = [*prompts[name], *told[name][:-1], 300]
        request = engine.prepare(Generate("again", tuple(text), (BranchSpec(0, 1, sampling=wanted),)))
        prefix = request.prefix
        engine.submit(request)
        events: list[Event] = []
        while engine.has_work:
            events += engine.step()
        [done] = [event for event in events if isinstance(event, PromptDone)]
        assert done.cached_tokens == len(text) - 1
        exact.clear()
        batch = Batch()
        row = batch.add(0, 0, text, want_logits=True)
        assert exact.decode(batch) is DecodeStatus.OK
        assert prefix.logits is not None
        assert close([prefix.logits], [exact.logits(row)])


def test_prompts_of_latent_attention_are_computed_with_the_branches(load: Load) -> None:
    assert apart(load("deepseek2"), (0, 0, 512)) == []


def test_the_saved_text_of_keys_alone_has_either_layout(load: Load) -> None:
    saved = {}
    for flash_attn in ("on", "off"):
        model = load("deepseek2", flash_attn=flash_attn)
        compute(model, (0, 0, 100))
        saved[flash_attn] = model.save(0, 0)
        for blob in saved.values():
            other = model._sequences.in_other_layout(blob)
            assert other is not None
            assert len(other) == len(blob)
            model.clear()
            assert model.restore(1, blob)


def test_a_saved_text_can_be_restored_in_either_layout(
    load: Load, arch: str, model: LlamaModel, exact: LlamaModel, caplog: pytest.LogCaptureFixture
) -> None:
    flash = load(arch, swa_full="on", flash_attn="on")
    saved = []
    for each in (model, flash):
        compute(each, (0, 0, 700))
        saved.append((each.save(0, 100), each.save_state(0)))
    for each in (model, flash, exact):
        each.clear()
        for seq_id, (blob, state) in enumerate(saved, start=1):
            compute(each, (seq_id, 0, 100))
            assert each.restore(seq_id, blob)
            if each.has_states:
                assert each.restore_state(seq_id, state)
    found = [compute(each, (1, 700, 720), (2, 700, 720)) for each in (model, flash, exact)]
    assert close(found[0], found[2])
    assert close(found[1], found[2])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("cache_type", ["f16", "f32"])
def test_layouts_are_converted_both_ways(load: Load, arch: str, cache_type: str) -> None:
    blobs = []
    for flash_attn in ("on", "off"):
        each = load(arch, swa_full="on", flash_attn=flash_attn, cache_type_k=cache_type, cache_type_v=cache_type)
        compute(each, (0, 0, 70))
        blobs.append(each.save(0, 0))
    for blob in blobs:
        other = each._sequences.in_other_layout(blob)
        assert other is not None
        assert not np.array_equal(other, blob)
        back = each._sequences.in_other_layout(other)
        assert back is not None
        assert np.array_equal(back, blob)


def test_bytes_that_are_no_saved_text_have_no_layout(load: Load) -> None:
    for flash_attn in ("on", "off"):
        model = load(flash_attn=flash_attn)
        compute(model, (0, 0, 70))
        blob = model.save(0, 0)
        damaged: list[Blob] = [blob[:0], blob[:10], blob[:15], blob[:300], blob[: len(blob) // 2], blob[:-1]]
        for each in damaged:
            assert in_other_layout(each, Form()) is None
        for start in (8, 12):  # streams, cells
            other = blob.copy()
            other[start : start + 4] = 255
            assert in_other_layout(other, Form()) is None
        assert in_other_layout(blob, Form(num_caches=2)) is None
        empty = model.save(5, 0)
        assert np.array_equal(in_other_layout(empty, Form()), empty)


def test_prompts_beyond_the_room_apart_are_computed_with_the_branches(
    load: Load, arch: str, exact: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srb.engine.llama.model.split_of", lambda *given: Split(512, 512, 512))
    model = load(arch, swa_full="on")
    spans = (0, 0, 500), (1, 0, 500), (0, 500, 900)
    for span, wanted in zip(spans, ([0], [1], []), strict=True):
        assert apart(model, span) == wanted  # the second takes the first one's room
        assert close(*(compute(each, span) for each in (model, exact)))


def test_a_model_whose_kv_cannot_be_copied_is_computed_in_one_context(
    model: LlamaModel, exact: LlamaModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Sequences, "in_other_layout", lambda *given: None)
    for span in ((0, 0, 300), (0, 300, 600)):
        assert close(*(compute(each, span) for each in (model, exact)))
        assert apart(model, (1, 0, 300)) == []
    assert [record.message for record in caplog.records if "cannot be copied" in record.message] != []


def test_a_batch_without_room_computes_nothing(model: LlamaModel, exact: LlamaModel) -> None:
    for each in (model, exact):
        compute(each, (0, 0, 1000))
        compute(each, (1, 0, 1000))
    before = [len(model.save(seq_id, 0)) for seq_id in range(8)]
    for spans in (((2, 0, 200),), ((3, 0, 40), (2, 0, 90)), ((2, 0, 30), (0, 1000, 1100))):
        assert model.decode(batch_of(*spans)) is DecodeStatus.NO_ROOM
        assert [len(model.save(seq_id, 0)) for seq_id in range(8)] == before
    assert close(*(compute(each, (0, 1000, 1020), (1, 1000, 1001)) for each in (model, exact)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"flash_attn": "on"}, "the settings ask for one context"),
        ({"flash_attn": "off"}, "the settings ask for one context"),
        ({"n_ctx": 512}, "no text is long"),
    ],
)
def test_one_context_computes_all(load: Load, given: dict[str, Any], why: str) -> None:
    assert load(**given)._prompts is None, why


@pytest.mark.parametrize(
    ("features", "is_slow"),
    [
        ("AVX2 = 1 | F16C = 1", True),
        ("AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1", False),
        ("AVX2 = 1 | AVX512 = 1 | AMX_INT8 = 1", True),
        ("SHARED_KEYS = 1 | AVX2 = 1", False),
        ("SHARED_KEYS = 1 | AVX2 = 1 | AVX512 = 1 | AMX_INT8 = 1", False),
    ],
)
def test_flash_attention_is_fast_with_shared_keys_or_for_avx512_without_amx(features: str, is_slow: bool) -> None:
    assert flash_is_slow(f"CPU : SSE3 = 1 | {features} | OPENMP = 1 | ") is is_slow


def test_one_context_computes_all_where_flash_attention_is_fast(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_context, "flash_is_slow", lambda system_info: False)
    assert load()._prompts is None


@pytest.mark.parametrize(("given", "apart_from"), [({}, 0), ({"flash_attn": "off"}, 0), ({"flash_attn": "on"}, 64)])
def test_one_context_with_flash_attention_has_prompts_and_branches_in_batches_of_their_own(
    load: Load, given: dict[str, Any], apart_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(**given)
    assert model.apart_from == apart_from
    decode, sizes = model.decode, list[tuple[int, int]]()

    def recorded(batch: Batch) -> DecodeStatus:
        sizes.append((len(batch), len(set(batch.seq_ids))))
        return decode(batch)

    monkeypatch.setattr(model, "decode", recorded)
    engine = Engine(model, max_queue=2, clock=iter(range(10**6)).__next__, cache_cells=0, cache_bytes=0)
    wanted = SamplingParams(temperature=0, ignore_eos=True)
    engine.submit(engine.prepare(Generate("branches", tuple(TEXT[:9]), (BranchSpec(0, 9, sampling=wanted),) * 3)))
    engine.step()
    engine.submit(engine.prepare(Generate("prompt", tuple(TEXT[9:400]), (BranchSpec(0, 2, sampling=wanted),))))
    sizes.clear()
    engine.step()
    assert sizes == ([(3, 3), (391, 1)] if apart_from else [(394, 4)])


def test_quantized_values_need_flash_attention(load: Load) -> None:
    model = load()
    settings = model._settings.model_copy(update={"cache_type_v": "q8_0"})
    assert split_of(model._settings, model._model, Windows.NONE)
    assert split_of(settings, model._model, Windows.NONE) is None


@pytest.mark.parametrize(("arch", "given"), [("mamba2", {}), ("gemma3", {"swa_full": "off"})])
def test_memory_that_cannot_be_cut_has_one_context(load: Load, arch: str, given: dict[str, Any]) -> None:
    assert load(arch, **given)._prompts is None


def test_little_memory_means_one_context(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_context, "free_memory", lambda *given, **names: 1 << 20)
    assert load()._prompts is None
