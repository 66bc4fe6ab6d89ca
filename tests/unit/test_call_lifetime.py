"""One lifetime for every call: whatever happens between its first command and its last byte, nothing of it is left."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gevent
import gevent.event
import gevent.socket
import gevent.ssl
import orjson
import pytest

from srb.config.settings import Settings
from srb.errors import Cancelled, ShuttingDown, Unavailable
from srb.web.app import Application, create_app
from srb.web.calls import calls as calls_module
from srb.web.calls import client_watch, streaming
from srb.web.calls.calls import Calls
from srb.web.calls.client_watch import ClientWatch
from srb.web.dialects.llamacpp import completions as llamacpp
from srb.web.dialects.openai import chat, completion_render, completions
from srb.web.dialects.srb import routes as srb
from srb.wire.commands import Cancel, Embed, Generate, Rerank
from srb.wire.events import Accepted, Event, Rejected
from tests.processes import DEADLINE, self_signed
from tests.scripted import ScriptedClient, count_to_three

MESSAGES = [{"role": "user", "content": "Hello"}]
OPENAI = {"model": "m", "prompt": "Once"}

# Each route that generates, a body for it, and what stands between its request and its answer.
STREAMED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("/v1/completions", OPENAI | {"stream": True}, completion_render, "CompletionRenderer"),
    ("/v1/completions", OPENAI | {"stream": True}, completions, "stream_response"),
    ("/v1/srb/completions", {"prompt": "Once"}, srb, "SRBRenderer"),
    ("/v1/srb/completions", {"prompt": "Once"}, srb, "stream_response"),
    ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}, chat, "ChatRenderer"),
    ("/completion", {"prompt": "Once", "stream": True}, llamacpp, "Answers"),
    ("/completion", {"prompt": "Once", "stream": True}, llamacpp, "LlamaRenderer"),
    ("/stream", {"prompt": "Once"}, llamacpp.legacy, "LineRenderer"),
    ("/stream", {"prompt": "Once"}, llamacpp.legacy, "Response"),
    ("/completion", {"prompt": "Hello", "anti_prompt": "User:"}, llamacpp.legacy, "DialogueRenderer"),
    ("/completion", {"prompt": "Once", "stream": True}, streaming, "Response"),
]
GATHERED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("/v1/completions", OPENAI, completions, "gather"),
    ("/v1/srb/completions", {"prompt": "Once", "stream": False}, srb, "gather"),
    ("/v1/chat/completions", {"messages": MESSAGES}, chat, "gather"),
    ("/completion", {"prompt": "Once"}, llamacpp, "gather"),
    ("/completion", {"prompt": "Once"}, llamacpp, "Answers"),
]


def accept_only(command: Generate) -> Iterable[list[Event]]:
    yield [Accepted(command.request_id, 5)]


def calls_of(app: Application) -> Calls:
    calls: Calls = app.extensions["srb"].calls
    return calls


def eventually(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    with gevent.Timeout(seconds):
        while not condition():
            gevent.sleep(0.005)


def never_answers(command: Any, values: dict[str, float]) -> Any:
    gevent.sleep(10 * DEADLINE)


@pytest.fixture
def engine() -> ScriptedClient:
    return ScriptedClient(Settings(), accept_only)


@pytest.mark.parametrize(("path", "body", "module", "name"), STREAMED + GATHERED)
def test_row_43_an_exception_after_the_request_was_submitted_is_500_and_cancels_it(
    engine: ScriptedClient, path: str, body: dict[str, Any], module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **options: Any) -> Any:
        raise RuntimeError("boom")

    app = create_app(Settings(max_client_requests=1), engine)
    monkeypatch.setattr(module, name, fails)
    for _ in range(2):  # what the first one held is free for the second
        answer = app.test_client().post(path, data=orjson.dumps(body))
        assert (answer.status_code, answer.json["error"]["message"]) == (500, "Internal error")
    generated = [command.request_id for command in engine.sent if isinstance(command, Generate)]
    assert engine.cancelled == generated
    assert len(generated) == 2
    assert len(calls_of(app)) == 0


def test_row_43_a_stream_that_never_reaches_the_server_is_closed(engine: ScriptedClient) -> None:
    app = create_app(Settings(), engine)

    def start_response(*args: Any) -> Any:
        raise OSError("no space left")

    environ = app.test_client().application.test_request_context(
        "/v1/completions", method="POST", data=b'{"prompt": "Once"}'
    )
    with pytest.raises(OSError, match="no space"):
        app(environ.request.environ, start_response)
    assert len(engine.cancelled) == 1
    assert len(calls_of(app)) == 0


@pytest.mark.parametrize(
    "body",
    [{"n": 0}, {"n_probs": 10**6}, {"n": 64, "n_probs": 256, "n_predict": 4096}, {"grammar": "root ::= "}],
    ids=["n", "n_probs", "too large", "the engine's refusal"],
)
def test_a_refused_request_sets_no_system_prompt(body: dict[str, Any]) -> None:
    engine = ScriptedClient(Settings(), lambda command: [[Rejected(command.request_id, "invalid_request", "no", {})]])
    app = create_app(Settings(), engine)
    pirate = {"prompt": "x", "system_prompt": {"prompt": "Arrr. "}}
    answer = app.test_client().post("/completion", json=pirate | body)
    assert answer.status_code == 400
    assert app.extensions["srb"].system_prompt.get().prompt == ""
    engine.script = count_to_three
    assert app.test_client().post("/completion", json=pirate).status_code == 200
    assert engine.sent[-1].prompt == ("Arrr. ", "x")
    assert app.extensions["srb"].system_prompt.get().prompt == "Arrr. "


# Embeddings and rankings ----------------------------------------------------------------------------------------------

WORK = [
    ("/embedding", {"content": "a"}),
    ("/v1/embeddings", {"input": "a"}),
    ("/rerank", {"query": "a", "documents": ["b"]}),
]


@pytest.fixture
def busy(engine: ScriptedClient) -> ScriptedClient:
    engine.answers = never_answers
    return engine


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A connected pair, the server's end first, and a watchdog that looks often."""
    monkeypatch.setattr(calls_module, "SCAN_INTERVAL", 0.01)
    pair = gevent.socket.socketpair()
    yield pair
    for sock in pair:
        sock.close()


def posting(app: Application, path: str, body: dict[str, Any], **environ: Any) -> Any:
    return gevent.spawn(app.test_client().post, path, json=body, environ_overrides=environ)


@pytest.mark.parametrize(("path", "body"), WORK)
def test_row_42_a_client_that_leaves_its_embedding_cancels_it(
    busy: ScriptedClient, pair: tuple[Any, Any], path: str, body: dict[str, Any]
) -> None:
    app = create_app(Settings(), busy)
    ours, theirs = pair
    answering = posting(app, path, body, **{"gunicorn.socket": ours})
    eventually(lambda: busy.sent)
    assert len(calls_of(app)) == 1
    theirs.close()
    assert answering.get(timeout=DEADLINE).status_code == 499
    assert busy.sent[1] == Cancel(busy.sent[0].request_id, leaves=True)
    assert len(calls_of(app)) == 0


@pytest.mark.parametrize(("path", "body"), WORK)
def test_an_embedding_is_ended_with_an_answer_when_the_server_stops(
    busy: ScriptedClient, path: str, body: dict[str, Any]
) -> None:
    app = create_app(Settings(), busy)
    answering = posting(app, path, body)
    eventually(lambda: busy.sent)
    calls_of(app).shut_down(grace=0.01)
    answer = answering.get(timeout=DEADLINE)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json["error"]["message"] == "The server is shutting down"
    assert isinstance(busy.sent[1], Cancel)
    assert app.test_client().post(path, json=body).status_code == 503


TEXTS = [
    ("/tokenize", {"content": "a"}),
    ("/v1/internal/token-count", {"text": "a"}),
    ("/api/extra/tokencount", {"prompt": "a"}),
    ("/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": "a"}]}),
]


@pytest.mark.parametrize(("path", "body"), TEXTS)
def test_a_client_that_leaves_its_tokenization_cancels_it(
    busy: ScriptedClient, pair: tuple[Any, Any], path: str, body: dict[str, Any]
) -> None:
    app = create_app(Settings(max_client_requests=1), busy)
    ours, theirs = pair
    answering = posting(app, path, body, **{"gunicorn.socket": ours})
    eventually(lambda: busy.sent)
    assert len(calls_of(app)) == 0, "it does not count as a request"
    assert busy.sent[0].owner == "127.0.0.1"
    theirs.close()
    assert answering.get(timeout=DEADLINE).status_code == 499
    assert busy.sent[1] == Cancel(busy.sent[0].request_id, leaves=True)


def test_the_end_is_waited_for_until_the_last_client_was_told_and_no_longer_than_that() -> None:
    app = create_app(Settings(), ScriptedClient(Settings(), count_to_three))
    calls = calls_of(app)
    calls.wait_ended(DEADLINE)  # nothing is open
    answer = app.test_client().post("/v1/srb/completions", json={"prompt": "Once"}, buffered=False)
    calls.shut_down(grace=0)
    with gevent.Timeout(DEADLINE):
        calls.wait_ended(0.05)  # its client reads nothing
    assert len(calls) == 1
    ended = gevent.spawn(calls.wait_ended, 10 * DEADLINE)
    gevent.sleep(0.01)
    assert not ended.ready()
    answer.close()
    ended.get(timeout=DEADLINE)


def test_embeddings_count_as_open_calls_of_their_client(busy: ScriptedClient) -> None:
    app = create_app(Settings(max_client_requests=1), busy)
    answering = posting(app, *WORK[0])
    eventually(lambda: busy.sent)
    assert b"srb:http_calls_open 1.0" in app.metrics.render({})
    for path, body in WORK:
        assert app.test_client().post(path, json=body).status_code == 429
    calls_of(app).shut_down(grace=0)
    answering.get(timeout=DEADLINE)
    assert b"srb:http_calls_open 0.0" in app.metrics.render({})


def test_an_embedding_that_takes_too_long_is_503_and_cancelled(
    busy: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "WORK_DEADLINE", 0.02)
    calls = Calls(lambda: busy, Settings())
    with pytest.raises(Unavailable):
        calls.ask(Embed("e1", (("a",),)), {})
    assert busy.cancelled == ["e1"]
    calls.shut_down(grace=0)
    gevent.sleep(0.01)
    with pytest.raises(ShuttingDown):
        calls.ask(Rerank("e2", "a", ("b",)), {})


# Clients that leave ---------------------------------------------------------------------------------------------------


@pytest.fixture
def watch() -> ClientWatch[str]:
    return ClientWatch()


def test_a_client_that_waits_or_sends_more_has_not_left(watch: ClientWatch[str], pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    watch.add(ours, "a")
    assert watch.left() == []
    theirs.sendall(b"GET / HTTP/1.1\r\n")
    assert watch.left() == []
    assert ours.recv(100) == b"GET / HTTP/1.1\r\n"  # looking has read nothing


def close(sock: Any) -> None:
    sock.close()


def half_close(sock: Any) -> None:
    sock.shutdown(socket.SHUT_WR)


def send_a_byte_and_close(sock: Any) -> None:
    sock.sendall(b"G")
    sock.close()


def send_a_byte_and_half_close(sock: Any) -> None:
    sock.sendall(b"G")
    sock.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("leave", [close, half_close, send_a_byte_and_close, send_a_byte_and_half_close])
def test_row_42_a_client_has_left_whatever_lies_unread(
    engine: ScriptedClient, pair: tuple[Any, Any], leave: Callable[[Any], None]
) -> None:
    ours, theirs = pair
    call = Calls(lambda: engine, Settings()).open(
        [Generate("r1", ("Once",), ())], {"gunicorn.socket": ours}, streamed=False
    )
    leave(theirs)
    with pytest.raises(Cancelled):
        raise call.mailbox.take(DEADLINE)[0].error
    assert engine.cancelled == ["r1"]
    call.close()


class SlowToConnect(ScriptedClient):
    """An engine that is found only when the test says so."""

    def __init__(self) -> None:
        super().__init__(Settings(), accept_only)
        self.found = gevent.event.Event()

    def _ready_connection(self) -> Any:
        self.found.wait(DEADLINE)
        return super()._ready_connection()


def test_a_client_that_leaves_before_there_is_an_engine_is_cancelled_when_there_is(pair: tuple[Any, Any]) -> None:
    engine = SlowToConnect()
    ours, theirs = pair
    calls = Calls(lambda: engine, Settings())
    opening = gevent.spawn(calls.open, [Generate("r1", ("Once",), ())], {"gunicorn.socket": ours}, streamed=True)
    eventually(lambda: len(calls))
    theirs.close()
    gevent.sleep(0.05)  # seen to have left, several times
    engine.found.set()
    call = opening.get(timeout=DEADLINE)
    assert [event.code for event in call.mailbox.take(DEADLINE)] == ["cancelled"]
    assert engine.cancelled == ["r1"]
    call.close()


def test_a_server_that_stops_before_there_is_an_engine_ends_its_calls_when_there_is() -> None:
    engine = SlowToConnect()
    calls = Calls(lambda: engine, Settings())
    asking = gevent.spawn(calls.ask, Embed("e1", (("a",),)), {})
    eventually(lambda: len(calls))
    calls.shut_down(grace=0)
    gevent.sleep(0.01)
    engine.found.set()
    with pytest.raises(ShuttingDown):
        asking.get(timeout=DEADLINE)
    assert engine.cancelled == ["e1"]


def test_a_socket_that_was_watched_is_watched_no_more(watch: ClientWatch[str], pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    watch.add(ours, "a")
    watch.remove("a")
    watch.remove("a")
    theirs.close()
    assert watch.left() == []
    assert len(watch) == 0


def test_a_socket_whose_descriptor_another_has_by_now_may_be_removed(
    watch: ClientWatch[str], pair: tuple[Any, Any]
) -> None:
    ours, _ = pair
    watch.add(ours, "a")
    watch.add(ours, "b")
    watch.remove("b")
    watch.remove("a")
    assert len(watch) == 0


def test_a_connection_that_a_stopping_server_has_shut_itself_has_a_client_until_it_resets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            ours.shutdown(socket.SHUT_RD)
            watch: ClientWatch[str] = ClientWatch()
            watch.add(ours, "a", may_be_shut=True)
            assert watch.left() == []
            ours.sendall(b"x")
            theirs.close()  # with a byte unread: a reset
            eventually(lambda: watch.left() == ["a"])


def test_a_client_that_left_before_it_was_watched_has_left(watch: ClientWatch[str], pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    theirs.close()
    watch.add(ours, "a")
    assert watch.left() == ["a"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a peer has acknowledged something")
def test_a_client_that_reads_slowly_or_not_at_all_has_not_vanished(watch: ClientWatch[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        theirs.connect(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            ours.setblocking(False)
            watch.add(ours, "a")
            sent = 0
            with suppress(BlockingIOError):
                while True:
                    sent += ours.send(b"x" * 4096)
            for _ in range(80):  # longer than the limit, which is far above the times at which a system asks again
                assert watch.vanished(3) == []
                sent -= len(theirs.recv(256))
                time.sleep(0.05)
            assert sent > 0


@pytest.mark.parametrize(
    ("silences", "vanished"),
    [
        ([0, 10, 20, 30], True),
        ([99, 109, 119, 129], True),  # long ago, but nothing was sent until now: counted from the first look
        ([0, 10, None, 30], False),  # all was acknowledged in between
        ([0, 10, 1, 11], False),
    ],
)
def test_a_client_that_acknowledges_nothing_has_vanished(
    monkeypatch: pytest.MonkeyPatch,
    watch: ClientWatch[str],
    pair: tuple[Any, Any],
    silences: list[float | None],
    vanished: bool,
) -> None:
    watch.add(pair[0], "a")
    for second, silence in zip((0, 10, 20, 30), silences, strict=True):
        monkeypatch.setattr(client_watch, "_silence", lambda _, silence=silence: silence)
        monkeypatch.setattr(client_watch.time, "monotonic", lambda second=second: second)
        found = watch.vanished(30)
    monkeypatch.undo()
    assert found == (["a"] if vanished else [])


@pytest.mark.parametrize("leave", [close, half_close])
def test_without_pollrdhup_an_end_that_can_be_read_is_seen(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Any, Any], leave: Callable[[Any], None]
) -> None:
    monkeypatch.setattr(client_watch, "_SENT_ALL", 0)
    watch: ClientWatch[str] = ClientWatch()
    ours, theirs = pair
    watch.add(ours, "a")
    theirs.sendall(b"G")
    assert watch.left() == []
    ours.recv(1)
    assert watch.left() == []
    leave(theirs)
    assert watch.left() == ["a"]


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only Linux says POLLRDHUP")
@pytest.mark.parametrize("leave", [close, half_close])
def test_row_42_a_tls_client_that_says_close_notify_has_left(
    tmp_path: Path, watch: ClientWatch[str], leave: Callable[[Any], None]
) -> None:
    key, certificate = self_signed(tmp_path)
    serving = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    asking = gevent.ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    left, right = gevent.socket.socketpair()
    accepting = gevent.spawn(serving.wrap_socket, left, server_side=True)
    theirs = asking.wrap_socket(right)
    ours = accepting.get(timeout=DEADLINE)
    watch.add(ours, "a")
    assert watch.left() == []
    theirs.settimeout(0.05)
    with suppress(OSError):
        theirs.unwrap()  # the server does not answer it
    leave(theirs)
    eventually(lambda: watch.left() == ["a"])
    watch.remove("a")
    ours.close()
    theirs.close()
