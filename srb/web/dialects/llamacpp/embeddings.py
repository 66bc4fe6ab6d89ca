"""Routes for embeddings and reranking, in the forms of llama-server, OpenAI, Jina and TEI."""

import base64
import math
from array import array
from typing import Any
from uuid import uuid4

from flask import Blueprint, Response, request

from srb.errors import InvalidRequest, NotSupported, bad_field
from srb.web.answers import JSONObject
from srb.web.bodies.completion import read_body
from srb.web.context import web
from srb.web.dialects.llamacpp.body import EmbeddingBody, RerankBody, no_documents
from srb.web.openapi import operation
from srb.web.replies import json_reply
from srb.wire.commands import Embed, Rerank
from srb.wire.events import ModelInfo

routes = Blueprint("embeddings", __name__)

EUCLIDEAN = 2  # norm of a request that says none, as llama-server's
LARGEST = 32760.0  # largest value of a vector that is scaled for 16-bit integers


@routes.post("/embedding")
@routes.post("/embeddings")
@operation(EmbeddingBody, "llamacpp.OwnEmbeddings", foreign=True)
def embedding() -> Response:
    """Embed texts; the answer has llama-server's form, a list of vectors for each text."""
    asked, model, embedded = _embed()
    return json_reply(_own_shape(asked, model, embedded))


@routes.post("/v1/embeddings")
@operation(EmbeddingBody, ("llamacpp.EmbeddingList", "llamacpp.OwnEmbeddings"), error="openai.Error", foreign=True)
def openai_embeddings() -> Response:
    """Embed texts; the answer has OpenAI's form, or llama-server's if the body has `content`."""
    asked, model, embedded = _embed(one_vector=True)
    if asked.input is None:
        return json_reply(_own_shape(asked, model, embedded))
    data: list[JSONObject] = []
    for index, (vector,) in enumerate(normalized(asked, model, embedded)):
        if asked.encoding_format == "base64":
            text = base64.b64encode(array("f", vector).tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": text, "encoding_format": "base64"})
        else:
            data.append({"object": "embedding", "index": index, "embedding": vector})
    return json_reply(
        {
            "object": "list",
            "model": model.alias if asked.model is None else asked.model,
            "data": data,
            "usage": _usage(embedded["tokens"]),
        }
    )


@routes.post("/rerank")
@routes.post("/reranking")
@routes.post("/v1/rerank")
@routes.post("/v1/reranking")
@routes.post("/v2/rerank")
@operation(RerankBody, ("llamacpp.RankedList", "llamacpp.TEIRankeds"), foreign=True)
def rerank() -> Response:
    """Rank documents by their relevance to a query, the best first."""
    refuse_reranking()
    asked = RerankBody.parse(read_body(request))
    model = web().client.check_ready()
    _check_ranks(model)
    documents = asked.documents or asked.texts
    if documents is None:
        raise no_documents("documents")
    truncate = asked.truncate
    if truncate is None:  # Cohere's, whose body has no such field, always does
        truncate = request.path == "/v2/rerank" or asked.max_tokens_per_doc is not None
    command = Rerank(uuid4().hex, asked.query, tuple(documents), truncate, asked.max_tokens_per_doc or 0)
    ranked = web().calls.ask(command, request.environ)
    best = sorted(enumerate(ranked["scores"]), key=lambda scored: scored[1], reverse=True)[: asked.top_n]
    if asked.texts is not None:
        scored: list[JSONObject] = [{"index": index, "score": score} for index, score in best]
        for each in scored if asked.return_text else ():
            each["text"] = documents[each["index"]]
        return json_reply(scored)
    results: list[JSONObject] = [{"index": index, "relevance_score": score} for index, score in best]
    for result in results if asked.return_documents else ():
        result["document"] = {"text": documents[result["index"]]}
    return json_reply(
        {
            "model": model.alias if asked.model is None else asked.model,
            "object": "list",
            "usage": _usage(ranked["tokens"]),
            "results": results,
        }
    )


def refuse_embeddings() -> None:
    """Raise NotSupported before a body is read, if the only model of this server is known to make no embeddings."""
    if (model := web().known_model) is not None:
        _check_embeds(model)


def refuse_reranking() -> None:
    """Raise NotSupported before a body is read, if the only model of this server is known to rank nothing."""
    if (model := web().known_model) is not None:
        _check_ranks(model)


def _check_embeds(model: ModelInfo) -> None:
    if not model.embedding:
        raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")


def _check_ranks(model: ModelInfo) -> None:
    if not model.reranking:
        raise NotSupported("This server does not support reranking. Start it with `--reranking`")


def check_embeds(one_vector: bool = False) -> ModelInfo:
    """Return the model's facts. Raise NotSupported if it makes no embeddings, with `one_vector` if it has no pooling."""
    model = web().client.check_ready()
    _check_embeds(model)
    if one_vector and model.pooling == "none":
        raise InvalidRequest(
            "Pooling type 'none' is not OAI compatible, since it has a vector for each token and not one for the text. "
            "Start the server with `--pooling mean`; llama-server's `/embedding` has the vectors of the tokens"
        )
    return model


def embed(asked: EmbeddingBody, model: ModelInfo) -> dict[str, Any]:
    """Return the engine's answer to Embed for the texts of a body."""
    if asked.dimensions not in (None, model.n_embd):
        raise bad_field("dimensions", f"must be {model.n_embd}, the length of this model's vectors")
    command = Embed(uuid4().hex, tuple(map(tuple, asked.texts)), truncate=asked.truncate)
    embedded: dict[str, Any] = web().calls.ask(command, request.environ)
    return embedded


def _embed(one_vector: bool = False) -> tuple[EmbeddingBody, ModelInfo, dict[str, Any]]:
    refuse_embeddings()
    asked = EmbeddingBody.parse(read_body(request))
    model = check_embeds(one_vector)
    return asked, model, embed(asked, model)


def _own_shape(asked: EmbeddingBody, model: ModelInfo, embedded: dict[str, Any]) -> list[JSONObject]:
    vectors = normalized(asked, model, embedded)
    return [{"index": index, "embedding": of_text} for index, of_text in enumerate(vectors)]


def normalized(asked: EmbeddingBody, model: ModelInfo, embedded: dict[str, Any]) -> list[list[list[float]]]:
    """Return the normalized vectors; those of single tokens (pooling none) are unchanged, as in llama-server."""
    embeddings: list[list[list[float]]] = embedded["embeddings"]
    if model.pooling == "none":
        return embeddings
    norm = EUCLIDEAN if asked.embd_normalize is None else asked.embd_normalize
    return [[normalize(vector, norm) for vector in of_text] for of_text in embeddings]


def normalize(vector: list[float], norm: int) -> list[float]:
    """Normalize a vector: `norm` > 0 is the p of its p-norm, 0 scales its largest value to LARGEST, -1 does nothing.

    Source: `common_embd_normalize` in llama.cpp's common.cpp.
    """
    if norm < 0:
        return vector
    if norm == 0:
        length = max(map(abs, vector), default=0.0) / LARGEST
    elif norm == 2:
        length = math.hypot(*vector)
    else:
        largest = max(map(abs, vector), default=0.0) or 1.0  # without the division, large powers overflow
        length = largest * sum((abs(x) / largest) ** norm for x in vector) ** (1 / norm)
    return [x / length for x in vector] if length else vector


def _usage(tokens: list[int]) -> JSONObject:
    return {"prompt_tokens": sum(tokens), "total_tokens": sum(tokens)}
