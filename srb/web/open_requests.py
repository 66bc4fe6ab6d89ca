"""The generating HTTP calls of this worker that are open, and the greenlet that notices when a client has left.

A client that leaves is noticed within a second whatever its request is doing: queued, in prefill, streaming or
collecting for one answer. Leaving means that the socket is closed (or half closed) by the peer.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

import gevent
from prometheus_client import Gauge

from srb.client import EngineClient, Mailbox
from srb.errors import Cancelled, ShuttingDown, SRBError
from srb.protocol import Generate
from srb.settings import Settings
from srb.web.limits import CLIENT, OpenLimit, within
from srb.web.request_log import CallLine

log = logging.getLogger("srb.web")

VANISHED_LATER = 2  # seconds after write_timeout
SEND_BUFFER = 65536  # bytes
SCAN_INTERVAL = 0.5  # seconds; detection takes this long at most


class OpenRequest:
    """One HTTP call with its commands and mailbox; `close()` releases whatever of it is still held."""

    def __init__(
        self,
        registry: OpenRequests,
        commands: Sequence[Generate],
        environ: MutableMapping[str, Any],
        counted: bytes | None = None,
    ) -> None:
        """Hold `counted`, if any, of OpenLimit until the end."""
        self.commands = tuple(commands)
        self.counted = counted
        self.mailbox = Mailbox(())
        self._registry = registry
        self._socket = environ.get("gunicorn.socket")
        self._line = CallLine(environ, self.commands, prompts=registry.log_prompts)
        self._closed = False

    def __repr__(self) -> str:
        ids = ", ".join(command.request_id for command in self.commands)
        return f"<OpenRequest {ids} {'closed' if self._closed else 'open'}: {self.mailbox!r}>"

    def client_left(self) -> bool:
        """Look, without waiting and without reading, whether the peer has closed the connection."""
        raw = getattr(self._socket, "_sock", self._socket)  # below gevent's socket, whose recv would wait
        try:
            return raw is not None and raw.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def abandon(self, reason: SRBError) -> None:
        for command in self.commands:
            self._registry.client.abandon(command.request_id, reason)

    def waited_in_vain(self, since: float) -> bool:
        """Whether a write that began at `since`, on time.monotonic()'s clock, has had all the time that it may take."""
        return time.monotonic() - since >= self._registry.write_timeout

    def close(self, reason: SRBError | None = None) -> None:
        """Cancel what has not ended, leave the registry and log the line of this call; may be called again."""
        if self._closed:
            return
        self._closed = True
        self._registry.forget(self)
        self.abandon(reason or Cancelled("The response was closed"))
        if self._socket is not None:
            self._let_go(self._socket)
        self._line.write(self.mailbox)

    def _let_go(self, sock: Any) -> None:
        """Give the connection back as it was; a worker that stops must not wait for another request on it."""
        sock.settimeout(None)
        if self._registry.closing:
            try:
                sock.shutdown(socket.SHUT_RD)
            except OSError:
                pass  # the client was faster


class OpenRequests:
    """The registry of open calls: opens them, watches their clients, ends them when the worker stops."""

    def __init__(
        self, client: EngineClient, settings: Settings, gauge: Gauge | None = None, folder: Path | None = None
    ) -> None:
        """Keep `gauge`, if any, at the number of calls that are open; through `folder` all workers count clients' calls."""
        self.client = client
        self._settings = settings
        self._gauge = gauge
        most = settings.max_client_requests
        self._limit = OpenLimit(most, folder) if most else None
        self._open: set[OpenRequest] = set()
        self._watchdog: Any = None
        self.closing = False  # connections are let go of after their call
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<OpenRequests {len(self)} open{', closing' if self.closing else ''}>"

    def open(self, commands: Sequence[Generate], environ: MutableMapping[str, Any]) -> OpenRequest:
        """Submit the commands of one call, watched from before the engine has answered.

        Raise the engine's refusal, InvalidRequest or RateLimited where the client asks for more than it may have, or
        ShuttingDown once the time that `shut_down` gave is over.
        """
        if self._closed:
            raise ShuttingDown("The server is shutting down")
        commands = within(commands, self._settings.max_request_tokens)
        counted = self._limit.take(environ.get(CLIENT, "")) if self._limit else None
        request = OpenRequest(self, commands, environ, counted)
        self._open.add(request)
        self._show_count()
        self._watch()
        try:
            if (sock := environ.get("gunicorn.socket")) is not None:
                self._limit_waiting(sock)
            request.mailbox = self.client.submit(*commands)
        except BaseException:
            request.close()
            raise
        return request

    @property
    def log_prompts(self) -> bool:
        return self._settings.log_prompts

    @property
    def write_timeout(self) -> int:
        return self._settings.write_timeout

    def forget(self, request: OpenRequest) -> None:
        self._open.discard(request)
        if self._limit is not None and request.counted is not None:
            self._limit.give_back(request.counted)
        self._show_count()

    def _show_count(self) -> None:
        if self._gauge is not None:
            self._gauge.set(len(self))

    def shut_down(self, grace: float | None = None) -> None:
        """After `grace` seconds end the open calls with `shutting_down` and refuse others.

        Until then calls that arrive on connections that are open are answered, since nobody else can. Without `grace`
        they get graceful_timeout; the WSGI server has to wait a little longer, so that their end still
        reaches the clients. May be called from a signal handler, and again with a shorter grace.
        """
        self.closing = True
        if grace is None:
            grace = self._settings.graceful_timeout
        gevent.spawn_later(grace, self._end_all)

    def _end_all(self) -> None:
        self._closed = True
        for request in list(self._open):
            request.abandon(ShuttingDown("The server is shutting down"))

    def _limit_waiting(self, sock: Any) -> None:
        """Let a write fail that made no progress for write_timeout, also towards a peer that vanished silently.

        The system holds little of what is not read, or megabytes would be written before a slow reader is noticed. Its
        own limit is for a peer that vanished; it is later, for it counts a reader that stands still as well.
        """
        sock.settimeout(self._settings.write_timeout)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if sock.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
            seconds = self._settings.write_timeout + VANISHED_LATER
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)

    def _watch(self) -> None:
        if self._watchdog is None or self._watchdog.dead:
            self._watchdog = gevent.spawn(self._scan_while_open)

    def _scan_while_open(self) -> None:
        while self._open:
            gevent.sleep(SCAN_INTERVAL)
            for request in [request for request in self._open if request.client_left()]:
                request.abandon(Cancelled("The client has left"))
