"""An engine asks its replica's actor for states, and no request waits long for one that does not answer."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from srb.engine.process import state_sharing
from srb.engine.process.state_sharing import StateSharing
from srb.wire.framing import FrameSocket
from tests.logs import lines_of
from tests.processes import DEADLINE


class Actor:
    """The actor's end of the socket: notes what it is asked, and answers what `answer` returns; nothing for None."""

    def __init__(self, path: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda asked: {"error": ""}
        self._held: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            asked = orjson.loads(FrameSocket(sock).receive())
            self.asked.append(asked)
            self._held.append(sock)
            if (answer := self.answer(asked)) is not None:
                FrameSocket(sock).send(orjson.dumps(answer))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(DEADLINE)
        for sock in self._held:
            sock.close()


@pytest.fixture
def actor(tmp_path: Path) -> Iterator[Actor]:
    made = Actor(tmp_path / "states.sock")
    yield made
    made.close()


def test_a_file_is_fetched_only_if_there_is_a_later_one(actor: Actor, tmp_path: Path) -> None:
    sharing = StateSharing(tmp_path / "states.sock")
    sharing.fetch("x", 5)
    actor.answer = lambda asked: {"error": "", "size": 100}
    sharing.fetch("x", 5)
    sharing.share("x", 100)
    assert [asked["action"] for asked in actor.asked] == ["look", "look", "fetch", "share"]
    assert actor.asked[2] == {"action": "fetch", "name": "x", "known": 5}


def test_a_silent_cluster_is_not_asked_again_for_a_while_and_that_is_said_once(
    actor: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.states")
    monkeypatch.setattr(state_sharing, "_ANSWER_SECONDS", 0.05)
    sharing = StateSharing(tmp_path / "states.sock")
    actor.answer = lambda asked: None
    for name in "abc":
        sharing.fetch(name, 0)
        sharing.share(name, 0)
    assert len(actor.asked) == 1
    monkeypatch.setattr(state_sharing, "_SILENT_SECONDS", 0.0)
    sharing._silent_until = 0.0  # the while is over
    sharing.fetch("d", 0)
    assert len(actor.asked) == 2
    actor.answer = lambda asked: {"error": ""}
    monkeypatch.setattr(state_sharing, "_ANSWER_SECONDS", DEADLINE)
    sharing.fetch("e", 0)
    assert [record.levelname for record in caplog.records if record.name == "srb.states"] == ["WARNING", "INFO"]


def test_a_large_file_may_take_longer_than_an_answer(
    actor: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state_sharing, "_ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(state_sharing, "_BYTES_PER_SECOND", 1)
    StateSharing(tmp_path / "states.sock").share("x", int(DEADLINE))
    assert [asked["action"] for asked in actor.asked] == ["share"]
    assert not lines_of("srb.states", caplog)


def test_without_an_actor_nothing_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    StateSharing(tmp_path / "states.sock").fetch("x", 0)
    assert not lines_of("srb.states", caplog)


def test_an_error_of_the_cluster_names_the_state(
    actor: Actor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    actor.answer = lambda asked: {"error": "its 11 bytes are more than the cluster keeps for named states"}
    StateSharing(tmp_path / "states.sock").share("chapter", 11)
    assert "state chapter: the cluster cannot share it: its 11 bytes" in caplog.text
