"""Streams of conversations that go on without their clients: kept in files, read from any byte, stopped, forgotten."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gevent
import gevent.socket
import orjson
import pytest
from flask.testing import FlaskClient
from gevent.event import Event as Signal

from srb.web.calls import kept_streams
from srb.web.calls.kept_streams import KeptStreams
from srb.web.dialects.llamacpp.answers import FoundStream
from srb.wire.commands import Generate, StopBranches
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Event
from tests.processes import DEADLINE
from tests.shapes import read
from tests.unit.test_web_chat import USER, serve, writes

CHAT, STREAM, LOOKUP = "/v1/chat/completions", "/v1/stream", "/v1/streams/lookup"
TEXTS = ("One", " two", " three")


def begin(
    http: FlaskClient, conversation: str = "talk", key: str = "", environ: dict[str, Any] | None = None, **body: Any
) -> Any:
    headers = {"X-Conversation-Id": conversation} if conversation else {}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    body = {"messages": [USER], "stream": True, **body}
    return http.post(CHAT, data=orjson.dumps(body), headers=headers, environ_overrides=environ)


def again(http: FlaskClient, start: Any = None, conversation: str = "talk", key: str = "") -> Any:
    query = {"conv_id": conversation} | ({} if start is None else {"from": str(start)})
    return http.get(STREAM, query_string=query, headers={"Authorization": f"Bearer {key}"} if key else {})


def look_up(http: FlaskClient, *conversations: str, key: str = "") -> list[dict[str, Any]]:
    body = orjson.dumps({"conversation_ids": conversations})
    answer = http.post(LOOKUP, data=body, headers={"Authorization": f"Bearer {key}"} if key else {})
    read(list[FoundStream], answer.data)
    found: list[dict[str, Any]] = answer.json
    return found


class Gated:
    """A script whose second half waits for `go`."""

    def __init__(self) -> None:
        self.go = Signal()

    def __call__(self, command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5)]
        yield [Delta(request_id, 0, TEXTS[0], [0])]
        assert self.go.wait(DEADLINE)
        yield [Delta(request_id, 0, TEXTS[1], [1]), Delta(request_id, 0, TEXTS[2], [2])]
        yield [BranchEnded(request_id, 0, "eos", 3), Done(request_id, 5, 2, 3, 10.0, 30.0)]


def text_of(stream: bytes) -> str:
    lines = [line.removeprefix(b"data: ") for line in stream.split(b"\n\n") if line and line != b"data: [DONE]"]
    choices = [choice for line in lines for choice in orjson.loads(line)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def leave_early(http: FlaskClient, **environ: Any) -> bytes:
    """Begin a stream, read it up to its first text, and leave; return what was read."""
    response = begin(http, environ=environ)
    parts: Iterator[bytes] = response.iter_encoded()
    seen = b""
    while TEXTS[0].encode() not in seen:
        seen += next(parts)
    response.close()
    return seen


def wait_until_over(http: FlaskClient) -> dict[str, Any]:
    with gevent.Timeout(DEADLINE):
        while not (found := look_up(http, "talk"))[0]["is_done"]:
            gevent.sleep(0.01)
    return found[0]


# Over HTTP ------------------------------------------------------------------------------------------------------------


def test_a_stream_is_read_again_from_any_byte() -> None:
    http, _ = serve(writes(*TEXTS))
    whole = begin(http).data
    assert text_of(whole) == "".join(TEXTS)
    for start in (None, 0, 1, len(whole) // 2, len(whole) - 1):
        answer = again(http, start)
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
        assert answer.data == whole[start or 0 :]
    assert again(http, len(whole)).data == b""
    (found,) = look_up(http, "talk", "another")
    assert (found["conversation_id"], found["is_done"], found["total_bytes"]) == ("talk", True, len(whole))
    assert 0 < found["started_at"] <= found["completed_at"] <= time.time()


def test_a_stream_goes_on_when_its_client_leaves() -> None:
    script = Gated()
    http, engine = serve(script)
    seen = leave_early(http)
    (found,) = look_up(http, "talk")
    assert (found["is_done"], found["completed_at"]) == (False, 0)
    reader = gevent.spawn(lambda: again(http).data)
    gevent.idle()
    script.go.set()
    total = wait_until_over(http)["total_bytes"]
    assert not engine.cancelled
    whole = reader.get(timeout=DEADLINE)
    assert (len(whole), text_of(whole)) == (total, "".join(TEXTS))
    assert whole.startswith(seen)
    assert again(http, len(seen)).data == whole[len(seen) :]


def test_without_the_header_and_without_a_stream_nothing_is_kept() -> None:
    http, _ = serve(writes(*TEXTS))
    begin(http, conversation="")
    begin(http, stream=False)
    assert look_up(http, "talk", "") == []
    missing = again(http)
    assert (missing.status_code, missing.json["error"]["message"]) == (404, "Stream not found or expired")


def test_a_stream_that_is_stopped_ends_its_request_and_is_forgotten() -> None:
    script = Gated()
    http, engine = serve(script)
    leave_early(http)
    (command,) = (each for each in engine.sent if isinstance(each, Generate))
    assert http.delete(STREAM, query_string={"conv_id": "talk"}).status_code == 204
    (stopped,) = (each for each in engine.sent if isinstance(each, StopBranches))
    assert (stopped.target, stopped.index) == (command.request_id, None)
    assert (look_up(http, "talk"), again(http).status_code) == ([], 404)
    assert http.delete(STREAM, query_string={"conv_id": "talk"}).status_code == 204
    script.go.set()


def test_a_conversation_has_one_stream_and_the_next_one_ends_it() -> None:
    script = Gated()
    http, engine = serve(script)
    leave_early(http)
    engine.script = writes("New")
    begin(http).close()
    script.go.set()
    with gevent.Timeout(DEADLINE):
        while text_of(again(http).data) != "New":
            gevent.sleep(0.01)
    assert len(look_up(http, "talk")) == 1
    assert [each for each in engine.sent if isinstance(each, StopBranches)]


def test_streams_of_a_conversation_with_several_models_are_found_together() -> None:
    http, _ = serve(writes(*TEXTS))
    for name in ("talk", "talk::a/b", "talker", "other::talk"):
        assert begin(http, name).data
    assert sorted(each["conversation_id"] for each in look_up(http, "talk")) == ["talk", "talk::a/b"]
    assert [each["conversation_id"] for each in look_up(http, "talk::a/b")] == ["talk::a/b"]
    assert len(look_up(http, "talk::a/b", "talk", "talk")) == 2, "each is told once"
    assert text_of(again(http, conversation="talk::a/b").data) == "".join(TEXTS)


def test_only_the_key_that_began_a_stream_sees_it() -> None:
    http, _ = serve(writes(*TEXTS), api_key="one,two")
    assert begin(http, key="one").data
    assert len(look_up(http, "talk", key="one")) == 1
    assert (look_up(http, "talk", key="two"), again(http, key="two").status_code) == ([], 404)


@pytest.mark.parametrize(
    ("method", "path", "param"),
    [
        ("GET", STREAM, "conv_id"),
        ("DELETE", STREAM, "conv_id"),
        ("GET", f"{STREAM}?conv_id=talk&from=-1", "from"),
        ("GET", f"{STREAM}?conv_id=talk&from=all", "from"),
        ("POST", LOOKUP, "conversation_ids"),
    ],
)
def test_a_bad_question_is_400_and_names_the_field(method: str, path: str, param: str) -> None:
    http, _ = serve(writes(*TEXTS))
    assert begin(http).data
    answer = http.open(path, method=method, data=b'{"conversation_ids": [1]}' if method == "POST" else None)
    assert (answer.status_code, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert str(answer.json["error"]["param"]).startswith(param)


def test_a_name_that_is_too_long_is_refused_and_the_request_is_cancelled() -> None:
    http, engine = serve(writes(*TEXTS))
    answer = begin(http, "x" * 1025)
    assert (answer.status_code, answer.json["error"]["param"]) == (400, "X-Conversation-Id")
    assert engine.cancelled


def test_readers_count_as_open_requests_until_they_leave() -> None:
    script = Gated()
    http, _ = serve(script, max_client_requests=3)
    leave_early(http)  # goes on, and counts
    readers = [again(http) for _ in range(2)]
    refused = again(http)
    assert (refused.status_code, refused.json["error"]["code"]) == (429, 429)
    readers[0].close()
    readers[0].close()
    readers.append(again(http))
    assert [each.status_code for each in readers] == [200] * 3
    script.go.set()
    for reader in readers[1:]:
        assert text_of(reader.data) == "".join(TEXTS)


# The files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptStreams:
    monkeypatch.setattr(kept_streams, "RING", 20)
    monkeypatch.setattr(kept_streams, "MAX_WRITE", 8)
    monkeypatch.setattr(kept_streams, "_SIZE", 28)
    return KeptStreams(tmp_path)


def read_all(streams: KeptStreams, start: int = 0, name: str = "talk") -> bytes:
    stream = streams.find("", name)
    assert stream is not None
    return b"".join(stream.read(start, lambda: True))


@pytest.mark.parametrize("step", [1, 7, 8, 9, 47])
def test_the_last_bytes_of_a_long_stream_are_kept(streams: KeptStreams, step: int) -> None:
    recording = streams.begin("", "talk", "r")
    text = bytes(range(65, 65 + 147))
    for at in range(0, len(text), step):
        recording.append(text[at : at + step])
    recording.finish()
    recording.finish()
    stream = streams.find("", "talk")
    assert stream is not None
    assert (stream.total, stream.first, stream.is_over) == (147, 127, True)
    for start in (127, 130, 140, 146, 147):
        assert read_all(streams, start) == text[start:]
    assert stream.path.stat().st_size <= kept_streams._HEAD + 28


def test_a_reader_that_is_too_slow_ends_before_bytes_that_others_were_written_over(streams: KeptStreams) -> None:
    recording = streams.begin("", "talk", "r")
    recording.append(b"abcdefgh")
    stream = streams.find("", "talk")
    assert stream is not None
    reader = stream.read(4, lambda: True)
    assert next(reader) == b"efgh"
    recording.append(bytes(100))
    assert list(reader) == []
    recording.finish()


def test_every_worker_sees_the_streams_of_all(streams: KeptStreams, tmp_path: Path) -> None:
    recording = streams.begin("", "talk", "r")
    recording.append(b"so far")
    other = KeptStreams(tmp_path)
    stream = other.find("", "talk")
    assert stream is not None
    assert (stream.total, stream.is_over, stream.request_id) == (6, False, "r")
    assert other.find("somebody", "talk") is None
    reader = stream.read(0, lambda: True)
    assert next(reader) == b"so far"
    other.remove(stream)
    recording.append(b" and on")
    assert not recording.is_kept
    recording.finish()
    assert list(reader) == []
    assert streams.find("", "talk") is None
    assert list((tmp_path / "streams").iterdir()) == []


def test_streams_of_the_past_are_swept(streams: KeptStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now - kept_streams.KEPT_SECONDS - 1)
        streams.begin("", "old", "a1").finish()
    assert streams.find("", "old") is None
    running, dying = streams.begin("", "running", "a2"), streams.begin("", "died", "a3")
    dying._close()  # as the end of its process does
    died = streams.find("", "died")
    assert died is not None
    assert died.is_over
    monkeypatch.setattr(kept_streams, "MAX_KEPT", 1)
    for number in range(3):
        streams.begin("", f"ended {number}", f"e{number}").finish()
    last = streams.begin("", "last", "a4")
    assert streams.find("", "died") is None
    assert streams.find("", "running") is not None
    assert sum(streams.find("", f"ended {number}") is not None for number in range(3)) == 1
    assert len(list(streams._root.iterdir())) == 3
    for recording in (running, last):
        recording.finish()


def test_a_reader_that_leaves_is_not_waited_for(streams: KeptStreams) -> None:
    recording = streams.begin("", "talk", "r")
    recording.append(b"begun")
    stream = streams.find("", "talk")
    assert stream is not None
    wanted = iter([True, False])
    assert list(stream.read(0, lambda: next(wanted))) == [b"begun"]
    recording.finish()


def test_nothing_of_a_stream_is_read_or_written_by_the_workers_loop(
    streams: KeptStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that hangs would stop all calls of the worker. A file is opened once by its writer, and once by each reader."""
    loop, calls = threading.get_ident(), list[str]()

    def noted(name: str, act: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if threading.get_ident() == loop:
                calls.append(name)
            return act(*given, **named)

        return call

    opened = []
    for module, name in (
        (os, "pread"),
        (os, "pwrite"),
        (os, "fstat"),
        (fcntl, "flock"),
        (Path, "open"),
        (Path, "unlink"),
    ):
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    open_ = Path.open
    monkeypatch.setattr(Path, "open", lambda *given, **named: opened.append(given) or open_(*given, **named))
    recording = streams.begin("", "talk", "r")
    stream = streams.find("", "talk")
    assert stream is not None
    before = len(opened)
    for _ in range(10):
        recording.append(b"x")
    assert len(opened) == before
    reader = stream.read(0, lambda: True)
    for _ in range(5):
        recording.append(b"y")
        assert next(reader)
    assert len(opened) == before + 1
    recording.finish()
    streams.remove(stream)
    assert calls == []


def test_a_disk_that_is_full_costs_the_kept_stream_alone(streams: KeptStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = streams.begin("", "talk", "r")
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    recording.append(b"text")
    assert not recording.is_kept
    recording.append(b"text")
    recording.finish()
    monkeypatch.undo()
    assert streams.find("", "talk") is None


def test_a_disk_without_room_for_a_stream_costs_no_chat_and_its_client_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    script = Gated()
    http, engine = serve(script)
    leave_early(http)
    assert engine.cancelled
    assert look_up(http, "talk") == []
    script.go.set()
    assert text_of(begin(http).data) == "".join(TEXTS)


def test_a_stream_that_nobody_can_read_again_ends() -> None:
    more, last = Signal(), Signal()

    def script(command: Generate) -> Iterable[list[Event]]:
        request_id = command.request_id
        yield [Accepted(request_id, 5)]
        yield [Delta(request_id, 0, TEXTS[0], [0])]
        assert more.wait(DEADLINE)
        yield [Delta(request_id, 0, TEXTS[1], [1])]
        assert last.wait(DEADLINE)

    http, engine = serve(script)
    leave_early(http)
    streams = http.application.extensions["srb"].streams
    streams.remove(streams.find("", "talk"))
    assert not engine.cancelled
    more.set()
    with gevent.Timeout(DEADLINE):
        while not engine.cancelled:
            gevent.sleep(0.01)
    last.set()


def test_a_client_that_has_left_its_stream_is_watched_no_more() -> None:
    script = Gated()
    http, _ = serve(script)
    calls = http.application.extensions["srb"].calls
    ours, theirs = gevent.socket.socketpair()
    with ours, theirs:
        leave_early(http, **{"gunicorn.socket": ours})
        (call,) = calls._open
        assert len(calls._clients) == 0
    ended: list[bool] = []
    call.at_close(lambda: ended.append(True))
    script.go.set()
    wait_until_over(http)
    with gevent.Timeout(DEADLINE):
        while not ended:
            gevent.sleep(0.01)
