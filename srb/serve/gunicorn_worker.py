"""A gevent worker that shuts down gracefully: ends open streams and closes idle keep-alive connections."""

import errno
import gc
import logging
import mmap
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import metadata
from typing import Any

import gevent
import orjson
from gevent.pool import Pool
from gunicorn import util
from gunicorn.http import body, message, parser, wsgi
from gunicorn.http.errors import InvalidHeader, NoMoreData, ParseException
from gunicorn.workers.ggevent import GeventWorker

from srb.config.trusted_proxies import proxies_of
from srb.errors import ConfigError, Forbidden, InvalidRequest, NotSupported, RateLimited, SRBError
from srb.exit_codes import EXIT_WORKER
from srb.extensions import of_all_packages
from srb.serve.connections import Connections, Server, Unreader

MAX_SMALL = 4096  # chunks of a body that may be of any size: clients write as they read, some a line at a time
LEAST_MEAN = 16  # bytes of a chunk on average in longer bodies; each costs some 10 µs
_OF_A_TURN = 64  # chunks between two pauses, in which others are answered


class SmallChunks(ParseException):  # type: ignore[misc]
    """A body whose chunks are so small that reading them is work without an end."""

    def __str__(self) -> str:
        few = f"more than {MAX_SMALL} chunks of less than {LEAST_MEAN} bytes on average"
        return f"{few}; send larger ones, or a Content-Length"


class ChunkedReader(body.ChunkedReader):  # type: ignore[misc]
    """gunicorn's reader, which lets others run between chunks and refuses a body of crumbs."""

    def __init__(self, req: Any, unreader: Any) -> None:
        super().__init__(req, unreader)
        self._chunks = self._announced = 0

    def parse_chunk_size(self, unreader: Any, data: bytes | None = None) -> tuple[int, bytes | None]:
        size: int
        size, rest = super().parse_chunk_size(unreader, data)
        self._chunks += 1
        self._announced += size
        if self._chunks > MAX_SMALL and self._announced < (self._chunks - 1) * LEAST_MEAN:
            raise SmallChunks
        if not self._chunks % _OF_A_TURN:
            gevent.sleep(0)
        return size, rest


class Response(wsgi.Response):  # type: ignore[misc]
    """A response that writes in pieces, and data already framed as HTTP chunks unchanged: several chunks in one write.

    The headers go with the first piece. Written alone they wake the client, which takes the core, and the first token waits
    for another. Each piece has `write_timeout` seconds to be taken. gevent counts the time of a whole write, whatever its
    size, so that a large answer would fail for a client that reads steadily.
    """

    write_timeout: float | None = None
    connections = Connections(0)  # of this process, a worker
    headers_sent: bool
    _head = b""  # headers that go with the first piece

    def write(self, data: bytes) -> None:
        if not self.headers_sent:
            self._hold_headers()
        super().write(data)
        if self._head:  # there was no byte of a body
            self._send(b"")

    def send_headers(self) -> None:
        """Write the headers alone, unless `write` has them: of an answer without a body, or before a file."""
        if not self.headers_sent:
            self._hold_headers()
            self._send(b"")

    def _hold_headers(self) -> None:
        if self.connections.is_short or self.status_code == 401:  # who guesses keys begins anew each time
            self.force_close()
        lines = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers), "\r\n"]
        self._head, self.headers_sent = "".join(lines).encode("latin-1"), True

    def _emit_body(self, data: bytes) -> None:
        chunks = getattr(data, "chunks", None) if self.chunked else None
        if chunks is None:
            chunks = b"%X\r\n%b\r\n" % (len(data), data) if self.chunked else data
        self._send(chunks)

    def _send(self, data: bytes) -> None:
        data, self._head = self._head + data, b""
        with self._limited():
            for at in range(0, len(data), _PIECE):
                self.sock.sendall(data[at : at + _PIECE])

    def close(self) -> None:
        with self._limited():
            super().close()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit the time of each write inside; reads of the connection have limits of their own."""
        before = self.sock.gettimeout()
        self.sock.settimeout(self.write_timeout)
        try:
            yield
        finally:
            self.sock.settimeout(before)


wsgi.Response = Response  # gunicorn's class of responses


class WrongHost(InvalidHeader):  # type: ignore[misc]
    """A request of HTTP/1.1 that has no Host header, or several (RFC 9112, 3.2)."""

    def __str__(self) -> str:
        return "a request of HTTP/1.1 has exactly one Host header"


def write_error(sock: Any, status: int, reason: str, message: str) -> None:
    """Refuse a request that no route sees, in the JSON of other errors, and announce the connection's end."""
    kind = _TYPES.get(status, SRBError if status >= 500 else InvalidRequest)
    error = {"code": status, "message": message or reason, "type": kind.type}
    body = orjson.dumps({"error": error})
    head = (
        f"HTTP/1.1 {status} {reason}\r\nServer: {wsgi.SERVER}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode() + body)


parser.SocketUnreader = Unreader  # gunicorn's reader of connections
message.ChunkedReader = ChunkedReader  # gunicorn's reader of bodies in chunks
util.write_error = write_error  # gunicorn's answers are HTML
wsgi.SERVER = "llama.cpp"  # clients check for this Server header, and gunicorn drops the application's own


log = logging.getLogger("srb.web")

_MAX_DISCARDED = 16 * 1024 * 1024  # bytes of a body that are read after the answer; any of 1 to 64 MiB would do
_READ_SIZE = 65536  # bytes between two pauses, in which others are answered
_BUILD_SECONDS = 10.0  # from a start: engine and page load first; building takes 0.4, a body that comes earlier 0.02
_SETTLE_SECONDS = 10.0  # for a new worker to connect to a running engine: one that hangs keeps old workers no longer
_LAST_WRITES = 0.1  # seconds for what is written after a stream's last event, as in gunicorn's worker
_FAREWELL_SECONDS = 2.0  # for the last events of streams at Ctrl-C; on a busy machine gunicorn's tenth is too short
_PIECE = 16384  # bytes of an answer in one write, as in calls/streaming: one that reads so much in time is not cut off
_TYPES: dict[int, type[SRBError]] = {403: Forbidden, 429: RateLimited, 501: NotSupported}  # by status
_GONE = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}


class Worker(GeventWorker):  # type: ignore[misc]
    """A gevent worker that stops accepting as soon as it is told to stop, and exits with its last stream.

    gunicorn's own worker accepts for up to another second, and waits until every idle keep-alive connection times out.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wsgi: Any = None
        self.serves = mmap.mmap(-1, 1)  # a byte that the arbiter sees: 1 once this worker serves, 2 when it stops
        self._kept_alive: set[socket.socket] = set()  # connections between two requests
        self._connections = Response.connections = Unreader.connections = Connections(self.cfg.worker_connections)
        self._servers: list[Server] = []
        self.server_class = self._server  # gunicorn calls it for each listening socket
        self._main: Any = None  # the greenlet of `run`

    def _server(self, listener: Any, *, spawn: Pool, **options: Any) -> Server:
        ssl_options = {name: value for name, value in options.items() if name == "ssl_context"}
        pool = self._servers[0].pool if self._servers else spawn
        handle = partial(self.handle, listener)
        proxies = proxies_of(self.wsgi.extensions["srb"].server.trusted_proxies)
        server = Server(listener, handle, pool, self._connections, self.cfg.keepalive, proxies, **ssl_options)
        if self.cfg.workers > 1:
            server.max_accept = 1
        self._servers.append(server)
        return server

    def patch(self) -> None:
        """Let what Python waits for give way to other calls.

        gevent asks 25 times which packages want to hear of it, and each time reads the metadata of all: of 160 in 75 ms.
        """
        reading, metadata.entry_points = metadata.entry_points, of_all_packages().select
        try:
            super().patch()
        finally:
            metadata.entry_points = reading

    def load_wsgi(self) -> None:
        """Load the application, which the garbage collector need not visit; report an error in its settings in one line.

        A collection that visits all modules takes 0.1 s and more, and in the meantime no call is answered. Nor is anything
        collected while it loads, which makes next to no garbage.
        """
        gc.disable()
        try:
            super().load_wsgi()
        except ConfigError as error:
            print(f"srb: {error.message}", file=sys.stderr, flush=True)
            sys.exit(EXIT_WORKER)
        self.wsgi.rotate_clients()
        Response.write_timeout = self.wsgi.extensions["srb"].server.client_timeout
        gc.freeze()
        gc.enable()

    def run(self) -> None:
        self._main = gevent.getcurrent()
        gevent.spawn_later(_BUILD_SECONDS, self._build_bodies)
        gevent.spawn(self._note_ready)  # runs when the servers, which super() makes, accept connections
        try:
            super().run()
        finally:
            self._main = None

    def _note_ready(self) -> None:
        """Let old workers end, of a reload, once this one serves as they do: connected to the engine, if one runs."""
        try:
            self.wsgi.extensions["srb"].wait_settled(_SETTLE_SECONDS)
        finally:
            self.serves[0] = 1

    def _build_bodies(self) -> None:
        """Build what the first request of each kind would build; collections do not visit it."""
        self.wsgi.build_bodies()
        log.debug("the checks of all bodies are built")
        gc.collect()
        gc.freeze()

    def handle(self, listener: Any, client: socket.socket, addr: Any) -> None:
        try:
            super().handle(listener, client, addr)
        finally:
            self._kept_alive.discard(client)

    def handle_request(self, listener_name: Any, req: Any, sock: socket.socket, addr: Any) -> None:
        self._kept_alive.discard(sock)
        self._connections.progress(sock)
        if req.version >= (1, 1) and sum(name == "HOST" for name, _ in req.headers) != 1:
            raise WrongHost("Host", req=req)
        try:
            super().handle_request(listener_name, req, sock, addr)
        except StopIteration:  # the answer ends the connection, which unread bytes would reset, and the answer be lost
            with suppress(OSError):
                self._has_read_all(req)
            raise
        except OSError as error:
            if not isinstance(error, TimeoutError) and error.errno not in _GONE:
                raise
            log.info("closed the connection of a client that does not read or is gone: %s", error.strerror or error)
            raise StopIteration from None  # as gunicorn ends a connection that is not kept
        if not self._has_read_all(req):
            raise StopIteration  # closes the connection: the start of the next request is unknown
        self._connections.progress(sock)
        self._kept_alive.add(sock)
        if not self.alive:
            self._close_idle()
        gevent.sleep(0)  # requests that are in the buffer already (pipelining) would be answered before all others

    def _has_read_all(self, req: Any) -> bool:
        """Read and discard the rest of a body that was answered early, so that a client that still sends gets the answer.

        Return whether all was read. gunicorn would read without a limit, and without yielding to other connections. A
        malformed rest has no answer of its own, which the client would take for the next request's.
        """
        with gevent.Timeout(self.cfg.keepalive, False), suppress(ParseException, NoMoreData):
            for _ in range(_MAX_DISCARDED // _READ_SIZE):
                if not req.body.read(_READ_SIZE):
                    return True
                gevent.sleep(0)
        return False

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle SIGTERM: stop accepting, end the streams in time and close idle connections."""
        super().handle_exit(sig, frame)
        gevent.spawn(self._stop_accepting)
        if self.wsgi is not None:  # the signal may come before the application is loaded
            self.wsgi.extensions["srb"].shut_down()
        self._close_idle()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """Handle SIGINT and SIGQUIT: end the streams at once and exit."""
        gevent.spawn(self._quit)

    def _quit(self) -> None:
        # gunicorn's own worker exits from here, and then gevent writes a traceback to the log of whoever presses Ctrl-C.
        self.cfg.worker_int(self)
        gevent.sleep(_LAST_WRITES)
        self.alive = False
        main, self._main = self._main, None  # of one Ctrl-C two signals come: from the terminal, and from the arbiter
        if main is not None:
            gevent.kill(main, SystemExit(0))

    def end_streams_now(self) -> None:
        """End the streams at once, as at SIGINT, and wait a moment until their clients have been told."""
        if self.wsgi is not None:
            self.wsgi.extensions["srb"].shut_down(grace=0)
            self.wsgi.extensions["srb"].calls.wait_ended(_FAREWELL_SECONDS)

    def _stop_accepting(self) -> None:
        """Leave connections that are not accepted yet to other workers."""
        for server in self._servers:
            server.stop_accepting()
        self.serves[0] = 2

    def _close_idle(self) -> None:
        """End idle keep-alive connections; a request that has been received already is still answered."""
        for sock in list(self._kept_alive):
            try:
                getattr(sock, "_sock", sock).shutdown(socket.SHUT_RD)  # gevent's own raises while a greenlet reads
            except OSError:
                pass  # the client has closed it already
