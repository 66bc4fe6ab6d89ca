"""New settings, new code and a new server take over while streams run (SIGHUP, SIGUSR2, SIGTERM)."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from srb.exit_codes import EXIT_CONFIG
from tests.e2e.streams import BRIEF, ENDLESS, Stream, texts
from tests.processes import DEADLINE, PYTHON, is_alive, wait_for
from tests.servers import PACED, MakeServer, Server, everything_ends

pytestmark = pytest.mark.e2e

# Streams that nobody reads while a reload is waited for, which takes a busy machine longer than a client may take to read.
PATIENT: dict[str, Any] = {"model": PACED, "client_timeout": int(10 * DEADLINE)}


def reload(server: Server, status: int = 0) -> str:
    """Reload as systemd's units do; it returns when the settings are in force. Return what it says."""
    command = [PYTHON, "-P", "-m", "srb.serve.reload", str(server.pid)]
    done = subprocess.run(command, env=server.environ, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == status, done.stderr
    return done.stderr


def end(server: Server, request_id: str, **options: Any) -> None:
    """End a request, which then has been finished."""
    url = f"{server.url}/v1/srb/completions/{request_id}"
    assert requests.delete(url, timeout=DEADLINE, **options).status_code == 200


def test_row_28_a_stream_may_finish_while_new_workers_serve(make_server: MakeServer) -> None:
    server = make_server(**PATIENT, graceful_timeout=10 * DEADLINE).start()
    [old] = server.workers
    stream = Stream(server, ENDLESS)
    request_id = stream.until("start")["id"]
    reload(server)
    stream.until("stream")
    end(server, request_id)
    assert stream.rest()[-1]["event"] == "done"
    wait_for(lambda: not is_alive(old), "the old worker has ended")
    assert len(texts(server)) == 2


def test_row_28_a_stream_that_does_not_finish_in_time_is_told_so(make_server: MakeServer) -> None:
    server = make_server(**PATIENT, graceful_timeout=2).start()
    [old], engine = server.workers, server.engine
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    reload(server)
    wait_for(lambda: server.health() == 200, "the new worker serves")
    assert "shutting_down" in orjson.dumps(stream.rest()).decode()
    wait_for(lambda: not is_alive(old), "the old worker has ended")
    wait_for(lambda: server.metric("requests_processing") == 0, "its request has ended")
    assert server.engine == engine
    assert "Traceback" not in server.logs


def test_a_reload_brings_new_settings_to_the_workers(make_server: MakeServer, tmp_path: Path) -> None:
    config = tmp_path / "srb.toml"
    config.write_text("n = 2")
    server = make_server(config=config).start()
    assert Stream(server, {"prompt": "Once", "max_tokens": 2}).next()["count"] == 2
    config.write_text("n = 3")
    reload(server)
    assert Stream(server, {"prompt": "Once", "max_tokens": 2}).next()["count"] == 3


def test_no_request_is_refused_during_a_reload(make_server: MakeServer) -> None:
    server = make_server(graceful_timeout=60, workers=2).start()
    stop = threading.Event()
    refused: list[str] = []

    def ask() -> None:
        while not stop.is_set():
            answer = server.post("/v1/completions", BRIEF | {"stream": False})
            if answer.status_code != 200:
                refused.append(answer.text)

    clients = [threading.Thread(target=ask) for _ in range(2)]
    for client in clients:
        client.start()
    try:
        reload(server)
    finally:
        stop.set()
    for client in clients:
        client.join(DEADLINE)
    assert refused == []


def test_a_reload_with_a_mistake_in_the_settings_changes_nothing(make_server: MakeServer, tmp_path: Path) -> None:
    config = tmp_path / "srb.toml"
    config.write_text("n = 2")
    server = make_server(config=config).start()
    workers = server.workers
    mistakes = ["n = 0", "no_such_setting = 1", "not TOML", 'chat_template = "{% if %}"']
    for number, mistake in enumerate(mistakes, 1):
        config.write_text(mistake)
        server.process.send(signal.SIGHUP)
        wait_for(lambda number=number: server.logs.count("not reloaded") == number, "it says why not")  # type: ignore[misc]
        assert server.workers == workers, mistake
        assert len(texts(server)) == 2, mistake
    for mistake in mistakes:
        config.write_text(mistake)
        assert reload(server, EXIT_CONFIG).startswith("srb: not reloaded: "), mistake
    config.write_text("n = 3")
    reload(server)


def test_a_reload_ends_a_revoked_key_and_begins_a_new_one_while_a_stream_runs(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """The connection that asked with the revoked key is still open, and the stream that it began may finish."""
    keys = tmp_path / "keys"
    keys.write_text("alice:first-key\nalice:second-key\n")
    server = make_server(**PATIENT, api_key_file=keys, graceful_timeout=10 * DEADLINE).start()

    def key(name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {name}"}

    with requests.Session() as before:
        assert before.get(f"{server.url}/v1/models", headers=key("first-key"), timeout=DEADLINE).status_code == 200
        stream = Stream(server, ENDLESS, headers=key("first-key"))
        request_id = stream.until("start")["id"]
        keys.write_text("alice:second-key\nthird-key\n")
        reload(server)
        assert before.get(f"{server.url}/v1/models", headers=key("first-key"), timeout=DEADLINE).status_code == 401
    answers = [server.get("/v1/models", headers=key(name)) for name in ("first-key", "second-key", "third-key")]
    assert [answer.status_code for answer in answers] == [401, 200, 200]
    stream.until("stream")
    end(server, request_id, headers=key("second-key"))
    assert stream.rest()[-1]["event"] == "done"


def test_a_persons_request_is_nobody_elses_also_when_keys_are_revoked_while_it_runs(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """Two people with names, one of them with two keys, and two keys without names."""
    names = tmp_path / "keys"
    names.write_text("alice:alice-1\nfirst\nalice:alice-2\nbob:bob-1\nsecond\n")
    server = make_server(
        **PATIENT, api_key_file=names, graceful_timeout=10 * DEADLINE, stories=tmp_path / "stories.sqlite3"
    ).start()

    def key(name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {name}"}

    def running(name: str) -> list[str]:
        answer = server.get("/v1/srb/completions", headers=key(name))
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["completions"]]

    alices = Stream(server, ENDLESS, headers=key("alice-1"))
    alices_id = alices.until("start")["id"]
    firsts = Stream(server, ENDLESS, headers=key("first"))
    firsts_id = firsts.until("start")["id"]
    story = f"{server.url}/v1/srb/stories/diary"
    body = {"nodes": {"a": {"text": "Alice's secret diary.", "by": "person"}}}
    assert requests.post(story, json=body, headers=key("alice-1"), timeout=DEADLINE).status_code == 200
    names.write_text("alice:alice-2\nsecond\nbob:bob-1\n")
    reload(server)
    assert [running(name) for name in ("alice-2", "bob-1", "second")] == [[alices_id], [], []]
    for name, found in (("bob-1", 404), ("second", 404), ("alice-1", 401), ("alice-2", 200)):
        for method in ("GET", "POST"):
            answer = requests.request(method, story, json=body, headers=key(name), timeout=DEADLINE)
            assert answer.status_code == found, (name, method)
        for target in (alices_id, firsts_id):
            gone = found if target == alices_id else (401 if found == 401 else 404)
            one = f"{server.url}/v1/srb/completions/{target}"
            assert requests.get(one, headers=key(name), timeout=DEADLINE).status_code == gone, (name, target)
            ended = requests.delete(one, headers=key(name), timeout=DEADLINE).status_code
            assert ended in ((200, 204) if gone == 200 else (gone,)), (name, target)
    assert alices.rest()[-1]["event"] == "done"
    firsts.close()


def test_row_28_an_upgrade_ends_the_old_servers_streams_and_serves_on(make_server: MakeServer) -> None:
    server = make_server(**PATIENT, graceful_timeout=2).start()
    before, engine = set(server.all_pids()), server.engine
    stream = Stream(server, ENDLESS)
    stream.until("stream")
    server.process.send(signal.SIGUSR2)
    wait_for(lambda: "another supervisor" in server.logs, "the new server's supervisor waits")
    [new_arbiter] = set(server.workers) - before
    try:
        assert server.health() == 200, "old and new workers share the old engine"
        assert server.engine == engine
        server.process.send(signal.SIGTERM)
        assert "shutting_down" in orjson.dumps(stream.rest()).decode()
        assert server.wait() == 0
        wait_for(lambda: not any(map(is_alive, before)), "all of the old server has ended")
        wait_for(lambda: server.health() == 200 and texts(server), "the new server has an engine of its own")
    finally:
        os.kill(new_arbiter, signal.SIGTERM)
        wait_for(lambda: not is_alive(new_arbiter), "the new server has ended")
    assert not server.runtime.exists()


def test_an_upgrade_to_a_server_that_cannot_start_leaves_the_old_one(make_server: MakeServer, tmp_path: Path) -> None:
    config = tmp_path / "srb.toml"
    config.write_text("n = 2")
    server = make_server(config=config).start()
    before = server.all_pids()
    config.write_text("n = 0")
    server.process.send(signal.SIGUSR2)
    wait_for(lambda: "srb: n (from " in server.logs, "the new server says why not")
    assert len(texts(server)) == 2
    wait_for(lambda: set(server.all_pids()) == set(before), "it has left")
    with everything_ends(server):
        assert server.stop() == 0
