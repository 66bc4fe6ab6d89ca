"""Folders of replicas, which have people's named states, do not outlive their replicas."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from srb.cluster.replica_engine import LOCK_NAME, remove_left_folders
from tests.processes import wait_for

_REPLICA = """
import asyncio, sys
from srb.cluster.replica_engine import ReplicaEngine
from srb.config.settings import Settings
given = {"model": "fake:"}
engine = ReplicaEngine(Settings(**given), given)
asyncio.run(engine.wait_ready())
print("ready", flush=True)
sys.stdin.read()
engine.close()
"""


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("srb-replica-*") if path.exists()]


@pytest.mark.parametrize("how", [signal.SIGKILL, None], ids=["killed", "closed"])
def test_a_replica_leaves_no_folder_however_it_ends(how: signal.Signals | None, tmp_path: Path) -> None:
    replica = subprocess.Popen(
        [sys.executable, "-c", _REPLICA],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert replica.stdin is not None
    assert replica.stdout is not None
    assert replica.stdout.readline() == "ready\n"
    [folder] = left_in(tmp_path)
    (folder / "states").mkdir(exist_ok=True)
    (folder / "states" / "somebody.srbstate").write_bytes(b"a text")
    if how is not None:
        replica.send_signal(how)
    replica.stdin.close()
    replica.wait()
    replica.stdout.close()
    wait_for(lambda: not left_in(tmp_path), "its folder is gone")


def test_folders_of_replicas_whose_machine_was_lost_are_removed_by_the_next_one(tmp_path: Path) -> None:
    folders = {name: tmp_path / f"srb-replica-{name}" for name in ("lost", "runs", "begins", "link")}
    for name in ("lost", "runs", "begins"):
        folders[name].mkdir()
        (folders[name] / "states").mkdir()
    folders["link"].symlink_to(folders["runs"])
    (folders["lost"] / LOCK_NAME).touch()
    with open(folders["runs"] / LOCK_NAME, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_left_folders(tmp_path)
    assert {name for name, path in folders.items() if path.exists()} == {"runs", "begins", "link"}
