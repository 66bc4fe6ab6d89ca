"""Embeddings and reranking over HTTP, with a scripted engine whose vectors are [3, 4]."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.dialects.llamacpp.embeddings import normalize
from srb.wire.commands import Embed, Rerank
from tests import scripted
from tests.scripted import ScriptedClient
from tests.shapes import read

OWN = ["/embedding", "/embeddings"]
RERANK = ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking", "/v2/rerank"]


@pytest.fixture
def engine() -> ScriptedClient:
    return ScriptedClient(Settings())


@pytest.fixture
def model_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda **facts: monkeypatch.setattr(scripted, "MODEL", replace(scripted.MODEL, **facts))


def post(engine: ScriptedClient, path: str, **body: Any) -> Any:
    return create_app(Settings(), engine).test_client().post(path, data=orjson.dumps(body))


@pytest.mark.parametrize("path", OWN)
@pytest.mark.parametrize("name", ["content", "input"])
def test_llama_servers_own_shape_is_a_list_of_vectors_for_each_text(
    engine: ScriptedClient, path: str, name: str
) -> None:
    assert post(engine, path, **{name: ["a", "b"]}).json == [
        {"index": 0, "embedding": [[0.6, 0.8]]},
        {"index": 1, "embedding": [[0.6, 0.8]]},
    ]


def test_openais_shape_has_one_vector_a_text_and_the_usage_summed(engine: ScriptedClient) -> None:
    response = post(engine, "/v1/embeddings", input=["abc", "de"], model="any")
    read("llamacpp.EmbeddingList", response.data)
    assert response.json == {
        "object": "list",
        "model": "any",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.6, 0.8]},
            {"object": "embedding", "index": 1, "embedding": [0.6, 0.8]},
        ],
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


def test_base64_is_little_endian_float32(engine: ScriptedClient) -> None:
    response = post(engine, "/v1/embeddings", input="abc", encoding_format="base64")
    read("llamacpp.EmbeddingList", response.data)
    (datum,) = response.json["data"]
    assert struct.unpack("<2f", base64.b64decode(datum["embedding"])) == pytest.approx((0.6, 0.8))


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings"])
def test_images_are_not_taken_for_their_marks_in_the_text(engine: ScriptedClient, path: str) -> None:
    text = {"content": "Image: [img-21]."}
    response = post(engine, path, **text, image_data=[{"id": 21, "data": "aGVsbG8="}])
    assert (response.status_code, response.json["error"]["param"]) == (501, "image_data")
    assert post(engine, path, **text, image_data=3).status_code == 400
    assert engine.sent == []
    assert post(engine, path, **text, image_data=[]).status_code == 200


def test_content_asks_openais_route_for_llama_servers_shape(engine: ScriptedClient) -> None:
    assert post(engine, "/v1/embeddings", content="abc").json == [{"index": 0, "embedding": [[0.6, 0.8]]}]


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("a", (("a",),)), (["a", "b"], (("a",), ("b",))), ([1, 2], ((1, 2),)), ([[1, 2], "b"], ((1, 2), ("b",))),
        ({"content": "a"}, (("a",),)), ([{"content": "a"}, "b"], (("a",), ("b",))),
        ("", (("",),)), (["", "a"], (("",), ("a",))), ([1, "a", 2], ((1, "a", 2),)), ({"prompt_string": "a"}, (("a",),)),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, (("ab",),)),
        ([{"content": [{"type": "text", "text": "a"}]}, {"content": []}, [7]], (("a",), ("",), (7,))),
        ([{"content": [{"type": "text"}]}], (("",),)),
    ],
)  # fmt: skip
def test_inputs_have_every_form_of_openai_and_llama_cpp(engine: ScriptedClient, given: Any, inputs: Any) -> None:
    assert post(engine, "/embedding", input=given).status_code == 200
    assert [command.inputs for command in engine.sent if isinstance(command, Embed)] == [inputs]


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings"])
@pytest.mark.parametrize("kind", ["image_url", "input_audio", "input_video", "video_url"])
def test_a_part_that_is_no_text_is_501(engine: ScriptedClient, path: str, kind: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": kind, kind: {"url": "data:,"}}]
    response = post(engine, path, input=[{"content": parts}])
    assert (response.status_code, response.json["error"]["param"]) == (501, "input")
    assert "input is not supported, only text" in response.json["error"]["message"]
    assert engine.sent == []


@pytest.mark.parametrize("given", ["abc", ["abc"]])
def test_one_text_is_answered_alike_alone_and_in_a_list(engine: ScriptedClient, given: Any) -> None:
    plain = post(engine, "/v1/embeddings", input=given)
    read("llamacpp.EmbeddingList", plain.data)
    assert list(plain.json["data"][0]) == ["object", "index", "embedding"]
    encoded = post(engine, "/v1/embeddings", input=given, encoding_format="base64").json["data"]
    assert encoded == [{"object": "embedding", "index": 0, "embedding": "mpkZP83MTD8=", "encoding_format": "base64"}]
    assert post(engine, "/v1/embeddings", content=given, encoding_format="base64").json == [
        {"index": 0, "embedding": [[0.6, 0.8]]}
    ]


@pytest.mark.parametrize(
    ("path", "body", "message", "field"),
    [
        ("/v1/embeddings", {}, '"input" or "content" must be provided', "input"),
        ("/v1/embeddings", {"input": []}, '"input" must not be empty', "input"),
        ("/embedding", {"content": []}, '"input" must not be empty', "content"),
        (
            "/v1/embeddings", {"input": "x", "encoding_format": "hex"},
            "The format to return the embeddings in. Can be either float or base64", "encoding_format",
        ),
        ("/rerank", {"documents": ["a"]}, '"query" must be provided', "query"),
        ("/rerank", {"query": 3}, '"query" must be a string', "query"),
        ("/rerank", {"query": ["a"], "documents": []}, '"query" must be a string', "query"),
        ("/rerank", {"query": "a"}, '"documents" must be a non-empty string array', "documents"),
        ("/rerank", {"query": "a", "documents": []}, '"documents" must be a non-empty string array', "documents"),
        ("/rerank", {"query": "a", "documents": "b"}, '"documents" must be a non-empty string array', "documents"),
        ("/rerank", {"query": "a", "documents": ["b", 3]}, '"documents" must be a non-empty string array', "documents"),
        ("/rerank", {"query": "a", "texts": []}, '"documents" must be a non-empty string array', "texts"),
    ],
)  # fmt: skip
def test_bad_bodies_are_refused_in_llama_servers_words(
    engine: ScriptedClient, path: str, body: dict[str, Any], message: str, field: str
) -> None:
    response = post(engine, path, **body)
    assert response.status_code == 400
    assert response.json["error"] == {
        "code": "invalid_request" if path == "/v1/embeddings" else 400,
        "message": message, "type": "invalid_request_error", "param": field,
    }  # fmt: skip
    assert engine.sent == []


def test_the_model_of_an_answer_is_the_one_that_was_asked_for(engine: ScriptedClient) -> None:
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/rerank", {"query": "a", "documents": ["a"]})):
        assert post(engine, path, **body).json["model"] == "storyteller"
        assert post(engine, path, **body, model="").json["model"] == ""
        assert post(engine, path, **body, model="any").json["model"] == "any"


def test_one_vector_a_token_is_not_normalized_and_not_openais(engine: ScriptedClient, model_with: Any) -> None:
    model_with(pooling="none")
    assert post(engine, "/embedding", content="a").json == [{"index": 0, "embedding": [[3.0, 4.0]]}]
    response = post(engine, "/v1/embeddings", input="a")
    assert response.status_code == 400
    assert "Pooling type 'none'" in response.json["error"]["message"]
    assert "--pooling mean" in response.json["error"]["message"]


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (-1, [3.0, -4.0]),
        (0, [24570.0, -32760.0]),
        (1, [3 / 7, -4 / 7]),
        (2, [0.6, -0.8]),
        (3, [3 / 91 ** (1 / 3), -4 / 91 ** (1 / 3)]),
    ],
)
def test_vectors_are_normalized_as_llama_cpp_does(norm: int, expected: list[float]) -> None:
    assert normalize([3.0, -4.0], norm) == pytest.approx(expected)
    assert normalize([0.0, 0.0], norm) == [0.0, 0.0]


def test_a_huge_norm_is_the_largest_value_and_no_overflow() -> None:
    assert normalize([3e30, -4e30], 2**31 - 1) == pytest.approx([0.75, -1.0])


def test_the_norm_is_the_requests_or_else_euclids(engine: ScriptedClient) -> None:
    assert post(engine, "/embedding", content="a", embd_normalize=-1).json[0]["embedding"] == [[3.0, 4.0]]
    assert post(engine, "/embedding", content="a").json[0]["embedding"] == [pytest.approx([0.6, 0.8])]


@pytest.mark.parametrize("path", RERANK)
def test_documents_are_ranked_best_first(engine: ScriptedClient, path: str) -> None:
    response = post(engine, path, query="a", documents=["b", "aa", "a"], top_n=2)
    read("llamacpp.RankedList", response.data)
    assert response.json == {
        "model": "storyteller",
        "object": "list",
        "usage": {"prompt_tokens": 12, "total_tokens": 12},
        "results": [{"index": 1, "relevance_score": 2.0}, {"index": 2, "relevance_score": 1.0}],
    }


def test_texts_are_ranked_in_teis_shape(engine: ScriptedClient) -> None:
    assert post(engine, "/rerank", query="a", texts=["b", "a"]).json == [
        {"index": 1, "score": 1.0},
        {"index": 0, "score": 0.0},
    ]
    assert post(engine, "/rerank", query="a", texts=["b", "a"], return_text=True).json[0]["text"] == "a"
    assert post(engine, "/rerank", query="a", documents=[{"text": "a"}]).json["results"][0]["relevance_score"] == 1.0
    assert [command.documents for command in engine.sent if isinstance(command, Rerank)][2] == ("a",)


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings", *RERANK])
def test_a_model_that_is_not_made_for_it_is_501(engine: ScriptedClient, path: str, model_with: Any) -> None:
    model_with(embedding=False, reranking=False)
    response = post(engine, path, input="a", query="a", documents=["a"])
    assert (response.status_code, response.json["error"]["type"]) == (501, "not_supported_error")
    assert "This server does not support" in response.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/embedding", {}, "input"), ("/embedding", {"input": 3}, "input"), ("/embedding", {"content": []}, "content"),
        ("/embedding", {"input": [[-1]]}, "input"), ("/embedding", {"input": [[]]}, "input"),
        ("/embedding", {"input": {"content": 3}}, "input"), ("/embedding", {"input": {"content": ["a"]}}, "input"),
        ("/embedding", {"input": {"content": [{"type": "text", "text": 3}]}}, "input"),
        ("/embedding", {"input": {"content": [{"type": "tool", "text": "a"}]}}, "input"),
        ("/embedding", {"input": "x", "embd_normalize": -2}, "embd_normalize"),
        ("/v1/embeddings", {"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ("/v1/embeddings", {"input": "x", "dimensions": 7}, "dimensions"),
        ("/rerank", {"documents": ["a"]}, "query"), ("/rerank", {"query": 3, "documents": ["a"]}, "query"),
        ("/rerank", {"query": "a"}, "documents"), ("/rerank", {"query": "a", "documents": []}, "documents"),
        ("/rerank", {"query": "a", "documents": [3]}, "documents"), ("/rerank", {"query": "a", "texts": "a"}, "texts"),
        ("/rerank", {"query": "a", "documents": ["a"], "top_n": -1}, "top_n"),
        ("/rerank", {"query": "a", "documents": ["a"] * 4097}, "documents"),
    ],
)  # fmt: skip
def test_a_bad_value_is_400_that_names_its_field(
    engine: ScriptedClient, path: str, body: dict[str, Any], field: str
) -> None:
    response = post(engine, path, **body)
    assert response.status_code == 400
    assert response.json["error"]["param"] == field
    assert engine.sent == []


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings", *RERANK])
@pytest.mark.parametrize(
    ("given", "truncates"), [({}, False), (True, True), (False, False), ("END", True), ("none", False), (None, False)]
)
def test_texts_lose_their_ends_where_this_is_asked_for(
    engine: ScriptedClient, path: str, given: Any, truncates: bool
) -> None:
    fields = given if isinstance(given, dict) else {"truncate": given}
    assert post(engine, path, input="a", query="a", documents=["b"], **fields).status_code == 200
    always = path == "/v2/rerank" and fields.get("truncate") is None  # Cohere's, which has no such field
    assert [command.truncate for command in engine.sent if isinstance(command, Embed | Rerank)] == [truncates or always]


@pytest.mark.parametrize("path", RERANK)
def test_as_many_tokens_of_a_document_are_kept_as_cohere_says(engine: ScriptedClient, path: str) -> None:
    assert post(engine, path, query="a", documents=["b"], max_tokens_per_doc=4096).status_code == 200
    [command] = (command for command in engine.sent if isinstance(command, Rerank))
    assert (command.truncate, command.max_tokens) == (True, 4096)
    response = post(engine, path, query="a", documents=["b"], max_tokens_per_doc=0)
    assert (response.status_code, response.json["error"]["param"]) == (400, "max_tokens_per_doc")


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings", *RERANK])
@pytest.mark.parametrize("given", ["START", "yes", 1, []])
def test_another_way_to_truncate_is_refused(engine: ScriptedClient, path: str, given: Any) -> None:
    response = post(engine, path, input="a", query="a", documents=["b"], truncate=given)
    assert (response.status_code, response.json["error"]["param"]) == (400, "truncate")
    assert engine.sent == []


@pytest.mark.parametrize("path", [*OWN, "/v1/embeddings", *RERANK])
@pytest.mark.parametrize(("given", "status"), [("Right", 200), (None, 200), ("Left", 400), ("left", 400)])
def test_a_beginning_is_never_cut(engine: ScriptedClient, path: str, given: Any, status: int) -> None:
    fields = {"truncate": True, "truncation_direction": given}
    response = post(engine, path, input="a", query="a", documents=["b"], **fields)
    assert response.status_code == status
    if status == 400:
        assert response.json["error"]["param"] == "truncation_direction"


@pytest.mark.parametrize("path", RERANK)
@pytest.mark.parametrize("documents", [["a", "aa"], [{"text": "a"}, {"text": "aa"}], ["a", {"text": "aa"}]])
def test_results_have_their_documents_where_these_are_asked_for(
    engine: ScriptedClient, path: str, documents: list[Any]
) -> None:
    asked = {"query": "a", "documents": documents, "top_n": 1}
    with_text = post(engine, path, **asked, return_documents=True).json["results"]
    assert with_text == [{"index": 1, "relevance_score": 2.0, "document": {"text": "aa"}}]
    assert "document" not in post(engine, path, **asked, return_documents=False).json["results"][0]
