"""LoRA adapters of llama.cpp: each request is computed with its own scales, whatever else runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, Logits
from srb.errors import ModelLoadFailed
from srb.wire.commands import BranchSpec, Embed, Generate, GetAdapters
from srb.wire.events import Delta
from tests.contract.rounding import needs_equal_texts
from tests.contract.test_model import tokens_of
from tests.models.random_gguf import TINY, Shape, write_lora

SCALES = [(0.0, 0.0), (1.0, 0.0), (0.5, 0.0), (0.0, 1.0), (1.0, 1.0)]


@pytest.fixture
def model(gguf: Callable[[str], Path], tmp_path: Path) -> Iterator[LlamaModel]:
    first = write_lora(tmp_path / "a.gguf", TINY, task_name="verse")
    second = write_lora(tmp_path / "b.gguf", TINY, seed=1)
    lora = f"{first}, {second}=0.25"
    made = LlamaModel.load(
        Settings(model=str(gguf("llama")), n_ctx=256, n_batch=64, threads=1, lora=lora, embedding=True)
    )
    yield made
    made.close()


def compute(model: LlamaModel, scales: tuple[float, ...]) -> Logits:
    model.remove(0)
    batch = Batch(scales)
    row = batch.add(0, 0, tokens_of(model), want_logits=True)
    model.decode(batch)
    return model.logits(row).copy()


def test_scales_change_what_is_computed_and_zero_is_the_model_itself(model: LlamaModel) -> None:
    logits = [compute(model, scales) for scales in SCALES]
    for place, one in enumerate(logits):
        assert np.allclose(one, compute(model, SCALES[place]), atol=1e-3)
        assert not any(np.allclose(one, other, atol=0.1) for other in logits[place + 1 :])
    assert np.array_equal(logits[0], compute(model, ()))


@needs_equal_texts
def test_requests_with_different_scales_run_together_with_the_texts_of_each_alone(model: LlamaModel) -> None:
    def texts(*scales: tuple[float, ...]) -> list[list[int]]:
        model.clear()
        engine = Engine(model, EngineOptions(max_queue=10, cache_cells=1000), clock=iter(range(10**6)).__next__)
        specs = tuple(BranchSpec(seed, 10, sampling=SamplingParams(ignore_eos=True)) for seed in (1, 2))
        found: dict[str, list[int]] = {}
        for place, given in enumerate(scales):
            for turn in range(2):  # the same again, to find what the first left
                command = Generate(f"{place}.{turn}", ("the old king",), specs, lora=tuple(enumerate(given)))
                engine.submit(engine.prepare(command))
        while engine.has_work:
            for event in engine.step():
                if isinstance(event, Delta):
                    found.setdefault(f"{event.request_id}.{event.index}", []).extend(event.tokens)
            engine.check_invariants()
        return [found[f"{place}.{turn}.{index}"] for place in range(len(scales)) for turn in (0, 1) for index in (0, 1)]

    together = texts(*SCALES)
    assert together == [text for scales in SCALES for text in texts(scales)]
    assert len({tuple(text) for text in together}) == 2 * len(SCALES)


def test_adapters_are_told_with_the_scales_of_the_settings_and_used_by_embeddings(model: LlamaModel) -> None:
    engine = Engine(model, EngineOptions(max_queue=10), clock=iter(range(10**6)).__next__)
    told = engine.serve_query(GetAdapters("a"))
    assert [(one["id"], Path(one["path"]).name, one["scale"], one["task_name"]) for one in told] == [
        (0, "a.gguf", 1.0, "verse"),
        (1, "b.gguf", 0.25, ""),
    ]
    job = engine.prepare(Embed("e", (("the king",),), "mean"))
    engine.submit(job)
    [answer] = engine.step()
    tokens = model.tokenize("the king", True, True)
    for scales, same in [((1.0, 0.25), True), ((0.0, 0.0), False)]:
        [vectors] = model.embed([tokens], scales)
        assert np.allclose(vectors.mean(axis=0), answer.value["embeddings"][0][0], atol=1e-4) == same


def test_a_file_that_is_no_adapter_of_this_model_is_refused_by_name(
    gguf: Callable[[str], Path], tmp_path: Path
) -> None:
    wrong = write_lora(tmp_path / "wrong.gguf", Shape(dim=32))
    for path, reason in [
        (wrong, "cannot be loaded"),
        (tmp_path / "none.gguf", "is not a file"),
        (gguf("llama"), "cannot"),
    ]:
        with pytest.raises(ModelLoadFailed, match=f"lora: {path} {reason}"):
            LlamaModel.load(Settings(model=str(gguf("llama")), n_ctx=256, lora=str(path)))
