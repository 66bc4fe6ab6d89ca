"""Embeddings and reranking, in llama-server's, OpenAI's, Jina's and TEI's forms."""

from __future__ import annotations

import base64
import math
from array import array
from typing import Any

from flask import Blueprint, Response, request

from srb.errors import InvalidRequest, NotSupported, bad_field
from srb.protocol import ModelInfo
from srb.web.llamacpp_answers import EmbeddingList, OwnEmbedding, RankedList, TEIRanked
from srb.web.llamacpp_schemas import EmbeddingBody, RerankBody
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.web.schemas import read_body
from srb.web.state import web

routes = Blueprint("embeddings", __name__)

LARGEST = 32760.0  # of a vector that is scaled for 16-bit integers


@routes.post("/embedding")
@routes.post("/embeddings")
@operation(EmbeddingBody, list[OwnEmbedding])
def embedding() -> Response:
    """Embed texts; answer in llama-server's own shape: for each text the list of its vectors."""
    asked, model, embedded = _embed()
    return json_reply(_own_shape(asked, model, embedded))


@routes.post("/v1/embeddings")
@operation(EmbeddingBody, EmbeddingList | list[OwnEmbedding])
def openai_embeddings() -> Response:
    """Embed texts; answer in OpenAI's shape, or in llama-server's where the body has `content`."""
    asked, model, embedded = _embed(one_vector=True)
    if asked.input is None:
        return json_reply(_own_shape(asked, model, embedded))
    data = []
    for index, (vector,) in enumerate(_normalized(asked, model, embedded)):
        if asked.encoding_format == "base64":
            text = base64.b64encode(array("f", vector).tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": text, "encoding_format": "base64"})
        else:
            data.append({"object": "embedding", "index": index, "embedding": vector})
    return json_reply(
        {"object": "list", "model": asked.model or model.alias, "data": data, "usage": _usage(embedded["tokens"])}
    )


@routes.post("/rerank")
@routes.post("/reranking")
@routes.post("/v1/rerank")
@routes.post("/v1/reranking")
@operation(RerankBody, RankedList | list[TEIRanked])
def rerank() -> Response:
    """Score documents by how well they answer a query, the best first."""
    model = web().client.check_ready()
    if not model.reranking:
        raise NotSupported("This server does not support reranking. Start it with `--reranking`")
    asked = RerankBody.parse(read_body(request))
    documents = asked.documents or asked.texts
    if documents is None:
        raise bad_field("documents", "must be a non-empty list of strings")
    ranked = web().client.rerank(asked.query, documents)
    best = sorted(enumerate(ranked["scores"]), key=lambda scored: scored[1], reverse=True)[: asked.top_n]
    if asked.texts is not None:
        texts = [{"text": documents[index]} if asked.return_text else {} for index, _ in best]
        return json_reply(
            [{"index": index, "score": score, **text} for (index, score), text in zip(best, texts, strict=True)]
        )
    return json_reply(
        {
            "model": asked.model or model.alias,
            "object": "list",
            "usage": _usage(ranked["tokens"]),
            "results": [{"index": index, "relevance_score": score} for index, score in best],
        }
    )


def _embed(one_vector: bool = False) -> tuple[EmbeddingBody, ModelInfo, dict[str, Any]]:
    model = web().client.check_ready()
    if not model.embedding:
        raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")
    if one_vector and model.pooling == "none":
        raise InvalidRequest("Pooling type 'none' is not OAI compatible. Please use a different pooling type")
    asked = EmbeddingBody.parse(read_body(request))
    if asked.dimensions not in (None, model.n_embd):
        raise bad_field("dimensions", f"this model's vectors have {model.n_embd}")
    return asked, model, web().client.embed(asked.texts)


def _own_shape(asked: EmbeddingBody, model: ModelInfo, embedded: dict[str, Any]) -> list[dict[str, Any]]:
    vectors = _normalized(asked, model, embedded)
    return [{"index": index, "embedding": of_text} for index, of_text in enumerate(vectors)]


def _normalized(asked: EmbeddingBody, model: ModelInfo, embedded: dict[str, Any]) -> list[list[list[float]]]:
    """Vectors of single tokens are not normalized, as llama-server leaves them."""
    embeddings: list[list[list[float]]] = embedded["embeddings"]
    if model.pooling == "none":
        return embeddings
    norm = web().settings.embd_normalize if asked.embd_normalize is None else asked.embd_normalize
    return [[normalize(vector, norm) for vector in of_text] for of_text in embeddings]


def normalize(vector: list[float], norm: int) -> list[float]:
    """Divide by the p-norm for `norm` > 0; 0: scale the largest to LARGEST; -1: leave it. After common_embd_normalize."""
    if norm < 0:
        return vector
    if norm == 0:
        length = max(map(abs, vector), default=0.0) / LARGEST
    elif norm == 2:
        length = math.hypot(*vector)
    else:
        largest = max(map(abs, vector), default=0.0) or 1.0  # else large powers would overflow
        length = largest * sum((abs(x) / largest) ** norm for x in vector) ** (1 / norm)
    return [x / length for x in vector] if length else vector


def _usage(tokens: list[int]) -> dict[str, int]:
    return {"prompt_tokens": sum(tokens), "total_tokens": sum(tokens)}
