"""gunicorn's gevent worker, which when told to stop ends its streams and lets go of connections that only wait."""

from __future__ import annotations

import errno
import logging
import socket
import sys
from functools import partial
from typing import Any

import gevent
from gevent.server import StreamServer
from gunicorn.arbiter import Arbiter
from gunicorn.http import wsgi
from gunicorn.workers.ggevent import GeventWorker

from srb.errors import ConfigError

wsgi.SERVER = "llama.cpp"  # gunicorn drops an application's own Server header, and clients look for this one


log = logging.getLogger("srb.web")

_MOST_UNASKED = 16 * 1024 * 1024  # bytes of a body that nobody waits for
_READ_AT_ONCE = 65536
_GONE = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}


class Worker(GeventWorker):  # type: ignore[misc]
    """A gevent worker that leaves new connections to others as soon as it is told to stop, and stops with its last stream.

    gunicorn's own goes on to accept for up to a second, and waits for the keep-alive time of every connection that a
    browser holds open for a next request.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wsgi: Any = None
        self._kept_alive: set[socket.socket] = set()  # connections between two requests
        self._servers: list[Any] = []
        self.server_class = self._server  # what gunicorn calls for each socket that it listens on

    def _server(self, listener: Any, *, spawn: Any, **options: Any) -> Any:
        ssl_options = {name: value for name, value in options.items() if name == "ssl_context"}
        server = StreamServer(listener, handle=partial(self.handle, listener), spawn=spawn, **ssl_options)
        if self.cfg.workers > 1:
            server.max_accept = 1
        self._servers.append(server)
        return server

    def load_wsgi(self) -> None:
        """Load the application; what is wrong with its settings is one line."""
        try:
            super().load_wsgi()
        except ConfigError as error:
            print(f"srb: {error.message}", file=sys.stderr, flush=True)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)

    def handle(self, listener: Any, client: socket.socket, addr: Any) -> None:
        try:
            super().handle(listener, client, addr)
        finally:
            self._kept_alive.discard(client)

    def handle_request(self, listener_name: Any, req: Any, sock: socket.socket, addr: Any) -> None:
        self._kept_alive.discard(sock)
        try:
            super().handle_request(listener_name, req, sock, addr)
        except OSError as error:
            if not isinstance(error, TimeoutError) and error.errno not in _GONE:
                raise
            log.info("a client does not read, or is gone: its connection is closed (%s)", error.strerror or error)
            raise StopIteration from None  # as gunicorn ends a connection that is not kept
        if not self._has_read_all(req):
            raise StopIteration  # where the next request begins is not known
        self._kept_alive.add(sock)
        if not self.alive:
            self._let_go()

    def _has_read_all(self, req: Any) -> bool:
        """Read on where an answer did not wait for the body's end, so that a client that still sends sees it.

        gunicorn would read for as long as more comes, and no other connection would get its turn meanwhile.
        """
        with gevent.Timeout(self.cfg.keepalive, False):
            for _ in range(_MOST_UNASKED // _READ_AT_ONCE):
                if not req.body.read(_READ_AT_ONCE):
                    return True
                gevent.sleep(0)
        return False

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle SIGTERM."""
        super().handle_exit(sig, frame)
        gevent.spawn(self._stop_accepting)
        self.end_streams()
        self._let_go()

    def end_streams(self, grace: float | None = None) -> None:
        """End the streams after `grace` seconds, by default graceful_timeout."""
        if self.wsgi is not None:  # the signal may come before the application is loaded
            self.wsgi.extensions["srb"].shut_down(grace)

    def _stop_accepting(self) -> None:
        """Leave what has not been accepted to other workers."""
        for server in self._servers:
            server.stop_accepting()

    def _let_go(self) -> None:
        """Make connections between two requests read an end; what has been received by now is still answered."""
        for sock in list(self._kept_alive):
            try:
                getattr(sock, "_sock", sock).shutdown(socket.SHUT_RD)  # gevent's own raises where somebody reads
            except OSError:
                pass  # the client was faster
