"""The limits of a web server whose engine is a cluster: `max_n` counts for each of the replicas that are ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from srb.config.settings import Settings
from srb.errors import EngineLoading
from srb.web.app import create_app
from srb.web.context import Web
from srb.wire.commands import MAX_BRANCHES, Generate
from srb.wire.events import Ready
from tests.scripted import MODEL, ScriptedClient

MESSAGES = [{"role": "user", "content": "Hello"}]
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/srb/completions", {"prompt": "Once", "stream": False}),
    ("/v1/completions", {"prompt": "Once"}),
    ("/completion", {"prompt": "Once"}),
    ("/v1/chat/completions", {"messages": MESSAGES}),
    ("/v1/responses", {"input": "Hello"}),
    ("/api/generate", {"model": "", "prompt": "Once", "raw": True, "stream": False}),
    ("/api/chat", {"model": "", "messages": MESSAGES, "stream": False}),
    ("/api/v1/generate", {"prompt": "Once"}),
]


def client(replicas: int, settings: Settings) -> ScriptedClient:
    engine = ScriptedClient(settings)
    engine.start()
    tell(engine, replicas)
    return engine


def tell(engine: ScriptedClient, replicas: int) -> None:
    """Let the bridge tell the worker how many replicas are ready."""
    engine.receive([Ready(replace(MODEL, replicas=replicas).as_dict())])


@pytest.mark.parametrize(("path", "body"), BODIES, ids=[path for path, _ in BODIES])
def test_each_replica_adds_its_branches_to_max_n_in_every_dialect(path: str, body: dict[str, Any]) -> None:
    settings = Settings(n=1, max_n=3)
    engine = client(2, settings)
    http = create_app(settings, engine).test_client()
    asked = {**body, "model": MODEL.alias} if "model" in body else body
    answer = http.post(path, data=orjson.dumps({**asked, "n": 6}))
    assert answer.status_code == 200, answer.text
    [command] = [command for command in engine.sent if isinstance(command, Generate)]
    assert len(command.branches) == 6
    refused = http.post(path, data=orjson.dumps({**asked, "n": 7}))
    assert refused.status_code == 400
    assert "6" in refused.text


def test_the_limits_follow_the_number_of_replicas() -> None:
    settings = Settings(n=1, max_n=3)
    engine = ScriptedClient(settings)
    web = Web(settings, engine)
    assert web.request_settings is settings, "while no replica is ready"
    engine.start()
    for replicas, most in ((1, 3), (2, 6), (3, 9), (2, 6), (10_000, MAX_BRANCHES)):
        tell(engine, replicas)
        assert web.request_settings.max_n == most
        assert web.request_settings is web.request_settings, "not made again for each request"


def test_without_a_replica_health_says_what_an_engine_says_that_loads() -> None:
    settings = Settings()
    engine = client(2, settings)
    http = create_app(settings, engine).test_client()
    assert http.get("/health").status_code == 200

    def refuse(*_: Any) -> Any:
        raise EngineLoading("No replica of the cluster is ready", engine="loading")

    engine.answers = refuse
    answer = http.get("/health")
    assert answer.status_code == 503
    assert (answer.json or {})["status"] == "loading model"
    assert answer.headers["Retry-After"]


def test_the_slots_of_each_replica_are_told_apart() -> None:
    settings = Settings()
    engine = client(2, settings)
    http = create_app(settings, engine).test_client()
    slot = {"n_ctx": MODEL.n_ctx_seq, "is_processing": False}
    engine.answers = lambda *_: [{"id": 0, **slot, "replica": name} for name in "ab"]
    assert [(each["id"], each["replica"]) for each in http.get("/slots").json or []] == [(0, "a"), (0, "b")]


def test_slots_are_saved_without_a_folder_of_the_web_servers_own() -> None:
    answers = {}
    for cluster in ("", "auto"):
        settings = Settings(cluster=cluster)
        http = create_app(settings, client(2, settings)).test_client()
        answers[cluster] = http.post("/slots/1?action=save", data=b'{"filename": "chapter"}').status_code
    assert answers == {"": 501, "auto": 200}
