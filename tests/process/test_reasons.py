"""A missing permission is told with the owner of what is closed, as another user meets it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from srb.reasons import reason_of
from tests.processes import PYTHON, ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_nobody(code: str, *words: object) -> str:
    """Return what a program prints as a user who owns nothing; the imports come before root's powers go."""
    before = f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n{code.partition('---')[0]}\nos.setuid({NOBODY})\n"
    command = [PYTHON, "-P", "-c", before + code.partition("---")[2], *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


READ = """
from srb.config.texts import read_text_now
from srb.errors import ConfigError
---
try:
    read_text_now("api_key_file", sys.argv[1])
except ConfigError as error:
    print(error.message)
"""
STORIES = """
import pathlib
from srb.errors import SRBError
from srb.stories.store import Store
---
try:
    Store(pathlib.Path(sys.argv[1])).ids()
except SRBError as error:
    print(error.message)
"""


def test_a_file_of_another_is_named_with_its_owner_and_mode(folder: Path) -> None:
    file = folder / "api_keys"
    file.write_text("KEY")
    file.chmod(0o600)
    assert as_nobody(READ, file) == (
        f"api_key_file: cannot read {file}: Permission denied ({file} belongs to root, mode 600; this is nobody)"
    )


def test_a_closed_folder_above_is_what_is_named(folder: Path) -> None:
    (folder / "closed/below").mkdir(parents=True)
    (folder / "closed").chmod(0o700)
    said = as_nobody(READ, folder / "closed/below/api_keys")
    assert said.endswith(f"({folder}/closed belongs to root, mode 700; this is nobody)")


def test_a_backup_that_root_has_copied_is_told_with_its_owner(folder: Path) -> None:
    folder.chmod(0o777)
    file = folder / "stories.sqlite3"
    file.write_bytes(b"SQLite format 3\0" + bytes(4080))
    file.chmod(0o600)
    said = as_nobody(STORIES, file)
    assert f"{file} belongs to root, mode 600; this is nobody" in said


def test_a_folder_in_which_no_file_can_be_made_is_told_with_its_owner(folder: Path) -> None:
    said = as_nobody(STORIES, folder / "stories.sqlite3")
    assert f"{folder} belongs to root, mode 755; this is nobody" in said


def test_another_reason_is_the_systems_alone() -> None:
    assert reason_of(FileNotFoundError(2, "No such file or directory"), "/nowhere") == "No such file or directory"
