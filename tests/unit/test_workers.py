"""The arbiter's workers, over a stand-in for gunicorn's arbiter: no fault of a reload leaves its loop."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from srb.config.held import Held, hold
from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.serve.workers import Workers


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    yield
    hold(None)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (ConfigError("unknown setting 'nonsense'"), "unknown setting 'nonsense'"),
        (OSError(12, "Cannot allocate memory"), "[Errno 12] Cannot allocate memory"),
        (FileNotFoundError(2, "No such file or directory", "/usr/bin/python"), "No such file or directory"),
    ],
)
def test_a_reload_whose_check_fails_for_any_reason_says_so_and_changes_nothing(fault: Exception, said: str) -> None:
    server: Any = SimpleNamespace(
        murder_workers=Mock(), WORKERS={}, SIG_QUEUE=queue.SimpleQueue(), log=Mock(), spawn_worker=Mock(), app=Mock(),
        stop=Mock(),
    )  # fmt: skip
    workers = Workers(server, lambda: Held(Settings()), Mock(side_effect=fault), told := Mock())
    workers.ask_reload()
    workers.manage()
    [call] = server.log.error.call_args_list
    assert said in call.args[0] % call.args[1:]
    assert call.args[0].startswith("not reloaded")
    assert said in told.call_args.args[1]
    assert not server.spawn_worker.called
    assert not server.app.reload.called


def test_workers_are_not_ended_as_hung_after_a_pause_of_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("srb.serve.workers.time", SimpleNamespace(monotonic=lambda: now))
    ends = Mock()
    server: Any = SimpleNamespace(WORKERS={}, log=Mock(), murder_workers=ends, stop=Mock())
    Workers(server, lambda: Held(Settings()), Mock(), Mock())
    for _ in range(3):
        now += 1.0
        server.murder_workers()
    assert ends.call_count == 3
    now += 65.0  # all processes were stopped
    for _ in range(10):
        server.murder_workers()
        now += 1.0
    assert ends.call_count == 3
    server.murder_workers()
    assert ends.call_count == 4, "a worker that still gives no sign hangs"


def test_a_server_that_ends_says_so_before_its_workers_are_told() -> None:
    def stop(graceful: bool) -> None:
        said.append((workers.is_stopping, graceful))

    said: list[tuple[bool, bool]] = []
    server: Any = SimpleNamespace(WORKERS={}, log=Mock(), murder_workers=Mock(), stop=stop)
    workers = Workers(server, lambda: Held(Settings()), Mock(), Mock())
    assert not workers.is_stopping
    server.stop(False)
    assert said == [(True, False)]
