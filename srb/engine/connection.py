"""The engine's side of its socket: a Connection (two threads) for each web worker, and the Listener for them."""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from srb.errors import ProtocolError
from srb.framing import FrameSocket
from srb.protocol import TERMINAL, VERSION, Command, Delta, Event, Hello, Ready, decode, encode

log = logging.getLogger("srb.engine")

FRAME_SECONDS = 0.016  # a screen shows no more than sixty pictures a second; longer steps are sent at once
_MOST_QUEUED = 200_000  # events; a worker that reads nothing for so long is stuck
_UCRED = struct.Struct("3i")  # pid, uid, gid
_PAUSE_SECONDS = 0.2  # when accept() fails, for instance for lack of descriptors


class Connection:
    """One web worker.

    The reader thread hands each command to `on_command`, so what that does (tokenizing) is done off the decode thread.
    The writer thread sends everything that is queued as one frame, at most one every FRAME_SECONDS: where a step takes
    less, waking the writer, the worker and the client for each would cost more than the step.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_command: Callable[[Connection, Command], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._frames = FrameSocket(sock)
        self._on_command = on_command
        self._on_closed = on_closed
        self._outbox: list[Event] = []
        self._changed = threading.Condition()
        self._is_resting = False  # the writer has just sent and will look again by itself
        self._urgent = False  # what is queued ends something, and does not wait
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def send(self, events: Iterable[Event]) -> None:
        """Queue `events` for the writer; never blocks. After the end they are dropped."""
        with self._changed:
            if self._closing:
                return
            self._outbox += events
            self._urgent = self._urgent or isinstance(self._outbox[-1], TERMINAL)
            stuck = len(self._outbox) > _MOST_QUEUED
            if self._urgent or not self._is_resting:
                self._changed.notify()
        if stuck:
            log.warning("a web worker does not read its events; its connection is closed")
            self.close()

    def finish(self) -> None:
        """Let the writer send what is queued and then close; does not wait for it."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def close(self) -> None:
        """Close at once and drop what is queued; may be called again, from any thread."""
        with self._changed:
            self._closing = True
            self._outbox.clear()
            self._changed.notify()
        self._frames.close()

    def join(self, deadline: float) -> None:
        """Wait for the writer to end, until time.monotonic() reaches `deadline`."""
        self._writer.join(max(0.0, deadline - time.monotonic()))

    def _read(self) -> None:
        try:
            while True:
                for command in decode(self._frames.receive()):
                    self._on_command(self, command)
        except (EOFError, OSError):
            pass  # the worker closed, or we did
        except ProtocolError as error:
            log.warning("a connection is closed: %s", error)
        except Exception:
            log.exception("a connection is closed for a command that could not be handled")
        finally:
            self.close()
            self._on_closed(self)

    def _write(self) -> None:
        try:
            while events := self._take():
                self._frames.send(encode(events))
                if isinstance(events[-1], Delta):  # more of the kind will come
                    self._rest()
        except OSError:
            pass  # the worker is gone; the reader sees it too
        except Exception:
            log.exception("a connection is closed for an event that could not be encoded")
        finally:
            self.close()

    def _take(self) -> list[Event]:
        """Wait for events and return all of them; none means that the connection ends."""
        with self._changed:
            while not self._outbox and not self._closing:
                self._changed.wait()
            events, self._outbox = self._outbox, []
            self._urgent = False
            return events

    def _rest(self) -> None:
        """Let events gather before the next frame, unless one of them is urgent."""
        until = time.monotonic() + FRAME_SECONDS
        with self._changed:
            self._is_resting = True
            while not self._urgent and not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            self._is_resting = False


class Listener:
    """Accepts web workers on a Unix socket and keeps the connections that are open."""

    def __init__(
        self,
        path: Path,
        on_command: Callable[[Connection, Command], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        """Bind and listen; the caller holds the engine's lock, so a socket that lies there is a dead engine's."""
        self._on_command = on_command
        self._on_closed = on_closed
        self._connections: set[Connection] = set()
        self._ready: Ready | None = None
        self._lock = threading.Lock()  # guards the two above: each connection hears Ready exactly once
        self._closed = False
        path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.bind(os.fspath(path))
        path.chmod(0o600)
        self._sock.listen(128)
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def announce(self, ready: Ready) -> None:
        """Tell every connection, and those to come, that the model is loaded."""
        with self._lock:
            self._ready = ready
            for connection in self._connections:
                connection.send([ready])

    def close(self, flush_seconds: float) -> None:
        """Accept nobody any more; give the connections `flush_seconds` to send what is queued, then close them."""
        self._closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass  # not on every system
        self._sock.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.finish()
        deadline = time.monotonic() + flush_seconds
        for connection in connections:
            connection.join(deadline)
            connection.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._sock.accept()
            except OSError as error:
                if not self._closed:
                    log.error("cannot accept a connection: %s", error)
                    time.sleep(_PAUSE_SECONDS)
                continue
            if not _is_peer_allowed(sock):
                log.warning("a connection of another user is refused")
                sock.close()
                continue
            self._add(Connection(sock, self._on_command, self._remove))

    def _add(self, connection: Connection) -> None:
        with self._lock:
            self._connections.add(connection)
            connection.send([Hello(VERSION, os.getpid())])
            if self._ready is not None:
                connection.send([self._ready])
        connection.start()

    def _remove(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        self._on_closed(connection)


def _is_peer_allowed(sock: socket.socket) -> bool:
    """Whether the other end runs as this user or root; where the system cannot say, the folder's mode has to do."""
    if sys.platform != "linux":
        return True
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid in (os.getuid(), 0)
