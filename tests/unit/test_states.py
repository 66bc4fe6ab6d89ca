"""Named states: kept when others are dropped, on disk across restarts, and refused when they do not fit."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from srb.engine.core import Engine
from srb.engine.fake import FakeModel
from srb.engine.model import SavedState
from srb.engine.states import StateError, StateFolder, model_fingerprint, pack, unpack
from srb.protocol import BranchSpec, Done, Generate, SetAdapters
from tests.engine_helpers import solo

PROMPT = "the old king said to the girl near the river that the boat was lost"


def run(engine: Engine, prompt: str, state: str, seed: int = 3) -> tuple[str, Done]:
    """Run one branch; return its text and the Done event."""
    request = engine.prepare(Generate("r", (prompt,), (BranchSpec(seed, 10),), state=state))
    events = engine.submit(request)
    while engine.has_work:
        events += engine.step()
        engine.check_invariants()
    text = "".join(getattr(event, "text", "") for event in events)
    (done,) = [event for event in events if isinstance(event, Done)]
    return text, done


def engine_with(folder: StateFolder | None, can_cut: bool = True, cache_bytes: int = 10**6) -> Engine:
    model = FakeModel(can_cut=can_cut)
    return Engine(model, max_queue=9, clock=iter(range(10**6)).__next__, cache_bytes=cache_bytes, states=folder)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "states", "model-a")


@pytest.mark.parametrize("can_cut", [True, False])
def test_a_state_outlives_the_engine(folder: StateFolder, tmp_path: Path, can_cut: bool) -> None:
    run(engine_with(folder, can_cut), PROMPT, "chapter-1")
    folder.close()
    again = StateFolder(tmp_path / "states", "model-a")
    text, done = run(engine_with(again, can_cut), PROMPT + " and then the fox", "chapter-1")
    assert done.cached_tokens >= len(FakeModel().tokenize(PROMPT, True, True))
    assert text == solo(PROMPT + " and then the fox", seed=3).texts[0]


@pytest.mark.parametrize("damage", ["cut", "flip", "other model", "garbage", "empty"])
def test_a_file_that_does_not_fit_is_refused_and_the_prompt_is_computed(
    folder: StateFolder, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(engine_with(folder), PROMPT, "x")
    folder.close()
    path = tmp_path / "states" / "x.srbstate"
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-5],
            "flip": data[:-1] + bytes([data[-1] ^ 1]),
            "other model": data,
            "garbage": b"nonsense" * 50,
            "empty": b"",
        }[damage]
    )
    again = StateFolder(tmp_path / "states", "model-b" if damage == "other model" else "model-a")
    text, done = run(engine_with(again), PROMPT, "x")
    assert done.cached_tokens == 0
    assert text == solo(PROMPT, seed=3).texts[0]
    assert "is not used" in caplog.text


def test_a_state_is_of_use_only_with_the_scales_that_it_was_made_with(folder: StateFolder, tmp_path: Path) -> None:
    def cached(scale: float) -> int:
        model = FakeModel(n_adapters=1)
        states = StateFolder(tmp_path / "states", "model-a")
        engine = Engine(model, max_queue=9, clock=iter(range(10**6)).__next__, cache_bytes=10**6, states=states)
        engine.answer(SetAdapters("a", ((0, scale),)))
        _, done = run(engine, PROMPT, "x")
        states.close()
        return done.cached_tokens

    assert [cached(0.5) > 0, cached(0.5) > 0, cached(0.25) > 0, cached(0.25) > 0] == [False, True, False, True]


def test_a_state_of_another_prompt_is_replaced(folder: StateFolder, tmp_path: Path) -> None:
    run(engine_with(folder), PROMPT, "x")
    run(engine_with(folder), "a fox", "x")
    folder.close()
    state = StateFolder(tmp_path / "states", "model-a").load("x")
    assert state is not None
    assert state.tokens == FakeModel().tokenize("a fox", True, True)


def test_a_named_prompt_is_the_last_to_be_dropped() -> None:
    length = len(FakeModel().tokenize(PROMPT, True, True))
    engine = engine_with(None, cache_bytes=16 * (length + 40))
    run(engine, PROMPT, "keep-me")
    for i in range(20):
        run(engine, "a fox " * (3 + i), "")
    _, done = run(engine, PROMPT + " and", "")
    assert done.cached_tokens >= length


def test_the_folder_is_private_and_names_cannot_leave_it(folder: StateFolder, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "states").stat().st_mode) == 0o700
    for name in ("../x", "a/b", ".", "", "x\0", "é"):
        with pytest.raises(Exception, match="state"):
            folder.load(name)


def test_the_fingerprint_tells_models_and_cell_types_apart(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    data = np.random.default_rng(1).bytes(3_000_000)
    a.write_bytes(data)
    b.write_bytes(data[:-10] + bytes(10))
    assert model_fingerprint(a, "f16") == model_fingerprint(a, "f16")
    assert len({model_fingerprint(a, "f16"), model_fingerprint(a, "q8_0"), model_fingerprint(b, "f16")}) == 3


def test_unpack_takes_only_what_pack_made() -> None:
    state = SavedState([1, 2, 3], np.arange(100, dtype=np.uint8), np.ones(7, np.float32), (0.5, 1.0))
    data = pack(state, "m")
    assert unpack(data, "m").tokens == [1, 2, 3]
    assert unpack(data, "m").lora == (0.5, 1.0)
    assert (unpack(data, "m").blob == state.blob).all()
    assert (unpack(data, "m").logits == state.logits).all()
    for size in range(0, len(data), 7):
        with pytest.raises(StateError):
            unpack(data[:size], "m")
