"""all-MiniLM-L6-v2 beside SmolLM2: its likeness of texts is the original's, and the choice by it takes texts that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from bench.different import vendi
from tests.real.conftest import SETTINGS, need_model
from tests.servers import Server

# The cosines of the original's vectors, computed in 32 bits from its weights.
TEXTS = ["The cat sits on the mat.", "A kitten is sitting on a rug.", "Stock markets fell sharply today."]
COSINES = {(0, 1): 0.679, (0, 2): 0.046, (1, 2): 0.060}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    models = [
        {"name": "smollm2", "model": str(need_model("smollm2"))},
        {"name": "minilm", "model": str(need_model("minilm")), "embedding": True, "n_ctx": 512},
    ]
    folder: Path = tmp_path_factory.mktemp("meaning")
    with Server(folder, models=orjson.dumps(models).decode(), model="", max_engines=2, **SETTINGS) as server:
        yield server.start()


def vectors(server: Server, texts: list[str]) -> Any:
    found = server.post("/v1/embeddings", {"model": "minilm", "input": texts}).json()["data"]
    rows = np.array([each["embedding"] for each in found])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_texts_are_as_alike_as_the_original_finds_them(server: Server) -> None:
    rows = vectors(server, TEXTS)
    for (one, other), cosine in COSINES.items():
        assert rows[one] @ rows[other] == pytest.approx(cosine, abs=2e-3)


def test_branches_chosen_by_meaning_differ_more_than_those_chosen_by_likelihood(server: Server) -> None:
    body = {"prompt": "The old man sat by the fire and", "n": 8, "best_of": 32, "max_tokens": 40, "seed": 1}
    different = {}
    for select in ("likely", "meaning"):
        answer = server.post("/v1/srb/completions", {**body, "select": select, "stream": False}).json()
        different[select] = vendi(vectors(server, [each["text"] for each in answer["completions"]]))
    assert answer["chosen_by"] == "meaning"
    assert different["meaning"] > different["likely"]
