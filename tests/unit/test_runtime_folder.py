"""The runtime folder belongs to one user, and one engine at a time runs in it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from srb.errors import ConfigError, MachineError
from srb.process.runtime_folder import EngineLock, clean_up, make_runtime_dir


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
