"""The conversion of all-MiniLM-L6-v2, of a small model like it: llama.cpp's tokens and vectors are the original's."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srb.config.settings import Settings
from srb.engine.llama.model import LlamaModel
from srb.fetch.minilm import convert, tensors_of
from tests.contract.test_embeddings import embed

DIM, HEADS, LAYERS, INNER = 64, 4, 2, 128
WORDS = ["the", "old", "king", "said", "##ing", "rive", "##r", ",", ".", "'", "café", "cafe", "a", "##a", "s", "##s"]
VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["the old king", "The Old King said, the river.", "rivera's café", "☃ the king", "", "the old " * 20]
Tensors = dict[str, Any]


def make_tensors() -> Tensors:
    draw = np.random.default_rng(5)

    def linear(name: str, rows: int, columns: int) -> Tensors:
        return {f"{name}.weight": draw.normal(0, 0.3, (rows, columns)), f"{name}.bias": draw.normal(0, 0.3, rows)}

    def norm(name: str) -> Tensors:
        return {f"{name}.weight": draw.normal(1, 0.2, DIM), f"{name}.bias": draw.normal(0, 0.2, DIM)}

    made: Tensors = {"embeddings.position_ids": np.zeros((1, 64)), "pooler.dense.weight": np.zeros((DIM, DIM))}
    for name, size in (("word", len(VOCABULARY)), ("position", 64), ("token_type", 2)):
        made[f"embeddings.{name}_embeddings.weight"] = draw.normal(0, 1, (size, DIM))
    made |= norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            made |= linear(f"{prefix}attention.self.{name}", DIM, DIM)
        made |= linear(f"{prefix}attention.output.dense", DIM, DIM) | norm(f"{prefix}attention.output.LayerNorm")
        made |= linear(f"{prefix}intermediate.dense", INNER, DIM)
        made |= linear(f"{prefix}output.dense", DIM, INNER) | norm(f"{prefix}output.LayerNorm")
    return {name: values.astype(np.float32) for name, values in made.items()}


def safetensors(tensors: Tensors) -> bytes:
    said: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in tensors.items():
        offsets = [len(data), len(data) + values.nbytes]
        said[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": offsets}
        data += values.tobytes()
    head = json.dumps(said).encode()
    return len(head).to_bytes(8, "little") + head + data


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    config = {
        "max_position_embeddings": 64, "hidden_size": DIM, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "layer_norm_eps": 1e-12, "type_vocab_size": 2,
    }  # fmt: skip
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("config.json", json.dumps(config))
        vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
        made.writestr("tokenizer.json", json.dumps({"model": {"vocab": vocabulary}}))
        made.writestr("model.safetensors", safetensors(make_tensors()))
    return path


def reference(ids: list[int], tensors: Tensors) -> Any:
    """Return BERT's vector of a text, shape (DIM,): the mean of what its last layer says of the tokens."""

    def linear(x: Any, name: str) -> Any:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def of(name: str) -> Any:
        return tensors[f"embeddings.{name}_embeddings.weight"]

    x = norm(of("word")[ids] + of("position")[: len(ids)] + of("token_type")[0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        parts = (linear(x, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
        query, key, value = (part.reshape(len(ids), HEADS, -1).transpose(1, 0, 2) for part in parts)
        weights = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(DIM / HEADS))
        seen = (weights / weights.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), DIM)
        x = norm(x + linear(seen, f"{prefix}attention.output.dense"), f"{prefix}attention.output.LayerNorm")
        inner = linear(x, f"{prefix}intermediate.dense")
        inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(x + linear(inner, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")
    return x.mean(0)


def test_llama_cpp_reads_the_converted_model_as_the_original_is(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    convert(archive, path)
    model = LlamaModel.load(Settings(model=str(path), n_ctx=64, n_ubatch=64, n_batch=64, threads=1, embedding=True))
    try:
        with zipfile.ZipFile(archive) as made:
            tensors = tensors_of(made.read("model.safetensors"))
        for text, vectors in zip(TEXTS, embed(model, TEXTS), strict=True):
            expected, found = reference(model.tokenize(text, True, True), tensors), vectors[0]
            assert vectors.shape == (1, DIM)
            cosine = expected @ found / np.linalg.norm(expected) / np.linalg.norm(found)
            assert cosine == pytest.approx(1, abs=1e-3), text
        spelled = [VOCABULARY[token] for token in model.tokenize(TEXTS[1], True, True)]
        assert spelled == ["[CLS]", "the", "old", "king", "said", ",", "the", "rive", "##r", ".", "[SEP]"]
        assert model.tokenize("café", True, True)[1:-1] == [VOCABULARY.index("cafe")]
        assert model.tokenize("☃", True, True)[1:-1] == [VOCABULARY.index("[UNK]")]
    finally:
        model.close()
