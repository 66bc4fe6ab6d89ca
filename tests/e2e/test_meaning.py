"""Branches chosen by their meaning: an embedding model beside the writer is found, loaded and asked, and holds no place."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.processes import wait_for
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

BODY = {"prompt": "Once upon a time,", "max_tokens": 12, "n": 3, "best_of": 8, "select": "meaning", "stream": False}


def models(**own: Any) -> str:
    return orjson.dumps([{"name": "writer", "model": "fake:"}, {"name": "judge", "model": "fake:", **own}]).decode()


def state(server: Server, name: str) -> str:
    [value] = [each["status"]["value"] for each in server.get("/v1/models").json()["data"] if each["id"] == name]
    return str(value)


def test_a_model_for_embeddings_is_loaded_beside_the_writer_and_chooses(make_server: MakeServer) -> None:
    server = make_server(models=models(embedding=True), model="", max_engines=2).start()
    foreign = {"Origin": "http://elsewhere.example"}
    wait_for(lambda: state(server, "writer") == "loaded", "the writer is loaded")
    for stream in (False, True):  # a foreign page loads no model, nor does a request that says so or comes last
        body = {**BODY, "stream": stream}
        for path, fields, headers in (("", {}, foreign), ("?autoload=false", {}, {}), ("", {"priority": 1}, {})):
            said = server.post(f"/v1/srb/completions{path}", {**body, **fields}, headers=headers).text
            assert '"chosen_by":"words"' in said
    texts = {"texts": ["A ship came in.", "It rained all day.", "A boat arrived."], "n": 2}
    for path, headers in (("", foreign), ("?autoload=false", {})):
        assert server.post(f"/v1/srb/meaning{path}", texts, headers=headers).json()["by"] == "words"
    assert state(server, "judge") == "unloaded"
    assert server.get("/v1/srb/server").json()["embedding"] == "judge"
    answer = server.post("/v1/srb/completions", BODY)
    assert answer.status_code == 200, answer.text
    assert answer.json()["chosen_by"] == "meaning"
    assert server.post("/v1/srb/completions", BODY, headers=foreign).json()["chosen_by"] == "meaning"
    assert len({each["text"] for each in answer.json()["completions"]}) == 3
    assert state(server, "judge") == "loaded"
    compared = server.post("/v1/srb/meaning", texts).json()
    assert compared["by"] == "meaning"
    assert len(compared["groups"]) == 2
    assert (
        server.post("/v1/srb/completions", {**BODY, "best_of": 3, "rank": "meaning"}).json()["meaning"]["by"]
        == "meaning"
    )
    wait_for(
        lambda: 'srb:model_calls_running{model="judge"} 0.0' in server.get("/metrics").text, "no call holds the model"
    )


@pytest.mark.parametrize(
    "settings",
    [{"max_engines": 1}, {"max_engines": 2, "models": models()}],
)
def test_without_room_or_without_such_a_model_words_decide(make_server: MakeServer, settings: dict[str, Any]) -> None:
    server = make_server(**{"models": models(embedding=True), "model": "", **settings}).start()
    answer = server.post("/v1/srb/completions", BODY)
    assert answer.json()["chosen_by"] == "words"
    assert server.get("/v1/srb/server").json()["embedding"] is None
    assert state(server, "judge") == "unloaded"
