"""Streams of conversations that go on without their clients: kept in files, read from any byte, stopped, forgotten."""

from __future__ import annotations

import os
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

from srb.protocol import Accepted, BranchEnded, Delta, Done, Event, Generate, StopBranches
from srb.web.calls import kept_streams
from srb.web.calls.kept_streams import KeptStreams
from srb.web.dialects.llamacpp.answers import FoundStream
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
        assert self.go.wait(10)
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
    with gevent.Timeout(10):
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
    whole = reader.get(timeout=10)
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
    script.go.set()
    engine.script = writes("New")
    begin(http).close()
    with gevent.Timeout(10):
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


# The files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptStreams:
    monkeypatch.setattr(kept_streams, "SEGMENT", 10)
    return KeptStreams(tmp_path)


def read_all(streams: KeptStreams, start: int = 0, name: str = "talk") -> bytes:
    stream = streams.find("", name)
    assert stream is not None
    return b"".join(stream.read(start, lambda: True))


def test_the_last_segments_of_a_long_stream_are_kept(streams: KeptStreams) -> None:
    recording = streams.begin("", "talk", "r")
    text = bytes(range(65, 65 + 47))
    for at in range(0, len(text), 7):
        recording.append(text[at : at + 7])
    recording.finish()
    recording.finish()
    stream = streams.find("", "talk")
    assert stream is not None
    assert (stream.total, stream.first, stream.is_over) == (47, 30, True)
    for start in (30, 35, 40, 46, 47):
        assert read_all(streams, start) == text[start:]


def test_every_worker_sees_the_streams_of_all(streams: KeptStreams, tmp_path: Path) -> None:
    recording = streams.begin("", "talk", "r")
    recording.append(b"so far")
    other = KeptStreams(tmp_path)
    stream = other.find("", "talk")
    assert stream is not None
    assert (stream.total, stream.is_over, stream.request_id) == (6, False, "r")
    assert other.find("somebody", "talk") is None
    other.remove(stream)
    recording.append(b" and on")
    recording.finish()
    assert streams.find("", "talk") is None
    assert stream.is_over
    assert list((tmp_path / "streams").iterdir()) == []


def test_streams_of_the_past_are_swept(streams: KeptStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams.begin("", "old", "r1").finish()
    [folder] = (tmp_path / "streams").iterdir()
    past = time.time() - kept_streams.KEPT_SECONDS - 1
    os.utime(folder / "done", (past, past))
    assert streams.find("", "old") is None
    broken, fresh = (tmp_path / "streams" / f"{number}.1" for number in range(2))
    for each in (broken, fresh):
        each.mkdir()
        (each / "about").touch()  # of a worker that died then
    os.utime(broken, (past, past))
    streams.begin("", "running", "r2")
    assert (folder.exists(), broken.exists(), fresh.exists()) == (False, False, True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 2**22 + 1)  # beyond Linux' process ids
        streams.begin("", "died", "r3")
    died = streams.find("", "died")
    assert died is not None
    assert died.is_over
    monkeypatch.setattr(kept_streams, "MAX_KEPT", 1)
    for number in range(3):
        streams.begin("", f"ended {number}", f"e{number}").finish()
    streams.begin("", "last", "r4")
    assert streams.find("", "died") is None
    assert streams.find("", "running") is not None
    assert sum(streams.find("", f"ended {number}") is not None for number in range(3)) == 1


def test_a_reader_that_leaves_is_not_waited_for(streams: KeptStreams) -> None:
    streams.begin("", "talk", "r").append(b"begun")
    stream = streams.find("", "talk")
    assert stream is not None
    wanted = iter([True, False])
    assert list(stream.read(0, lambda: next(wanted))) == [b"begun"]


def test_a_disk_that_is_full_costs_the_kept_stream_alone(streams: KeptStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = streams.begin("", "talk", "r")

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    recording.append(b"text")
    recording.append(b"text")
    recording.finish()
    monkeypatch.undo()
    assert streams.find("", "talk") is None


def test_a_disk_without_room_for_a_stream_costs_no_chat_and_its_client_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
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
        assert more.wait(10)
        yield [Delta(request_id, 0, TEXTS[1], [1])]
        assert last.wait(10)

    http, engine = serve(script)
    leave_early(http)
    streams = http.application.extensions["srb"].streams
    streams.remove(streams.find("", "talk"))
    assert not engine.cancelled
    more.set()
    with gevent.Timeout(10):
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
    with gevent.Timeout(10):
        while not ended:
            gevent.sleep(0.01)
