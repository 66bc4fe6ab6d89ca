"""A model's own head of llama.cpp that drafts: texts are the same, and it follows what happens to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import llama_cpp as lib
import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.head import LlamaHead
from srb.engine.llama.memory_estimate import memory_estimate
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus, Logits
from srb.errors import ModelLoadFailed
from srb.wire.commands import AddBranches, BranchSpec, Generate
from srb.wire.events import Delta
from tests.contract.rounding import needs_equal_texts
from tests.engine_helpers import Always, always_draft_in
from tests.models.chained_texts import a_text, chained_texts
from tests.models.random_gguf import (
    TINY,
    Shape,
    write_dflash,
    write_eagle3,
    write_gemma4,
    write_gemma4_assistant,
    write_glm4_moe,
    write_llama,
    write_qwen35,
    write_step35,
)

KNOWING = Shape(dim=256, layers=2, vocab=1024, context=4096, is_chained=True)
LISTS = chained_texts(KNOWING.vocab)["lists"]
PROMPTS = [tuple(a_text(LISTS, 12 + seed, seed)) for seed in range(50)]
_IN_FILES: dict[str, Callable[[Path, Shape], Path]] = {
    "eagle": write_eagle3,
    "dflash": write_dflash,
    "assistant": write_gemma4_assistant,
}
LIKELIEST, DRAWN = SamplingParams(temperature=0.0), SamplingParams()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models whose heads are right, right at four of five tokens, or hardly ever, one with windows."""
    path = tmp_path_factory.mktemp("heads")
    write_glm4_moe(path / "right.gguf", KNOWING)
    write_glm4_moe(path / "often.gguf", KNOWING, wrong=0.2)
    write_glm4_moe(path / "never.gguf", KNOWING, wrong=1.0)
    write_qwen35(path / "states.gguf", KNOWING, wrong=0.2)
    write_step35(path / "windows.gguf", replace(TINY, vocab=KNOWING.vocab, context=KNOWING.context))
    return path


def settings(path: Path, **given: Any) -> Settings:
    exact = {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off"}
    sizes = {"n_ctx": 4096, "n_batch": 128, "n_ubatch": 64, "n_seq_max": 24, "threads": 1}
    return Settings(**({"model": str(path), "spec_type": "mtp"} | sizes | exact | given))


@pytest.fixture(scope="module")
def load(folder: Path) -> Iterator[Callable[[str], LlamaModel]]:
    loaded: dict[str, LlamaModel] = {}

    def one(name: str) -> LlamaModel:
        if name not in loaded:
            loaded[name] = LlamaModel.load(settings(folder / f"{name}.gguf"))
        return loaded[name]

    yield one
    for model in loaded.values():
        model.close()


def engine_of(model: LlamaModel, max_draft: int, **options: Any) -> Engine:
    model.clear()
    ticks = itertools.count()
    given = {"max_queue": 100, "cache_bytes": 10**6, "looks_up": False} | options
    engine = Engine(model, EngineOptions(max_draft=max_draft, **given), clock=lambda: next(ticks) / 1000)
    if max_draft:
        always_draft_in(engine)
    return engine


def specs(n: int, tokens: int, sampling: SamplingParams) -> tuple[BranchSpec, ...]:
    return tuple(BranchSpec(seed, tokens, min_tokens=tokens, sampling=sampling) for seed in range(n))


def run(
    engine: Engine, until: Callable[[], bool] = lambda: False, *, is_checked: bool = True
) -> dict[tuple[str, int], list[int]]:
    """Step until there is nothing to do, or `until` something; return the tokens of each branch."""
    texts: dict[tuple[str, int], list[int]] = {}
    while engine.has_work and not until():
        for event in engine.step():
            if isinstance(event, Delta):
                texts.setdefault((event.request_id, event.index), []).extend(event.tokens)
        if is_checked:
            engine.check_invariants()
            check_head(engine)
    return texts


def check_head(engine: Engine) -> None:
    """Assert that the head has of each sequence what the model has, or a part of it, and nothing drafted."""
    engine.model.flush()
    head = engine.model.head
    assert isinstance(head, LlamaHead)
    for seq_id, text in head._texts.items():
        first, end = text.start, text.end + (text.ahead is not None)
        have = tuple(
            bound(head._memory, seq_id) for bound in (lib.llama_memory_seq_pos_min, lib.llama_memory_seq_pos_max)
        )
        assert have == ((first, end - 1) if first < end else (-1, -1)), f"sequence {seq_id}"
        assert len(text.states) == len(text.tokens) + 1 or text.is_lost


def accepted(engine: Engine) -> float:
    stats = engine.stats()
    return stats["spec_decode_num_accepted_tokens_total"] / max(1, stats["spec_decode_num_draft_tokens_total"])


@needs_equal_texts
@pytest.mark.parametrize(
    ("name", "n"),
    [("often", 1), ("often", 4), ("often", 8), ("never", 4), ("windows", 2), ("states", 1), ("states", 5)],
)
def test_drafts_change_no_text(name: str, n: int, load: Callable[[str], LlamaModel]) -> None:
    """Of fifty prompts every second is answered by the likeliest tokens, the others by drawn ones."""
    found = []
    for max_draft in (0, 4):
        engine = engine_of(load(name), max_draft)
        for number, prompt in enumerate(PROMPTS):
            command = Generate(f"r{number}", prompt, specs(n, 16, (LIKELIEST, DRAWN)[number % 2]))
            engine.submit(engine.prepare(command))
        found.append(run(engine, is_checked=False))
    assert found[0] == found[1]
    assert len(found[0]) == n * len(PROMPTS)
    assert engine.stats()["spec_decode_num_draft_tokens_total"] > 0
    assert (accepted(engine) > 0.5) is (name in ("often", "states"))


@needs_equal_texts
def test_a_model_with_its_head_writes_as_one_without(folder: Path, load: Callable[[str], LlamaModel]) -> None:
    without = LlamaModel.load(settings(folder / "often.gguf", spec_type="none"))
    texts = []
    for model, max_draft in ((without, 0), (load("often"), 4)):
        engine = engine_of(model, max_draft)
        engine.submit(engine.prepare(Generate("r", PROMPTS[30], specs(3, 60, DRAWN))))
        texts.append([])
        while engine.has_work:
            texts[-1] += [event for event in engine.step() if isinstance(event, Delta)]
    without.close()
    told = [sorted((each.index, token) for each in text for token in each.tokens) for text in texts]
    assert told[0] == told[1]


def test_a_head_that_knows_is_right_where_one_token_may_follow(load: Callable[[str], LlamaModel]) -> None:
    shares = []
    for name in ("right", "often", "never"):
        engine = engine_of(load(name), 4)
        engine.submit(engine.prepare(Generate("r", PROMPTS[20], specs(4, 100, DRAWN))))
        run(engine)
        shares.append(accepted(engine))
    assert shares[0] > 0.85
    assert shares[0] - 0.35 < shares[1] < shares[0] - 0.05
    assert shares[2] < 0.1


def decode(model: LlamaModel, seq_id: int, position: int, tokens: list[int], *, has_draft: bool = False) -> None:
    batch = Batch()
    batch.add(seq_id, position, tokens, want_logits=True, want_all=has_draft)
    assert model.decode(batch) is DecodeStatus.OK


def found(model: LlamaModel, seq_id: int, position: int, token: int) -> Logits:
    """Return what the head finds after a sequence's newest token."""
    model.flush()
    head = model.head
    assert head is not None
    assert head.begin([(seq_id, position, token)])
    logits = head.logits(0).copy()
    assert head.go_on([(0, 7)])
    head.drop()
    return logits


@pytest.mark.parametrize("kind", ["mtp", "windows", *_IN_FILES])
def test_a_head_finds_the_same_whether_it_reads_a_text_at_once_or_in_pieces(kind: str, tmp_path: Path) -> None:
    """Weights are noise, so what it finds depends on every hidden state that it was given, and on its place."""
    shape, path = replace(TINY, context=256), tmp_path / "model.gguf"
    given: dict[str, Any] = {"n_ctx": 256, "n_ubatch": 16}  # the text is computed in three pieces at least
    if kind in _IN_FILES:
        shape = replace(shape, layers=3)
        draft = _IN_FILES[kind](tmp_path / "draft.gguf", replace(shape, seed=1))
        given |= {"spec_type": "auto", "spec_draft_model": str(draft)}
    {"mtp": write_glm4_moe, "windows": write_step35, "assistant": write_gemma4}.get(kind, write_llama)(path, shape)
    model = LlamaModel.load(settings(path, **given))
    text = [40 + 7 * place % 300 for place in range(41)]
    decode(model, 0, 0, text[:40])
    expected = found(model, 0, 40, text[40])

    model.clear()
    decode(model, 0, 0, text[:10])
    decode(model, 0, 10, text[10:20])
    for place in range(20, 26):  # one by one, and drafts are wrong, or made in vain
        found(model, 0, place, text[place] if place % 2 else 9)
        decode(model, 0, place, [text[place]])
    found(model, 0, 26, text[26])
    decode(model, 0, 26, [*text[26:30], 5, 6, 7], has_draft=True)  # of six drafted tokens three are right
    model.truncate(0, 30)
    model.fork(0, 1)
    decode(model, 1, 30, [text[30]])
    model.remove(0)
    decode(model, 1, 31, text[31:40])
    assert np.abs(found(model, 1, 40, text[40]) - expected).max() < 0.02 * np.abs(expected).max()
    model.close()


@needs_equal_texts
@pytest.mark.parametrize("name", ["often", "windows", "states"])
def test_a_head_that_reads_no_prompts_drafts_from_what_came_after(name: str, load: Callable[[str], LlamaModel]) -> None:
    texts = []
    for max_draft in (0, 4):
        engine = engine_of(load(name), max_draft)
        if max_draft:
            engine._speculation._decision = Hopeless()
        for number, prompt in enumerate(PROMPTS[:10]):
            engine.submit(engine.prepare(Generate(f"r{number}", prompt, specs(2, 20, DRAWN))))
        texts.append(run(engine))
    load(name)._head.follow_prompts(True)  # type: ignore[union-attr]
    assert texts[0] == texts[1]
    assert engine.stats()["spec_decode_num_draft_tokens_total"] > 0
    assert (accepted(engine) > 0.4) is (name in ("often", "states"))


class Hopeless(Always):
    """A decision to draft as much as there is room for, and to read no prompts."""

    @property
    def is_hopeful(self) -> bool:
        return False


@needs_equal_texts
@pytest.mark.parametrize("name", ["often", "states"])
def test_a_text_goes_on_drafted_after_what_may_happen_to_it(name: str, load: Callable[[str], LlamaModel]) -> None:
    """Branches are cancelled, added and forked, texts are parked and come back, and prompts share a beginning."""
    texts = []
    for max_draft in (0, 4):
        engine = engine_of(load(name), max_draft, cache_cells=0)
        told: dict[tuple[str, int], list[int]] = {}

        def go(steps: int, engine: Engine = engine, told: dict[tuple[str, int], list[int]] = told) -> None:
            left = itertools.count()
            for key, tokens in run(engine, lambda: next(left) >= steps).items():
                told.setdefault(key, []).extend(tokens)

        engine.submit(engine.prepare(Generate("first", PROMPTS[40], specs(4, 60, DRAWN), can_grow=True)))
        engine.submit(engine.prepare(Generate("other", PROMPTS[41], specs(2, 40, LIKELIEST))))
        while len(told.get(("first", 0), [])) < 10:
            go(1)
        engine.cancel("first", 1)
        engine.submit(engine.prepare(AddBranches("a", "first", ((7, (), (), ()),))))
        go(10**6)
        del told["first", 1]  # it ended at another place
        going_on = (*PROMPTS[40], *told["first", 0])
        engine.submit(engine.prepare(Generate("again", going_on, specs(3, 40, DRAWN))))
        go(10**6)
        texts.append(told)
        assert (accepted(engine) > 0.4) is bool(max_draft)
    assert texts[0] == texts[1]


@needs_equal_texts
@pytest.mark.parametrize("name", ["often", "states"])
def test_healed_texts_and_those_of_a_grammar_are_the_same(name: str, load: Callable[[str], LlamaModel]) -> None:
    digits = SamplingParams(grammar='root ::= (" " [a-z] [0-9]+)+ "."')
    texts = []
    for max_draft in (0, 4):
        engine = engine_of(load(name), max_draft)
        begun = (*PROMPTS[45], " w1")
        engine.submit(engine.prepare(Generate("grammar", PROMPTS[45], specs(4, 40, digits))))
        healed = tuple(replace(spec, token_healing=True) for spec in specs(4, 40, DRAWN))
        engine.submit(engine.prepare(Generate("healed", begun, healed)))
        texts.append(run(engine))
    assert texts[0] == texts[1]
    assert engine.stats()["spec_decode_num_accepted_tokens_total"] > 0


@pytest.mark.parametrize("name", ["right", "states"])
def test_its_memory_is_foretold(name: str, folder: Path) -> None:
    with_head, without = (
        memory_estimate(settings(folder / f"{name}.gguf", spec_type=kind)) for kind in ("mtp", "none")
    )
    assert with_head.draft > 0 == without.draft
    assert with_head.draft_per_cell > 0
    assert with_head.total == with_head.weights + with_head.store + with_head.compute + with_head.draft


def test_a_model_without_a_head_is_refused_by_name(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "plain.gguf", TINY)
    with pytest.raises(ModelLoadFailed, match=r"^spec_type mtp: .*plain.gguf has no head that drafts"):
        LlamaModel.load(settings(path))
    assert "has no head" in memory_estimate(settings(path)).refused


def test_several_heads_where_llama_cpp_computes_one_are_refused(tmp_path: Path) -> None:
    """Its own check would end the process."""
    path = write_glm4_moe(tmp_path / "several.gguf", replace(TINY, layers=3))
    key, data = b"glm4moe.nextn_predict_layers" + (4).to_bytes(4, "little"), path.read_bytes()
    assert data.count(key + (1).to_bytes(4, "little")) == 1
    path.write_bytes(data.replace(key + (1).to_bytes(4, "little"), key + (2).to_bytes(4, "little")))
    assert "has 2 heads" in memory_estimate(settings(path)).refused


def test_a_number_of_heads_without_their_layers_is_no_head(tmp_path: Path) -> None:
    path = write_glm4_moe(tmp_path / "trunk.gguf", replace(TINY, layers=1))
    data = path.read_bytes().replace(b"nextn.eh_proj", b"nextn.eh_prox")
    path.write_bytes(data)
    with pytest.raises(ModelLoadFailed, match=r"has no head that drafts|cannot be loaded"):
        LlamaModel.load(settings(path))


# Heads in files of their own -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and heads for it that are right, right at four of five tokens, and made for another."""
    path = tmp_path_factory.mktemp("files")
    write_llama(path / "model.gguf", KNOWING)
    write_eagle3(path / "right.gguf", KNOWING)
    write_eagle3(path / "often.gguf", KNOWING, wrong=0.2)
    write_eagle3(path / "other.gguf", replace(KNOWING, dim=128))
    write_dflash(path / "dflash.gguf", KNOWING)
    return path


def with_file(folder: Path, name: str) -> Settings:
    return settings(folder / "model.gguf", spec_type="auto", spec_draft_model=str(folder / f"{name}.gguf"))


@needs_equal_texts
@pytest.mark.parametrize(("name", "n"), [("often", 1), ("often", 4), ("dflash", 1), ("dflash", 4)])
def test_drafts_of_a_head_in_a_file_of_its_own_change_no_text(name: str, n: int, files: Path) -> None:
    model = LlamaModel.load(with_file(files, name))
    assert model.head is not None
    assert model.head.kind == ("draft-dflash" if name == "dflash" else "draft-eagle3")
    found = []
    for max_draft in (0, 4):
        engine = engine_of(model, max_draft, cache_cells=0)
        for number, prompt in enumerate(PROMPTS[:20]):
            command = Generate(f"r{number}", prompt, specs(n, 16, (LIKELIEST, DRAWN)[number % 2]))
            engine.submit(engine.prepare(command))
        found.append(run(engine))
    assert found[0] == found[1]
    assert engine.stats()["spec_decode_num_draft_tokens_total"] > 100
    assert (accepted(engine) > 0.4) is (name == "often")
    model.close()


def test_an_eagle_that_knows_is_right_where_one_token_may_follow(files: Path) -> None:
    model = LlamaModel.load(with_file(files, "right"))
    engine = engine_of(model, 4)
    engine.submit(engine.prepare(Generate("r", PROMPTS[20], specs(4, 100, DRAWN))))
    run(engine)
    assert accepted(engine) > 0.8
    model.close()


@pytest.mark.parametrize("name", ["right", "dflash"])
def test_the_memory_of_a_head_in_a_file_is_foretold(name: str, files: Path) -> None:
    given = with_file(files, name)
    alone, both = memory_estimate(given.model_copy(update={"spec_type": "none"})), memory_estimate(given)
    assert both.refused == ""
    assert both.draft > 0.9 * (files / f"{name}.gguf").stat().st_size, "its weights are a part of it"
    assert both.draft_per_cell > 0
    assert both.total == alone.total + both.draft
    assert "is not made for" in memory_estimate(with_file(files, "other")).refused


@pytest.mark.parametrize(
    ("tensor", "named"),
    [("markov_w1", "a DSpark drafter"), ("selector_hidden", "DFlash 2"), ("blk.9.nextn.eh_proj", "layers")],
)
def test_heads_of_other_kinds_are_refused_by_name(tensor: str, named: str, files: Path, tmp_path: Path) -> None:
    path = tmp_path / "head.gguf"
    writer = gguf.GGUFWriter(path, "dflash")
    writer.add_tensor(f"{tensor}.weight", np.ones((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    given = settings(files / "model.gguf", spec_type="auto", spec_draft_model=str(path))
    with pytest.raises(ModelLoadFailed, match=rf"^spec_draft_model: .*head.gguf is .*{named}.*, which is not served"):
        LlamaModel.load(given)


@needs_equal_texts
def test_drafts_of_an_assistant_change_no_text(tmp_path: Path) -> None:
    shape = replace(TINY, vocab=KNOWING.vocab, context=KNOWING.context)
    path, draft = write_gemma4(tmp_path / "model.gguf", shape), write_gemma4_assistant(tmp_path / "draft.gguf", shape)
    model = LlamaModel.load(settings(path, spec_draft_model=str(draft)))
    found = []
    for max_draft in (0, 4):
        engine = engine_of(model, max_draft, cache_cells=0)
        for number, prompt in enumerate(PROMPTS[:10]):
            command = Generate(f"r{number}", prompt, specs(3, 40, (LIKELIEST, DRAWN)[number % 2]))
            engine.submit(engine.prepare(command))
        found.append(run(engine, is_checked=False))
    assert found[0] == found[1]
    assert engine.stats()["spec_decode_num_draft_tokens_total"] > 100
    assert memory_estimate(settings(path, spec_draft_model=str(draft))).draft > draft.stat().st_size / 2
    model.close()


def test_an_eagle_made_for_another_model_is_refused_with_both_names(files: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"other.gguf is not made for .*model.gguf: .*128 and 256 numbers"):
        LlamaModel.load(with_file(files, "other"))


def test_an_eagle_for_an_architecture_that_tells_nothing_is_refused(files: Path, folder: Path) -> None:
    given = settings(folder / "right.gguf", spec_type="auto", spec_draft_model=str(files / "right.gguf"))
    with pytest.raises(ModelLoadFailed, match=r"is a head \(eagle3\), for which llama.cpp has nothing of glm4moe"):
        LlamaModel.load(given)
