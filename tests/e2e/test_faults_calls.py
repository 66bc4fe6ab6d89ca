"""One lifetime for every call, on whole servers: large answers, clients that leave politely, embeddings at the end.

A test of a row in docs/faults.md begins with it.
"""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests

from tests.e2e.streams import ENDLESS, SOON
from tests.models.random_gguf import write_bert
from tests.processes import DEADLINE, self_signed, wait_for
from tests.servers import PACED, MakeServer, Server

pytestmark = pytest.mark.e2e

HEAVY = {"model": "any", "prompt": "Once upon a time,", "n": 64, "logprobs": 256, "ignore_eos": True, "seed": 1}


# Large answers --------------------------------------------------------------------------------------------------------


def test_row_41_64_branches_with_256_log_probabilities_are_answered_and_streamed(storyteller: Server) -> None:
    body = HEAVY | {"max_tokens": 6}
    answer = storyteller.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text[:500]
    choices = answer.json()["choices"]
    assert [len(choice["logprobs"]["content"]) for choice in choices] == [6] * 64
    assert {len(entry["top_logprobs"]) for choice in choices for entry in choice["logprobs"]["content"]} == {256}
    texts = dict.fromkeys(range(64), "")
    for event in streamed(storyteller, body | {"stream": True}):
        assert "error" not in event, event
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert all(texts.values())


def test_row_41_a_long_stream_of_log_probabilities_reaches_a_client_that_reads(storyteller: Server) -> None:
    entries = 0
    for event in streamed(storyteller, HEAVY | {"max_tokens": 40, "stream": True}):
        assert "error" not in event, event
        entries += sum(len(choice["logprobs"]["content"]) for choice in event["choices"] if choice["logprobs"])
    assert entries == 64 * 40


def streamed(server: Server, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    connection.request("POST", "/v1/completions", orjson.dumps(body))
    response = connection.getresponse()
    assert response.status == 200
    for line in response:
        if line.startswith(b"data: {"):
            yield orjson.loads(line[6:])
    connection.close()


def test_row_41_an_answer_that_grows_beyond_the_limit_is_400_and_cancelled(make_server: MakeServer) -> None:
    server = make_server(max_body_bytes=2**17).start()
    beforehand = server.post("/v1/completions", HEAVY | {"max_tokens": 100})
    assert (beforehand.status_code, beforehand.json()["error"]["param"]) == (400, "logprobs")
    grown = server.post("/v1/completions", HEAVY | {"n": 4})
    assert grown.status_code == 400
    assert "1048576 bytes" in grown.json()["error"]["message"]
    wait_for(lambda: server.metric("requests_processing") == 0, "the request is cancelled", SOON)
    wait_for(lambda: server.metric("http_calls_open") == 0, "its call is not open any more")
    wait_for(lambda: "answer_too_large" in server.logs, "it is logged")
    assert "Traceback" not in server.logs


# Clients that leave ---------------------------------------------------------------------------------------------------


def connect(server: Server, path: str, body: dict[str, Any]) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
    send(client, path, body)
    return client


def send(client: socket.socket, path: str, body: dict[str, Any]) -> None:
    payload = orjson.dumps(body)
    client.sendall(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n".encode() + payload
    )


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def send_a_byte_and_close(client: socket.socket) -> None:
    client.sendall(b"G")
    client.close()


LEAVE = pytest.mark.parametrize("leave", [half_close, send_a_byte_and_close])


@LEAVE
def test_row_42_a_client_that_leaves_politely_is_cancelled_wherever_its_request_is(
    make_server: MakeServer, leave: Callable[[socket.socket], None]
) -> None:
    server = make_server(model="fake:10", n_batch=16, n_ctx=200_000).start()
    with connect(server, "/v1/completions", ENDLESS | {"stream": False}) as client:
        wait_for(lambda: server.metric("tokens_predicted_total") > 0, "it is being written")
        leave(client)
        wait_for(lambda: server.metric("requests_processing") == 0, "what was written has ended", SOON)
    long = {"prompt": "the old king " * 16_000, "n": 2, "stream": False}
    with connect(server, "/v1/completions", long) as client:
        wait_for(lambda: server.metric("requests_processing") == 1, "its prompt is being computed")
        leave(client)
        wait_for(lambda: server.metric("requests_processing") == 0, "the prompt has ended", SOON)
    server.fill()
    before = server.metric("requests_deferred")
    with connect(server, "/v1/completions", ENDLESS) as client:
        wait_for(lambda: server.metric("requests_deferred") == before + 1, "it waits")
        leave(client)
        wait_for(lambda: server.metric("requests_deferred") == before, "it waits no more", SOON)
    wait_for(lambda: server.metric("http_calls_open") == 0, "no call is open any more")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("leave", [half_close, socket.socket.close])
def test_row_42_over_tls_a_client_that_says_close_notify_is_cancelled(
    tls_server: tuple[Server, Path], leave: Callable[[socket.socket], None], stream: bool
) -> None:
    server, certificate = tls_server
    context = ssl.create_default_context(cafile=certificate)

    def metric(name: str) -> float:
        lines = requests.get(f"https://localhost:{server.port}/metrics", verify=str(certificate), timeout=60).text
        return next(float(line.split()[1]) for line in lines.splitlines() if line.startswith(f"{name} "))

    client = context.wrap_socket(socket.create_connection(("localhost", server.port), 60), server_hostname="localhost")
    send(client, "/v1/completions", ENDLESS | {"stream": stream})
    wait_for(lambda: metric("llamacpp:requests_processing") == 1, "it runs")
    client.settimeout(0.1)
    with suppress(OSError):
        client.unwrap()  # says close_notify, and waits in vain for the server's
    leave(client)
    wait_for(lambda: metric("llamacpp:requests_processing") == 0, "it is cancelled", SOON)
    wait_for(lambda: metric("srb:http_calls_open") == 0, "it is not open any more", SOON)
    assert "Traceback" not in server.logs
    client.close()


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = self_signed(folder)
    with Server(folder, model=PACED, ssl_key_file=key, ssl_cert_file=certificate) as server:
        server.start(wait=False)

        def ready() -> bool:
            try:
                return requests.get(f"https://localhost:{server.port}/health", verify=str(certificate), timeout=60).ok
            except requests.ConnectionError:
                return False

        wait_for(lambda: server.has_ended or ready(), "GET /health answers 200")
        yield server, certificate


# Embeddings -----------------------------------------------------------------------------------------------------------

MANY_TEXTS = {"input": ["word " * 50] * 4000}  # half a minute of work for the encoder below


@pytest.fixture
def encoder(make_server: MakeServer, tmp_path: Path) -> Server:
    """A server of an encoder that needs long for MANY_TEXTS."""
    model = write_bert(tmp_path / "bert.gguf")
    return make_server(model=model, embedding=True, n_ctx=2048, threads=1, workers=1).start()


@LEAVE
def test_row_42_a_client_that_leaves_its_embeddings_is_cancelled(
    encoder: Server, leave: Callable[[socket.socket], None]
) -> None:
    with connect(encoder, "/v1/embeddings", MANY_TEXTS) as client:
        wait_for(lambda: encoder.metric("http_calls_open") == 1, "it is a call")
        leave(client)
        wait_for(lambda: encoder.metric("http_calls_open") == 0, "it is a call no more", SOON)
    wait_for(lambda: "499" in encoder.logs, "it was cancelled, not answered")


def test_row_29_embeddings_are_ended_with_an_answer_at_sigterm(encoder: Server) -> None:
    with connect(encoder, "/v1/embeddings", MANY_TEXTS) as client:
        wait_for(lambda: encoder.metric("http_calls_open") == 1, "it is a call")
        encoder.process.send(signal.SIGTERM)
        response = http.client.HTTPResponse(client)
        response.begin()
        assert (response.status, response.getheader("Retry-After")) == (503, "1")
        assert b"shutting down" in response.read()
    assert encoder.wait() == 0
