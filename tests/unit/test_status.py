"""status.json: what is written when the disk is full, and after it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from srb import status as status_module
from srb.status import read_status, remove_status, rewrite_status, touch_status, write_status


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that says `full` while nothing can be written."""
    says: set[str] = set()
    write = status_module.write_private

    def write_private(path: Path, data: bytes) -> None:
        if "full" in says:
            path.touch()  # as on a full disk: the file is there, its bytes are not
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(status_module, "write_private", write_private)
    return says


def state(folder: Path) -> tuple[str, int]:
    status = read_status(folder, is_connected=True)
    return status["state"], status["restarts"]


def test_a_status_without_room_is_written_when_there_is_room(
    tmp_path: Path, disk: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    write_status(tmp_path, "running", restarts=1)
    disk.add("full")
    with caplog.at_level(logging.WARNING):
        write_status(tmp_path, "restarting", "it was killed", 2)
        rewrite_status(tmp_path)
        write_status(tmp_path, "running", restarts=2)
        rewrite_status(tmp_path)
    assert state(tmp_path) == ("", 0)  # an old state would be believed
    assert list(tmp_path.iterdir()) == []
    assert len(caplog.records) == 1
    disk.clear()
    rewrite_status(tmp_path)
    assert state(tmp_path) == ("running", 2)
    written = (tmp_path / "status.json").stat().st_mtime_ns
    rewrite_status(tmp_path)
    assert (tmp_path / "status.json").stat().st_mtime_ns == written


def test_an_engine_without_a_supervisor_writes_it_with_its_next_heartbeat(tmp_path: Path, disk: set[str]) -> None:
    disk.add("full")
    write_status(tmp_path, "running", is_touched=True)
    touch_status(tmp_path)
    assert state(tmp_path) == ("", 0)
    disk.clear()
    touch_status(tmp_path)
    assert state(tmp_path) == ("running", 0)


def test_a_status_that_was_removed_is_not_written_again(tmp_path: Path, disk: set[str]) -> None:
    disk.add("full")
    write_status(tmp_path, "running")
    remove_status(tmp_path)
    disk.clear()
    rewrite_status(tmp_path)
    assert state(tmp_path) == ("", 0)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_status_that_cannot_be_removed_stays_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_there: bool
) -> None:
    """A disk that can only be read refuses the removal of a file that is not there, too."""

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    if is_there:
        write_status(tmp_path, "running")
    monkeypatch.setattr(Path, "unlink", refuse)
    remove_status(tmp_path)
    assert ["cannot remove" in record.getMessage() for record in caplog.records] == [True] * is_there
