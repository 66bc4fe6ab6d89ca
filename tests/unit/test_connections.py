"""The connections of a worker: which gives way, and what happens without a descriptor."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent.pool import Pool

from srb.serve import connections as connections_module
from srb.serve.connections import Connections, Server
from srb.serve.gunicorn_worker import Response
from tests.processes import DEADLINE


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connections(clock: Clock) -> Connections:
    return Connections(clock)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(connections: Connections, stack: ExitStack) -> socket.socket:
    """Return the worker's end of a new connection."""
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    stack.enter_context(ours)
    ours.setblocking(False)
    stack.enter_context(connections.open(ours))
    return ours


def has_ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_connection_without_progress_for_longest_gives_way(
    connections: Connections, clock: Clock, stack: ExitStack
) -> None:
    socks = []
    for _ in range(3):
        socks.append(connect(connections, stack))
        clock.now += 10
    connections.progress(socks[0])  # a request
    connections.received(socks[1], 2000)  # a good part of a body
    connections.received(socks[2], 1)  # a byte is none
    clock.now += 10
    for last in (2, 0, 1):
        assert connections.make_way()
        assert has_ended(socks[last])
        assert not [each for each in socks if each is not socks[last] and has_ended(each)]
        socks[last] = connect(connections, stack)


def test_bytes_that_come_one_by_one_are_progress_when_they_are_many(
    connections: Connections, clock: Clock, stack: ExitStack
) -> None:
    slow, still = connect(connections, stack), connect(connections, stack)
    clock.now += 10
    for _ in range(1024):
        connections.received(slow, 1)
    assert connections.make_way()
    assert has_ended(still)
    assert not has_ended(slow)


def test_what_is_being_answered_or_has_just_come_stays_and_answers_end_their_connections(
    connections: Connections, clock: Clock, stack: ExitStack
) -> None:
    answered = connect(connections, stack)
    with connections.waiting(answered):
        pass  # its request has been read
    clock.now += 10
    new = connect(connections, stack)
    assert not connections.make_way()
    assert connections.is_short
    assert not has_ended(answered)
    assert not has_ended(new)
    clock.now += 1
    assert connections.make_way()
    assert has_ended(new)
    assert not connections.is_short
    assert not connections.make_way(), "what gives way does so once"


@pytest.mark.parametrize(("is_short", "must_close"), [(False, False), (True, True)])
def test_an_answer_says_that_it_ends_its_connection_where_others_wait_for_room(
    monkeypatch: pytest.MonkeyPatch, is_short: bool, must_close: bool
) -> None:
    sent: list[bytes] = []
    sock = SimpleNamespace(sendall=sent.append, gettimeout=lambda: None, settimeout=lambda _: None)
    monkeypatch.setattr(Response, "connections", SimpleNamespace(is_short=is_short))
    request = SimpleNamespace(method="GET", version=(1, 1), should_close=lambda: False)
    response: Any = Response(request, sock, SimpleNamespace(sendfile=False, is_ssl=False))
    response.start_response("200 OK", [("Content-Length", "2")])
    response.write(b"ok")
    assert (b"Connection: close" in sent[0]) == must_close
    assert response.should_close() == must_close


def test_without_a_descriptor_accepting_pauses_with_one_line_and_goes_on(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(
        connections_module, "time", SimpleNamespace(monotonic=clock)
    )  # a minute later it complains again
    said: list[str] = []  # in place of the log, whose handlers other tests may have changed
    log = SimpleNamespace(error=lambda text, *given: said.append(text % given))
    monkeypatch.setattr(connections_module, "log", log)
    served = gevent.event.Event()
    left = 5  # accepts that fail

    class Listener:
        """A listening socket that lacks descriptors at first."""

        def __init__(self, sock: socket.socket) -> None:
            self._listening = sock

        def _accept(self) -> Any:
            nonlocal left
            left -= 1
            if left >= 0:
                raise OSError(errno.EMFILE, "no room in this test")
            return self._listening._accept()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._listening, name)

    def serve(sock: Any, address: Any) -> None:
        served.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        server = Server(Listener(listening), serve, Pool(2), Connections(), handshake_seconds=5)
        server.start()
        try:
            with socket.create_connection(listening.getsockname()):
                assert served.wait(DEADLINE)
        finally:
            server.stop()
    # Of this server: one that another test has left may be short of descriptors too, and says so in the system's words.
    own = [line for line in said if "this test" in line]
    assert own == ["no connection can be accepted: no room in this test (ulimit -n, worker_connections)"]
    assert "Traceback" not in capfd.readouterr().err
