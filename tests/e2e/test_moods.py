"""Control vectors over HTTP: made by a command, named by branches, in force by a flag, and known again after a restart."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PYTHON, ROOT
from tests.servers import MakeServer, Server

pytestmark = pytest.mark.e2e

STORY = ROOT / "srb/models/storyteller.gguf"
PROMPT = "The old king looked at the sea. " * 8
SAD = ["The old king wept for his lost ship.", "The girl was alone and cold in the dark."]
GAY = ["The young girl laughed with her friends.", "The boy found a warm lamp and sang."]


def make_vector(folder: Path) -> None:
    command = [PYTHON, "-m", "srb.cli.main", "models", "vector", "sad", "--folder", folder, "--model", STORY]
    command += ["--positive", *SAD, "--negative", *GAY]
    subprocess.run(command, check=True, cwd=ROOT, timeout=120)


def ask(server: Server, *moods: Any, **fields: Any) -> list[str]:
    body = {"prompt": PROMPT, "max_tokens": 12, "seed": 5, "temperature": 0, "ignore_eos": True, "stream": False}
    branches = [{} if mood is None else {"control_vectors": [{"name": "sad", "scale": mood}]} for mood in moods]
    answer = server.post("/v1/srb/completions", {**body, "branches": branches, **fields})
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["completions"]]


def cached(server: Server) -> int:
    """Return how many tokens of the prompt are known under what is in force for all."""
    body = {"prompt": PROMPT, "max_tokens": 1, "stream": False}
    usage = server.post("/v1/srb/completions", body).json()["usage"]
    return int(usage["prompt_tokens_details"]["cached_tokens"])


def test_branches_have_moods_of_their_own_and_a_flag_sets_the_servers(make_server: MakeServer, tmp_path: Path) -> None:
    make_vector(tmp_path / "vectors")
    kept = {"cache_disk": tmp_path / "texts", "cache_disk_mib": 100, "model": STORY}
    server = make_server(**kept, control_vector_dir=tmp_path / "vectors").start()
    assert server.get("/props").json()["control_vectors"] == [{"name": "sad", "scale": 0.0}]
    assert server.get("/v1/srb/server").json()["control_vectors"] == ["sad"]
    together = ask(server, -6, None, 6)
    assert len(set(together)) == 3
    assert together == [ask(server, mood)[0] for mood in (-6, None, 6)]
    whole = ask(server, None, control_vectors=[{"name": "sad", "scale": 6}])
    for wrong in ({"name": "merry"}, {"name": "sad", "scale": 20}):
        refused = server.post("/v1/srb/completions", {"prompt": "a", "branches": [{"control_vectors": [wrong]}]})
        assert refused.status_code == 400
        assert "control_vectors" in refused.json()["error"]["param"]
    server.stop()
    in_force = make_server(**kept, control_vector=f"{tmp_path}/vectors/sad.gguf=6").start()
    assert in_force.get("/props").json()["control_vectors"] == [{"name": "sad", "scale": 6.0}]
    assert cached(in_force) > 0  # from the disk: the request before it had the same mood as a whole
    assert ask(in_force, None) == whole
    in_force.stop()


def test_a_vector_of_another_model_keeps_the_server_from_starting_with_its_name(
    make_server: MakeServer, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF and no more")
    server = make_server(model=STORY, control_vector=other).start(wait=False)
    assert server.wait() != 0
    assert f"control_vector: {other}" in server.logs
