"""Fields without effect, which an answer's header names, and the id that the answer and its line in the log have."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask.testing import FlaskClient

from srb.config.settings import Settings
from srb.web.app import create_app
from srb.web.bodies.unread import MAX_UNREAD, field_names, says_no_effect, unread
from srb.web.openapi import body_models
from tests import scripted
from tests.scripted import ScriptedClient

USER = [{"role": "user", "content": "Hi"}]
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/srb/completions", {"prompt": "x"}),
    ("/v1/completions", {"prompt": "x", "model": "m"}),
    ("/v1/chat/completions", {"messages": USER}),
    ("/v1/responses", {"input": "Hi"}),
    ("/v1/messages", {"messages": USER, "max_tokens": 3}),
    ("/completion", {"prompt": "x"}),
    ("/api/generate", {"model": "storyteller", "prompt": "x"}),
    ("/api/chat", {"model": "storyteller", "messages": USER}),
    ("/api/v1/generate", {"prompt": "x"}),
    ("/tokenize", {"content": "x"}),
]
IDS = [path for path, _ in BODIES]


def serve(**settings: Any) -> FlaskClient:
    made = Settings(**settings)
    return create_app(made, ScriptedClient(made, scripted.count_to_three)).test_client()


@pytest.mark.parametrize(("path", "body"), BODIES, ids=IDS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_names_the_fields_that_have_no_effect(path: str, body: Any, stream: bool) -> None:
    http = serve()
    unknown = {"too_new": [7], "not_known": None, "zu\u00e4\n": 1}
    answer = http.post(path, json={**body, **unknown, **({"stream": stream} if path != "/tokenize" else {})})
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-SRB-Ignored"] == "not_known, too_new, zu%C3%A4%0A"
    assert "X-SRB-Ignored" not in http.post(path, json=body).headers


def test_no_field_that_is_known_falls_through() -> None:
    app = create_app(Settings(), ScriptedClient(Settings(), scripted.count_to_three))
    for model in body_models(app):
        told = {name for names in field_names(model).values() for name in names if unread(model, {name: 1})}
        silent = {name for name, field in model.model_fields.items() if says_no_effect(field)}
        assert told <= {each for name in silent for each in (name, *field_names(model)[name])}
        assert bool(told) == bool(silent - {"model", "name"}), model


def test_a_field_that_is_taken_and_does_nothing_is_named_and_the_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "srb.web")
    answer = serve().post("/api/v1/generate", json={"prompt": "x", "tfs": 0.9, "temperature": 0.5})
    assert answer.headers["X-SRB-Ignored"] == "tfs"
    assert "POST /api/v1/generate: fields without effect: tfs" in caplog.text


def test_what_the_answer_of_another_dialect_reads_is_not_named() -> None:
    body = {"messages": USER, "verbose": True, "response_fields": ["content"]}
    assert "X-SRB-Ignored" not in serve().post("/v1/chat/completions", json=body).headers
    assert (
        "response_fields"
        in serve().post("/v1/chat/completions", json={**body, "verbose": False}).headers["X-SRB-Ignored"]
    )


def test_few_names_are_told_and_none_is_long() -> None:
    body = {"prompt": "x", **{f"unknown_{number}_{'y' * 999}": 1 for number in range(99)}}
    said = serve().post("/completion", json=body).headers["X-SRB-Ignored"].split(", ")
    assert len(said) == MAX_UNREAD
    assert max(map(len, said)) == 64


@pytest.mark.parametrize("asked", [*BODIES, ("/nowhere", {}), ("/completion", {"prompt": "x", "n": 0})], ids=str)
@pytest.mark.parametrize("stream", [False, True])
def test_every_answer_has_an_id_that_its_line_in_the_log_has(
    asked: Any, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.web")
    path, body = asked
    answer = serve().post(path, json={**body, "stream": stream})
    assert answer.data
    answer.close()
    assert answer.headers["X-Request-Id"] == answer.headers["Request-Id"]
    assert any(
        answer.headers["X-Request-Id"] in line.getMessage() and path in line.getMessage() for line in caplog.records
    )


def test_a_refusal_before_any_route_has_an_id_and_two_answers_have_two() -> None:
    http = serve(api_key="secret")
    first, second = http.post("/completion", json={}), http.get("/v1/models")
    assert first.status_code == 401
    assert len({first.headers["X-Request-Id"], second.headers["X-Request-Id"], None}) == 3


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize", "/v1/token/encode"])
def test_messages_are_tokenized_as_the_conversation_that_they_are(path: str) -> None:
    http = serve()
    name = "text" if path == "/v1/token/encode" else "messages"
    said = http.post(path, json={name: USER}).json
    counted = http.post("/v1/chat/completions/input_tokens", json={"messages": USER}).json["input_tokens"]
    assert len(said["tokens"]) == counted > 0
    if path != "/v1/token/encode":
        texts = http.post(path, json={name: USER, "return_token_strs": True}).json["token_strs"]
        assert len(texts) == counted
        assert "Hi" in "".join(texts)
    longer = http.post(path, json={name: [*USER, {"role": "assistant", "content": "Ho"}, *USER]}).json
    assert len(longer["tokens"]) > counted
    assert http.post(path, json={name: [{"role": 3}]}).status_code == 400
