"""Embeddings, reranking and LoRA adapters on whole servers, with small random models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import requests

from tests.models.random_gguf import write_bert, write_llama, write_lora
from tests.processes import DEADLINE
from tests.servers import Server

pytestmark = pytest.mark.e2e

TEXTS = ["a fox in the snow", "the old king", "a fox in the rain"]


def serve(folder: Path, **settings: Any) -> Server:
    return Server(folder, n_ctx=2048, threads=1, **settings)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a model that makes embeddings and no text."""
    folder = tmp_path_factory.mktemp("encoder")
    with serve(folder, model=write_bert(folder / "bert.gguf"), embedding=True) as server:
        yield server.start()


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("ranker")
    with serve(folder, model=write_bert(folder / "bert.gguf", ranks=True), reranking=True) as server:
        yield server.start()


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a model with two adapters, the second of which counts half; it makes embeddings, too."""
    folder = tmp_path_factory.mktemp("adapted")
    first, second = write_lora(folder / "first.gguf", seed=1), write_lora(folder / "second.gguf", seed=2)
    model = write_llama(folder / "llama.gguf")
    with serve(folder, model=model, lora=f"{first},{second}=0.5", embedding=True, pooling="mean") as server:
        yield server.start()


def own(server: Server, text: Any, **body: Any) -> list[list[float]]:
    response = server.post("/embedding", {"content": text, **body})
    assert response.status_code == 200, response.text
    return [datum["embedding"][0] for datum in response.json()]


# ---- embeddings


def test_vectors_are_of_length_one_and_differ_with_their_texts(encoder: Server) -> None:
    vectors = own(encoder, TEXTS)
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 3)
    assert vectors[0] != vectors[1] != vectors[2]
    assert own(encoder, TEXTS[1]) == [pytest.approx(vectors[1], abs=1e-5)]
    (raw,) = own(encoder, TEXTS[0], embd_normalize=-1)
    assert [x / math.hypot(*raw) for x in raw] == pytest.approx(vectors[0], abs=1e-5)


def test_openais_client_gets_the_same_vectors_as_numbers_and_as_base64(encoder: Server) -> None:
    client = openai.OpenAI(base_url=f"{encoder.url}/v1", api_key="none")
    floats = client.embeddings.create(model="any", input=TEXTS, encoding_format="float")
    packed = client.embeddings.create(model="any", input=TEXTS)  # the client asks for base64 by itself
    for text, datum, same in zip(own(encoder, TEXTS), floats.data, packed.data, strict=True):
        assert datum.embedding == pytest.approx(text, abs=1e-5)
        assert same.embedding == pytest.approx(text, abs=1e-5)
    assert floats.usage.prompt_tokens == floats.usage.total_tokens > len(TEXTS)


def test_tokens_have_the_vector_of_their_text(encoder: Server) -> None:
    tokens = encoder.post("/tokenize", {"content": TEXTS[0], "add_special": True}).json()["tokens"]
    assert own(encoder, [tokens]) == [pytest.approx(own(encoder, TEXTS[0])[0], abs=1e-5)]


@pytest.mark.parametrize("given", ["word " * 3000, [10**6], [[]], []])
def test_a_text_that_cannot_be_embedded_is_400(encoder: Server, given: Any) -> None:
    response = encoder.post("/v1/embeddings", {"input": given})
    assert response.status_code == 400
    assert own(encoder, TEXTS[0])


@pytest.mark.parametrize("text", ["word " * 3000, "a fox " * 900, "☃" * 4000])
def test_a_text_that_is_truncated_has_the_vector_of_its_beginning(encoder: Server, text: str) -> None:
    asked = {"model": encoder.get("/api/tags").json()["models"][0]["name"], "input": text}
    assert encoder.post("/api/embed", asked | {"truncate": False}).status_code == 400
    ours = encoder.post("/v1/embeddings", {"input": text, "truncate": True}).json()
    theirs = encoder.post("/api/embed", asked).json()
    assert theirs["embeddings"] == [pytest.approx(ours["data"][0]["embedding"], abs=1e-5)]
    tokens, alone = (
        encoder.post("/tokenize", {"content": content, "add_special": True}).json()["tokens"] for content in (text, "")
    )
    most, end = theirs["prompt_eval_count"], alone[-1:] if tokens[-1:] == alone[-1:] else []
    assert most == ours["usage"]["prompt_tokens"] < len(tokens)
    assert own(encoder, [[*tokens[: most - len(end)], *end]]) == [pytest.approx(theirs["embeddings"][0], abs=1e-5)]


def test_an_empty_text_has_the_vector_of_its_special_tokens(encoder: Server) -> None:
    tokens = encoder.post("/tokenize", {"content": "", "add_special": True}).json()["tokens"]
    assert own(encoder, ["", tokens]) == [pytest.approx(own(encoder, [tokens])[0], abs=1e-5)] * 2


def test_openais_text_parts_have_the_vector_of_their_text(encoder: Server) -> None:
    parts = [{"type": "text", "text": part} for part in (TEXTS[0][:6], TEXTS[0][6:])]
    assert own(encoder, [{"content": parts}]) == [pytest.approx(own(encoder, TEXTS[0])[0], abs=1e-5)]


def test_a_model_that_only_embeds_says_so(encoder: Server) -> None:
    response = encoder.post("/completion", {"prompt": "Once"})
    assert (response.status_code, response.json()["error"]["type"]) == (501, "not_supported_error")
    assert encoder.post("/rerank", {"query": "x", "documents": ["y"]}).status_code == 501


def test_a_model_that_writes_can_embed_at_the_same_time(adapted: Server) -> None:
    with requests.post(
        adapted.url + "/completion",
        json={"prompt": "Once", "n": 4, "n_predict": 200, "ignore_eos": True, "stream": True},
        stream=True,
        timeout=DEADLINE,
    ) as stream:
        lines = stream.iter_lines()
        next(lines)
        vectors = own(adapted, TEXTS)
        assert b'"stop":true' in b"".join(lines)
    assert own(adapted, TEXTS) == [pytest.approx(vector, abs=1e-4) for vector in vectors]


# ---- reranking


def test_documents_are_ranked(ranker: Server) -> None:
    answer = ranker.post("/v1/rerank", {"query": "a fox", "documents": TEXTS}).json()
    scores = [result["relevance_score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert {result["index"] for result in answer["results"]} == {0, 1, 2}
    assert answer["usage"]["prompt_tokens"] > 0
    (best,) = ranker.post("/rerank", {"query": "a fox", "documents": TEXTS, "top_n": 1}).json()["results"]
    assert best["index"] == answer["results"][0]["index"]
    assert best["relevance_score"] == pytest.approx(scores[0], abs=1e-4)
    (tei, *_) = ranker.post("/rerank", {"query": "a fox", "texts": TEXTS, "return_text": True}).json()
    assert tei["text"] == TEXTS[best["index"]]


# ---- adapters


def written(server: Server, **body: Any) -> str:
    said = {"prompt": "Once upon a time", "n_predict": 24, "temperature": 0, "ignore_eos": True}
    response = server.post("/completion", said | body)
    assert response.status_code == 200, response.text
    text: str = response.json()["content"]
    return text


def test_adapters_are_listed_with_their_scales(adapted: Server) -> None:
    listed = adapted.get("/lora-adapters").json()
    assert [(adapter["id"], Path(adapter["path"]).name, adapter["scale"]) for adapter in listed] == [
        (0, "first.gguf", 1.0),
        (1, "second.gguf", 0.5),
    ]


def test_a_request_has_scales_of_its_own_and_the_servers_hold_for_others(adapted: Server) -> None:
    plain = written(adapted, lora=[])
    first = written(adapted, lora=[{"id": 0, "scale": 1}])
    assert len({plain, first, written(adapted), written(adapted, lora=[{"id": 1, "scale": 1}])}) == 4
    scales = [{"id": 0, "scale": 1.0}]
    assert adapted.post("/lora-adapters", scales).json() == {"success": True}  # type: ignore[arg-type]
    try:
        assert [adapter["scale"] for adapter in adapted.get("/lora-adapters").json()] == [1.0, 0.0]
        assert written(adapted) == first
        assert written(adapted, lora=[]) == plain
    finally:
        before = [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.5}]
        assert adapted.post("/lora-adapters", before).status_code == 200  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "scales", [[{"id": 2, "scale": 1}], [{"id": 0, "scale": "x"}], [{"id": 0, "scale": 1e300}], {}]
)
def test_bad_scales_are_400(adapted: Server, scales: Any) -> None:
    assert adapted.post("/lora-adapters", scales).status_code == 400
    assert adapted.post("/completion", {"prompt": "x", "lora": scales}).status_code == 400
