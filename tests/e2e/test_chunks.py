"""The chunks of streamed answers on the wire: one event each, several in one write, none for HTTP/1.0."""

from __future__ import annotations

import re
import socket
from typing import Any

import orjson
import pytest

from tests.processes import DEADLINE
from tests.servers import Server
from tests.shapes import chunks_of

pytestmark = pytest.mark.e2e

PROMPT: dict[str, Any] = {"prompt": "Once upon a time,", "n_predict": 40, "ignore_eos": True}
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40, "stream": True, "n": 3}
STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/srb/completions", PROMPT | {"n": 8}),
    ("/v1/completions", PROMPT | {"n": 8, "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/chat/completions", CHAT),
    ("/completion", PROMPT | {"stream": True}),
    ("/completion", PROMPT | {"stream": True, "prompt": "Once upon a time, " * 2000}),
    ("/completion", PROMPT | {"anti_prompt": "User:"}),
    ("/stream", PROMPT | {"seed": 1}),  # whose lines are looked at: a drawn text may have a carriage return
]


def receive(server: Server, path: str, body: dict[str, Any], version: str = "1.1") -> tuple[bytes, list[bytes]]:
    """Return the head of an answer, and what follows it as it came from the system, one piece for each read."""
    payload = orjson.dumps(body)
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as sock:
        sock.sendall(
            f"POST {path} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(payload)}\r\n\r\n"
            .encode() + payload
        )  # fmt: skip
        received = b""
        while b"\r\n\r\n" not in received:
            received += sock.recv(65536)
        head, _, first = received.partition(b"\r\n\r\n")
        pieces = [first]
        while piece := sock.recv(65536):
            pieces.append(piece)
    assert b" 200 " in head.partition(b"\r\n")[0], head + first
    return head, pieces


def events_of(body: bytes) -> list[bytes]:
    """Return the chunks of an answer's whole body, without the empty one that ends it."""
    found = chunks_of(body)
    assert found.pop() == b""
    return found


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_each_event_is_a_chunk(server: Server, path: str, body: dict[str, Any]) -> None:
    head, pieces = receive(server, path, body)
    assert b"transfer-encoding: chunked" in head.lower()
    chunks = events_of(b"".join(pieces))
    assert chunks
    event = rb"(?s).*\n" if path == "/stream" else rb"data: (\{.*\}|\[DONE\])\n\n"
    assert [chunk for chunk in chunks if not re.fullmatch(event, chunk)] == []


def test_what_a_step_says_of_all_branches_is_one_write(server: Server) -> None:
    """A write is at most a read here, since the chunks of eight branches are far shorter than a segment of loopback."""
    _, pieces = receive(server, "/v1/srb/completions", PROMPT | {"n": 8, "n_predict": 400})
    events = len(events_of(b"".join(pieces)))
    assert events > 100  # an event has the text of several tokens where they come fast
    assert len(pieces) < events / 4


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_client_of_http_1_0_gets_the_same_without_chunks(server: Server, path: str, body: dict[str, Any]) -> None:
    head, pieces = receive(server, path, body, version="1.0")
    assert b"transfer-encoding" not in head.lower()
    if path == "/stream":
        assert b"\r\n" not in b"".join(pieces)
    else:
        assert re.fullmatch(rb"(data: (\{.*\}|\[DONE\])\n\n)+", b"".join(pieces))
