"""A disk of a test's own, which gets full or read-only."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import need
from tests.processes import wait_for


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes, for root."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a disk")
    need(shutil.which("mount"), "the program mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, check=False
    )
    need(not mounted.returncode, f"a disk: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk of a folder to the last byte; return the file, whose removal makes room again."""
    full = folder / "full"
    with full.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return full


def remount(folder: Path, option: str) -> None:
    """Mount a disk again with another option; not as long as threads of a killed process have files open for writing."""
    command = ["mount", "-o", f"remount,{option}", str(folder)]
    wait_for(
        lambda: not subprocess.run(command, capture_output=True, check=False).returncode, f"it is mounted {option}"
    )
