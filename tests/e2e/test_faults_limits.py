"""What there is only so much of: room, time, tokens, patience. A test's name begins with its row in docs/faults.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from srb.protocol import Accepted
from tests.e2e.conftest import MakeServer, Server
from tests.e2e.streams import BRIEF, ENDLESS, Stream
from tests.processes import Worker, endless, wait_for

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
def full(make_server: MakeServer, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server without room: endless requests hold its sequences, and the one that may wait does."""
    server = make_server(max_queue=1, **request.param).start()
    worker = Worker(server.runtime).ready()
    ids = (f"r{i}" for i in count())
    try:
        while not server.metric("requests_deferred"):
            worker.send(endless(next(ids), n=1))
            worker.next(Accepted)
        yield server
    finally:
        worker.close()


@pytest.mark.parametrize("full", [{"queue_timeout": 0}], indirect=True)
def test_row_03_with_the_queue_full_every_generating_route_is_429(full: Server) -> None:
    for path, body in GENERATING:
        for stream in (True, False):
            answer = full.post(path, body | {"stream": stream})
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1"), (path, answer.text)
    assert full.health() == 200


@pytest.mark.parametrize("full", [{"queue_timeout": 1}], indirect=True)
def test_row_03_who_waits_too_long_is_told_503_or_in_the_stream(full: Server) -> None:
    wait_for(lambda: full.metric("requests_deferred") == 0, "those who waited have been told")
    answer = full.post("/v1/completions", BRIEF | {"stream": False})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["error"]["type"] == "unavailable_error"
    assert Stream(full, ENDLESS).rest()[-1]["code"] == "queue_timeout"


def test_row_20_when_the_time_is_up_what_has_been_written_is_kept(make_server: MakeServer) -> None:
    server = make_server(request_timeout=1).start()
    events = Stream(server, ENDLESS | {"n": 2}).rest()
    assert [event["reason"] for event in events if event["event"] == "stop"] == ["limit"] * 2
    assert sum(event["event"] == "stream" for event in events) > 2
    choice = server.post("/v1/completions", {"model": "m", "prompt": "Once", "ignore_eos": True}).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["text"]) > 100
