"""Running requests that are steered over HTTP, on a whole server with two workers."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

from tests.e2e.streams import Stream
from tests.processes import wait_for
from tests.servers import MakeServer, Server

BASE = "/v1/srb/completions"
ENDLESS = {"prompt": "Once upon a time,", "n": 3, "max_tokens": -1, "ignore_eos": True, "seed": 7}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two workers, so that calls reach either, and 500 steps a second; do not kill any part of it."""
    with Server(tmp_path_factory.mktemp("controls"), model="fake:500", workers=2) as server:
        yield server.start()


OPENED: list[Stream] = []


@pytest.fixture(autouse=True)
def _all_are_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


class _Buffered(HTTPAdapter):
    """Connections with a small receive buffer: a system's own may hold all that a test's server writes."""

    def __init__(self, size: int) -> None:
        self._options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, size)]
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, socket_options=self._options)  # type: ignore[no-untyped-call]


class Reader(Stream):
    """A stream of a request's events, and the texts that it has told, those of a snapshot included."""

    def __init__(self, server: Server, body: dict[str, Any] | None = None, attach: str = "", buffer: int = 0) -> None:
        """`attach` to a request by its id, with a receive buffer of `buffer` bytes where that is not 0."""
        if attach:
            with requests.Session() as session:
                if buffer:
                    session.mount("http://", _Buffered(buffer))
                self._open(session.get(f"{server.url}{BASE}/{attach}/events", stream=True, timeout=60))
        else:
            super().__init__(server, body or {})
        self.texts: dict[int, str] = {}
        self.events: list[dict[str, Any]] = []
        OPENED.append(self)

    def next(self) -> dict[str, Any]:
        event = super().next()
        self.events.append(event)
        for branch in event["branches"] if event["event"] == "snapshot" else [event]:
            if "text" in branch:
                self.texts[branch["index"]] = self.texts.get(branch["index"], "") + branch["text"]
        return event


def control(server: Server, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a control on a connection of its own, which either worker may get."""
    response = requests.request(method, f"{server.url}{BASE}/{path}", json=body, timeout=60)
    return response.status_code, response.json()


def full(server: Server, request_id: str) -> dict[int, str]:
    status, said = control(server, "GET", request_id)
    assert status == 200, said
    return {branch["index"]: branch["text"] for branch in said["branches"] if branch["text"]}


def is_gone(server: Server, request_id: str) -> bool:
    return control(server, "GET", request_id)[0] == 404


def nothing_runs(server: Server) -> bool:
    return not server.metric("requests_processing") and not server.metric("requests_resting")


def test_a_request_is_added_to_forked_stopped_extended_and_ended(pair: Server) -> None:
    reader = Reader(pair, ENDLESS | {"linger": 60})  # a minute's work: it is there for all that follows
    request_id = reader.next()["id"]
    while len(reader.texts.get(1, "")) < 20:
        reader.next()
    other = Reader(pair, attach=request_id)
    assert other.next()["event"] == "snapshot"

    fork = {"from": {"branch": 1, "character": 12}, "max_tokens": 30, "temperature": 1.5}
    assert control(pair, "POST", f"{request_id}/branches", fork) == (200, {"indices": [3], "seeds": [10]})
    assert control(pair, "POST", f"{request_id}/branches", {"count": 2, "max_tokens": 5})[1]["indices"] == [4, 5]
    status, stopped = control(pair, "DELETE", f"{request_id}/branches/2")
    assert (status, stopped["reason"]) == (200, "cancelled")
    status, refused = control(pair, "DELETE", f"{request_id}/branches/2")
    assert (status, refused["error"]["state"]) == (409, "ended")
    assert control(pair, "DELETE", f"{request_id}/branches/99")[0] == 404
    status, refused = control(pair, "POST", f"{request_id}/branches", {"from": {"branch": 1, "token": 10**6}})
    assert (status, refused["error"]["param"]) == (400, "from")
    listed = requests.get(pair.url + BASE, timeout=60).json()["completions"]
    assert [len(each["branches"]) for each in listed if each["id"] == request_id] == [6]

    control(pair, "PATCH", f"{request_id}/branches/0", {"stop": [" "]})
    assert control(pair, "DELETE", f"{request_id}/branches/1")[0] == 200
    for each in (reader, other):
        each.until("rest")
    assert control(pair, "PATCH", f"{request_id}/branches/4", {"max_tokens": 10})[1]["max_tokens"] == 15
    for each in (reader, other):
        each.until("rest")
        assert each.texts == full(pair, request_id)
        assert [event["index"] for event in each.events if event["event"] == "branch"] == [3, 4, 5, 4]
    assert reader.texts[3].startswith(reader.texts[1][:12])
    assert control(pair, "DELETE", request_id) == (200, {"id": request_id, "state": "ended"})
    assert [each.rest()[-1]["event"] for each in (reader, other)] == ["done", "done"]
    assert is_gone(pair, request_id)
    wait_for(lambda: nothing_runs(pair), "nothing runs")


def test_a_reader_that_leaves_and_comes_back_misses_nothing(pair: Server) -> None:
    first = Reader(pair, ENDLESS | {"max_tokens": 2000, "linger": 60})
    request_id = first.next()["id"]
    first.until("stream")
    first.close()
    for _ in range(3):  # as a page that is loaded again and again
        reader = Reader(pair, attach=request_id)
        reader.next()
        reader.close()
    last = Reader(pair, attach=request_id)
    if last.next()["state"] != "resting":  # it may have written all meanwhile
        last.until("rest")
    assert last.texts == full(pair, request_id)
    cold = Reader(pair, ENDLESS | {"max_tokens": 2000})
    cold.rest()
    assert last.texts == cold.texts
    control(pair, "DELETE", request_id)
    assert last.rest()[-1]["event"] == "done"


def test_row_45_a_request_without_readers_ends_when_it_has_lingered(pair: Server) -> None:
    reader = Reader(pair, ENDLESS | {"linger": 1})
    request_id = reader.next()["id"]
    reader.close()
    wait_for(lambda: is_gone(pair, request_id), "the request has ended")
    wait_for(lambda: nothing_runs(pair), "nothing runs")
    reader = Reader(pair, ENDLESS | {"linger": 0})
    request_id = reader.next()["id"]
    other = Reader(pair, attach=request_id)
    reader.close()
    other.until("stream")
    other.close()
    wait_for(lambda: is_gone(pair, request_id), "the request has ended with its last reader")


def test_row_46_a_reader_that_attaches_and_hangs_loses_only_itself(make_server: MakeServer) -> None:
    server = make_server(model="fake:2000", workers=2, max_body_bytes=2**19, client_timeout=1).start()
    reader = Reader(server, ENDLESS | {"n": 8, "max_tokens": 6000})
    request_id = reader.next()["id"]
    hanging = Reader(server, attach=request_id, buffer=4096)
    hanging.next()
    written = reader.rest()
    assert (written[-1]["event"], written[-1]["count"]) == ("done", 8)
    assert sorted(event["index"] for event in written if event["event"] == "stop") == list(range(8))
    wait_for(lambda: nothing_runs(server), "nothing runs")
    try:
        assert hanging.rest()[-1].get("code") == "slow_client"
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        told = "closed the connection of a client that does not read"
        wait_for(lambda: told in server.logs, "it is logged")


def test_another_keys_request_is_not_found_and_not_listed(make_server: MakeServer) -> None:
    server = make_server(workers=2, api_key="one, two").start()
    mine, theirs = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
    body = {"prompt": "x", "max_tokens": 3, "linger": 60, "stream": False}
    request_id = server.post(BASE, body, headers=mine).json()["id"]
    for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", ""), ("DELETE", "/branches/0")):
        found = requests.request(method, f"{server.url}{BASE}/{request_id}{path}", headers=theirs, timeout=60)
        assert found.status_code == 404, (method, path)
    path = f"{BASE}/{request_id}/branches"
    assert server.post(path, {}, headers=theirs).status_code == 404
    assert server.get(BASE, headers=theirs).json() == {"completions": []}
    assert [each["id"] for each in server.get(BASE, headers=mine).json()["completions"]] == [request_id]
    assert server.post(path, {"from": {"branch": 0}}, headers=mine).status_code == 200


def test_sigterm_during_a_rest_ends_everything_cleanly(make_server: MakeServer) -> None:
    server = make_server(workers=2, graceful_timeout=1).start()
    reader = Reader(server, ENDLESS | {"max_tokens": 5, "linger": 600})
    request_id = reader.next()["id"]
    reader.until("rest")
    other = Reader(server, attach=request_id)
    assert other.next()["state"] == "resting"
    server.process.send(signal.SIGTERM)
    for each in (reader, other):
        last = each.rest()[-1]
        assert last["event"] == "done" or last["code"] == "shutting_down", last
    assert server.wait() == 0
    assert not server.runtime.exists()


def test_each_reader_gets_one_error_when_the_engine_dies(make_server: MakeServer) -> None:
    server = make_server(model="fake:500", workers=2).start()
    reader = Reader(server, ENDLESS | {"linger": 60})
    request_id = reader.next()["id"]
    readers = [reader, *(Reader(server, attach=request_id) for _ in range(4))]
    for each in readers:
        each.until("stream")
    os.kill(server.engine, signal.SIGKILL)
    for each in readers:
        errors = [event for event in each.rest() if event["event"] == "error"]
        assert [event["code"] for event in errors] == ["engine_restarted"]
    server.wait_ready()
    wait_for(lambda: is_gone(server, request_id), "the new engine does not know the request")


@pytest.mark.parametrize("tokens", [400, pytest.param(2000, marks=pytest.mark.long)])
def test_a_request_of_64_branches_with_many_tokens_each_is_attached_to(make_server: MakeServer, tokens: int) -> None:
    server = make_server(workers=2, n_ctx=200_000).start()
    body = ENDLESS | {"n": 64, "max_tokens": tokens, "linger": 600, "stream": False}
    request_id = server.post(BASE, body).json()["id"]
    reader = Reader(server, attach=request_id)
    snapshot = reader.next()
    assert [branch["length"] for branch in snapshot["branches"]] == [tokens] * 64
    assert all(len(branch["text"]) > tokens for branch in snapshot["branches"])
    found = server.get(f"{BASE}/{request_id}").json()
    assert all(
        tokens - 3 <= len(branch["tokens"]) <= tokens for branch in found["branches"]
    )  # without a character cut in two
    assert control(server, "PATCH", f"{request_id}/branches/63", {"max_tokens": 3})[0] == 200
    reader.until("rest")
    assert reader.texts == full(server, request_id)


def test_forks_and_added_branches_keep_to_the_directions_of_their_request(pair: Server) -> None:
    """Each writes what a request with the whole text writes, its direction in place, and tells the direction."""
    before, last = "The last bus had left.\n\n", "Clara put the key into the lock and"
    directions, limit = ["a stranger arrives", "years pass"], {"max_tokens": 12, "ignore_eos": True}
    body = {"prompt": before + last, "directions": directions, "seed": 7, "linger": 60, **limit}

    def alone(direction: str, seed: int) -> str:
        whole = f"{before}[What happens next: {direction}]\n\n{last}"
        answer = pair.post(BASE, {"prompt": whole, "n": 1, "seed": seed, "stream": False, **limit}).json()
        return str(answer["completions"][0]["text"])

    reader = Reader(pair, body)
    start = reader.next()
    request_id = start["id"]
    assert start["directions"] == directions
    reader.until("rest")
    other = Reader(pair, attach=request_id)
    assert [branch["direction"] for branch in other.next()["branches"]] == directions
    fork = {"from": {"branch": 1, "token": 0}, "seed": 50, "max_tokens": 12}
    for added in (
        fork,
        {"seed": 51, "max_tokens": 12},
        {"seed": 52, "max_tokens": 12, "direction": "a letter is found"},
    ):
        assert control(pair, "POST", f"{request_id}/branches", added)[0] == 200
        for each in (reader, other):
            each.until("rest")
    told = [event["direction"] for event in other.events if event["event"] == "branch"]
    assert told == ["years pass", "years pass", "a letter is found"]
    for index, (direction, seed) in enumerate(
        [*zip(directions, (7, 8), strict=True), *zip(told, (50, 51, 52), strict=True)]
    ):
        assert reader.texts[index] == alone(direction, seed), index
    refused = control(pair, "POST", f"{request_id}/branches", {**fork, "direction": "years pass"})
    assert (refused[0], refused[1]["error"]["param"]) == (400, "direction")
    assert control(pair, "DELETE", request_id)[0] == 200
    wait_for(lambda: nothing_runs(pair), "nothing runs")
