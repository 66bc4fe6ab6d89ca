"""The package in examples/clients, installed: routes of text-generation-inference and of LM Studio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from tests.packages import CLIENTS, install_example
from tests.scripted import ScriptedClient
from tests.unit.test_token_fields import TEXT, with_ends
from tests.unit.test_web_openai import with_probs


@pytest.fixture
def engine(site: Path) -> ScriptedClient:
    install_example(site, CLIENTS)
    return ScriptedClient(Settings(), with_probs)


def serve(engine: ScriptedClient, **settings: Any) -> FlaskClient:
    return create_app(Settings(**settings), engine).test_client()


def post(engine: ScriptedClient, path: str = "/generate", inputs: Any = "x", **parameters: Any) -> Any:
    return serve(engine).post(path, json={"inputs": inputs, "parameters": parameters})


def events(text: str) -> list[dict[str, Any]]:
    return [orjson.loads(line.removeprefix("data:")) for line in text.removesuffix("\n\n").split("\n\n")]


def test_a_text_is_generated_with_its_details(engine: ScriptedClient) -> None:
    assert post(engine).json == {"generated_text": " én", "details": None}
    answer = post(engine, details=True, return_full_text=True, seed=5).json
    assert answer["generated_text"] == "x én"
    details = answer["details"]
    assert (details["finish_reason"], details["generated_tokens"], details["seed"]) == ("length", 3, 5)
    assert details["tokens"][1] == {"id": 1, "text": "é", "logprob": -0.5, "special": False}
    assert details["prefill"] == []
    assert post(engine, "/").json == [{"generated_text": " én", "details": None}]


def test_a_stream_has_an_event_for_each_token_and_the_text_in_the_last(engine: ScriptedClient) -> None:
    for answer in (post(engine, "/generate_stream"), serve(engine).post("/", json={"inputs": "x", "stream": True})):
        found = events(answer.text)
        assert [event["index"] for event in found] == [1, 2, 3]
        assert "".join(event["token"]["text"] for event in found) == " én"
        assert [event["generated_text"] for event in found] == [None, None, " én"]
        assert found[-1]["details"]["finish_reason"] == "length"


def test_the_end_of_a_text_is_a_token_of_a_stream(engine: ScriptedClient) -> None:
    engine.script = with_ends
    command = post(engine, "/", n=2, decoder_input_details=True, details=True).json
    assert [each["generated_text"] for each in command] == [TEXT] * 2
    assert [each["details"]["finish_reason"] for each in command] == ["stop_sequence", "eos_token"]
    assert [token["text"] for token in command[0]["details"]["prefill"]] == ["<s>", "B", "z"]


@pytest.mark.parametrize(
    ("parameters", "temperature"),
    [({}, 0), ({"do_sample": True}, 1), ({"top_k": 5}, 1), ({"temperature": 0.5}, 0.5), ({"seed": 4}, 0)],
)
def test_the_likeliest_tokens_are_taken_unless_sampling_is_asked_for(
    engine: ScriptedClient, parameters: dict[str, Any], temperature: float
) -> None:
    post(engine, **parameters)
    assert engine.sent[-1].branches[0].sampling.temperature == temperature


def test_the_parameters_are_those_of_a_completion(engine: ScriptedClient) -> None:
    post(engine, max_new_tokens=7, stop=["END"], repetition_penalty=1.2, typical_p=0.9, frequency_penalty=0.5)
    branch = engine.sent[-1].branches[0]
    assert (branch.max_tokens, branch.stop, branch.include_stop) == (7, ("END",), True)
    assert (branch.sampling.repeat_penalty, branch.sampling.typical_p, branch.sampling.frequency_penalty) == (
        1.2,
        0.9,
        0.5,
    )
    post(engine, inputs="abc", truncate=3)
    assert engine.sent[-1].prompt == (1, 98, 99)
    post(engine, grammar={"type": "regex", "value": "a+"})
    assert engine.sent[-1].branches[0].sampling.grammar == "/a+/"
    post(engine, grammar={"type": "json", "value": {"type": "object"}})
    assert engine.sent[-1].branches[0].sampling.json_schema == '{"type":"object"}'


@pytest.mark.parametrize(
    ("path", "given", "named"),
    [
        ("/generate", {"inputs": ["a"]}, "inputs"),
        ("/generate", {"parameters": {}}, "inputs"),
        ("/generate", {"parameters": "x"}, "parameters"),
        ("/generate", {"parameters": {"watermark": True}}, "watermark"),
        ("/generate", {"parameters": {"adapter_id": "a"}}, "adapter_id"),
        ("/generate", {"parameters": {"n": 2}}, "n"),
        ("/generate", {"parameters": {"temperature": "hot"}}, "temperature"),
        ("/generate_stream", {"parameters": {"decoder_input_details": True}}, "prompt_logprobs"),
        ("/generate_stream", {"parameters": {"best_of": 2}}, "best_of"),
    ],
)
def test_what_is_wrong_is_refused_in_its_form(engine: ScriptedClient, path: str, given: Any, named: str) -> None:
    body = {"inputs": "x", **given} if named != "inputs" else given
    answer = serve(engine).post(path, json=body)
    assert answer.status_code == 400
    assert answer.json["error_type"] == "validation"
    assert f"'{named}'" in answer.json["error"]


def test_the_page_is_still_there_and_post_needs_the_key(engine: ScriptedClient) -> None:
    http = serve(engine, api_key="secret")
    assert http.get("/").mimetype == "text/html"
    assert http.post("/", json={"inputs": "x"}).status_code == 401
    assert http.post("/", json={"inputs": "x"}, headers={"X-Api-Key": "secret"}).status_code == 200


def test_lm_studios_list_has_the_model(engine: ScriptedClient) -> None:
    http = serve(engine)
    [model] = http.get("/api/v0/models").json["data"]
    assert model == {
        "id": "storyteller", "object": "model", "type": "llm", "publisher": "", "arch": "llama",
        "compatibility_type": "gguf", "quantization": "F16", "state": "loaded", "max_context_length": 2048,
        "loaded_context_length": 8192,
    }  # fmt: skip
    assert http.get("/api/v0/models/storyteller").json == model
    assert http.get("/api/v0/models/other").status_code == 404


def test_they_are_off_by_default_and_described_where_they_are_on(engine: ScriptedClient) -> None:
    assert serve(engine, dialects="openai,tgi").get("/api/v0/models").status_code == 404
    paths = serve(engine).get("/openapi.json").json["paths"]
    assert [paths["/generate"]["post"]["tags"], paths["/api/v0/models"]["get"]["tags"]] == [["tgi"], ["lmstudio"]]


def test_without_the_package_there_are_no_such_routes() -> None:
    http = create_app(Settings(), ScriptedClient(Settings())).test_client()
    assert http.post("/generate", json={"inputs": "x"}).status_code == 404
    assert http.get("/api/v0/models").status_code == 404
