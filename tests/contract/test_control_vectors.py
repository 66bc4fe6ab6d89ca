"""Control vectors of llama.cpp by sequence: each row is what the context's own vector makes of it, whatever is beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as lib
import numpy as np
import pytest

from srb.config.sampling_params import SamplingParams
from srb.config.settings import Settings
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.vector_files import write_vector
from srb.engine.model import Batch, Logits, Mood
from srb.errors import ModelLoadFailed
from srb.wire.commands import BranchSpec, ControlVectors, Generate
from srb.wire.events import Delta
from tests.contract.rounding import needs_equal_texts
from tests.contract.test_model import tokens_of
from tests.models.random_gguf import TINY, WRITERS

DEEPER = replace(TINY, layers=4)  # the last layer has the rows of logits alone
SCALES = [0.5, 0.0, -1.0, 1.0, 0.0, 2.0, 0.5]


def written(folder: Path, name: str, dim: int = TINY.dim, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    path = folder / f"{name}.gguf"
    write_vector(path, {layer: random.standard_normal(dim).astype(np.float32) for layer in range(1, 8)}, "llama")
    return path


def load(path: Path, folder: Path, **settings: str) -> LlamaModel:
    written(folder, "sad")
    written(folder, "dark", seed=1)
    settings.setdefault("control_vector_dir", str(folder))
    return LlamaModel.load(Settings(model=str(path), n_ctx=512, n_batch=64, n_seq_max=24, threads=1, **settings))


@pytest.fixture(params=list(WRITERS))
def any_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    folder = tmp_path_factory.mktemp("any")
    path = WRITERS[request.param](folder / "model.gguf", DEEPER)
    made = load(path, tmp_path_factory.mktemp("vectors"))
    yield made
    made.close()


@pytest.fixture
def model(gguf: Callable[[str], Path], tmp_path: Path) -> Iterator[LlamaModel]:
    made = load(gguf("llama"), tmp_path)
    yield made
    made.close()


def moods_of(model: LlamaModel, scales: list[float]) -> dict[int, Mood]:
    key = next(vector.key for vector in model.control_vectors if vector.name == "sad")
    return {place: ((key, scale),) for place, scale in enumerate(scales) if scale}


def compute(model: LlamaModel, moods: dict[int, Mood], of_context: float = 0.0) -> list[Logits]:
    """Compute a prompt and two more tokens of each sequence, under the context's own vector or none; return all rows."""
    if of_context:
        floats = model._vectors._sum(moods_of(model, [of_context])[0])
        data = floats.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        lib.llama_set_adapter_cvec(model._context, data, floats.size, floats.shape[1], 1, len(floats))
    rows: list[Logits] = []
    tokens = tokens_of(model)
    for begin, end in ((0, 5), (5, 6), (6, 7)):
        batch = Batch()
        places = [batch.add(seq_id, begin, tokens[begin:end], want_logits=True) for seq_id in range(len(SCALES))]
        batch.moods = moods
        model.decode(batch)
        rows += [model.logits(place).copy() for place in places]
    lib.llama_set_adapter_cvec(model._context, None, 0, 0, 0, 0)
    model.clear()
    return rows


def test_each_row_is_to_the_bit_what_the_contexts_vector_makes_of_it(any_model: LlamaModel) -> None:
    if any_model.no_control_vectors:
        pytest.skip(any_model.no_control_vectors)
    count = len(SCALES)
    mixed = compute(any_model, moods_of(any_model, SCALES))
    for scale in dict.fromkeys(SCALES):
        alone = compute(any_model, {}, of_context=scale)
        for row, (found, expected) in enumerate(zip(mixed, alone, strict=True)):
            assert np.array_equal(found, expected) == (SCALES[row % count] == scale), f"row {row}, scale {scale}"
    assert all(map(np.array_equal, compute(any_model, {}), compute(any_model, {}, of_context=0.0)))


def test_more_moods_than_there_are_slots_take_turns(model: LlamaModel) -> None:
    key = model.control_vectors[0].key
    plain = compute(model, {})
    for turn in range(6):
        moods: dict[int, Mood] = {place: ((key, 1.0 + place + 10 * turn),) for place in range(len(SCALES))}
        together = compute(model, moods)
        assert not any(map(np.array_equal, together, plain))
        alone = compute(model, {3: moods[3]})
        assert np.array_equal(alone[3], together[3])
        assert np.array_equal(alone[2], plain[2])
    many: dict[int, Mood] = {place: ((key, 1.0 + place),) for place in range(20)}
    batch = Batch()
    rows = [batch.add(place, 0, tokens_of(model)[:2], want_logits=True) for place in range(20)]
    batch.moods = many
    model.decode(batch)
    found = [model.logits(row).copy() for row in rows]
    model.clear()
    assert len({row.tobytes() for row in found}) == 20


@needs_equal_texts
def test_branches_with_moods_have_beside_each_other_the_texts_of_each_alone(model: LlamaModel) -> None:
    def texts(*moods: ControlVectors) -> list[tuple[int, ...]]:
        model.clear()
        engine = Engine(model, EngineOptions(max_queue=10, cache_cells=1000), clock=iter(range(10**6)).__next__)
        specs = tuple(
            BranchSpec(1, 10, sampling=SamplingParams(ignore_eos=True), control_vectors=mood) for mood in moods
        )
        found: dict[str, list[int]] = {}
        for turn in range(2):  # the same again, to find what the first left
            engine.submit(engine.prepare(Generate(f"{turn}", ("the old king said",), specs)))
            while engine.has_work:
                for event in engine.step():
                    if isinstance(event, Delta):
                        found.setdefault(f"{event.request_id}.{event.index}", []).extend(event.tokens)
                engine.check_invariants()
        assert all(found[f"0.{index}"] == found[f"1.{index}"] for index in range(len(moods)))
        return [tuple(found[f"0.{index}"]) for index in range(len(moods))]

    moods: list[ControlVectors] = [(("sad", 2.0),), (("dark", 2.0),), (("dark", 1.0), ("sad", 1.0)), (("sad", -2.0),)]
    together = texts(*moods)
    assert len(set(together)) == len(moods)
    assert together == [texts(mood, (("sad", 5.0),))[0] for mood in moods]


def test_layers_outside_of_the_range_have_no_vector(gguf: Callable[[str], Path], tmp_path: Path) -> None:
    made = load(gguf("llama"), tmp_path, control_vector_layers="90,99")
    assert all(map(np.array_equal, compute(made, moods_of(made, SCALES)), compute(made, {})))
    made.close()


def test_a_file_that_is_no_vector_of_this_model_is_refused_by_name(gguf: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "of others"
    folder.mkdir()
    wrong = written(folder, "wrong", dim=TINY.dim + 8)
    damaged = folder / "damaged.gguf"
    damaged.write_bytes(wrong.read_bytes()[:200])
    for path, reason in [
        (wrong, "is made for another model"),
        (damaged, "is damaged"),
        (gguf("llama"), "is no control"),
    ]:
        with pytest.raises(ModelLoadFailed, match=f"control_vector: {path} {reason}"):
            load(gguf("llama"), tmp_path, control_vector=str(path))
    made = load(gguf("llama"), tmp_path, control_vector_dir=str(folder))
    assert made.control_vectors == []  # those of a folder may be other models'
    made.close()


def missing() -> None:
    raise AttributeError


def of_no_graph() -> tuple[Any, ...]:
    return (lambda context, slots: False,) * 3


@pytest.mark.parametrize(
    ("functions", "words"), [(missing, "llama.cpp was built without SRB's patch"), (of_no_graph, "this kind of model")]
)
def test_a_model_that_cannot_have_vectors_says_so(
    functions: Any, words: str, gguf: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srb.engine.llama.control_vectors._functions", functions)
    made = load(gguf("llama"), tmp_path)
    assert words in made.no_control_vectors
    assert made.info("x").control_vectors == {}
    made.close()
    with pytest.raises(ModelLoadFailed, match=f"control_vector: {words}"):
        load(gguf("llama"), tmp_path, control_vector=str(tmp_path / "sad.gguf"))
