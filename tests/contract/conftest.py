"""Models that the contract is tested on: the fake, and tiny random GGUFs of every kind of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import Settings
from srb.engine.fake import FakeModel
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Model
from tests.contract.writers import N_CTX as LONG_N_CTX
from tests.models.random_gguf import TINY, WRITERS

N_CTX = 256
SMALL_WINDOWS = "gemma3, small windows"  # whose cache holds the newest windows alone
WINDOWS_AND_STATES = "lfm2, windows"  # windows of 8 tokens here
BESIDE_STATES = "lfm2, windows of 32"
_WRITTEN = {SMALL_WINDOWS: "gemma3", BESIDE_STATES: WINDOWS_AND_STATES}
# Whose texts are computed alike in prompts and in steps, but for the order of sums.
ALIKE = ["fake", "fake, with states", *WRITERS, SMALL_WINDOWS]


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a tiny GGUF of an architecture, once, and returns its path."""
    folder = tmp_path_factory.mktemp("gguf")

    def write(arch: str) -> Path:
        path = folder / f"{arch}.gguf"
        shape = replace(TINY, window=8) if arch in (SMALL_WINDOWS, WINDOWS_AND_STATES) else TINY
        return path if path.exists() else WRITERS[_WRITTEN.get(arch, arch)](path, shape)

    return write


@pytest.fixture(params=ALIKE)
def model_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def model(model_name: str, gguf: Callable[[str], Path]) -> Iterator[Model]:
    made: Model
    if model_name.startswith("fake"):
        made = FakeModel(n_ctx=N_CTX, n_seq_max=16, n_batch=64, has_states="states" in model_name)
    else:
        given: dict[str, Any] = {"n_ctx": N_CTX, "swa_full": "on"}
        if "gemma" in model_name:  # f16 cells would round equal texts apart; flash attention has no others
            given |= {"flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}
        if model_name in (SMALL_WINDOWS, WINDOWS_AND_STATES):
            given |= {"n_ctx": 2 * N_CTX, "swa_full": "off"}
        path = str(gguf(model_name))
        made = LlamaModel.load(Settings(model=path, n_batch=64, n_ubatch=32, n_seq_max=16, threads=1, **given))
    yield made
    made.close()


@pytest.fixture
def llama(gguf: Callable[[str], Path]) -> Iterator[LlamaModel]:
    made = LlamaModel.load(Settings(model=str(gguf("llama")), n_ctx=N_CTX, n_batch=64, n_seq_max=16, threads=1))
    yield made
    made.close()


@pytest.fixture
def load(gguf: Callable[[str], Path]) -> Iterator[Callable[..., LlamaModel]]:
    """Return a function that loads a model whose equal texts have equal logits but for the order of sums."""
    loaded: list[LlamaModel] = []

    def one(arch: str = "gemma3", **changes: Any) -> LlamaModel:
        given: dict[str, Any] = {
            "model": str(gguf(arch)),
            "n_ctx": LONG_N_CTX,
            "n_batch": 64,
            "n_ubatch": 64,
            "threads": 1,
        }
        given |= {"cache_type_k": "f32", "cache_type_v": "f32", "flash_attn": "off", "rope_scaling": "none"}
        loaded.append(LlamaModel.load(Settings(**(given | changes))))
        return loaded[-1]

    yield one
    for model in loaded:
        model.close()
