"""What there is only so much of: room, time, tokens, patience. A test of a row in docs/faults.md begins with it."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.streams import BRIEF, ENDLESS, SOON, Stream
from tests.namespaces import run_in_own_network
from tests.needs import long
from tests.processes import DEADLINE, process_state, wait_for
from tests.servers import PACED, MakeServer, Server

pytestmark = pytest.mark.e2e

MESSAGES = [{"role": "user", "content": "Hello"}]
GENERATING: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", BRIEF),
    ("/v1/srb/completions", BRIEF),
    ("/v1/completions", {"model": "any", "prompt": "Once", "max_tokens": 4}),
    ("/completion", {"prompt": "Once", "n_predict": 4}),
    ("/completions", {"prompt": "Once", "n_predict": 4}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4}),
    ("/chat/completions", {"messages": MESSAGES, "max_tokens": 4}),
    ("/stream", {"prompt": "Once", "num_predict": 4}),
]


@pytest.fixture
def full(make_server: MakeServer, request: pytest.FixtureRequest) -> Server:
    """A server without room: endless requests hold its sequences, and the one that may wait does."""
    server = make_server(max_queue=1, **request.param).start()
    server.fill()
    return server


@pytest.mark.parametrize("full", [{"queue_timeout": 0}], indirect=True)
def test_row_03_with_the_queue_full_every_generating_route_is_429(full: Server) -> None:
    for path, body in GENERATING:
        for stream in (True, False):
            answer = full.post(path, body | {"stream": stream})
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1"), (path, answer.text)
    assert full.health() == 200


@pytest.mark.parametrize("full", [{"queue_timeout": 1}], indirect=True)
def test_row_03_a_request_that_waits_too_long_is_503_or_an_error_event(full: Server) -> None:
    wait_for(lambda: full.metric("requests_deferred") == 0, "those who waited have been told")
    answer = full.post("/v1/completions", BRIEF | {"stream": False})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["error"]["type"] == "unavailable_error"
    assert Stream(full, ENDLESS).rest()[-1]["code"] == "queue_timeout"


def test_row_20_a_request_that_runs_out_of_time_keeps_its_text(make_server: MakeServer) -> None:
    server = make_server(request_timeout=1).start()
    events = Stream(server, ENDLESS | {"n": 2}).rest()
    assert [event["reason"] for event in events if event["event"] == "stop"] == ["limit"] * 2
    assert sum(event["event"] == "stream" for event in events) > 2
    choice = server.post("/v1/completions", {"model": "m", "prompt": "Once", "ignore_eos": True}).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["text"]) > 100


# Limits for one client ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def answered_by(server: Server, worker: int) -> Iterator[None]:
    """Leave everything that arrives to one worker: the others stand still."""
    others = [pid for pid in server.workers if pid != worker]
    try:
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda pid=pid: process_state(pid) == "T", "it stands still")  # type: ignore[misc]
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def test_a_clients_requests_a_minute_are_counted_over_all_workers(make_server: MakeServer) -> None:
    server = make_server(workers=2, rate_limit=3).start()
    began = time.monotonic()
    passed = 0
    for worker in server.workers * 2:
        with answered_by(server, worker):
            answers = [server.post("/v1/completions", BRIEF | {"stream": False}) for _ in range(3)]
        assert {answer.status_code for answer in answers} <= {200, 429}
        passed += sum(answer.status_code == 200 for answer in answers)
    assert 3 <= passed <= 3 + (time.monotonic() - began) / 20, "one more every 20 s"


def test_a_clients_open_requests_are_counted_over_all_workers_and_a_killed_ones_are_not(
    make_server: MakeServer,
) -> None:
    server = make_server(model=PACED, workers=2, max_client_requests=2).start()
    streams = []
    for worker in server.workers:
        with answered_by(server, worker):
            streams.append(Stream(server, ENDLESS))
            streams[-1].until("stream")
    for worker in server.workers:
        with answered_by(server, worker):
            assert server.post("/v1/completions", BRIEF).json()["error"]["type"] == "rate_limit_error"
    killed, kept = server.workers
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: killed not in server.workers and len(server.workers) == 2, "another worker takes its place")
    with answered_by(server, kept):
        brief = BRIEF | {"stream": False}
        wait_for(lambda: server.post("/v1/completions", brief).status_code == 200, "its request is given back")
        streams.append(Stream(server, ENDLESS))
        assert server.post("/v1/completions", brief).status_code == 429
    for stream in streams:
        stream.close()
    assert "Traceback" not in server.logs


# Clients that leave, or do not read -----------------------------------------------------------------------------------


def connect(server: Server, body: dict[str, Any], *, buffer: int = 0) -> socket.socket:
    """Send a streaming request and return its connection, with a receive buffer of `buffer` bytes where that is not 0."""
    client = socket.socket()
    client.settimeout(DEADLINE)
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.connect(("127.0.0.1", server.port))
    payload = orjson.dumps(body)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"
    client.sendall(head.encode() + payload)
    return client


def nothing_runs(server: Server) -> bool:
    return server.metric("requests_processing") + server.metric("requests_deferred") == 0


def test_row_16_a_client_that_closes_or_resets_in_mid_stream_frees_everything(paced: Server) -> None:
    server = paced
    for linger in (None, struct.pack("ii", 1, 0)):  # a FIN, then an RST
        with connect(server, ENDLESS) as client:
            while b'"event":"stream"' not in client.recv(65536):
                pass
            if linger:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        wait_for(lambda: nothing_runs(server), "the request has ended", SOON)


def test_row_17_a_client_that_leaves_while_it_waits_or_its_prompt_is_computed_is_cancelled(
    make_server: MakeServer,
) -> None:
    server = make_server(model="fake:10", n_batch=16, n_ctx=200_000).start()
    for stream, king in ((True, "the old king "), (False, "the young king ")):  # five minutes' work
        with connect(server, {"prompt": king * 16_000, "n": 2, "stream": stream}):
            wait_for(lambda: server.metric("requests_processing") == 1, "its prompt is being computed")
            assert server.metric("tokens_predicted_total") == 0
        wait_for(lambda: nothing_runs(server), "the request has ended", SOON)
    server.fill()
    before = server.metric("requests_deferred")
    for stream in (True, False):
        with connect(server, BRIEF | {"stream": stream}):
            wait_for(lambda: server.metric("requests_deferred") == before + 1, "it waits")
        wait_for(lambda: server.metric("requests_deferred") == before, "it waits no more", SOON)


def test_row_18_a_reader_that_stands_still_is_cancelled_and_others_go_on(make_server: MakeServer) -> None:
    server = make_server(client_timeout=2).start()
    with connect(server, ENDLESS | {"n": 16}, buffer=4096):
        other = Stream(server, ENDLESS)
        wait_for(lambda: "slow_client" in server.logs, "the reader's request is cancelled")
        other.until("stream")
        assert server.metric("requests_processing") == 1
        other.close()
    wait_for(lambda: nothing_runs(server), "the other has ended too")
    assert "Traceback" not in server.logs


def test_row_18_a_reader_that_is_too_slow_keeps_all_it_was_sent_and_is_told(make_server: MakeServer) -> None:
    server = make_server(max_body_bytes=2**19).start()
    with connect(server, ENDLESS | {"n": 8}, buffer=4096) as client:
        wait_for(lambda: server.metric("tokens_predicted_total") > 0, "the request has begun, which may be over by now")
        wait_for(lambda: nothing_runs(server), "more is unread than may be, and it is cancelled")
        response = http.client.HTTPResponse(client)
        response.begin()
        events = [orjson.loads(line[6:]) for line in response.read().splitlines() if line.startswith(b"data: {")]
    assert events[-1]["code"] == "slow_client"
    for index in range(8):
        text = "".join(event["text"] for event in events if event["event"] == "stream" and event["index"] == index)
        assert len(text) > 1000
    wait_for(lambda: "slow_client" in server.logs, "it is logged")
    assert "Traceback" not in server.logs


def test_row_19_a_peer_that_vanishes_without_a_word_is_cancelled(tmp_path: Path) -> None:
    """In a network of its own the loopback interface goes down in the middle of a stream."""
    run_in_own_network("tests.e2e.vanishing_peer", tmp_path)


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(4096, limits[1])), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("number", [300, *long(1000)])
def test_row_03_streams_that_wait_cost_little_and_a_running_one_goes_on(make_server: MakeServer, number: int) -> None:
    server = make_server(max_queue=2000, sse_ping_interval=1, n_ctx=10**6).start()
    [worker] = server.workers
    running = Stream(server, ENDLESS)
    running.until("stream")
    with contextlib.closing(server.fill()):
        before = resident_mib(worker)
        clients = [connect(server, BRIEF) for _ in range(number)]
        wait_for(lambda: server.metric("requests_deferred") >= number, "all of them wait")
        for client in clients:
            while b": ping" not in client.recv(65536):
                pass
        assert resident_mib(worker) - before < 0.15 * number
        running.until("stream")
        for client in clients:
            client.close()
        wait_for(lambda: server.metric("requests_deferred") <= 1, "those who left wait no more")
        running.close()
    assert "Traceback" not in server.logs


@pytest.mark.parametrize("lingering", [0, 8], ids=["without a limit", "with the default limit"])
def test_row_56_requests_whose_client_has_left_do_not_hold_up_those_with_a_reader(
    make_server: MakeServer, lingering: int
) -> None:
    options = {} if lingering else {"max_client_lingering": 0}
    server = make_server(workers=2, model="fake:200", n_seq_max=16, n_ctx=4096, **options).start()
    attack = {"prompt": "Once", "n": 16, "max_tokens": 400, "ignore_eos": True, "linger": 600}
    for _ in range(12):
        with contextlib.closing(Stream(server, attack)) as stream:
            stream.next()
    answered = 0
    for _ in range(10):
        answer = server.post("/v1/completions", {"prompt": "A ship", "max_tokens": 5, "ignore_eos": True})
        assert answer.status_code == 200
        answered += 1
    running = server.metric("requests_processing") + server.metric("requests_deferred")
    assert running == (lingering or 12), f"the attack was over before the victim had {answered} answers"
