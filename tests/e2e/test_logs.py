"""What a whole server writes down: a line for each request, in one form, and nobody's secrets."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.version import version
from tests.e2e.streams import BRIEF, ENDLESS, Stream
from tests.needs import long
from tests.processes import DEADLINE, wait_for
from tests.servers import PACED, MakeServer, Server

pytestmark = pytest.mark.e2e

KEYS = ["sk-of-the-variable", "sk-of-the-file", "sk-that-is-wrong"]
PROMPT = "Nobody should read this sentence."


def lines(log_file: Path, **wanted: object) -> list[dict[str, Any]]:
    """Return the JSON lines that have these fields."""
    found = [orjson.loads(line) for line in log_file.read_text().splitlines()]
    return [line for line in found if wanted.items() <= line.items()]


@pytest.fixture(scope="module")
def noting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server that the tests of this module share, and the file that it writes in JSON."""
    folder = tmp_path_factory.mktemp("noting")
    with Server(folder, model=PACED, log_format="json", log_file=folder / "log", log_level="debug") as server:
        yield server.start(), folder / "log"


def test_each_request_is_one_json_line_without_its_prompt(noting: tuple[Server, Path]) -> None:
    server, log_file = noting
    Stream(server, BRIEF | {"prompt": PROMPT, "stop": ["Nor this."]}).rest()
    server.post("/v1/completions", {"prompt": PROMPT, "n": 0})
    server.post("/tokenize?with=secrets", {"content": PROMPT})
    server.get("/no/such/path")
    wait_for(lambda: lines(log_file, path="/no/such/path"), "the last of them is there")
    [done] = lines(log_file, path="/v1/srb/completions", outcome="done")
    assert (done["branches"], done["completion_tokens"], done["client"]) == (2, 8, "127.0.0.1")
    [wrong] = lines(log_file, path="/v1/completions", status=400)
    [asked] = lines(log_file, path="/tokenize")
    assert (wrong["method"], asked["status"]) == ("POST", 200)
    text = log_file.read_text()
    assert {line["logger"] for line in lines(log_file)} >= {"srb.web", "srb.client", "gunicorn.error"}
    assert "Nobody" not in text
    assert "secrets" not in text
    assert "INFO" not in server.logs  # all of it is in the file


def test_the_version_is_logged_first_and_prompts_where_that_is_asked_for(
    make_server: MakeServer, tmp_path: Path
) -> None:
    log_file = tmp_path / "log"
    server = make_server(log_format="json", log_file=log_file, log_prompts="true").start()
    assert lines(log_file)[0]["message"] == f"SRB {version()}"
    server.post("/v1/completions", BRIEF | {"prompt": PROMPT, "stream": False})
    [line] = wait_for(lambda: lines(log_file, outcome="done"), "it is logged")
    assert line["prompts"] == [[PROMPT]]


def test_the_line_of_a_client_that_left_tells_what_was_computed(noting: tuple[Server, Path]) -> None:
    server, log_file = noting
    body = {"prompt": "Has anyone begun like this?", "token_healing": False}
    stream = Stream(server, ENDLESS | body)  # healing is told of at the end alone
    prompt_tokens = stream.until("start")["prompt_tokens"]
    for _ in range(20):
        stream.until("stream")
    stream.close()
    [line] = wait_for(lambda: lines(log_file, outcome="cancelled"), "it is logged")
    assert line["completion_tokens"] >= 20
    assert line["tokens_per_second"] > 0
    assert line["prompt_tokens"] == line["cached_tokens"] + line["computed_tokens"] == prompt_tokens
    assert (line["computed_tokens"] > 0, line["unfinished_tokens"]) == (True, 0)


def test_logrotate_may_move_the_file_and_signal_everybody(make_server: MakeServer, tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    server = make_server(log_format="json", log_file=log_file).start()
    pids = set(server.all_pids())
    log_file.rename(tmp_path / "log.1")
    for pid in pids:  # as `systemctl kill -s USR1` does
        os.kill(pid, signal.SIGUSR1)
    Stream(server, BRIEF).rest()
    wait_for(lambda: log_file.exists() and lines(log_file, outcome="done"), "it is logged in a new file")
    assert not lines(tmp_path / "log.1", outcome="done")
    assert set(server.all_pids()) == pids


@pytest.mark.parametrize("log_format", ["text", *long("json")])
def test_no_key_is_logged_or_shown(make_server: MakeServer, tmp_path: Path, log_format: str) -> None:
    (tmp_path / "keys").write_text(KEYS[1])
    server = make_server(api_key=KEYS[0], api_key_file=tmp_path / "keys", log_level="debug", log_format=log_format)
    server.start()
    shown = ""
    for key in KEYS:
        for headers in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}):
            server.post("/v1/completions", BRIEF | {"stream": False}, headers=headers)
            for path in ("/props", "/metrics", "/slots", "/v1/models", "/openapi.json", "/health", f"/x?api_key={key}"):
                shown += server.get(path, headers=headers).text
    server.process.send(signal.SIGHUP)
    wait_for(lambda: server.health() == 200, "it goes on")
    assert server.stop() == 0
    assert "done, 2 branches" in server.logs
    for key in KEYS:
        assert key not in server.logs
        assert key not in shown


def test_a_malformed_request_is_logged_without_its_content(make_server: MakeServer) -> None:
    server = make_server().start()
    for line in ("Authorization Bearer sk-secret", "Transfer-Encoding: sk-secret", "Authorization : sk-secret"):
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as connection:
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode())
            assert connection.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 501")
    wait_for(lambda: server.logs.count("Invalid request") == 3, "each is logged")
    assert "Invalid HTTP Header\n" in server.logs
    assert "sk-secret" not in server.logs
