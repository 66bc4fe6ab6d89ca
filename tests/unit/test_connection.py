"""The engine's end of a connection: events arrive once and in order, whichever thread sends them; a sender never waits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srb.process.connection import FRAME_SECONDS, Connection
from srb.wire.codec import decode, encode
from srb.wire.commands import Cancel
from srb.wire.events import Accepted, Delta, Done, Event, Reply
from srb.wire.framing import FrameSocket
from tests.processes import DEADLINE

SECONDS = DEADLINE  # at most, of anything here


class Worker:
    """The other end of a connection, whose engine's end sends and does nothing with commands."""

    def __init__(self, buffer: int = 0) -> None:
        engine, self.sock = socket.socketpair()
        self.sock.settimeout(SECONDS)
        if buffer:
            engine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self.is_closed = threading.Event()
        self.commands: list[object] = []
        self.frames = FrameSocket(self.sock)
        self.connection = Connection(
            engine, lambda _, command: self.commands.append(command), lambda _: self.is_closed.set()
        )

    def read(self, count: int) -> list[Event]:
        events: list[Event] = []
        while len(events) < count:
            events += decode(self.frames.receive())
        return events

    def read_all(self) -> list[Event]:
        events: list[Event] = []
        try:
            while True:
                events += decode(self.frames.receive())
        except (EOFError, OSError):
            return events

    def close(self) -> None:
        self.connection.close()
        self.sock.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def deltas(count: int, start: int = 0, text: str = "a") -> list[Event]:
    return [Delta("r", 0, text, [start + place]) for place in range(count)]


def done() -> Done:
    return Done("r", prompt_tokens=1, cached_tokens=0, completion_tokens=1, prompt_ms=0.0, predicted_ms=0.0)


def test_the_thread_that_has_a_few_events_sends_them_itself(worker: Worker) -> None:
    worker.connection.send([Accepted("r", 1), *deltas(1)])  # not started: there is no writer
    assert worker.read(2) == [Accepted("r", 1), *deltas(1)]


def test_an_answer_that_may_be_long_is_left_to_the_writer(worker: Worker) -> None:
    worker.connection.send([Reply("r", "text")])
    worker.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        worker.sock.recv(1)
    worker.sock.settimeout(SECONDS)
    worker.connection.start()
    assert worker.read(1) == [Reply("r", "text")]


def test_events_after_a_frame_of_text_gather_into_one(worker: Worker) -> None:
    worker.connection.start()
    worker.connection.send(deltas(1))
    began = time.monotonic()
    for place in range(1, 4):
        worker.connection.send(deltas(1, place))
    gathered = time.monotonic() - began < FRAME_SECONDS
    assert worker.read(1) == deltas(1)
    second = decode(worker.frames.receive())
    assert second == deltas(3, 1) or not gathered


def test_an_end_is_sent_at_once_with_what_has_gathered(worker: Worker) -> None:
    worker.connection.send(deltas(1))
    worker.connection.send(deltas(1, 1))  # gathers, and without a writer nothing else would send it
    worker.connection.send([done()])
    assert worker.read(3) == [*deltas(2), done()]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_end_is_sent_at_once_wherever_it_stands_among_events(worker: Worker, place: int) -> None:
    worker.connection.send(deltas(1))
    events = deltas(2)
    events.insert(place, done())
    worker.connection.send(events)  # there is no writer: only what is urgent is sent now
    assert worker.read(4) == [*deltas(1), *events]


def test_a_worker_that_does_not_read_holds_up_no_sender_and_loses_nothing() -> None:
    worker = Worker(buffer=4096)
    worker.connection.start()
    sent: list[Event] = []
    for place in range(2000):
        events = deltas(8, 8 * place, "some text " * 20)
        worker.connection.send(events)  # would block here for ever
        sent += events
    worker.connection.finish()
    assert worker.read_all() == sent
    worker.close()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3000), st.booleans()), max_size=25))
def test_events_arrive_once_and_in_order(batches: list[tuple[int, int, bool]]) -> None:
    worker = Worker(buffer=4096)
    received: list[Event] = []
    reader = threading.Thread(target=lambda: received.extend(worker.read_all()), daemon=True)
    worker.connection.start()
    sent: list[Event] = []
    for place, (count, size, ends) in enumerate(batches):
        events = [*deltas(count, 100 * place, "x" * size), *([done()] if ends else [])]
        worker.connection.send(events)
        sent += events
        if place == len(batches) // 2:
            reader.start()
    worker.connection.finish()
    if not batches:
        reader.start()
    reader.join(SECONDS)
    worker.close()
    assert received == sent


def test_a_worker_that_is_gone_closes_the_connection_and_harms_no_sender(worker: Worker) -> None:
    worker.connection.start()
    worker.sock.close()
    worker.connection.send(deltas(1))
    assert worker.is_closed.wait(SECONDS)
    worker.connection.send(deltas(1))
    worker.connection.join(time.monotonic() + SECONDS)


def test_an_event_that_cannot_be_encoded_closes_the_connection(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    worker.connection.start()
    worker.connection.send([Delta("r", 0, object(), [1])])  # type: ignore[arg-type]
    assert worker.is_closed.wait(SECONDS)
    assert "an event that could not be encoded" in caplog.text


def test_commands_are_read_while_nothing_is_sent(worker: Worker) -> None:
    worker.connection.start()
    worker.frames.send(encode([Cancel("r")]))
    worker.sock.shutdown(socket.SHUT_WR)
    assert worker.is_closed.wait(SECONDS)
    assert worker.commands == [Cancel("r")]
