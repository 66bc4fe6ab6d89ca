"""Embeddings and rankings by llama.cpp, of models that continue texts and of models that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.errors import InvalidRequest, ModelLoadFailed, NotSupported
from srb.wire.commands import BranchSpec, Embed, Generate, Rerank
from srb.wire.events import Event, Reply
from tests.contract.rounding import ROUNDING
from tests.contract.test_model import compute, tokens_of
from tests.models.random_gguf import TINY, write_bert, write_llama

TEXTS = ["the old king", "a boat", "the old king said then the girl was at the door", "☃"]
Load = Callable[..., LlamaModel]


@pytest.fixture
def load(tmp_path: Path, request: pytest.FixtureRequest) -> Load:
    def load(kind: str, **settings: Any) -> LlamaModel:
        path = tmp_path / f"{kind}.gguf"
        if kind == "llama":
            write_llama(path, TINY)
        else:
            write_bert(path, TINY, ranks=kind == "ranker")
        model = LlamaModel.load(Settings(model=str(path), n_ctx=256, n_ubatch=64, n_batch=64, threads=1, **settings))
        request.addfinalizer(model.close)
        return model

    return load


def answers(model: LlamaModel, *commands: Any) -> list[Any]:
    engine = Engine(model, EngineOptions(max_queue=10), clock=iter(range(10**6)).__next__)
    events: list[Event] = []
    for command in commands:
        events += engine.submit(engine.prepare(command))
    while engine.has_work:
        events += engine.step()
    assert all(isinstance(event, Reply) for event in events)
    return [event.value for event in events]


def embed(model: LlamaModel, texts: list[str], pooling: str = "") -> list[Any]:
    [value] = answers(model, Embed("a", tuple((text,) for text in texts), pooling))
    assert value["tokens"] == [len(model.tokenize(text, True, True)) for text in texts]
    return [np.array(vectors) for vectors in value["embeddings"]]


@pytest.mark.parametrize("kind", ["llama", "bert"])
@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
def test_a_text_among_others_has_the_vector_that_it_has_alone(load: Load, kind: str, pooling: str) -> None:
    model = load(kind, embedding=True)
    together = embed(model, TEXTS * 3, pooling)
    for text, vectors in zip(TEXTS * 3, together, strict=True):
        [alone] = embed(model, [text], pooling)
        assert alone.shape == (len(model.tokenize(text, True, True)) if pooling == "none" else 1, TINY.dim)
        assert np.allclose(vectors, alone, atol=1e-3 * ROUNDING)
    if (kind, pooling) != ("llama", "cls"):  # which sees its first token alone
        assert not np.allclose(together[0][-1], together[1][-1], atol=0.1)


def test_the_models_own_pooling_is_the_default_and_a_setting_overrides_it(load: Load) -> None:
    bert = load("bert", embedding=True)
    assert bert.info("b").pooling == "cls"
    assert np.array_equal(embed(bert, TEXTS)[0], embed(bert, TEXTS, "cls")[0])
    llama = load("llama", embedding=True, pooling="mean")
    none, mean = embed(llama, TEXTS, "none")[2], embed(llama, TEXTS)[2]
    assert np.allclose(none.mean(axis=0), mean[0], atol=1e-5)
    assert load("llama", embedding=True).info("l").pooling == "none"


def test_embeddings_do_not_change_running_sequences(load: Load) -> None:
    model = load("llama", embedding=True)
    tokens = tokens_of(model)
    cold = compute(model, 0, tokens)
    model.remove(0)
    compute(model, 1, tokens[:-1])
    embed(model, TEXTS)
    assert np.allclose(cold, compute(model, 1, tokens[-1:], position=len(tokens) - 1), atol=1e-2)


def test_a_ranker_scores_each_document_whatever_the_others_are(load: Load) -> None:
    model = load("ranker", reranking=True)
    [together] = answers(model, Rerank("a", "the king", tuple(TEXTS * 4)))
    alone = [answers(model, Rerank("a", "the king", (text,)))[0] for text in TEXTS]
    expected = [value["scores"][0] for value in alone] * 4
    assert together["scores"] == pytest.approx(expected, abs=1e-4 * ROUNDING)
    assert together["tokens"][:4] == [value["tokens"][0] for value in alone]
    assert len(set(together["scores"][:4])) == 4
    with pytest.raises(NotSupported):
        answers(model, Embed("b", (("a",),)))


def test_an_encoder_embeds_and_refuses_to_continue(load: Load) -> None:
    model = load("bert", embedding=True)
    with pytest.raises(NotSupported, match="cannot generate"):
        answers(model, Generate("a", ("a",), (BranchSpec(1),)))
    with pytest.raises(ModelLoadFailed, match="set embedding"):
        load("bert")


def test_embeddings_and_rankings_are_refused_unless_the_settings_enable_them(load: Load) -> None:
    model = load("llama")
    for command in (Embed("a", (("a",),)), Rerank("a", "a", ("b",))):
        with pytest.raises(NotSupported, match="Start it with"):
            answers(model, command)
    with pytest.raises(ModelLoadFailed, match="reranking"):
        load("llama", reranking=True)


def test_inputs_that_cannot_be_computed_are_refused_before_native_code(load: Load) -> None:
    model = load("llama", embedding=True)
    [value] = answers(model, Embed("a", ((5,) * 64,)))
    assert len(value["embeddings"][0]) == 64
    for inputs, pooling, reason in [
        (((5,) * 65,), "mean", "is too large to process: .* 64"),
        ((), "mean", "should not be empty"),
        (((),), "mean", "content cannot be empty"),
        (((10**9,),), "mean", "not in the vocabulary"),
        ((("a",),), "max", "should be one of none, mean, cls, last"),
    ]:
        with pytest.raises(InvalidRequest, match=reason):
            answers(model, Embed("a", inputs, pooling))
