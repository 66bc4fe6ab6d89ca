"""The connections of a worker: accepts them while there is room, and else ends the one that has waited longest.

One address has a share of the room, as large as what is free beside it: beyond that its own connections give way, so that
no other address finds the room full. Trusted proxies, Unix sockets and this machine have no share: they may stand for many.

A connection waits from its beginning to its first request, between two requests, and while bytes of a request are read. It
makes progress with each request and each _PROGRESS bytes, so that a byte a second is none. While its request is answered, a
connection never gives way.
"""

import errno
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.pool import Pool
from gevent.server import StreamServer
from gevent.ssl import SSLSocket
from gunicorn import util
from gunicorn.http.unreader import SocketUnreader

from srb.config.trusted_proxies import TrustedProxies
from srb.errors import RateLimited

log = logging.getLogger("srb.web")

_PROGRESS = 1024  # bytes; any link carries them within _LEAST_SECONDS, and a byte a second does not add up to them
_LEAST_SECONDS = 1.0  # that a connection has for its next progress, also in a crowd: a TLS handshake takes round trips
_LEAST_OF_SHARE = 0.1  # … in a crowd of its own address: new ones have to be served, or refused, as fast as they come
_LEAST_SHARE = 64  # connections that one address may have, however little is free: ten browsers behind one address
_PAUSE_SECONDS = 0.1  # after an accept for which there was no descriptor: tried at once it takes a core
_COMPLAINT_SECONDS = 60.0  # between two log lines about descriptors, or ten a second would fill the disk
_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(slots=True)
class _Connection:
    since: float  # when it made progress last
    beside: "dict[socket.socket, _Connection]"  # all of its address, in the order of their progress
    received: int = 0  # bytes since then
    waits: bool = True


class Connections:
    """The open connections of a worker, in the order of their progress."""

    def __init__(self, room: int, clock: Callable[[], float] = time.monotonic) -> None:
        """There is room for so many connections."""
        self.is_short = False  # a new connection waits for room, so an answer ends its connection
        self._room = room
        self._clock = clock
        self._open: dict[socket.socket, _Connection] = {}
        self._of_address: dict[str, dict[socket.socket, _Connection]] = {}

    @contextmanager
    def open(self, sock: socket.socket, address: str = "") -> Iterator[None]:
        """Count a connection while the block inside serves it; an empty address has no share."""
        beside = self._of_address.setdefault(address, {})
        self._open[sock] = beside[sock] = _Connection(self._clock(), beside)
        try:
            yield
        finally:
            del self._open[sock], beside[sock]
            if not beside:
                del self._of_address[address]

    def check_share(self, address: str) -> None:
        """Raise RateLimited if an address has its share already, unless one of its own connections gives way."""
        held = self._of_address.get(address, {}) if address else {}
        share = max(_LEAST_SHARE, self._room - len(self._open))
        if len(held) >= share and not self._end_idle(held, _LEAST_OF_SHARE):
            raise RateLimited(
                f"One address may have {share} connections now (see worker_connections); close some of yours"
            )

    def progress(self, sock: socket.socket) -> None:
        """Note that a request begins or ends."""
        connection = self._open[sock]
        connection.since, connection.received = self._clock(), 0
        for ordered in (self._open, connection.beside):
            ordered[sock] = ordered.pop(sock)

    @contextmanager
    def waiting(self, sock: socket.socket) -> Iterator[None]:
        """Let a connection give way while the block inside waits for it."""
        connection = self._open[sock]
        connection.waits = True
        try:
            yield
        finally:
            connection.waits = False

    def received(self, sock: socket.socket, size: int) -> None:
        """Note that bytes of a request have come."""
        connection = self._open[sock]
        connection.received += size
        if connection.received >= _PROGRESS:
            self.progress(sock)

    def make_way(self) -> bool:
        """End the connection that has waited longest; return whether one has waited for _LEAST_SECONDS."""
        self.is_short = not self._end_idle(self._open, _LEAST_SECONDS)
        return not self.is_short

    def _end_idle(self, among: dict[socket.socket, _Connection], seconds: float) -> bool:
        """End the connection that has waited longest, if it has for so many seconds; return whether there is one."""
        for sock, connection in among.items():
            if connection.since > self._clock() - seconds:
                return False  # those behind it made progress later
            if connection.waits:
                connection.waits = False  # it ends as soon as its greenlet runs
                _end(sock)
                return True
        return False


def _end(sock: Any) -> None:
    """End a connection, so that the greenlet which reads it goes on."""
    try:
        getattr(sock, "_sock", sock).shutdown(socket.SHUT_RDWR)  # gevent's own raises while a greenlet reads
    except OSError:
        pass  # the client has closed it already


class Unreader(SocketUnreader):  # type: ignore[misc]
    """gunicorn's reader of a connection, which notes when it waits and what has come."""

    connections: Connections  # of this process, a worker

    def chunk(self, size_hint: int | None = None) -> bytes:
        with self.connections.waiting(self.sock):
            data: bytes = super().chunk(size_hint)
        self.connections.received(self.sock, len(data))
        return data


class Server(StreamServer):  # type: ignore[misc]
    """One listening socket of a worker; all of them share `pool`, whose size is the number of connections."""

    def __init__(
        self,
        listener: Any,
        handle: Callable[[Any, Any], None],
        pool: Pool,
        connections: Connections,
        handshake_seconds: float,
        proxies: TrustedProxies,
        **ssl_options: Any,
    ) -> None:
        if ssl_options:
            ssl_options["do_handshake_on_connect"] = False  # `_serve` does it
        super().__init__(listener, self._serve, spawn=pool, **ssl_options)
        del self.__dict__["full"]  # the pool's, which set_spawn has put before the method
        self._serve_request = handle
        self._connections = connections
        self._handshake_seconds = handshake_seconds
        self._proxies = proxies
        self._retry: Any = None
        self._next_complaint = 0.0

    def full(self) -> bool:
        """Return whether there is no room; then the connection that has waited longest ends, and accepting goes on."""
        if not self.pool.full():
            self._connections.is_short = False
            return False
        if not self._connections.make_way() and self._retry is None:
            self._retry = gevent.spawn_later(_LEAST_SECONDS, self._accept_again)
        return True

    def _accept_again(self) -> None:
        self._retry = None
        self._start_accepting_if_started()

    def do_read(self) -> Any:
        """Accept a connection; without a descriptor for it, say so in one line and try again soon."""
        try:
            return super().do_read()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
            if (now := time.monotonic()) >= self._next_complaint:
                self._next_complaint = now + _COMPLAINT_SECONDS
                log.error("no connection can be accepted: %s (ulimit -n, worker_connections)", error.strerror)
            self._connections.make_way()
            self.stop_accepting()
            self._timer = self.loop.timer(_PAUSE_SECONDS)
            self._timer.start(self._start_accepting_if_started)
            return None

    def _serve(self, sock: Any, address: Any) -> None:
        peer = address[0] if address else ""
        if self._proxies.may_be_many(peer):
            peer = ""
        try:
            self._connections.check_share(peer)
        except RateLimited as error:
            if not isinstance(sock, SSLSocket):
                util.write_error(sock, error.http_status, "Too Many Requests", error.message)
            sock.close()
            return
        with self._connections.open(sock, peer):
            if isinstance(sock, SSLSocket) and not self._shakes_hands(sock):
                return
            self._serve_request(sock, address)

    def _shakes_hands(self, sock: SSLSocket) -> bool:
        """Return whether a client begins TLS in time."""
        try:
            with gevent.Timeout(self._handshake_seconds, TimeoutError("it took too long")):
                sock.do_handshake()
        except OSError as error:  # also SSLError, from a client that speaks plain HTTP
            log.debug("a TLS handshake failed: %s", error)
            return False
        return True
