"""Encoding beside decodes: the branches of other requests go on in the midst of a picture's tiles. Nothing is timed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from typing import Any

import llama_cpp as lib
import pytest

from srb.config.sampling_params import SamplingParams
from srb.engine.engine import Engine, EngineOptions
from srb.engine.llama.media import LlamaEncoder
from srb.engine.llama.model import LlamaModel
from srb.engine.media import MediaChunk
from srb.engine.request import Request
from srb.errors import Cancelled
from srb.wire.commands import BranchSpec, Generate
from tests.contract.seeing import KINDS, PICTURES
from tests.media import b64
from tests.processes import DEADLINE

mtmd = pytest.importorskip("llama_cpp.mtmd_cpp", reason="llama-cpp-python was built without mtmd")

NODES = 5  # of the encoder's graph that are computed before it waits
TILES = 5  # of a picture, with the overview


class Gate:
    """A callback in the encoder's computation: in each chunk it waits once, until a step was taken elsewhere."""

    def __init__(self) -> None:
        self.reached, self.opened = Semaphore(0), Semaphore(0)
        self.timeouts = 0
        self._nodes: int | None = None  # asked about in this chunk; None: it does not wait in it

    def begin(self) -> None:
        """Note that a chunk begins."""
        self._nodes = 0

    def __call__(self, tensor: Any, asks: bool, data: Any) -> bool:
        """Answer whether a node is to be looked at once it is computed, or look at it."""
        if self._nodes is None:
            return not asks
        if asks:
            self._nodes += 1
            return self._nodes == NODES
        self._nodes = None
        self.reached.release()
        self.timeouts += not self.opened.acquire(timeout=DEADLINE)
        return True


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made, default, encoded = Gate(), mtmd.mtmd_context_params_default, LlamaEncoder._encoded
    callback = lib.ggml_backend_sched_eval_callback(made)

    def params() -> Any:
        given = default()
        given.cb_eval = callback
        return given

    def encode(self: LlamaEncoder, *chunk: Any) -> Any:
        made.begin()
        return encoded(self, *chunk)

    monkeypatch.setattr(mtmd, "mtmd_context_params_default", params)
    monkeypatch.setattr(LlamaEncoder, "_encoded", encode)
    return made


def test_every_branch_gets_a_token_in_the_midst_of_each_tile_that_is_encoded(
    gate: Gate, load: Callable[..., LlamaModel], tmp_path: Path
) -> None:
    kind = KINDS["idefics3"]
    files = kind.write_model(tmp_path / "m.gguf", kind.shape), kind.write_projector(tmp_path / "p.gguf", kind.shape)
    engine = Engine(
        load(model=str(files[0]), mmproj=str(files[1])), EngineOptions(max_queue=9), clock=iter(range(10**6)).__next__
    )
    specs = tuple(BranchSpec(seed, 100, sampling=SamplingParams(ignore_eos=True)) for seed in range(3))
    story = engine.prepare(Generate("story", ("once",), specs))
    assert isinstance(story, Request)
    engine.submit(story)
    while not all(branch.tokens for branch in story.branches):
        engine.step()
    picture = Generate("picture", ("a", -1), (BranchSpec(0, 4),), media=(b64(PICTURES[1]),))
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(engine.prepare, picture)
        for _ in range(TILES):
            assert gate.reached.acquire(timeout=DEADLINE)
            lengths = [len(branch.tokens) for branch in story.branches]
            engine.step()
            assert [len(branch.tokens) for branch in story.branches] == [length + 1 for length in lengths]
            gate.opened.release()
        request = prepared.result(DEADLINE)
    assert isinstance(request, Request)
    assert (len(request.prefix.media), gate.timeouts) == (TILES, 0)
    engine.submit(request)
    while engine.has_work:
        engine.step()


def test_no_further_tile_is_encoded_for_a_request_that_was_cancelled(
    load: Callable[..., LlamaModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS["idefics3"]
    files = kind.write_model(tmp_path / "m.gguf", kind.shape), kind.write_projector(tmp_path / "p.gguf", kind.shape)
    encoder = load(model=str(files[0]), mmproj=str(files[1])).encoder
    assert isinstance(encoder, LlamaEncoder)
    encoded, encode = [], LlamaEncoder._encoded

    def note(self: LlamaEncoder, *chunk: Any) -> Any:
        encoded.append(chunk)
        return encode(self, *chunk)

    monkeypatch.setattr(LlamaEncoder, "_encoded", note)
    with pytest.raises(Cancelled):
        encoder.encode(PICTURES[1], lambda: len(encoded) < 2)
    assert len(encoded) == 2
    assert len([part for part in encoder.encode(PICTURES[1]) if isinstance(part, MediaChunk)]) == TILES
