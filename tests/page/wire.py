"""A wire between a browser and a server, which can be cut and mended, as a sleeping phone's connections are."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Wire:
    """A port of its own that passes all bytes on to a server's port, until it is cut."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: set[socket.socket] = set()
        self._is_cut = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        self._is_cut = True
        for end in list(self._ends):
            _end(end)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        _end(self._listener)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._threads.append(threading.Thread(target=self._carry, args=(near,)))
            self._threads[-1].start()

    def _carry(self, near: socket.socket) -> None:
        """Pass on what both sides of a connection send, until one of them ends it."""
        with near, socket.create_connection(self._server) as far:
            self._ends |= {near, far}
            back = threading.Thread(target=_pass_on, args=(far, near))
            back.start()
            if self._is_cut:
                _end(near)
            _pass_on(near, far)
            back.join()
            self._ends -= {near, far}


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(source)
    _end(target)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
