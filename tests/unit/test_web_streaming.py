"""Streams and open calls: ends, cancels, keep-alives, clients that leave, workers that stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import gevent
import gevent.socket
import pytest

from srb.config.settings import Settings
from srb.errors import Cancelled, DecodeFailed, QueueFull, ShuttingDown, SRBError
from srb.web.calls import calls
from srb.web.calls.calls import Call, Calls
from srb.web.calls.outcome import gather
from srb.web.calls.streaming import MAX_WRITE, PING, EventStream, writes
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import (
    Accepted,
    BranchEnded,
    Delta,
    Done,
    Event,
    Failed,
    Progress,
    PromptDone,
    PromptLogprobs,
    Rejected,
)
from tests.processes import DEADLINE
from tests.scripted import ScriptedClient
from tests.shapes import chunks_of

COMMAND = Generate("r1", ("Once",), (BranchSpec(1), BranchSpec(2)))


class Plain:
    """A renderer that shows which of its methods was called."""

    event_end = b";"
    writes_one_by_one = False

    def start(self) -> bytes:
        return b"start;"

    def prompt(self, event: Progress | PromptLogprobs | PromptDone) -> bytes:
        return b"%s;" % type(event).__name__.encode()

    def delta(self, event: Delta) -> bytes:
        return b"%d:%s;" % (event.index, event.text.encode()) if event.text else b""

    def branch_ended(self, event: BranchEnded) -> bytes:
        return b"%d ended;" % event.index

    def end(self, done: list[Done]) -> bytes:
        return b"end %d;" % len(done)

    def failed(self, error: SRBError) -> bytes:
        return b"failed %s;" % error.code.encode()


def accept_only(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 5)]


def eventually(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    with gevent.Timeout(seconds):
        while not condition():
            gevent.sleep(0.005)


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient(Settings(max_body_bytes=2**27), accept_only)


@pytest.fixture
def requests(client: ScriptedClient) -> Calls:
    return Calls(lambda: client, Settings(graceful_timeout=1, client_timeout=7))


def stream_of(call: Call, ping_interval: float = 5.0) -> EventStream:
    return EventStream(call, Plain(), ping_interval)


def test_one_write_carries_everything_that_has_arrived(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    assert next(stream) == b"start;"
    client.receive([Delta("r1", 0, "a", [1]), Delta("r1", 1, "b", [1])])
    client.receive([Delta("r1", 0, "c", [1])])
    assert next(stream) == b"0:a;1:b;0:c;"


def test_in_one_write_each_event_is_a_chunk_of_its_own(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    assert chunks_of(next(stream).chunks) == [b"start;"]
    client.receive([Delta("r1", 0, "a", [1]), Delta("r1", 1, "", [1]), Delta("r1", 1, "b", [1])])
    client.receive([BranchEnded("r1", 0, "eos", 1), BranchEnded("r1", 1, "eos", 1), Done("r1", 5, 0, 2, 1.0, 1.0)])
    assert chunks_of(next(stream).chunks) == [b"0:a;", b"1:b;", b"0 ended;", b"1 ended;", b"end 1;"]


@pytest.mark.parametrize(
    ("parts", "event_end", "events"),
    [
        ([b"a\n\n", b"b\n\n"], b"\n\n", [b"a\n\n", b"b\n\n"]),
        ([b"", b"a\n\nb\n\n", b""], b"\n\n", [b"a\n\n", b"b\n\n"]),
        ([b"a\n\n\n", b"b\n"], b"", [b"a\n\n\n", b"b\n"]),
        ([b"", b""], b"\n\n", []),
        ([b"x" * 3 * MAX_WRITE + b";", b"y;"], b";", [b"x" * 3 * MAX_WRITE + b";", b"y;"]),
        ([b"y;"] * 2 * MAX_WRITE, b";", [b"y;"] * 2 * MAX_WRITE),
    ],
)
def test_writes_are_short_and_their_chunks_are_the_events(
    parts: list[bytes], event_end: bytes, events: list[bytes]
) -> None:
    found = writes(parts, event_end)
    assert b"".join(found) == b"".join(events)
    assert chunks_of(b"".join(write.chunks for write in found)) == events
    assert all(0 < len(write) <= MAX_WRITE for write in found)
    assert all(0 < len(write.chunks) <= 8 * MAX_WRITE for write in found)


def test_a_dialect_may_have_each_event_written_alone(client: ScriptedClient, requests: Calls) -> None:
    renderer = Plain()
    renderer.writes_one_by_one = True
    stream = EventStream(requests.open([COMMAND], {}, streamed=True), renderer, 5)
    next(stream)
    client.receive([Delta("r1", 0, "a", [1]), Delta("r1", 0, "b", [2]), Delta("r1", 0, "", [3])])
    client.receive([BranchEnded("r1", 0, "eos", 1), BranchEnded("r1", 1, "eos", 1), Done("r1", 5, 0, 2, 1.0, 1.0)])
    assert list(stream) == [b"0:ab;", b"0 ended;", b"1 ended;", b"end 1;"]


def test_an_event_that_a_dialect_does_not_render_is_no_write(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    next(stream)
    client.receive([Delta("r1", 0, "", [1])])
    gevent.spawn_later(0.01, client.receive, [Delta("r1", 0, "é", [1, 2])])
    assert next(stream) == "0:é;".encode()


def test_a_stream_that_ended_by_itself_cancels_nothing(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    next(stream)
    client.receive([BranchEnded("r1", 0, "eos", 1), BranchEnded("r1", 1, "eos", 1), Done("r1", 5, 0, 2, 1.0, 1.0)])
    assert list(stream) == [b"0 ended;1 ended;end 1;"]
    stream.close()
    assert client.cancelled == []
    assert len(requests) == 0


def test_closing_cancels_exactly_once_even_if_never_iterated(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    stream.close()
    stream.close()
    assert client.cancelled == ["r1"]
    assert list(stream) == []
    assert len(requests) == 0


def test_a_failure_ends_the_stream_and_nothing_follows_it(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    next(stream)
    client.receive([Delta("r1", 0, "a", [1])])
    client.lose_engine()
    assert list(stream) == [b"0:a;failed engine_restarted;"]


def test_a_fault_in_rendering_is_said_and_cancels(client: ScriptedClient, requests: Calls) -> None:
    class Broken(Plain):
        def delta(self, event: Delta) -> bytes:
            raise RuntimeError("boom")

    stream = EventStream(requests.open([COMMAND], {}, streamed=True), Broken(), 5)
    next(stream)
    client.receive([Delta("r1", 0, "a", [1])])
    assert list(stream) == [b"failed internal_error;"]
    stream.close()
    assert client.cancelled == ["r1"]


def test_silence_is_filled_with_comments(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True), ping_interval=0.01)
    assert [next(stream) for _ in range(3)] == [b"start;", PING, PING]
    stream.close()


def test_a_refused_call_is_not_kept(client: ScriptedClient, requests: Calls) -> None:
    client.script = lambda command: [[Rejected(command.request_id, "queue_full", "full", {})]]
    with pytest.raises(QueueFull):
        requests.open([COMMAND], {}, streamed=True)
    assert len(requests) == 0
    assert client.cancelled == []


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A connected pair, the server's end first, and a watchdog that looks often."""
    monkeypatch.setattr(calls, "SCAN_INTERVAL", 0.01)
    pair = gevent.socket.socketpair()
    yield pair
    for sock in pair:
        sock.close()


def test_a_client_that_leaves_cancels_its_stream(
    client: ScriptedClient, requests: Calls, connection: tuple[Any, Any]
) -> None:
    ours, theirs = connection
    stream = stream_of(requests.open([COMMAND], {"gunicorn.socket": ours}, streamed=True))
    next(stream)
    theirs.close()
    assert next(stream) == b"failed cancelled;"
    assert client.cancelled == ["r1"]


def test_a_client_that_leaves_while_it_is_queued_is_noticed(
    client: ScriptedClient, requests: Calls, connection: tuple[Any, Any]
) -> None:
    ours, theirs = connection
    client.script = lambda command: []  # neither accepted nor refused
    opening = gevent.spawn(requests.open, [COMMAND], {"gunicorn.socket": ours}, streamed=True)
    eventually(lambda: client.sent)
    theirs.close()
    with pytest.raises(Cancelled):
        opening.get(timeout=DEADLINE)
    assert client.cancelled == ["r1"]
    assert len(requests) == 0


def test_a_client_that_leaves_before_a_complete_answer_is_noticed(
    client: ScriptedClient, requests: Calls, connection: tuple[Any, Any]
) -> None:
    ours, theirs = connection
    gathering = gevent.spawn(gather, requests.open([COMMAND], {"gunicorn.socket": ours}, streamed=False))
    eventually(lambda: client.sent)
    theirs.close()
    with pytest.raises(Cancelled):
        gathering.get(timeout=DEADLINE)
    assert client.cancelled == ["r1"]


def test_a_worker_that_stops_ends_open_calls_after_the_grace_and_refuses_others_then(
    client: ScriptedClient, requests: Calls
) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    next(stream)
    requests.shut_down(grace=0.05)
    requests.open([replace(COMMAND, request_id="r2")], {}, streamed=True).close()
    client.receive([Delta("r1", 0, "a", [1])])
    assert list(stream) == [b"0:a;", b"failed shutting_down;"]
    assert client.cancelled == ["r2", "r1"]
    with pytest.raises(ShuttingDown):
        requests.open([COMMAND], {}, streamed=True)


def test_a_worker_that_stops_does_not_wait_for_another_request(
    client: ScriptedClient, requests: Calls, connection: tuple[Any, Any]
) -> None:
    ours, _ = connection
    call = requests.open([COMMAND], {"gunicorn.socket": ours}, streamed=True)
    requests.shut_down(grace=0)
    eventually(lambda: call.mailbox.done)
    call.close()
    assert ours.recv(1) == b""


def test_gathering_raises_the_failure_of_the_request(client: ScriptedClient, requests: Calls) -> None:
    call = requests.open([COMMAND], {}, streamed=False)
    client.receive([Failed("r1", "decode_failed", "no")])
    with pytest.raises(DecodeFailed):
        gather(call)
    assert len(requests) == 0


# Clients that read slowly ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_probs", [False, True])
def test_row_18_while_nobody_reads_a_branchs_text_is_put_together_and_none_is_dropped(
    client: ScriptedClient, requests: Calls, has_probs: bool
) -> None:
    """Tokens with probabilities stay apart: clients read one of each event."""
    call = requests.open([COMMAND], {}, streamed=True)
    stream = stream_of(call)
    next(stream)
    for number in range(10_000):
        probs: Any = [{"id": number}] if has_probs else None
        client.receive([Delta("r1", number % 2, f"{number} ", [number], probs)])
    client.receive([BranchEnded("r1", 0, "eos", 5_000)])
    events = call.mailbox.take()
    assert len(events) == 10_001 if has_probs else len(events) < 1_000
    for index in (0, 1):
        deltas = [event for event in events if isinstance(event, Delta) and event.index == index]
        numbers = list(range(index, 10_000, 2))
        assert "".join(delta.text for delta in deltas) == "".join(f"{number} " for number in numbers)
        assert [token for delta in deltas for token in delta.tokens] == numbers
        assert [prob["id"] for delta in deltas for prob in delta.probs or ()] == (numbers if has_probs else [])
    assert isinstance(events[-1], BranchEnded)
    stream.close()


def test_row_18_text_beyond_what_may_wait_ends_that_request_alone() -> None:
    client = ScriptedClient(Settings(max_body_bytes=2**19), accept_only)
    requests = Calls(lambda: client, Settings())
    slow, other = (
        stream_of(requests.open([COMMAND], {}, streamed=True)),
        stream_of(requests.open([replace(COMMAND, request_id="r2")], {}, streamed=True)),
    )
    assert next(slow) == next(other) == b"start;"
    for _ in range(70):
        client.receive([Delta("r1", 0, "x" * 1000, [1]), Delta("r2", 0, "x", [1])])
    assert client.cancelled == ["r1"]
    whole = b"".join(slow)
    assert whole.count(b"x") > 60_000
    assert whole.endswith(b"failed slow_client;")
    assert next(other).count(b"x") == 70


def test_row_18_long_text_is_written_piece_by_piece(client: ScriptedClient, requests: Calls) -> None:
    stream = stream_of(requests.open([COMMAND], {}, streamed=True))
    next(stream)
    client.receive([Delta("r1", 0, "x" * 100_000, [1])])
    pieces = [next(stream) for _ in range(7)]
    assert b"".join(pieces) == b"0:%s;" % (b"x" * 100_000)
    assert max(map(len, pieces)) <= 16384
    stream.close()
