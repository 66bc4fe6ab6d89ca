"""A named state outlives its replica: the story goes on at another one by a restore, without a common folder."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Cluster, replicas
from tests.cluster.test_faults import running
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


def kill_home(cluster: Cluster, web: Server, name: str) -> None:
    """Kill the one replica that has written a state."""
    [home] = wait_for(lambda: [pid for pid in actors(cluster.head.pid) if has_state(pid, name)], "it is written")
    line = rf" INFO (\w+) srb\.\S+ .*{name}\.srbstate saved"
    saved = wait_for(lambda: re.search(line, cluster.replica_logs), "it is shared")
    assert saved[1] in running(web), "the engine's log names its replica"
    os.kill(home, signal.SIGKILL)


def test_a_story_goes_on_at_another_replica_when_its_own_is_killed(cluster: Cluster, web: Server) -> None:
    wait_for(lambda: replicas(web) == 3, "all replicas are there", 2 * DEADLINE)
    known = told(web, STORY)["prompt_tokens"] - 1
    kill_home(cluster, web, "story")
    usage = told(web, STORY + "She had a letter, and no name.")
    assert usage["prompt_tokens_details"]["cached_tokens"] >= known


def test_a_slot_is_restored_at_another_replica_when_its_own_is_killed(cluster: Cluster, web: Server) -> None:
    wait_for(lambda: replicas(web) >= 2, "another one is left", 2 * DEADLINE)
    text = "Nobody had lit the lamp since the war, and the ships went by in the dark. " * 3
    body = {"n_predict": 5, "id_slot": 4}
    # A prompt of tokens: drawn ones may become others when their text is read again.
    tokens = web.post("/tokenize", {"content": text, "add_special": True}).json()["tokens"]
    tokens += web.post("/completion", {**body, "prompt": tokens, "return_tokens": True}).json()["tokens"]
    saved = web.post("/slots/4?action=save", {"filename": "lamp"})
    assert saved.status_code == 200, saved.text
    kill_home(cluster, web, "lamp")
    restored = web.post("/slots/4?action=restore", {"filename": "lamp"})
    assert restored.status_code == 200, restored.text
    assert restored.json()["n_restored"] == saved.json()["n_saved"]
    more = web.post("/tokenize", {"content": " A girl came up the stairs."}).json()["tokens"]
    answer = web.post("/completion", {**body, "prompt": tokens + more}).json()
    assert answer["timings"]["cache_n"] == restored.json()["n_restored"] >= len(tokens) - 1
    assert web.post("/slots/4?action=erase", {}).json()["n_erased"] > 0
    for action in ("save", "restore"):
        refused = web.post(f"/slots/4?action={action}", {"filename": "nothing"})
        assert refused.status_code == 400, refused.text
