"""Files with texts of writers, or facts of a server, are their owner's alone, whatever the umask and the folder's mode."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from srb.atomic import private
from srb.config.settings import Settings
from srb.files import state_disk
from srb.logs import LogFile
from srb.status import write_status
from srb.web.dialects.llamacpp.body import SystemPrompt
from srb.web.system_prompt import SystemPromptStore


@pytest.fixture(params=[0o000, 0o022], ids=["000", "022"])
def open_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder that was there before, open to all, and a umask that makes files readable."""
    tmp_path.chmod(0o777)
    before = os.umask(request.param)
    yield tmp_path
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_a_named_state_is_private(open_folder: Path) -> None:
    assert state_disk.install(open_folder / f"chapter{state_disk.SUFFIX}", b"the prompt's tokens", 1)
    assert modes(open_folder) == {0o600}


def test_so_are_the_status_the_log_and_the_system_prompt(open_folder: Path) -> None:
    write_status(open_folder, "running")
    SystemPromptStore(Settings(), open_folder).set(SystemPrompt(prompt="mine"))
    log = LogFile(str(open_folder / "server.log"))
    log.emit(logging.makeLogRecord({"msg": "a prompt"}))
    log.close()
    assert (open_folder / "server.log").read_text() == "a prompt\n"
    assert {path.name for path in open_folder.iterdir()} == {"status.json", "system_prompt.json", "server.log"}
    assert modes(open_folder) == {0o600}


def test_a_file_that_is_there_keeps_the_mode_that_its_owner_gave_it(open_folder: Path) -> None:
    path = open_folder / "server.log"
    path.touch()
    path.chmod(0o640)
    with open(path, "wb", opener=private) as file:
        file.write(b"x")
    assert modes(open_folder) == {0o640}
