"""The document at /openapi.json: complete, true to the models, and true to what is answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator, meta
from pydantic import ValidationError

from srb.config.settings import Settings
from srb.web.answers import ErrorAnswer
from srb.web.app import create_app
from srb.web.bodies.unread import field_names
from srb.web.dialects.openai.completion_body import TextCompletionBody
from srb.web.dialects.srb.answers import SRBCompletion, SRBEvent
from srb.web.openapi import describe
from srb.wire.commands import Generate
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event
from tests.scripted import Script, ScriptedClient, count_to_three
from tests.shapes import read


def serve(script: Script = count_to_three) -> FlaskClient:
    return create_app(Settings(), ScriptedClient(Settings(), script)).test_client()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    document: dict[str, Any] = serve().get("/openapi.json").json
    return document


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield method.upper(), path, described


def test_every_route_is_described_with_a_summary_and_its_errors(document: dict[str, Any]) -> None:
    app = create_app(Settings())
    described = {(method, path) for method, path, _ in bodies(document)}
    for rule in app.url_map.iter_rules():
        path = rule.rule.replace("<path:", "<").replace("<int:", "<").replace("<", "{").replace(">", "}")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            assert (method, path) in described
    for method, path, operation in bodies(document):
        assert operation["summary"] != path, f"{method} {path} has no docstring"
        assert operation["responses"]["default"]["content"]["application/json"]["schema"]


def test_every_route_that_takes_a_body_says_which(document: dict[str, Any]) -> None:
    without = {
        path for method, path, operation in bodies(document) if method == "POST" and "requestBody" not in operation
    }
    nothing_to_say = {"/props", "/v1/internal/stop-generation", "/v1/srb/stories/{story_id}/restore"}
    assert without == nothing_to_say


def test_operation_ids_are_unique_and_references_lead_somewhere(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in bodies(document)]
    assert len(ids) == len(set(ids))
    text = orjson.dumps(document).decode()
    for name in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_schemas_are_valid_json_schema(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        meta.validate(schema)


def inner(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object within a value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inner(each)


@pytest.mark.parametrize("version", ["3.2", "3.1", "3.1.0"])
def test_the_document_comes_in_two_versions_whose_defaults_are_valid(version: str) -> None:
    document: dict[str, Any] = serve().get("/openapi.json", query_string={"version": version}).json
    assert document["openapi"].startswith(version[:3])
    streams = [content for content in inner(document["paths"]) if "itemSchema" in content]
    assert bool(streams) == (version == "3.2")
    fields = (
        each for model in document["components"]["schemas"].values() for each in inner(model.get("properties", {}))
    )
    for text in {orjson.dumps(each) for each in fields if "default" in each}:  # many models have the same fields
        schema = orjson.loads(text)
        shared = {"components": document["components"]} if b'"$ref"' in text else {}
        assert Draft202012Validator({**schema, **shared}).is_valid(schema["default"]), schema


def test_schemas_are_such_as_generators_of_clients_read(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, model in schemas.items():
        for each in inner({"properties": model.get("properties", {})}):
            kinds = {type(value) for value in each.get("enum", ()) if isinstance(each["enum"], list)}
            assert len(kinds) <= 1, f"{name}: constants of several types"
            names = [str(value).lower() for value in each.get("enum", ())]
            assert len(set(names)) == len(names), f"{name}: constants of one name"
        if "." in name:  # a recorded answer
            assert all("$ref" in option for option in model.get("anyOf", ())), f"{name}: an option without a name"


def test_a_version_that_there_is_not_is_refused() -> None:
    answer = serve().get("/openapi.json?version=2.0")
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "version")


def test_fields_are_there_under_all_their_names_with_their_ranges(document: dict[str, Any]) -> None:
    schema = document["components"]["schemas"]["TextCompletionBody"]
    names = {name for names in field_names(TextCompletionBody).values() for name in names}
    assert set(schema["properties"]) == names
    assert schema["required"] == ["prompt"]
    assert schema["properties"]["max_tokens"] == schema["properties"]["n_predict"]
    assert {"type": "integer", "minimum": 0, "maximum": 256} in schema["properties"]["n_probs"]["anyOf"]
    assert all({"type": "null"} in found["anyOf"] for found in schema["properties"].values())


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("stop", ["x", ["x", "y"], None], [3, [3]]),
        ("logit_bias", [{"1": 2}, [[1, 2.5]], [["a", False]], []], ["x"]),
        ("prompt", ["x", [1, 2], ["a", 1], [[1], "b"], {"prompt_string": "x"}], [3, [True]]),
        ("samplers", ["kpt", ["top_k"]], [{}]),
        ("lora", [[{"id": 0, "scale": 1}]], [{}, [{"id": 0}]]),
        ("dry_sequence_breakers", ['["x"]', ["x"]], [[], 3]),
        ("seed", [-1, 2**32, -(2**63), 2**64 - 1], [1.5, "7"]),
    ],
)
def test_bodies_that_the_schema_allows_are_accepted(
    document: dict[str, Any], field: str, good: list[Any], bad: list[Any]
) -> None:
    schema = {"$ref": "#/components/schemas/TextCompletionBody", "components": document["components"]}
    validator = Draft202012Validator(schema)
    http = serve()
    for values, valid in ((good, True), (bad, False)):
        for value in values:
            body = {"prompt": "x", "model": "m", field: value}
            assert validator.is_valid(body) == valid, value
            assert (http.post("/v1/completions", data=orjson.dumps(body)).status_code == 200) == valid, value


def test_the_document_is_made_without_an_engine() -> None:
    assert describe(create_app(Settings()))["openapi"].startswith("3.")


# ---- what is answered has the shapes that the document says


def everything(command: Generate) -> Iterable[list[Event]]:
    """Three branches: one with probabilities that a stop string ends, one truncated, one that fails."""
    request_id = command.request_id
    top = {"id": 2, "token": "b", "bytes": [98], "logprob": -2.0}
    probs = [{"id": 1, "token": "a", "bytes": [97], "logprob": -0.5, "top_logprobs": [top]}]
    yield [Accepted(request_id, 5), Delta(request_id, 0, "a", [1], probs)]
    yield [
        BranchEnded(request_id, 0, "word", 1, stopping_word="END", logprob=-0.5),
        BranchEnded(request_id, 1, "limit", 0, truncated=True),
        BranchEnded(request_id, 2, "error", 0, code="grammar_dead_end", message="no token fits"),
        Done(request_id, 5, 2, 1, 10.0, 30.0),
    ]


def events(text: str) -> list[bytes]:
    lines = text.removesuffix("\n\n").split("\n\n")
    return [line.removeprefix("data: ").encode() for line in lines if line != "data: [DONE]"]


SAID: dict[str, Any] = {
    "prompt": "x",
    "n": 3,
    "logprobs": 1,
    "return_tokens": True,
    "stream_options": {"include_usage": True},
}


def test_the_openai_dialects_answer_has_its_shape() -> None:
    http = serve(everything)
    answer = read("openai.TextCompletion", http.post("/v1/completions", json={"model": "m", **SAID}).data)
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length", "error"]
    assert answer["choices"][0]["logprobs"] is not None
    assert answer["choices"][0]["stop_reason"] == "END"


def test_each_chunk_of_the_openai_dialect_has_its_shape() -> None:
    text = serve(everything).post("/v1/completions", json={"stream": True, **SAID}).text
    chunks = [read("openai.TextCompletionChunk", event) for event in events(text)]
    assert [len(chunk["choices"]) for chunk in chunks] == [1, 1, 1, 1, 0]
    assert chunks[-1]["usage"] is not None


def test_the_srb_dialects_answer_has_its_shape() -> None:
    body = {**SAID, "stream": False}
    answer = read(SRBCompletion, serve(everything).post("/v1/srb/completions", json=body).data)
    assert [completion["reason"] for completion in answer["completions"]] == ["word", "limit", "error"]
    assert answer["completions"][0]["logprobs"]
    assert answer["completions"][2]["error"] is not None


def test_each_event_of_the_srb_dialect_has_its_shape() -> None:
    text = serve(everything).post("/v1/srb/completions", json=SAID).text
    found = [read(SRBEvent, event)["event"] for event in events(text)]
    assert found == ["start", "stream", "stop", "stop", "error", "stop", "done"]


@pytest.mark.parametrize("body", [{}, {"prompt": []}, {"prompt": "x", "n": 0}, [1]])
def test_an_error_has_its_shape(body: Any) -> None:
    for path, shape, code in (
        ("/v1/completions", "openai.Error", "invalid_request"),
        ("/v1/srb/completions", ErrorAnswer, 400),
    ):
        answer = read(shape, serve().post(path, json=body).data)
        assert answer["error"]["code"] == code
        assert answer["error"]["type"] == "invalid_request_error"


def test_a_shape_refuses_a_key_too_many_or_too_few_at_any_depth() -> None:
    text = serve(everything).post("/v1/srb/completions", json={**SAID, "stream": False}).text
    for good, bad in (('"seeds":', '"seed":'), ('"cache_n":', '"cached":'), ('"bytes":', '"octets":')):
        assert good in text
        with pytest.raises(ValidationError):
            read(SRBCompletion, text.replace(good, bad))
        with pytest.raises(ValidationError):
            read(SRBCompletion, text.replace(good, bad.replace('":', '":0,') + good))
