"""Two people with keys on one real server: the branches of one keep no request of the other waiting; a limit is a key's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.streams import ENDLESS, Stream
from tests.processes import wait_for
from tests.servers import Server

ROOT = "/v1/srb/completions"
KEYS = "alice:alices-key\nbob:bobs-key max_n=10\n"


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}s-key"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys").write_text(KEYS)
    with Server(folder, model="fake:20", api_key_file=folder / "keys", workers=2) as server:
        yield server.start()


def states(server: Server, name: str) -> list[str]:
    """Return whether each of a person's requests runs or waits, in the order of arrival."""
    listed: list[dict[str, Any]] = server.get(ROOT, headers=key(name)).json()["completions"]
    return [each["state"] for each in sorted(listed, key=lambda each: -each["age"])]


def running(server: Server, request_id: str) -> int:
    listed = server.get(f"{ROOT}/{request_id}", headers=key("alice")).json()["branches"]
    return sum(branch["state"] == "running" for branch in listed)


def ask(server: Server, name: str, n: int) -> Stream:
    """Begin an endless request with a text of its own; return it when the engine has it."""
    before = len(states(server, name))
    stream = Stream(
        server, {**ENDLESS, "n": n, "prompt": f"Once upon a time {name} had told {before} tales. "}, headers=key(name)
    )
    wait_for(lambda: len(states(server, name)) == before + 1, f"{name} has a request more")
    return stream


def test_the_request_of_one_person_begins_before_those_that_another_sent_earlier(server: Server) -> None:
    streams = [ask(server, "alice", 20)]  # the fake has 16 sequences
    first = streams[0].until("start")["id"]
    wait_for(lambda: running(server, first) >= 15, "its branches have all sequences but one, if the prompt has one")
    streams += [ask(server, "alice", 5), ask(server, "alice", 5)]
    assert states(server, "alice") == ["running", "queued", "queued"], "there is no sequence left"
    streams.append(ask(server, "bob", 10))
    streams[-1].until("stream")
    wait_for(lambda: running(server, first) == 7, "half of the sequences are bob's, beside one of each prompt")
    assert states(server, "alice") == ["running", "queued", "queued"]
    for stream in streams:
        stream.close()


def test_a_keys_own_limit_names_the_field(server: Server) -> None:
    body = {"prompt": "Once", "n": 11, "max_tokens": 2, "stream": False}
    refused = server.post(ROOT, body, headers=key("bob"))
    assert refused.status_code == 400
    assert "'n'" in refused.json()["error"]["message"]
    assert server.post(ROOT, body, headers=key("alice")).status_code == 200
    assert server.get("/v1/srb/server", headers=key("bob")).json()["max_n"] == 10
