"""A draft model of llama.cpp beside a model: texts are the same, its memory is told and checked, threads are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.memory_estimate import memory_estimate
from srb.engine.llama.model import LlamaModel
from srb.errors import ConfigError, ModelLoadFailed
from tests.contract.test_model import generate
from tests.engine_helpers import always_draft_in
from tests.models.random_gguf import TINY, write_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, a draft model with other weights, and some that do not fit."""
    path = tmp_path_factory.mktemp("drafts")
    write_llama(path / "model.gguf", TINY)
    write_llama(path / "other.gguf", replace(TINY, layers=1, seed=5))
    write_llama(path / "words.gguf", replace(TINY, vocab=900))
    return path


def settings(folder: Path, draft: str, **given: object) -> Settings:
    path = str(folder / "model.gguf")
    exact = {"cache_type_k": "f32", "cache_type_v": "f32"}
    base = {"n_ctx": 512, "n_batch": 64, "n_ubatch": 32, "n_seq_max": 16, "threads": 1, "flash_attn": "off"}
    return Settings(model=path, spec_draft_model=str(folder / draft), **(base | exact | given))  # type: ignore[arg-type]


@pytest.fixture
def load(folder: Path) -> Iterator[Callable[[str], tuple[LlamaModel, LlamaModel]]]:
    loaded: list[LlamaModel] = []

    def both(draft: str) -> tuple[LlamaModel, LlamaModel]:
        given = settings(folder, draft)
        loaded.append(LlamaModel.load(given))
        loaded.append(LlamaModel.load_draft(given, loaded[0]))
        return loaded[0], loaded[1]

    yield both
    for model in reversed(loaded):
        model.close()


def engine_of(model: LlamaModel, draft: LlamaModel | None = None) -> Engine:
    model.clear()
    ticks = iter(range(10**7))
    max_draft = 4 if draft is not None else 0
    options = EngineOptions(max_queue=10, cache_bytes=10**6, max_draft=max_draft, looks_up=False)
    engine = Engine(model, options, clock=lambda: next(ticks) / 1000, draft_model=draft)
    if draft is not None:
        always_draft_in(engine)
    return engine


@pytest.mark.parametrize("name", ["model.gguf", "other.gguf"])
def test_drafts_change_no_text(name: str, load: Callable[[str], tuple[LlamaModel, LlamaModel]]) -> None:
    model, draft = load(name)
    expected = generate(engine_of(model), [50, 51, 52])
    engine = engine_of(model, draft)
    for _ in range(2):
        assert generate(engine, [50, 51, 52]) == expected
    engine.check_invariants()
    stats = engine.stats()
    assert stats["spec_decode_num_draft_tokens_total"] > 0
    assert (stats["spec_decode_num_accepted_tokens_total"] > 0) >= (name == "model.gguf")


def test_both_models_compute_with_the_same_threads(load: Callable[[str], tuple[LlamaModel, LlamaModel]]) -> None:
    model, draft = load("other.gguf")
    assert draft._threads is model._threads
    assert draft.n_ctx == model.n_ctx
    assert draft.n_seq_max == model.n_seq_max


def check_refused(given: Settings, match: str) -> None:
    """Check that the model is loaded, and its draft model is not, with a message that matches."""
    model = LlamaModel.load(given)
    try:
        with pytest.raises(ModelLoadFailed, match=match):
            LlamaModel.load_draft(given, model)
    finally:
        model.close()


def test_another_vocabulary_is_refused_with_both_files(folder: Path) -> None:
    check_refused(settings(folder, "words.gguf"), r"words.gguf has another vocabulary than the model .*model.gguf")


def test_a_draft_model_whose_memory_cannot_be_cut_is_refused(folder: Path, gguf: Callable[[str], Path]) -> None:
    check_refused(settings(folder, str(gguf("mamba"))), r"spec_draft_model: .*\(recurrent\) cannot be cut")


def test_a_file_that_is_no_model_is_refused(folder: Path) -> None:
    (folder / "damaged.gguf").write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    check_refused(settings(folder, "damaged.gguf"), r"spec_draft_model: .*damaged.gguf cannot be loaded")


def test_the_memory_of_both_models_is_foretold(folder: Path) -> None:
    alone, both = (
        memory_estimate(settings(folder, "other.gguf", spec_type="none")),
        memory_estimate(settings(folder, "other.gguf")),
    )
    draft = memory_estimate(
        Settings(**settings(folder, "x").of_draft_model.model_dump() | {"model": str(folder / "other.gguf")})
    )
    assert both.draft == draft.total > 0
    assert both.draft_per_cell == draft.bytes_per_cell + draft.compute_per_cell
    assert both.total == alone.total + draft.total
    with pytest.raises(ConfigError, match=r"spec_draft_model: .*missing.gguf"):
        memory_estimate(settings(folder, "missing.gguf"))
