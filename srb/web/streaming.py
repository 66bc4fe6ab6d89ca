"""Server-sent events: one EventStream per streamed response, one write per batch of events.

A dialect's Renderer turns events into bytes; it runs once per token and branch, so it glues pre-encoded parts around
the one string that is new. The stream owns the order of things: start, deltas and ends, the end or an error.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Protocol

import orjson
from flask import Response

from srb.errors import SlowClient, SRBError
from srb.protocol import BranchEnded, Delta, Done, Failed, Progress, PromptDone, PromptProbs
from srb.web.open_requests import OpenRequest

log = logging.getLogger("srb.web")

LONGEST_WRITE = 16384  # bytes: each write has the whole of write_timeout, however slowly the client reads
PING = b": ping\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def sse(value: Any) -> bytes:
    """Return one server-sent event whose data is `value` as JSON."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


class Renderer(Protocol):
    """How a dialect says it. Each method returns whole SSE events, or nothing."""

    def start(self) -> bytes: ...

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        """Say how far a prompt is, what its tokens' probabilities are, or that it is computed; most say nothing."""
        return b""

    def delta(self, event: Delta) -> bytes:
        """Say a branch's new text; it may be empty where a token has none (then most dialects say nothing)."""
        ...

    def branch_ended(self, event: BranchEnded) -> bytes: ...

    def end(self, done: list[Done]) -> bytes:
        """Every branch has ended; `done` has one entry per request of the call."""
        ...

    def failed(self, error: SRBError) -> bytes:
        """Say that nothing more will come, and why; the stream ends after it."""
        ...


class EventStream:
    """A WSGI iterable over one call's events; `close()` is idempotent and works if it was never iterated."""

    def __init__(self, request: OpenRequest, renderer: Renderer, ping_interval: float | None) -> None:
        self._request = request
        self._renderer = renderer
        self._ping_interval = ping_interval
        self._started = False
        self._finished = False
        self._unsent = b""  # of the last events
        self._handed_over_at = math.inf  # time.monotonic() when the last write began

    def __repr__(self) -> str:
        state = "finished" if self._finished else "started" if self._started else "new"
        return f"<EventStream {state} of {self._request!r}>"

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> bytes:
        self._handed_over_at = math.inf  # what was handed over has been written
        if not self._unsent:
            self._unsent = self._rendered()
        data, self._unsent = self._unsent[:LONGEST_WRITE], self._unsent[LONGEST_WRITE:]
        self._handed_over_at = time.monotonic()
        return data

    def _rendered(self) -> bytes:
        if self._finished:
            raise StopIteration
        try:
            return self._next_write()
        except Exception:
            log.exception("rendering failed: %r", self)
            self._finished = True
            return self._renderer.failed(SRBError("Internal error"))

    def _next_write(self) -> bytes:
        if not self._started:
            self._started = True
            head = self._renderer.start()
            if head:
                return head
        mailbox = self._request.mailbox
        while True:
            events = mailbox.take(self._ping_interval)
            if not events:
                return PING
            data = self._render(events)
            if mailbox.done and not self._finished:
                self._finished = True
                data += self._renderer.end([event for event in mailbox.ended if isinstance(event, Done)])
            if data or self._finished:
                return data

    def _render(self, events: list[Any]) -> bytes:
        renderer = self._renderer
        parts: list[bytes] = []
        for event in events:
            kind = type(event)
            if kind is Delta:
                parts.append(renderer.delta(event))
            elif kind is BranchEnded:
                parts.append(renderer.branch_ended(event))
            elif kind is Failed:
                self._finished = True
                parts.append(renderer.failed(event.error))
                break
            elif kind is not Done:
                parts.append(renderer.prompt(event))
        return b"".join(parts)

    def close(self) -> None:
        """Release the call: the engine is told to cancel what has not ended. Called by the WSGI server, always."""
        is_slow = self._request.waited_in_vain(self._handed_over_at)
        self._finished, self._unsent = True, b""
        self._request.close(SlowClient("The client read nothing for too long") if is_slow else None)


def stream_response(request: OpenRequest, renderer: Renderer, ping_interval: float | None) -> Response:
    """Answer with a stream; after `ping_interval` seconds of silence it sends a comment, never with None."""
    stream = EventStream(request, renderer, ping_interval)
    return Response(stream, mimetype="text/event-stream", headers=HEADERS, direct_passthrough=True)
