"""A file that is written in one step: whole or as before, whatever the disk says."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from srb.atomic import write_atomically


def test_the_newest_file_is_this_users_alone_and_nothing_is_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for data in (b"old", b"new"):
        write_atomically(path, data)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file.json"]


@pytest.mark.parametrize("refused", ["room", "name"])
def test_a_disk_that_refuses_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, b"old")
    opened = os.open

    def full(name: Any, *given: Any, **more: Any) -> int:
        os.close(opened(name, *given, **more))
        return opened("/dev/full", os.O_WRONLY)

    def taken(*_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    if refused == "room":
        monkeypatch.setattr(os, "open", full)
    else:
        monkeypatch.setattr(Path, "replace", taken)
    with pytest.raises(OSError, match=r"No space left|Read-only"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.json"]
