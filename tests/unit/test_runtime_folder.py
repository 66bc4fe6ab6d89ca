"""The runtime folder belongs to one user, and one engine at a time runs in it."""

from __future__ import annotations

import errno
import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from srb.config.settings import SERVER_ID_VARIABLE, Settings
from srb.errors import ConfigError, MachineError
from srb.models.supervisor import ModelsSupervisor
from srb.process import runtime_folder
from srb.process.runtime_folder import EngineLock, clean_up, make_runtime_dir, take_folder
from srb.process.supervisor import Supervisor
from srb.status import write_status
from tests.logs import lines_of


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_the_runtime_folder_is_this_users_alone(runtime: Path) -> None:
    make_runtime_dir(runtime)
    assert runtime.stat().st_mode & 0o777 == 0o700
    runtime.chmod(0o777)
    with pytest.raises(ConfigError, match="other users"):
        make_runtime_dir(runtime)


def test_a_runtime_folder_that_is_a_link_or_too_long_is_refused(tmp_path: Path, runtime: Path) -> None:
    runtime.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder owned by this user"):
        make_runtime_dir(runtime)
    with pytest.raises(ConfigError, match="too long"):
        make_runtime_dir(tmp_path / ("x" * 100))


def test_one_engine_holds_the_lock_and_cleaning_up_leaves_it_alone(runtime: Path) -> None:
    holder = EngineLock(runtime)
    assert holder.acquire(wait=False)
    assert not EngineLock(runtime).acquire(wait=False)
    clean_up(runtime)
    assert (runtime / "engine.lock").exists()
    holder.release()
    holder.release()
    clean_up(runtime)
    assert not runtime.exists()


def test_a_server_that_ends_is_waited_for_and_one_that_goes_on_is_an_error(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(runtime_dir=str(runtime), graceful_timeout=1)
    first, second = (EngineLock(runtime, "server.lock", "server.lock") for _ in range(2))
    assert take_folder(first, settings, lambda: False)
    pauses = 0

    def pause() -> bool:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            first.release()
        return True

    with caplog.at_level(logging.INFO):
        assert take_folder(second, settings, pause)
    assert pauses == 3
    assert len(lines_of("srb.supervisor", caplog)) == 1
    assert not take_folder(first, settings, lambda: False), "it was stopped while it waited"
    monkeypatch.setattr(runtime_folder, "_PATIENCE", -2.0)
    with pytest.raises(ConfigError, match="belongs to another server; set runtime_dir"):
        take_folder(first, settings, lambda: True)
    second.release()


def test_a_server_waits_for_its_own_former_supervisor_without_a_limit(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_folder, "_PATIENCE", -100.0)
    monkeypatch.setenv(SERVER_ID_VARIABLE, "one")
    settings = Settings(runtime_dir=str(runtime))
    first, second = (EngineLock(runtime, "server.lock", "server.lock") for _ in range(2))
    assert take_folder(first, settings, lambda: False)
    goes_on = iter([True, True, False])
    assert not take_folder(second, settings, lambda: next(goes_on))
    monkeypatch.setenv(SERVER_ID_VARIABLE, "another")
    with pytest.raises(ConfigError, match="belongs to another server"):
        take_folder(second, settings, lambda: True)
    first.release()


@pytest.mark.parametrize("settings", [{"model": "fake:"}, {"models": "one=fake:,two=fake:"}], ids=["one", "several"])
def test_a_supervisor_in_the_folder_of_another_server_changes_nothing_there(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(runtime_folder, "_PATIENCE", -100.0)
    holders = [EngineLock(runtime, name, name) for name in ("server.lock", "models.lock")]
    assert all(holder.acquire(wait=False) for holder in holders)
    for holder in holders:
        holder.sign("somebody")
    write_status(runtime, "running")
    before = {path: path.stat().st_mtime_ns for path in runtime.iterdir()}
    chosen = Settings(runtime_dir=str(runtime), **settings)
    handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        supervisor = ModelsSupervisor(chosen, "") if chosen.models else Supervisor(chosen, "")
        with pytest.raises(ConfigError, match="belongs to another server"):
            supervisor.run()
    finally:
        signal.set_wakeup_fd(-1)
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    assert {path: path.stat().st_mtime_ns for path in runtime.iterdir()} == before
    for holder in holders:
        holder.release()


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_takes_nothing_is_told_at_the_start_and_harms_no_end(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, "no change")

    make_runtime_dir(runtime)
    holder = EngineLock(runtime)
    assert holder.acquire(wait=False)
    monkeypatch.setattr(Path, "write_bytes", fail)
    monkeypatch.setattr(Path, "unlink", fail)
    holder.release()
    with pytest.raises(MachineError, match="no change"):
        make_runtime_dir(runtime)
    clean_up(runtime)
