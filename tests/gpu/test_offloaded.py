"""A model whose layers are all on a GPU: the defaults of such a machine, and a whole server.

They are skipped where llama.cpp finds no GPU. tests/contract runs on the GPU too, with the same build; see docs/gpu.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from srb.config.settings import Settings
from srb.engine.llama.model import MAX_SAMPLING_THREADS, LlamaModel
from srb.engine.llama.params import CPU_SEQUENCES, MAX_SEQUENCES, has_gpu, uses_gpu
from srb.engine.process.__main__ import _IDLE_CELLS, _cache_cells
from srb.host.cores import usable_cores
from tests.contract.test_model import close, compute, tokens_of
from tests.models.random_gguf import TINY, write_llama
from tests.processes import wait_for
from tests.servers import MakeServer

PATIENCE = 900.0  # seconds: software that stands for a GPU compiles shaders for minutes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(2 * PATIENCE),
    pytest.mark.skipif(not has_gpu(), reason="llama.cpp has found no GPU, or was built without one"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("gguf") / "llama.gguf", TINY)


@pytest.fixture(scope="module")
def load(path: Path) -> Iterator[Callable[..., LlamaModel]]:
    """Return a function that loads the model; models are kept for tests with the same settings."""
    models: dict[str, LlamaModel] = {}

    def loaded(**given: Any) -> LlamaModel:
        if str(given) not in models:
            settings = Settings(model=str(path), n_ctx=512, **given)
            models[str(given)] = LlamaModel.load(settings)
        return models[str(given)]

    yield loaded
    for model in models.values():
        model.close()


def test_all_layers_on_the_gpu_mean_the_defaults_of_one(load: Callable[..., LlamaModel]) -> None:
    model = load()
    assert uses_gpu(Settings())
    assert model.is_on_gpu
    assert model.decodes_ahead
    assert model.n_seq_max == MAX_SEQUENCES - 1 > CPU_SEQUENCES
    assert model._sampling_threads == min(MAX_SAMPLING_THREADS, usable_cores()), "no core computes the model"
    assert _cache_cells(Settings(), model.is_on_gpu) == _IDLE_CELLS


def test_no_layers_on_the_gpu_mean_the_defaults_of_a_cpu(load: Callable[..., LlamaModel]) -> None:
    assert not uses_gpu(Settings(n_gpu_layers=0))
    model = load(n_gpu_layers=0)
    assert not model.is_on_gpu
    assert not model.decodes_ahead
    assert model.n_seq_max == CPU_SEQUENCES
    assert _cache_cells(Settings(), model.is_on_gpu) == 0


def test_the_gpu_computes_the_logits_of_the_cpu(load: Callable[..., LlamaModel]) -> None:
    on_gpu, on_cpu = load(), load(n_gpu_layers=0)
    tokens = tokens_of(on_gpu)
    assert close(compute(on_gpu, 0, tokens), compute(on_cpu, 0, tokens))


def test_a_server_with_all_layers_on_the_gpu_repeats_its_branches(path: Path, make_server: MakeServer) -> None:
    given = {"model": path, "n_ctx": 2048, "n_gpu_layers": 999, "stall_timeout": 0}
    with make_server(**given) as server:
        server.start(wait=False)
        wait_for(lambda: server.has_ended or server.health() == 200, "GET /health answers 200", PATIENCE)
        body = {"prompt": "the old king said", "n": 8, "max_tokens": 6, "seed": 1, "format": "srb", "stream": False}
        answers = [requests.post(f"{server.url}/v1/srb/completions", json=body, timeout=PATIENCE) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200], server.logs
        first, again = ([each["text"] for each in answer.json()["completions"]] for answer in answers)
        assert len(first) == 8
        assert len(set(first)) > 1
        assert first == again
