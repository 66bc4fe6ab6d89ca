"""Server-sent events: one EventStream per streamed response, one write per batch of events, one HTTP chunk per event.

A dialect's Renderer turns events into bytes; the stream determines their order: start, deltas and branch ends, then the
end or an error.
"""

import logging
import math
import time
from typing import Any

import gevent
from flask import Response

from srb.errors import SlowClient, SRBError
from srb.web.calls.calls import Call
from srb.web.calls.mailbox import coalesced
from srb.web.calls.renderer import Renderer
from srb.wire.events import BranchAdded, BranchEnded, Delta, Done, Failed, Resting

log = logging.getLogger("srb.web")

MAX_WRITE = 16384  # bytes; each write may take client_timeout, so larger ones would end slow clients that do read
SPACING = 0.01  # seconds between two events that are written separately, so that they come as packets of their own
PING = b": ping\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Write(bytes):
    """The bytes of one write of a stream; `chunks` has the same bytes for HTTP/1.1, with each event as a chunk.

    Many clients treat the data of one read as one event, hence a chunk per event. A server sends either all writes of a
    stream as they are, or the `chunks` of all: long writes are cut, and the two are cut in different places.
    """

    chunks: bytes

    def __new__(cls, data: bytes, chunks: bytes) -> "Write":
        write = super().__new__(cls, data)
        write.chunks = chunks
        return write


def writes(parts: list[bytes], event_end: bytes) -> list[Write]:
    """Return the writes that carry the events in `parts`, in order and each at most MAX_WRITE long.

    A part may hold several events, each up to an `event_end`; where that is empty, each part is one event.
    """
    data = b"".join(parts)
    parts = list(filter(None, parts))  # an empty chunk would end the answer
    if event_end and data.count(event_end) > len(parts):
        parts = [each + event_end for each in data.removesuffix(event_end).split(event_end)]
    chunks = b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts])
    if len(data) <= MAX_WRITE:
        return [Write(data, chunks)] if data else []
    count = -(-len(data) // MAX_WRITE)
    step = -(-len(chunks) // count)
    return [Write(data[i * MAX_WRITE : (i + 1) * MAX_WRITE], chunks[i * step : (i + 1) * step]) for i in range(count)]


class EventStream:
    """A WSGI iterable over one call's events; `close()` is idempotent and works even if it was never iterated.

    The stream takes the call over: the `with` block that opened the call leaves it open.
    """

    def __init__(self, call: Call, renderer: Renderer, ping_interval: float | None) -> None:
        self._call = call
        self._renderer = renderer
        self._ping_interval = ping_interval
        self._started = False
        self._finished = False
        self._later: list[bytes] = []  # events that are written separately, the next one last
        self._next_at = 0.0  # time.monotonic() before which the next of them is not written
        self._unsent: list[Write] = []  # further writes of the rendered events, the next one last
        self._write_began = math.inf  # time.monotonic() at the start of the current write
        call.take_over()

    def __repr__(self) -> str:
        state = "finished" if self._finished else "started" if self._started else "new"
        return f"<EventStream {state} of {self._call!r}>"

    def __iter__(self) -> "EventStream":
        return self

    def __next__(self) -> Write:
        self._write_began = math.inf  # the previous write is complete
        while not self._unsent:
            self._unsent = writes(self._next_parts(), self._renderer.event_end)[::-1]
        write = self._unsent.pop()
        self._write_began = time.monotonic()
        return write

    def _next_parts(self) -> list[bytes]:
        if self._finished and not self._later:
            raise StopIteration
        if not self._renderer.writes_one_by_one:
            return self._rendered()
        gevent.sleep(max(0.0, self._next_at - time.monotonic()))
        self._later = self._later or list(filter(None, self._rendered()))[::-1]
        self._next_at = time.monotonic() + SPACING
        return [self._later.pop()] if self._later else []

    def _rendered(self) -> list[bytes]:
        try:
            return self._wait_and_render()
        except SRBError as error:
            self._finished = True
            return [self._renderer.failed(error)]
        except Exception:
            log.exception("rendering failed: %r", self)
            self._finished = True
            return [self._renderer.failed(SRBError("Internal error"))]

    def _wait_and_render(self) -> list[bytes]:
        if not self._started:
            self._started = True
            head = self._renderer.start()
            if head:
                return [head]
        mailbox = self._call.mailbox
        silent_until = math.inf if self._ping_interval is None else time.monotonic() + self._ping_interval
        while True:
            events = mailbox.take(self._ping_interval)
            is_done = mailbox.done  # before rendering, during which further events may come
            if not events:
                return [PING]
            parts = self._render(coalesced(events) if self._renderer.writes_one_by_one else events)
            if is_done and not self._finished:
                self._finished = True
                parts.append(self._renderer.end([event for event in mailbox.ended if isinstance(event, Done)]))
            if self._finished or any(parts):
                return parts
            if time.monotonic() >= silent_until:
                return [PING]

    def _render(self, events: list[Any]) -> list[bytes]:
        renderer = self._renderer
        parts: list[bytes] = []
        for event in events:
            kind = type(event)
            if kind is Delta:
                parts.append(renderer.delta(event))
            elif kind is BranchEnded:
                parts.append(renderer.branch_ended(event))
            elif kind is BranchAdded:
                parts.append(renderer.branch_added(event))
            elif kind is Resting:
                if renderer.follows_rests:
                    parts.append(renderer.resting(event))
                else:
                    self._call.leave_resting(event.done)
            elif kind is Failed:
                self._finished = True
                parts.append(renderer.failed(event.error))
                break
            elif kind is not Done:
                parts.append(renderer.prompt(event))
        return parts

    def close(self) -> None:
        """Close the call, which cancels its open requests. The WSGI server always calls this."""
        is_slow = self._call.write_timed_out(self._write_began)
        self._finished, self._later, self._unsent = True, [], []
        self._call.close(SlowClient("The client read nothing for too long") if is_slow else None)


def stream_response(call: Call, renderer: Renderer, ping_interval: float | None) -> Response:
    """Return a streamed response; after `ping_interval` seconds without an event it sends a comment (None: never)."""
    stream = EventStream(call, renderer, ping_interval)
    return Response(stream, mimetype="text/event-stream", headers=HEADERS, direct_passthrough=True)
