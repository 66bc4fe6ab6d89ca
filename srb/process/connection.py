"""The engine's socket: a Listener, and a Connection with two threads for each web worker."""

import contextlib
import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from srb.errors import ProtocolError
from srb.wire.codec import VERSION, decode, encode_frames, num_logprobs
from srb.wire.commands import Command
from srb.wire.events import TERMINAL, Accepted, BranchEnded, Delta, Done, Event, Hello, PromptDone, Ready
from srb.wire.framing import MAX_FRAME, FrameSocket

log = logging.getLogger("srb.engine")

FRAME_SECONDS = 0.016  # seconds between two frames, sixty a second as on a screen; longer steps are sent at once
_FRAME_BYTES = 2 * 1024 * 1024  # about 20 ms of work for the worker
_FEW = 16  # events that the thread that has them sends by itself: encoding them takes it about 40 µs
_MAX_QUEUED = 200_000  # events; a worker that leaves so many unread is stuck, and they would fill the engine's memory
_MAX_LOGPROBS = 1_000_000  # log-probabilities in queued events, about 400 MiB
_SHORT = (Accepted, PromptDone, Delta, BranchEnded, Done)
_UCRED = struct.Struct("3i")  # pid, uid, gid
_PAUSE_SECONDS = 0.2  # after accept() fails, for instance for lack of descriptors: tried at once it takes a core


class Connection:
    """One connection to a web worker.

    The reader thread passes each command to `on_command`, which must be quick: the next command may be a cancel. A few
    events of text are sent by the thread that calls `send`, as far as the socket's buffer has room: beside the threads that
    compute, another thread waits for milliseconds until it runs. The writer thread sends all else, and what gathers between
    two frames, of which there is at most one in FRAME_SECONDS: if steps are shorter, waking worker and client for each
    would cost more than the step. Frames are cut at _FRAME_BYTES, so that the worker can do other things between them.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_command: "Callable[[Connection, Command], None]",
        on_closed: "Callable[[Connection], None]",
    ) -> None:
        self._frames = FrameSocket(sock)
        self._on_command = on_command
        self._on_closed = on_closed
        self._outbox: list[Event] = []
        self._num_logprobs = 0  # log-probabilities in the outbox
        self._changed = threading.Condition()
        self._is_sending = False  # a thread writes to the socket; no other may
        self._unsent = b""  # the rest of a frame for which the socket's buffer had no room
        self._rests_until = 0.0  # time.monotonic(), before which events gather, unless one is urgent
        self._urgent = False  # a queued event ends a request, so it is sent without delay
        self._closing = False
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def send(self, events: Iterable[Event]) -> None:
        """Send `events`, or queue them for the writer; never blocks. Dropped if the connection is closed."""
        with self._changed:
            if self._closing:
                return
            begins = not self._outbox
            for event in events:
                self._outbox.append(event)
                self._num_logprobs += num_logprobs(event)
                self._urgent = self._urgent or isinstance(event, TERMINAL)
            stuck = len(self._outbox) > _MAX_QUEUED or self._num_logprobs > _MAX_LOGPROBS
            is_due = self._is_due
            few = self._take() if is_due and self._is_light else []
            if not few and (begins or is_due):  # with an empty outbox the writer waits without a deadline
                self._changed.notify()
        if few:
            self._send_now(few)
        if stuck:
            log.warning("a web worker does not read its events; closing its connection")
            self.close()

    def finish(self) -> None:
        """Let the writer send the queued events and close; does not wait."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def close(self) -> None:
        """Close at once and drop queued events; may be called again, from any thread."""
        with self._changed:
            self._closing = True
            self._outbox.clear()
            self._unsent = b""
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
            log.warning("closing a connection: %s", error)
        except Exception:
            log.exception("closing a connection after a command that could not be handled")
        finally:
            self.close()
            self._on_closed(self)

    def _write(self) -> None:
        with self._closing_on_error():
            while (taken := self._next()) is not None:
                unsent, events = taken
                if unsent:
                    self._frames.send_rest(unsent)
                for payload in encode_frames(events, _FRAME_BYTES, MAX_FRAME):
                    self._frames.send(payload)
                self._sent(events)
        self.close()

    def _next(self) -> tuple[bytes, list[Event]] | None:
        """Wait until something is to be sent, and return it; None: the connection ends."""
        with self._changed:
            while not self._is_due:
                if self._closing and not self._is_sending:  # the thread that sends may leave a rest
                    return None
                left = self._rests_until - time.monotonic() if self._outbox and not self._is_sending else None
                self._changed.wait(left)
            unsent, self._unsent = self._unsent, b""
            return unsent, self._take()

    def _send_now(self, events: list[Event]) -> None:
        """Send a few events without waiting; the writer sends what the socket's buffer has no room for."""
        unsent = b""
        with self._closing_on_error():
            unsent = self._frames.send_now(encode_frames(events, _FRAME_BYTES, MAX_FRAME))
        self._sent(events, unsent)

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        """Close the connection if events cannot be sent."""
        try:
            yield
        except OSError:
            self.close()  # the worker is gone; the reader sees it too
        except Exception:
            log.exception("closing a connection after an event that could not be encoded")
            self.close()

    def _sent(self, events: list[Event], unsent: bytes = b"") -> None:
        """Note that `events` are sent but for `unsent`; if the last is a delta, more will follow, and they gather."""
        with self._changed:
            self._is_sending, self._unsent = False, unsent
            if events and isinstance(events[-1], Delta):
                self._rests_until = time.monotonic() + FRAME_SECONDS
            if self._outbox or self._unsent or self._closing:
                self._changed.notify()

    # Called with the lock -------------------------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        """Whether something is to be sent now, and no thread does."""
        if self._is_sending or self._unsent:  # the rest of a frame comes first, or no later one could be read
            return not self._is_sending
        return bool(self._outbox) and (self._urgent or self._closing or time.monotonic() >= self._rests_until)

    @property
    def _is_light(self) -> bool:
        """Whether the queued events are so few, and so short, that encoding them holds up no thread."""
        if self._unsent or self._num_logprobs or len(self._outbox) > _FEW:
            return False
        return all(isinstance(event, _SHORT) for event in self._outbox)

    def _take(self) -> list[Event]:
        """Return all queued events, for a thread that sends them and then calls `_sent`."""
        events, self._outbox, self._num_logprobs = self._outbox, [], 0
        self._urgent, self._is_sending = False, True
        return events


class Listener:
    """The Unix socket that web workers connect to, and its open connections."""

    def __init__(
        self,
        path: Path,
        on_command: Callable[[Connection, Command], None],
        on_closed: Callable[[Connection], None],
        server_id: str = "",
    ) -> None:
        """Bind and listen. The caller holds the engine's lock, so an existing socket is a dead engine's."""
        self._on_command = on_command
        self._on_closed = on_closed
        self._hello = Hello(VERSION, os.getpid(), server_id)
        self._connections: set[Connection] = set()
        self._ready: Ready | None = None
        self._lock = threading.Lock()  # guards the two above, so that each connection gets Ready exactly once
        self._closed = False
        path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.bind(os.fspath(path))
        path.chmod(0o600)
        self._sock.listen(128)  # more than there are workers, which all connect at once after a restart
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def announce(self, ready: Ready) -> None:
        """Send `ready` to every connection, and to future ones when they open."""
        with self._lock:
            self._ready = ready
            for connection in self._connections:
                connection.send([ready])

    def close(self, flush_seconds: float) -> None:
        """Stop accepting; close the connections after `flush_seconds`, or when their queued events are sent."""
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
            if not is_peer_allowed(sock):
                log.warning("refused a connection of another user")
                sock.close()
                continue
            self._add(Connection(sock, self._on_command, self._remove))

    def _add(self, connection: Connection) -> None:
        with self._lock:
            self._connections.add(connection)
            connection.send([self._hello])
            if self._ready is not None:
                connection.send([self._ready])
        connection.start()

    def _remove(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        self._on_closed(connection)


def is_peer_allowed(sock: socket.socket) -> bool:
    """Whether the peer runs as this user or root. Only known on Linux; elsewhere the folder's mode protects."""
    if sys.platform != "linux":
        return True
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid in (os.getuid(), 0)
