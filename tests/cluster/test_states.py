"""A named state outlives its replica: the story goes on at another one by a restore, without a common folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Cluster, replicas
from tests.processes import DEADLINE, children, command_line, wait_for
from tests.servers import Server

STORY = "The lighthouse keeper had not spoken to anyone for nine days when the boat came. " * 3


def actors(pid: int) -> list[int]:
    """Return the pids of the replicas' actors below a process."""
    found = []
    for child in children(pid):
        found += [child] if "ServeReplica" in command_line(child) else actors(child)
    return found


def has_state(actor: int, name: str) -> bool:
    """Whether the engine of an actor, which any of its threads has started, has written a state."""
    lists = [path.read_text().split() for path in Path(f"/proc/{actor}/task").glob("*/children")]
    for supervisor in (pid for pids in lists for pid in pids):
        for line in Path(f"/proc/{supervisor}/environ").read_text().split("\0"):
            variable, _, folder = line.partition("=")
            if variable == "SRB_RUNTIME_DIR" and Path(folder, "states", f"{name}.srbstate").exists():
                return True
    return False


def told(server: Server, text: str) -> dict[str, Any]:
    body = {"prompt": text, "model": "m", "n": 1, "max_tokens": 3, "state": "story"}
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    usage: dict[str, Any] = answer.json()["usage"]
    return usage


def test_a_story_goes_on_at_another_replica_when_its_own_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(tmp_path_factory.mktemp("states")) as cluster:
        cluster.start().deploy(2)
        web = cluster.server(tmp_path_factory.mktemp("web")).start(wait=False)
        wait_for(lambda: replicas(web) == 2, "both replicas are ready", 2 * DEADLINE)
        known = told(web, STORY)["prompt_tokens"] - 1
        [home] = wait_for(lambda: [pid for pid in actors(cluster.head.pid) if has_state(pid, "story")], "it is written")
        wait_for(lambda: "story.srbstate saved" in cluster.replica_logs, "it is shared")
        os.kill(home, signal.SIGKILL)
        usage = told(web, STORY + "She had a letter, and no name.")
        assert usage["prompt_tokens_details"]["cached_tokens"] >= known
