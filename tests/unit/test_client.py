"""EngineClient over a real Unix socket, with a scripted engine at the other end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import gevent.socket
import orjson
import pytest

from srb.config.settings import Settings
from srb.errors import (
    BodyTooLarge,
    EngineLoading,
    EngineRestarted,
    ForeignEngine,
    InvalidRequest,
    ModelLoadFailed,
    SRBError,
    Unavailable,
)
from srb.status import write_status
from srb.web.calls import engine_client
from srb.web.calls.engine_client import EngineClient
from srb.web.calls.mailbox import Mailbox
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import BranchSpec, Cancel, Generate, GetStats, Rerank
from srb.wire.events import Accepted, Delta, Done, Failed, Hello, Ready, Rejected, Reply
from srb.wire.framing import FrameSocket
from tests.processes import DEADLINE
from tests.scripted import MODEL, ScriptedClient

Answer = Callable[["Engine", Any], None]


class Engine:
    """An engine's listening socket, which greets each connection and passes every command to `answer`."""

    def __init__(self, path: Path, answer: Answer, greeting: list[Any] | None = None) -> None:
        self.received: list[Any] = []
        self.greeting = [Hello(VERSION, 1), Ready(MODEL.as_dict())] if greeting is None else greeting
        self.connections = 0
        self._answer = answer
        self._frames: FrameSocket | None = None
        path.unlink(missing_ok=True)
        self._listener = gevent.socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._serving = gevent.spawn(self._serve)

    def send(self, *events: Any) -> None:
        self.send_frame(encode(events))

    def send_frame(self, payload: bytes) -> None:
        assert self._frames is not None
        self._frames.send(payload)

    def hang_up(self) -> None:
        assert self._frames is not None
        self._frames.close()

    def close(self) -> None:
        self._serving.kill()
        self._listener.close()
        if self._frames is not None:
            self._frames.close()

    def _serve(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            self.connections += 1
            self._frames = FrameSocket(sock)
            self.send(*self.greeting)
            try:
                while True:
                    for command in decode(self._frames.receive()):
                        self.received.append(command)
                        self._answer(self, command)
            except (EOFError, OSError):
                self._frames.close()


def accept(engine: Engine, command: Any) -> None:
    if isinstance(command, Generate):
        engine.send(Accepted(command.request_id, 3))


def say_nothing(engine: Engine, command: Any) -> None:
    pass


def generate(request_id: str = "r1") -> Generate:
    return Generate(request_id, ("Once",), (BranchSpec(1), BranchSpec(2)))


def eventually(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    with gevent.Timeout(seconds):
        while not condition():
            gevent.sleep(0.005)


def is_connected(client: EngineClient) -> bool:
    return repr(client).startswith("<EngineClient ready ")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(runtime_dir=str(tmp_path), model="/models/tale.gguf")


@pytest.fixture
def client(settings: Settings) -> Iterator[EngineClient]:
    client = EngineClient(settings)
    yield client
    if client._keeper is not None:
        client._keeper.kill()


@pytest.fixture
def engine_at(settings: Settings) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def start(answer: Answer = accept, **options: Any) -> Engine:
        engines.append(Engine(settings.socket_path, answer, **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


def test_nothing_connects_before_the_first_use(
    client: EngineClient, engine_at: Callable[..., Engine], settings: Settings
) -> None:
    engine = engine_at()
    for number in (1, 2):  # the engine serves one after another: the second would wait for a client that has connected
        with gevent.socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(str(settings.socket_path))
            eventually(lambda number=number: engine.connections == number)
    assert client.check_ready() == MODEL
    assert engine.connections == 3


def test_without_an_engine_a_request_is_told_that_the_model_loads(client: EngineClient) -> None:
    with pytest.raises(EngineLoading, match=r"^Loading model$"):
        client.submit(generate())


def test_a_model_that_is_being_loaded_is_said_with_its_name_and_percentage(
    client: EngineClient, settings: Settings
) -> None:
    with pytest.raises(EngineLoading, match=r"^Loading model$") as loading:
        client.check_ready()
    assert loading.value.body()["error"]["model"] == "tale"
    write_status(settings.runtime_path, "starting", "the model is being loaded", percent=42)
    with pytest.raises(EngineLoading, match=r"^Loading model, 42 %$") as loading:
        client.check_ready()
    error = loading.value.body()["error"]
    assert (error["model"], error["percent"]) == ("tale", 42)


def test_without_its_engine_a_model_has_the_name_that_the_last_engine_said(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at()
    assert client.check_ready() == MODEL
    engine.close()

    def named() -> bool:
        try:
            client.check_ready()
        except EngineLoading as loading:
            return bool(loading.body()["error"]["model"] == MODEL.alias)
        return False

    eventually(named)


def test_a_model_of_replicas_has_no_name_before_one_was_ready(settings: Settings) -> None:
    client = EngineClient(settings.model_copy(update={"replicas": "doors.toml"}))
    with pytest.raises(EngineLoading) as loading:
        client.check_ready()
    assert "model" not in loading.value.body()["error"]


def test_a_model_that_waits_for_something_is_said_with_the_reason(client: EngineClient, settings: Settings) -> None:
    write_status(settings.runtime_path, "starting", "the RPC node a:1 does not answer")
    with pytest.raises(EngineLoading, match=r"^Loading model: the RPC node a:1 does not answer$"):
        client.check_ready()
    write_status(settings.runtime_path, "starting", "the model is being loaded")
    with pytest.raises(EngineLoading, match=r"^Loading model$"):
        client.check_ready()


@pytest.mark.parametrize(
    ("written", "restarts", "word"),
    [("starting", 0, "loading"), ("starting", 2, "restarting"), ("restarting", 1, "restarting"),
     ("running", 1, "restarting"), ("running", 0, "loading"), ("hung", 1, "hung"), ("failed", 3, "failed")],
)  # fmt: skip
def test_answers_and_metrics_have_one_word_for_a_state(
    client: EngineClient, settings: Settings, written: str, restarts: int, word: str
) -> None:
    write_status(settings.runtime_path, written, "why", restarts)
    assert client.engine_status() == {"state": word, "restarts": restarts}
    with pytest.raises(SRBError) as unready:
        client.check_ready()
    assert unready.value.body()["error"]["engine"] == word


def test_an_engine_that_has_not_loaded_yet_is_loading(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine = engine_at(greeting=[Hello(VERSION, 1)])
    with pytest.raises(EngineLoading):
        client.submit(generate())
    engine.send(Ready(MODEL.as_dict()))
    eventually(lambda: client.model)
    assert client.submit(generate()).prompt_tokens == {"r1": 3}


def test_a_model_that_failed_to_load_is_said_with_the_supervisors_words(
    client: EngineClient, settings: Settings
) -> None:
    status = {"state": "failed", "message": "story.gguf is not a GGUF file"}
    (settings.runtime_path / "status.json").write_bytes(orjson.dumps(status))
    with pytest.raises(ModelLoadFailed, match="is not a GGUF file"):
        client.submit(generate())


def test_an_engine_of_another_version_is_not_used(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine = engine_at(greeting=[Hello(VERSION + 1, 1), Ready(MODEL.as_dict())])
    with pytest.raises(EngineLoading):
        client.submit(generate())
    assert engine.received == []


def test_an_engine_of_another_server_is_not_used_and_the_own_one_is(
    settings: Settings, engine_at: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_client, "LONG_PAUSE", 0.01)
    client = EngineClient(settings, server_id="mine")
    other = engine_at(greeting=[Hello(VERSION, 1, "theirs"), Ready(MODEL.as_dict())])
    with pytest.raises(ForeignEngine, match="runtime_dir"):
        client.submit(generate())
    assert (other.received, client.model) == ([], None)
    other.close()
    engine_at(greeting=[Hello(VERSION, 2, "mine"), Ready(MODEL.as_dict())])
    eventually(lambda: is_connected(client))
    assert client.submit(generate()).prompt_tokens == {"r1": 3}


def test_without_an_id_the_runtime_folder_alone_decides(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine_at(greeting=[Hello(VERSION, 1, "theirs"), Ready(MODEL.as_dict())])
    assert client.submit(generate()).prompt_tokens == {"r1": 3}


def test_garbage_from_the_engine_closes_the_connection_and_a_new_one_is_made(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at()
    mailbox = client.submit(generate())
    engine.send_frame(b"not a frame")
    assert [event.code for event in mailbox.take(DEADLINE)] == ["engine_restarted"]
    eventually(lambda: engine.connections == 2)
    eventually(lambda: is_connected(client))
    client.submit(generate("r2"))


def test_any_error_of_the_reader_is_logged_and_a_new_connection_is_made(
    client: EngineClient,
    engine_at: Callable[..., Engine],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_memory(payload: bytes) -> Any:
        raise MemoryError

    monkeypatch.setattr(engine_client, "LONG_PAUSE", 0.01)
    engine = engine_at()
    mailbox = client.submit(generate())
    with monkeypatch.context() as once:
        once.setattr(engine_client, "decode", no_memory)
        engine.send(Delta("r1", 0, " a", [1]))
        assert [event.code for event in mailbox.take(DEADLINE)] == ["engine_restarted"]
    assert "MemoryError" in caplog.text
    eventually(lambda: client._connection)
    client.submit(generate("r2"))
    assert engine.connections >= 2


def test_a_command_that_cannot_be_sent_ends_its_connection_and_the_next_works(
    client: EngineClient, engine_at: Callable[..., Engine], caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_at()
    client.check_ready()
    assert client._connection is not None
    client._connection.send("no bytes")  # type: ignore[arg-type]
    eventually(lambda: engine.connections == 2 and client._connection)
    assert "a command could not be sent" in caplog.text
    client.submit(generate("r2"))


def test_a_command_larger_than_a_frame_is_refused_and_ends_no_connection(
    client: EngineClient, engine_at: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_client, "MAX_FRAME", 1000)
    engine = engine_at()
    with pytest.raises(BodyTooLarge, match="at most 1000"):
        client.submit(Generate("r1", ("x" * 1000,), (BranchSpec(1),)))
    client.submit(generate("r2"))
    assert engine.connections == 1
    assert not any(mailbox for name, mailbox in client._mailboxes.items() if name == "r1")


def test_a_reader_is_behind_if_much_of_a_frame_is_unread_when_the_next_one_arrives() -> None:
    client = ScriptedClient(Settings(), lambda command: [[Accepted(command.request_id, 5)]])
    mailbox = client.submit(generate())
    frame = [Delta("r1", 0, "x" * 100_000, [1])]
    connection: Any = client._connection
    assert not client._deliver(connection, frame)
    assert client._deliver(connection, frame)
    mailbox.take()
    assert not client._deliver(connection, frame)


def test_a_refusal_is_raised_with_its_class_and_extras(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    def refuse(engine: Engine, command: Any) -> None:
        engine.send(Rejected(command.request_id, "context_exceeded", "too long", {"n_prompt_tokens": 9, "n_ctx": 8}))

    engine_at(refuse)
    with pytest.raises(InvalidRequest) as refusal:
        client.submit(generate())
    assert refusal.value.body()["error"]["type"] == "exceed_context_size_error"
    assert refusal.value.extra == {"n_prompt_tokens": 9, "n_ctx": 8}


def test_when_one_prompt_of_a_call_is_refused_the_others_are_cancelled(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    def refuse_the_second(engine: Engine, command: Any) -> None:
        if command.request_id == "r2":
            engine.send(Rejected("r2", "queue_full", "full", {}))
        else:
            accept(engine, command)

    engine = engine_at(refuse_the_second)
    with pytest.raises(Exception, match="full"):
        client.submit(generate("r1"), generate("r2"))
    eventually(lambda: Cancel("r1", leaves=True) in engine.received)
    assert Cancel("r2", leaves=True) not in engine.received


def test_everything_queued_is_taken_at_once_and_in_order(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at()
    mailbox = client.submit(generate())
    events = [Delta("r1", 0, " a", [1]), Delta("r1", 1, " b", [2]), Done("r1", 3, 0, 2, 1.0, 1.0)]
    engine.send(*events)
    eventually(lambda: mailbox.done)
    assert mailbox.take() == events


def test_events_of_unknown_requests_are_dropped(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine = engine_at()
    mailbox = client.submit(generate())
    engine.send(Delta("gone", 0, " a", [1]), Done("gone", 3, 0, 2, 1.0, 1.0), Delta("r1", 0, " b", [1]))
    assert mailbox.take(DEADLINE) == [Delta("r1", 0, " b", [1])]


def test_an_abandoned_request_ends_at_once_and_the_engine_is_told_once(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at()
    mailbox = client.submit(generate())
    client.cancel("r1")
    client.cancel("r1")
    assert [event.code for event in mailbox.take(DEADLINE)] == ["cancelled"]
    client.cancel("r9", index=0)  # unknown: not sent
    client.submit(generate("r2"))
    client.cancel("r2", index=1)
    eventually(lambda: Cancel("r2", 1) in engine.received)
    cancels = [command for command in engine.received if isinstance(command, Cancel)]
    assert cancels == [Cancel("r1", leaves=True), Cancel("r2", 1)]


def test_every_open_request_ends_exactly_once_when_the_engine_dies(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at(lambda engine, command: accept(engine, command) if command.request_id != "late" else None)
    mailboxes = [client.submit(generate(f"r{i}")) for i in range(3)]
    waiting = gevent.spawn(client.submit, generate("late"))
    eventually(lambda: len(engine.received) == 4)
    engine.close()
    with pytest.raises(EngineRestarted):
        waiting.get(timeout=DEADLINE)
    for mailbox in mailboxes:
        assert [type(event) for event in mailbox.take(DEADLINE)] == [Failed]
        assert mailbox.done
    with pytest.raises(EngineLoading):
        client.submit(generate("after"))


def test_the_client_comes_back_by_itself_when_a_new_engine_listens(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    first = engine_at()
    client.submit(generate())
    first.close()
    eventually(lambda: not is_connected(client))
    engine_at()
    eventually(lambda: is_connected(client))
    assert client.submit(generate("r2")).prompt_tokens == {"r2": 3}


def test_many_greenlets_send_whole_frames(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine = engine_at()
    client.check_ready()
    commands = [Generate(f"r{i}", ("x" * 100_000,), (BranchSpec(i),)) for i in range(20)]
    sending = [gevent.spawn(client.submit, command) for command in commands]
    gevent.joinall(sending, timeout=DEADLINE, raise_error=True)
    assert sorted(command.request_id for command in engine.received) == sorted(c.request_id for c in commands)


def test_stats_are_asked_for_and_have_a_deadline(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    def count(engine: Engine, command: Any) -> None:
        if isinstance(command, GetStats) and len(engine.received) == 1:
            engine.send(Reply(command.request_id, {"n_decode_total": 4.0}))

    engine_at(count)
    assert client.stats() == {"n_decode_total": 4.0}
    with pytest.raises(Unavailable, match="did not answer"):
        client.stats(deadline=0.02)
    assert "0 requests open" in repr(client)


def test_bytes_of_tokens_survive_the_wire(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    def split(engine: Engine, command: Any) -> None:
        engine.send(Reply(command.request_id, ["\xe2\x98", "\x83"]))

    engine = engine_at(split)
    assert client.detokenize([5, 6]) == ["☃".encode()[:2], "☃".encode()[2:]]
    assert engine.received[0].tokens == (5, 6)


def test_the_engine_is_asked_once_for_a_tokens_bytes_while_its_model_is_the_same(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    def name(engine: Engine, command: Any) -> None:
        word = "<{}>" if command.special else "{}"
        engine.send(Reply(command.request_id, [word.format(token) for token in command.tokens]))

    engine = engine_at(name)
    assert client.detokenize([5, 6, 5]) == [b"<5>", b"<6>", b"<5>"]
    assert client.detokenize([6, 7]) == [b"<6>", b"<7>"]
    assert client.detokenize([6, 5], special=False) == [b"6", b"5"]
    engine.send(Ready({**MODEL.as_dict(), "alias": "another"}))
    eventually(lambda: client.check_ready().alias == "another")
    assert client.detokenize([6]) == [b"<6>"]
    assert [command.tokens for command in engine.received] == [(5, 6), (7,), (6, 5), (6,)]
    engine.hang_up()
    eventually(lambda: not client.is_connected)
    with pytest.raises(EngineLoading):
        client.detokenize([6])


def test_a_refused_command_raises_its_error(client: EngineClient, engine_at: Callable[..., Engine]) -> None:
    engine_at(lambda engine, command: engine.send(Rejected(command.request_id, "invalid_request", "no such token", {})))
    with pytest.raises(InvalidRequest, match="no such token"):
        client.tokenize(["a", 99999])


def test_an_abandoned_command_is_cancelled_in_the_engine(
    client: EngineClient, engine_at: Callable[..., Engine]
) -> None:
    engine = engine_at(say_nothing)
    with pytest.raises(Unavailable):
        client.ask(Rerank("q", "a", ("b",)), deadline=0.02)
    eventually(lambda: len(engine.received) == 2)
    assert engine.received[1] == Cancel(engine.received[0].request_id, leaves=True)


def test_silence_is_an_empty_list() -> None:
    assert Mailbox(["r1"]).take(0.01) == []
