"""Embeddings, reranking and adapters, over a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.dialects import suite
from tests.cluster.e2e.conftest import Machines
from tests.e2e import test_embeddings
from tests.models.random_gguf import write_bert, write_llama, write_lora
from tests.servers import Server

globals().update(suite(test_embeddings))


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, and the adapters of the one that writes."""
    folder = tmp_path_factory.mktemp("models")
    write_bert(folder / "bert.gguf")
    write_bert(folder / "ranks.gguf", ranks=True)
    write_llama(folder / "llama.gguf")
    write_lora(folder / "first.gguf", seed=1)
    write_lora(folder / "second.gguf", seed=2)
    return folder


@pytest.fixture
def encoder(machines: Machines, files: Path) -> Server:
    return machines.share("encoder", model=files / "bert.gguf", n_ctx=2048, threads=1, embedding=True)


@pytest.fixture
def ranker(machines: Machines, files: Path) -> Server:
    return machines.share("ranker", model=files / "ranks.gguf", n_ctx=2048, threads=1, reranking=True)


@pytest.fixture
def adapted(machines: Machines, files: Path) -> Server:
    lora = f"{files / 'first.gguf'},{files / 'second.gguf'}=0.5"
    own = {"model": files / "llama.gguf", "lora": lora, "embedding": True, "pooling": "mean"}
    return machines.share("adapted", n_ctx=2048, threads=1, **own)
