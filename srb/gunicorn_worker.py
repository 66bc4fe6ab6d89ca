"""gunicorn's gevent worker, which when told to stop ends its streams and lets go of connections that only wait."""

from __future__ import annotations

import socket
from typing import Any

from gunicorn.http import wsgi
from gunicorn.workers.ggevent import GeventWorker

wsgi.SERVER = "llama.cpp"  # gunicorn drops an application's own Server header, and clients look for this one


class Worker(GeventWorker):  # type: ignore[misc]
    """A gevent worker that stops as soon as its last stream has ended.

    gunicorn's own waits for the keep-alive time of every connection that a browser holds open for a next request.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wsgi: Any = None
        self._kept_alive: set[socket.socket] = set()  # connections between two requests

    def handle(self, listener: Any, client: socket.socket, addr: Any) -> None:
        try:
            super().handle(listener, client, addr)
        finally:
            self._kept_alive.discard(client)

    def handle_request(self, listener_name: Any, req: Any, sock: socket.socket, addr: Any) -> None:
        self._kept_alive.discard(sock)
        super().handle_request(listener_name, req, sock, addr)
        self._kept_alive.add(sock)
        if not self.alive:
            self._let_go()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle SIGTERM."""
        super().handle_exit(sig, frame)
        self.end_streams()
        self._let_go()

    def end_streams(self, grace: float | None = None) -> None:
        """End the streams after `grace` seconds, by default graceful_timeout."""
        if self.wsgi is not None:  # the signal may come before the application is loaded
            self.wsgi.extensions["srb"].shut_down(grace)

    def _let_go(self) -> None:
        """Make connections between two requests read an end; what has been received by now is still answered."""
        for sock in list(self._kept_alive):
            try:
                sock.shutdown(socket.SHUT_RD)
            except OSError:
                pass  # the client was faster
