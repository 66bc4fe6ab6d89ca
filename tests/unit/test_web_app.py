"""What holds for every route: errors, limits, paths, CORS; and the operators' routes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pytest
from flask import url_for
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from srb.config.settings import Settings
from srb.errors import EngineLoading, ModelLoadFailed, NotFound, QueueFull, SRBError, Unauthorized
from srb.version import version
from srb.web.app import create_app
from srb.web.bodies.sampling import FieldsBody
from srb.web.context import web
from srb.web.dialect import DIALECTS
from srb.web.dialects.anthropic.render import anthropic_error
from srb.web.openapi import operation, operation_of
from srb.web.routes import error_shapes
from srb.wire.commands import MAX_BRANCHES, Generate
from srb.wire.events import Accepted, BranchAdded, BranchEnded, Delta, Done, Event, Ready, Rejected
from tests.scripted import MODEL, ScriptedClient
from tests.shapes import read


@pytest.fixture
def engine() -> ScriptedClient:
    return ScriptedClient(Settings())


@pytest.fixture
def http(engine: ScriptedClient) -> FlaskClient:
    return create_app(Settings(max_body_bytes=4096), engine).test_client()


def post(http: FlaskClient, data: bytes, **options: Any) -> Any:
    return http.post("/v1/completions", data=data, **options)


def test_the_checks_of_a_routes_body_are_built_before_its_first_request_and_not_at_the_import(
    engine: ScriptedClient,
) -> None:
    class FreshBody(FieldsBody):
        text: str

    @operation(body=FreshBody, foreign=True)
    def view() -> str:
        return ""

    app = create_app(Settings(), engine)
    app.add_url_rule("/fresh", view_func=view)
    assert not FreshBody.__pydantic_complete__
    app.build_bodies()
    assert FreshBody.__pydantic_complete__


def test_what_makes_an_address_is_compiled_when_one_is_asked_for_and_not_at_the_start(
    engine: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Rule] = []
    compile_builder = Rule._compile_builder

    def noting(rule: Rule, append_unknown: bool = True) -> Any:
        compiled.append(rule)
        return compile_builder(rule, append_unknown)

    monkeypatch.setattr(Rule, "_compile_builder", noting)
    app = create_app(Settings(), engine)
    assert compiled == []
    with app.test_request_context():
        assert url_for("page.page_file", name="main.js", v=1) == "/page/main.js?v=1"
    assert len(compiled) == 1


def test_every_route_declares_the_shape_in_which_its_errors_come() -> None:
    app = create_app(Settings(), ScriptedClient(Settings()))
    shapes = error_shapes(app.extensions[DIALECTS])
    for rule in app.url_map.iter_rules():
        beginnings = [beginning for beginning in shapes if rule.rule.startswith(beginning)]
        written = shapes[max(beginnings, key=len)] if beginnings else SRBError.body
        error = written(NotFound("There is no such thing"))
        assert read(operation_of(app.view_functions[rule.endpoint]).error, orjson.dumps(error)) == error, rule


SHAPED = {
    "/v1/messages/nowhere": anthropic_error,
    "/api/nowhere": lambda error: {"error": error.message},
    "/api/v1/nowhere": lambda error: {"detail": {"msg": error.message, "type": error.type}},
    "/api/extra/nowhere": lambda error: {"detail": {"msg": error.message, "type": error.type}},
    "/nowhere": SRBError.body,
}


@pytest.mark.parametrize("path", SHAPED)
def test_a_dialects_errors_have_its_shape_also_where_no_route_is_found_or_looked_for(path: str) -> None:
    settings = Settings(api_key="secret")
    http = create_app(settings, ScriptedClient(settings)).test_client()
    for key, error in (("secret", NotFound("File Not Found")), ("wrong", Unauthorized("Invalid API Key"))):
        response = http.get(path, headers={"X-Api-Key": key})
        assert response.status_code == error.http_status
        assert response.json == SHAPED[path](error)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b'{"prompt": NaN}',
        b'{"prompt": "x", "temperature": 1e999}',
        b'{"prompt": "\xff"}',
        b'{"prompt": "x"} trailing',
        b'{"prompt": ' + b"[" * 1025 + b"]" * 1025 + b"}",
        b'{"prompt": "x", "stop": ' + b"[" * 1000 + b"]" * 1000 + b"}",
    ],
)
def test_a_body_that_is_not_one_json_object_of_ours_is_400(
    http: FlaskClient, engine: ScriptedClient, data: bytes
) -> None:
    response = post(http, data)
    assert response.status_code == 400
    assert response.json["error"]["type"] == "invalid_request_error"
    assert engine.sent == []


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_the_content_type_of_a_body_does_not_matter(http: FlaskClient, content_type: str | None) -> None:
    assert post(http, b'{"prompt": "x"}', content_type=content_type).status_code == 200


def test_a_body_beyond_the_limit_is_413_announced_or_not(http: FlaskClient, engine: ScriptedClient) -> None:
    data = b'{"prompt": "' + b"x" * 5000 + b'"}'
    announced = post(http, data)
    chunked = post(
        http,
        b"",
        input_stream=io.BytesIO(data + b" " * 100_000),
        environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": ""},
    )
    for response in (announced, chunked):
        assert response.status_code == 413
        assert "4096 bytes" in response.json["error"]["message"]
    assert engine.sent == []
    fitting = b'{"prompt": "' + b"x" * 4082 + b'"}'
    assert len(fitting) == 4096
    assert post(http, fitting).status_code == 200


def test_invalid_chunked_encoding_is_400(http: FlaskClient) -> None:
    class Broken(io.RawIOBase):
        def readinto(self, buffer: Any) -> int:
            raise RuntimeError("Invalid chunk size")

    response = post(http, b"", environ_overrides={"wsgi.input": Broken(), "wsgi.input_terminated": True})
    assert response.status_code == 400


def test_an_unknown_path_is_llama_servers_404(http: FlaskClient) -> None:
    response = http.get("/nowhere")
    assert response.status_code == 404
    assert response.json == {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1/lora", "/sdapi/v1/options", "/version", "/info", "/speakers_list"])
def test_a_page_that_tries_other_servers_routes_can_read_the_404(http: FlaskClient, path: str, method: str) -> None:
    response = http.open(path, method=method, headers={"Origin": "https://lite.example.org"})
    assert (response.status_code, response.mimetype) == (404, "application/json")
    assert response.headers["Access-Control-Allow-Origin"] in ("*", "https://lite.example.org")
    assert response.json["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_wrong_method_is_405_and_no_work(http: FlaskClient, engine: ScriptedClient, method: str) -> None:
    response = http.open("/v1/completions", method=method)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    assert engine.sent == []


def test_an_unexpected_fault_is_500_and_tells_nothing(http: FlaskClient, engine: ScriptedClient) -> None:
    def fault(*commands: Any) -> Any:
        raise RuntimeError("a secret")

    engine.submit = fault  # type: ignore[method-assign]
    response = post(http, b'{"prompt": "x"}')
    assert response.status_code == 500
    said = {"code": "internal_error", "message": "Internal error", "type": "server_error", "param": None}
    assert response.json == {"error": said}


def test_a_refusal_before_the_first_byte_is_a_real_status(http: FlaskClient, engine: ScriptedClient) -> None:
    engine.script = lambda command: [[Rejected(command.request_id, QueueFull.code, "too many wait", {})]]
    response = post(http, b'{"prompt": "x"}')
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "1"
    assert response.json["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("path", ["/v1/models/", "//v1//models", "/models", "/v1/models"])
def test_careless_paths_reach_their_route_without_a_redirect(http: FlaskClient, path: str) -> None:
    assert http.get("/", environ_overrides={"PATH_INFO": path}, query_string="limit=1").status_code == 200


@pytest.mark.parametrize("path", ["/v1/completions", "/nowhere"])
def test_preflight_is_answered_everywhere_with_what_was_asked_for(http: FlaskClient, path: str) -> None:
    response = http.options(
        path,
        headers={
            "Origin": "null",
            "Access-Control-Request-Headers": "authorization, x-stainless-os",
            "Access-Control-Request-Private-Network": "true",
        },
    )
    assert response.status_code == 200
    assert response.headers["Access-Control-Allow-Origin"] == "null"
    assert response.headers["Access-Control-Allow-Headers"] == "authorization, x-stainless-os"
    assert response.headers["Access-Control-Allow-Private-Network"] == "true"
    assert "POST" in response.headers["Access-Control-Allow-Methods"]


def test_answers_and_errors_and_streams_may_be_read_by_any_page(http: FlaskClient) -> None:
    headers = {"Origin": "https://example.org"}
    for response in (
        http.get("/health", headers=headers),
        http.get("/nowhere", headers=headers),
        http.get("/v1/completions", headers=headers),
        post(http, b'{"prompt": "x"}', headers=headers),
        post(http, b"{", headers=headers),
    ):
        assert response.headers["Access-Control-Allow-Origin"] == "https://example.org"


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
def test_health_is_ok_when_the_model_is_loaded(http: FlaskClient, path: str) -> None:
    assert http.get(path).json == {"status": "ok", "slots_idle": 5, "slots_processing": 3, "version": version()}


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
def test_until_the_model_is_loaded_there_is_503_with_a_time_to_come_back(
    http: FlaskClient, engine: ScriptedClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading() -> Any:
        raise EngineLoading("Loading model")

    monkeypatch.setattr(engine, "_ready_connection", loading)
    response = http.get(path)
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "1"
    assert response.json["error"] == {"code": 503, "message": "Loading model", "type": "unavailable_error"}
    assert response.json.get("status") == ("loading model" if path == "/health" else None)


def test_a_health_check_of_a_failed_model_has_the_word_of_2024(
    http: FlaskClient, engine: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed() -> Any:
        raise ModelLoadFailed("model: x.gguf cannot be loaded: it is corrupt")

    monkeypatch.setattr(engine, "_ready_connection", failed)
    response = http.get("/health")
    assert (response.status_code, response.json["status"]) == (503, "error")
    assert "corrupt" in response.json["error"]["message"]
    assert "Retry-After" not in response.headers


@pytest.mark.parametrize("prefix", ["/v1/models/", "/models/"])
def test_a_model_is_retrieved_by_each_of_its_names(engine: ScriptedClient, prefix: str) -> None:
    http = create_app(Settings(alias="first,org/second"), engine).test_client()
    listed = http.get("/v1/models").json["data"][0]
    for name in (listed["id"], "first", "org/second"):
        assert http.get(prefix + name).json == listed
    response = http.get(f"{prefix}other")
    assert (response.status_code, response.json["error"]["type"]) == (404, "not_found_error")
    assert "'other'" in response.json["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_a_client_of_anthropics_lists_and_retrieves_models_in_its_form(http: FlaskClient, path: str) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    listed = http.get(path, headers=headers).json
    [model] = listed["data"]
    assert listed == {"data": [model], "has_more": False, "first_id": "storyteller", "last_id": "storyteller"}
    assert datetime.fromisoformat(model.pop("created_at")).tzinfo is not None
    assert model == {"type": "model", "id": "storyteller", "display_name": "storyteller"}
    assert http.get(f"{path}/storyteller", headers=headers).json == listed["data"][0] | {
        "created_at": http.get(f"{path}/storyteller", headers=headers).json["created_at"]
    }
    assert http.get(path).json["object"] == "list"


def test_tabbyapis_list_is_openais(http: FlaskClient) -> None:
    """SillyTavern's type TabbyAPI asks for it first, and finds no connection without it."""
    assert http.get("/v1/model/list").json == http.get("/v1/models").json


def test_models_lists_the_one_model_for_openai_and_ollama_clients(http: FlaskClient) -> None:
    body = http.get("/v1/models").json
    assert body["object"] == "list"
    (model,) = body["data"]
    assert model["id"] == "storyteller"
    assert model["owned_by"] == "llamacpp"
    assert model["object"] == "model"
    assert isinstance(model["created"], int)
    assert model.keys() == {"id", "aliases", "tags", "object", "created", "owned_by", "meta"}
    assert model["meta"] == {
        "vocab_type": 1, "n_vocab": 4096, "n_ctx": 8192, "n_ctx_train": 2048, "n_embd": 256, "n_params": 5_000_000,
        "size": 10_000_000, "ftype": "F16",
    }  # fmt: skip
    assert body["models"][0].keys() == {
        "name", "model", "modified_at", "size", "digest", "type", "description", "tags", "capabilities", "parameters",
        "details",
    }  # fmt: skip
    assert body["models"][0]["model"] == "storyteller"


def test_the_context_of_a_model_is_that_of_one_text(engine: ScriptedClient) -> None:
    engine.start()
    engine.receive([Ready(replace(MODEL, n_ctx_seq=2048).as_dict())])
    [model] = create_app(Settings(), engine).test_client().get("/v1/models").json["data"]
    assert model["meta"]["n_ctx"] == 2048


def test_models_tells_all_names(engine: ScriptedClient) -> None:
    http = create_app(Settings(alias="mine,gpt-4"), engine).test_client()
    (model,) = http.get("/v1/models").json["data"]
    assert (model["aliases"], model["tags"]) == (["mine", "gpt-4"], [])


def test_metrics_names_what_llama_server_has_after_it_and_the_rest_after_us(http: FlaskClient) -> None:
    response = http.get("/metrics")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4"
    assert response.headers["Process-Start-Time-Unix"].isdigit()
    lines = response.text.splitlines()
    assert "# TYPE llamacpp:n_decode_total counter" in lines
    assert "llamacpp:n_decode_total 7.0" in lines
    assert "# TYPE srb:kv_cells_used gauge" in lines
    assert "srb:kv_cells_used 12.0" in lines
    assert f'srb_build_info{{version="{version()}"}} 1.0' in lines


def test_metrics_can_be_switched_off(engine: ScriptedClient) -> None:
    response = create_app(Settings(metrics=False), engine).test_client().get("/metrics")
    assert response.status_code == 501
    message = "This server does not support metrics endpoint. Start it with `--metrics`"
    assert response.json == {"error": {"code": 501, "message": message, "type": "not_supported_error"}}


def test_every_metric_has_its_help_and_its_type_before_its_value(http: FlaskClient) -> None:
    lines = http.get("/metrics").text.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith("llamacpp:")]
    assert len(places) >= 10
    for place in places:
        name, value = lines[place].split(" ")
        kind = "counter" if name.endswith("_total") else "gauge"
        assert re.fullmatch(rf"# HELP {name} \S.*", lines[place - 2])
        assert lines[place - 1] == f"# TYPE {name} {kind}"
        assert float(value) >= 0


def test_making_the_application_connects_to_nothing(tmp_path: Any) -> None:
    settings = Settings(runtime_dir=str(tmp_path))
    app = create_app(settings)
    assert app.extensions["srb"].client._keeper is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/responses", {"input": "Hi"}),
        ("/api/generate", {"model": "storyteller", "prompt": "Hi", "stream": False}),
        ("/api/chat", {"model": "storyteller", "messages": [{"role": "user", "content": "Hi"}], "stream": False}),
        ("/api/v1/generate", {"prompt": "Hi"}),
    ],
)
def test_each_replica_adds_its_branches_to_the_most_of_a_request(path: str, body: dict[str, Any]) -> None:
    settings = Settings(n=1, max_n=2)
    engine = ScriptedClient(settings)
    http = create_app(settings, engine).test_client()
    assert http.post(path, json={**body, "n": 2}).status_code == 200
    assert http.post(path, json={**body, "n": 4}).status_code == 400
    engine.receive([Ready({**MODEL.as_dict(), "replicas": 2})])
    answer = http.post(path, json={**body, "n": 4})
    assert answer.status_code == 200, answer.text


def test_a_cluster_whose_replicas_are_not_known_yet_refuses_no_number_of_branches() -> None:
    settings = Settings(n=1, max_n=2, cluster="auto")
    engine = ScriptedClient(settings)
    app = create_app(settings, engine)
    with app.app_context():
        assert web().request_settings.max_n == MAX_BRANCHES
        engine.check_ready()
        assert web().request_settings.max_n == 2


def grows(command: Generate) -> Iterable[list[Event]]:
    """An engine that adds a branch to every request, with a beginning of its own."""
    request_id = command.request_id
    yield [Accepted(request_id, 5), Delta(request_id, 0, "a", [1])]
    yield [BranchAdded(request_id, 1, 9, origin=0, token=1, text="X", tokens=[1]), Delta(request_id, 1, "Y", [2])]
    yield [Delta(request_id, 0, "b", [3])]
    yield [BranchEnded(request_id, index, "eos", 2) for index in range(2)]
    yield [Done(request_id, 5, 2, 4, 10.0, 30.0)]


def lines_of(text: str) -> list[dict[str, Any]]:
    return [orjson.loads(line.removeprefix("data: ")) for line in text.splitlines() if "{" in line]


def test_streams_of_every_dialect_tell_a_branch_that_is_added_from_the_first() -> None:
    settings = Settings()
    http = create_app(settings, ScriptedClient(settings, grows)).test_client()
    messages = [{"role": "user", "content": "Hi"}]
    said = lines_of(http.post("/api/chat", json={"model": "storyteller", "messages": messages}).text)
    texts = [(line.get("index", 0), line["message"]["content"]) for line in said if line["message"]["content"]]
    assert texts == [(0, "a"), (1, "X"), (1, "Y"), (0, "b")]
    tokens = lines_of(http.post("/api/extra/generate/stream", json={"prompt": "Hi"}).text)
    assert [(line.get("index", 0), line["token"]) for line in tokens if line["token"]] == texts
    events = lines_of(http.post("/v1/messages", json={"messages": messages, "stream": True}).text)
    assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == "ab"
    assert events[-1]["type"] == "message_stop"
    assert http.post("/v1/messages", json={"messages": messages}).json["content"] == [{"type": "text", "text": "ab"}]
