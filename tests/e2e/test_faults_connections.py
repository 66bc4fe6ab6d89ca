"""Clients that hold connections and ask for nothing stop no others. A test of a row in docs/faults.md begins with it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import requests

from tests.e2e.streams import ENDLESS, Stream
from tests.processes import DEADLINE, self_signed, wait_for
from tests.servers import GUNICORN, PACED, MakeServer, Server

pytestmark = pytest.mark.e2e

ROOM = 24  # worker_connections
PATIENT = {
    "worker_connections": ROOM,
    "keepalive": 600,
    "client_timeout": 600,
}  # so that no time limit ends a connection

CROWDS = {
    "silent": b"",
    "a header that never ends": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: ",
    "kept alive": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a body a byte a time": b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{",
}


@contextmanager
def crowd(server: Server, begins: bytes, size: int = ROOM + 8) -> Iterator[None]:
    """Hold connections, all of which send a beginning and, if it ends within a request, a byte now and then."""
    dribbles = bool(begins) and not begins.endswith(b"\r\n\r\n")
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.05):
            for sock in held:
                with suppress(OSError):  # it has given way
                    sock.sendall(b" ")

    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(size)]
        for sock in held:
            sock.sendall(begins)
        thread = threading.Thread(target=dribble)
        if dribbles:
            thread.start()
            stack.callback(thread.join)
        stack.callback(stop.set)
        yield


def expect_answers(server: Server, number: int) -> None:
    """Expect so many answers; a connection of this test that has asked for nothing for a second may give way, too."""
    for _ in range(number):
        wait_for(lambda: server.live() == 200, "an answer in the crowd")


@pytest.mark.parametrize("begins", CROWDS.values(), ids=CROWDS)
def test_row_53_a_crowd_that_asks_for_nothing_gives_way_to_those_who_ask(
    server_with: MakeServer, begins: bytes
) -> None:
    server = server_with(**PATIENT)
    with crowd(server, begins):
        expect_answers(server, 5)
        body = {"prompt": "Once", "n": 1, "max_tokens": 2, "stream": False}
        assert server.post("/v1/srb/completions", body).status_code == 200
    assert "Traceback" not in server.logs


def test_row_53_a_crowd_that_never_begins_tls_gives_way(make_server: MakeServer, tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path)
    server = make_server(**PATIENT, ssl_key_file=key, ssl_cert_file=certificate).start(wait=False)
    trusting = ssl.create_default_context(cafile=str(certificate))

    def asks() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as sock,
            trusting.wrap_socket(sock, server_hostname="localhost") as client,
        ):
            client.sendall(CROWDS["kept alive"])
            return client.recv(12)

    wait_for(lambda: "curl -N " in server.logs, "the first screen is shown")
    with crowd(server, b"\x16"):
        assert [asks() for _ in range(3)] == [b"HTTP/1.1 200"] * 3
    assert "Traceback" not in server.logs


def test_row_53_what_is_being_answered_never_gives_way(make_server: MakeServer) -> None:
    server = make_server(model=PACED, worker_connections=4, keepalive=600).start()
    streams = [Stream(server, ENDLESS) for _ in range(3)]
    for stream in streams:
        stream.until("stream")
    with crowd(server, CROWDS["kept alive"], 8):
        expect_answers(server, 3)
        for stream in streams:
            stream.next()


# requests leaves a connection that its server has ended to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_row_53_in_a_crowd_each_answer_ends_its_connection(make_server: MakeServer) -> None:
    """Or those who ask again and again would keep their places, since they hardly wait."""
    server = make_server(worker_connections=1, keepalive=600).start()
    with requests.Session() as busy:
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                with suppress(requests.ConnectionError):  # between two requests its connection may give way
                    busy.get(f"{server.url}/livez", timeout=DEADLINE)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for _ in range(5):  # 0: a connection of this busy test that has asked for nothing for a second
                wait_for(lambda: server.live() == 200, "an answer beside the one who keeps asking")
        finally:
            stop.set()
            thread.join(DEADLINE)


def with_descriptors(limits: str) -> tuple[object, ...]:
    return ("bash", "-c", f'ulimit {limits}; exec "$@"', "-", *GUNICORN)


def open_files(pid: int) -> tuple[int, int]:
    """Return a process's soft and hard limit of descriptors."""
    [line] = [
        line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files")
    ]
    soft, hard = line.split()[3:5]
    return int(soft), int(hard)


def test_row_54_a_server_has_as_many_descriptors_as_it_may(make_server: MakeServer) -> None:
    server = make_server(command=with_descriptors("-Sn 64; ulimit -Hn 900")).start()
    for pid in (server.pid, *server.workers, server.engine):
        assert open_files(pid) == (900, 900)
    with crowd(server, CROWDS["kept alive"], 300):
        assert server.live() == 200
    assert "Too many open files" not in server.logs


def test_row_54_with_few_descriptors_there_are_fewer_connections_and_no_tracebacks(make_server: MakeServer) -> None:
    server = make_server(command=with_descriptors("-n 128"), keepalive=600).start()
    with crowd(server, CROWDS["kept alive"], 200):
        expect_answers(server, 5)
        assert server.get("/v1/models").status_code == 200
    assert server.logs.count("worker_connections is 64 in place of 2000") == 1
    assert "Too many open files" not in server.logs
    assert "Traceback" not in server.logs


def test_row_64_requests_in_one_write_do_not_come_before_those_of_others(server: Server) -> None:
    """Pipelining: the worker has the next request in its buffer already, and never waits for the client."""
    number, answered, first = 3000, 0, threading.Event()
    head = f"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as sock:

        def read() -> None:
            nonlocal answered
            while answered < number and (chunk := sock.recv(65536)):
                answered += chunk.count(b"HTTP/1.1 200")
                first.set()

        reader = threading.Thread(target=read)
        reader.start()
        writer = threading.Thread(target=sock.sendall, args=(head * number,))
        writer.start()
        assert first.wait(DEADLINE)
        assert server.live() == 200
        seen = answered
        reader.join(DEADLINE)
        writer.join(DEADLINE)
    assert answered == number
    assert seen < number, "another client was answered only after all of them"
