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

from srb.config.trusted_proxies import TrustedProxies, proxies_of
from srb.errors import RateLimited
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
    return Connections(2000, clock)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(connections: Connections, stack: ExitStack, address: str = "") -> socket.socket:
    """Return the worker's end of a new connection."""
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    stack.enter_context(ours)
    ours.setblocking(False)
    stack.enter_context(connections.open(ours, address))
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


def test_one_address_has_half_of_what_is_free_and_then_its_own_connections_give_way(
    clock: Clock, stack: ExitStack
) -> None:
    connections = Connections(400, clock)
    other = connect(connections, stack, "192.0.2.1")
    crowd = []
    while len(crowd) < 200:
        connections.check_share("192.0.2.2")
        crowd.append(connect(connections, stack, "192.0.2.2"))
    with pytest.raises(RateLimited, match="199 connections"):
        connections.check_share("192.0.2.2")
    clock.now += 0.2
    connections.progress(crowd[0])
    connections.check_share("192.0.2.2")
    assert [has_ended(sock) for sock in crowd] == [False, True] + [False] * 198
    assert not has_ended(other)
    connections.check_share("192.0.2.1")
    connections.check_share("")


def test_what_is_being_answered_does_not_give_way_to_others_of_its_address(clock: Clock, stack: ExitStack) -> None:
    connections = Connections(100, clock)
    socks = [connect(connections, stack, "192.0.2.2") for _ in range(64)]
    clock.now += 10
    for sock in socks:
        with connections.waiting(sock):
            pass  # its request has been read
    with pytest.raises(RateLimited):
        connections.check_share("192.0.2.2")
    assert not any(map(has_ended, socks))


@pytest.mark.parametrize("room", [1, 4, 24, 64])
def test_a_small_room_is_open_to_one_address(room: int, stack: ExitStack, clock: Clock) -> None:
    connections = Connections(room, clock)
    for _ in range(room):
        connections.check_share("192.0.2.2")
        connect(connections, stack, "192.0.2.2")


@pytest.mark.parametrize(
    ("address", "proxies", "is_refused"),
    [(("192.0.2.2", 1), "", True), (("fd00::2", 1, 0, 0), "", True), (("192.0.2.2", 1), "192.0.2.0/24", False),
     (("127.0.0.1", 1), "", False), (("::1", 1, 0, 0), "", False), ("", "", False)],
)  # fmt: skip
def test_who_may_stand_for_many_has_no_share(address: Any, proxies: str, is_refused: bool) -> None:
    def check_share(peer: str) -> None:
        if peer:
            raise RateLimited("enough")

    served: list[Any] = []
    connections: Any = Connections(10)
    connections.check_share = check_share
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(listening, lambda *given: served.append(given), Pool(2), connections, 5, proxies_of(proxies))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server._serve(ours, address)
            assert (theirs.recv(12) if is_refused else b"") == (b"HTTP/1.1 429" if is_refused else b"")
    assert bool(served) != is_refused


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
        server = Server(Listener(listening), serve, Pool(2), Connections(2), 5, TrustedProxies())
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
