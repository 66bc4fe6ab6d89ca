"""The turn to write into one log: in the order of asking, given up after a time, and not kept by who comes late."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from srb.stories import write_ahead
from srb.stories.write_ahead import Threads, WriteAheadLog
from tests.processes import wait_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (path := tmp_path / "stories.sqlite3-wal").touch()
    return path


@pytest.fixture
def logs(path: Path) -> Iterator[list[WriteAheadLog]]:
    """The log as three processes have it: a lock is an open file's."""
    logs = [WriteAheadLog(path, Threads()) for _ in range(3)]
    yield logs
    for log in logs:
        log.close()


def queued(path: Path) -> int:
    """Return how many wait in the queue of a file."""
    inode = str(path.stat().st_ino)
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return sum(words[1] == "->" and words[6].split(":")[2] == inode for words in lines)


needs_queue = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not show who waits")


@needs_queue
def test_turns_come_in_the_order_of_asking(path: Path, logs: list[WriteAheadLog]) -> None:
    first, *others = logs
    assert first.take(0)
    had: list[int] = []

    def ask(number: int) -> None:
        assert others[number].take(60)
        had.append(number)
        others[number].leave()

    with ThreadPoolExecutor(2) as pool:
        for number in range(2):
            pool.submit(ask, number)
            wait_for(lambda waiting=number + 1: queued(path) == waiting, "it waits in the queue")  # type: ignore[misc]
        first.leave()
    assert had == [0, 1]


@needs_queue
def test_who_has_waited_too_long_gives_a_late_turn_back(path: Path, logs: list[WriteAheadLog]) -> None:
    first, second, third = logs
    assert first.take(0)
    assert not second.take(0.01)
    assert not second.take(0.01)
    wait_for(lambda: queued(path) == 1, "it waits in the queue, once")
    first.leave()
    wait_for(lambda: queued(path) == 0, "the late turn is given back")
    assert third.take(60)
    third.leave()
    assert second.take(60)


def test_a_turn_that_comes_late_is_had_by_who_asks_again(logs: list[WriteAheadLog]) -> None:
    first, second, _ = logs
    assert first.take(0)
    assert not second.take(0.01)
    first.leave()
    assert second.take(60)
    assert not first.take(0.01)


def test_who_has_closed_the_log_while_it_waited_keeps_nobody_waiting(path: Path) -> None:
    first, second, third = (WriteAheadLog(path, Threads()) for _ in range(3))
    assert first.take(0)
    assert not second.take(0.01)
    second.close()
    first.close()
    assert third.take(60)
    third.close()


@pytest.mark.parametrize("what", ["the queue", "a thread"])
def test_where_the_system_has_no_queue_or_thread_the_turn_is_had_at_once(
    monkeypatch: pytest.MonkeyPatch, logs: list[WriteAheadLog], path: Path, what: str
) -> None:
    """SQLite's own lock is waited for then; the next turns are as any other."""
    first = logs[0]
    lock = write_ahead.fcntl.flock

    def without_queue(file: int, operation: int) -> None:
        if operation == write_ahead.fcntl.LOCK_EX:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        lock(file, operation)

    def without_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    second = WriteAheadLog(path, Threads(start=without_thread) if what == "a thread" else Threads())
    monkeypatch.setattr(write_ahead.fcntl, "flock", without_queue)
    assert first.take(0)
    for _ in range(2):
        assert second.take(60)
        second.leave()
    first.leave()
    assert second.take(0)
    second.close()


def test_a_file_system_that_locks_no_file_open_for_reading_alone_has_turns_at_once(
    monkeypatch: pytest.MonkeyPatch, logs: list[WriteAheadLog]
) -> None:
    def refused(file: int, operation: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(write_ahead.fcntl, "flock", refused)
    for log in logs[:2]:
        assert log.take(0)
        log.leave()
