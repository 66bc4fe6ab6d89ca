"""The question to an engine whether requests run there never waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from srb.models.engine_question import EngineQuestion
from srb.wire.codec import VERSION, decode, encode
from srb.wire.commands import GetStats
from srb.wire.events import Hello, Reply
from srb.wire.framing import FrameSocket


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "engine.sock"))
        listener.listen(1)
        yield listener


def ask(tmp_path: Path) -> EngineQuestion:
    return EngineQuestion(tmp_path / "engine.sock")


def answer(listener: socket.socket, *events: object) -> None:
    """Read the question as an engine does, and answer it."""
    sock, _ = listener.accept()
    frames = FrameSocket(sock)
    [command] = decode(frames.receive())
    assert isinstance(command, GetStats)
    frames.send(encode([Hello(VERSION, 1, "")]))
    frames.send(encode(list(events)))
    frames.close()


@pytest.mark.parametrize(("processing", "deferred", "is_writing"), [(0, 0, False), (1, 0, True), (0, 2, True)])
def test_it_is_answered_when_the_engine_has_time(
    listener: socket.socket, tmp_path: Path, processing: int, deferred: int, is_writing: bool
) -> None:
    question = ask(tmp_path)
    question.read()
    assert question.is_writing is None, "nobody has answered, and nobody has waited"
    stats = {"requests_processing": processing, "requests_deferred": deferred, "requests_last": 0}
    answer(listener, Reply("supervisor", stats))
    while question.is_writing is None:
        question.read()
    assert question.is_writing is is_writing
    question.close()


def test_an_engine_that_ends_writes_nothing(listener: socket.socket, tmp_path: Path) -> None:
    question = ask(tmp_path)
    sock, _ = listener.accept()
    sock.close()
    while question.is_writing is None:
        question.read()
    question.close()
    nobody = ask(tmp_path / "nowhere")
    nobody.close()
    assert (question.is_writing, nobody.is_writing) == (False, False)


def test_an_engine_that_accepts_no_connection_counts_as_busy(listener: socket.socket, tmp_path: Path) -> None:
    questions = [ask(tmp_path) for _ in range(4)]
    assert [each.is_writing for each in questions] == [None, None, True, True]
    for question in questions:
        question.close()
