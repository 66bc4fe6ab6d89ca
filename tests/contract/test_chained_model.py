"""A model that writes known texts: it follows them whatever its seeds, and drafts from a list are right but for its ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta
from tests.contract.rounding import needs_equal_texts
from tests.models.chained_texts import a_text, chained_texts
from tests.models.random_gguf import Shape, write_llama

SHAPE = Shape(dim=256, layers=2, vocab=1024, context=4096, is_chained=True)
TEXTS = chained_texts(SHAPE.vocab)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    path = write_llama(tmp_path_factory.mktemp("chained") / "model.gguf", SHAPE)
    exact = {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off"}
    loaded = LlamaModel.load(Settings(model=str(path), n_ctx=4096, n_seq_max=16, threads=1, **exact))
    yield loaded
    loaded.close()


def written(model: LlamaModel, name: str, n: int, tokens: int, max_draft: int = 0) -> tuple[list[list[int]], Engine]:
    """Return the prompt with what each branch wrote after it, and the engine that did."""
    model.clear()
    ticks = iter(range(10**7))
    engine = Engine(model, EngineOptions(max_queue=4, max_draft=max_draft), clock=lambda: next(ticks) / 1000)
    prompt = a_text(TEXTS[name], 300, seed=1)
    specs = tuple(BranchSpec(seed, tokens, min_tokens=tokens) for seed in range(n))
    engine.submit(engine.prepare(Generate("r", tuple(prompt), specs)))
    found = [list(prompt) for _ in range(n)]
    while engine.has_work:
        for event in engine.step():
            if isinstance(event, Delta):
                found[event.index] += event.tokens
    return found, engine


@pytest.mark.parametrize("name", list(TEXTS))
def test_the_model_writes_each_text_as_it_was_begun(name: str, model: LlamaModel) -> None:
    texts, _ = written(model, name, 4, 100)
    assert len({tuple(text) for text in texts}) == 4
    for text in texts:
        assert [pair for pair in pairwise(text) if pair[1] not in TEXTS[name][pair[0]]] == []


@needs_equal_texts
def test_drafts_of_lists_are_right_but_for_the_ends_of_lines(model: LlamaModel) -> None:
    texts, _ = written(model, "lists", 2, 300)
    same, engine = written(model, "lists", 2, 300, max_draft=4)
    assert same == texts
    stats = engine.stats()
    right = stats["spec_decode_num_accepted_tokens_total"] / stats["spec_decode_num_draft_tokens_total"]
    assert 0.75 < right < 1
    assert stats["n_decode_total"] < 200
