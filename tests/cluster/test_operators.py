"""An operator's way on this machine's own Ray, `auto`: deploy, look, serve, serve from a file, stop."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import MODEL, START_SECONDS, Cluster, free_port_for_ray, replicas
from tests.cluster.test_faults import Stream, actors, engine_of, serves
from tests.processes import DEADLINE, PYTHON, ROOT, wait_for
from tests.servers import SETTINGS, Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

AUTO = ("--cluster", "auto")
HEADINGS = ["replica", "node", "gpu", "state", "model", "requests", "branches", "cells", "hits", "tokens/s"]


class Own:
    """A machine with Ray, its dashboard and two cards that it only claims to have, and a server on it."""

    def __init__(self, cluster: Cluster, dashboard: str, web: Server) -> None:
        self.cluster = cluster
        self.dashboard = dashboard
        self.web = web

    def status(self) -> tuple[str, list[list[str]]]:
        """Return Serve's word and the table's rows."""
        word, headings, *rows = self.cluster.run("status", *AUTO).splitlines()
        assert headings.split() == HEADINGS
        return word, [row.split() for row in rows]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    port = free_port_for_ray()
    with Cluster(tmp_path_factory.mktemp("own")) as cluster:
        cluster.start("--num-gpus=2", dashboard_port=port)
        web = cluster.server(tmp_path_factory.mktemp("web"), cluster="auto").start(wait=False)
        yield Own(cluster, f"http://127.0.0.1:{port}", web)


def cards(actor: int) -> set[str]:
    """Return CUDA_VISIBLE_DEVICES of an actor's engine process."""
    lines = Path(f"/proc/{engine_of(actor)}/environ").read_text().split("\0")
    return {line.partition("=")[2] for line in lines if line.startswith("CUDA_VISIBLE_DEVICES=")}


def test_deploy_status_and_stop_on_this_machines_own_ray(own: Own) -> None:
    assert own.status() == ("not deployed", [])
    wait_for(lambda: own.web.live() == 200, "the web server listens")
    assert own.web.health() == 503
    printed = own.cluster.deploy(2, "--gpus", "1", *AUTO)
    assert printed.startswith("RUNNING\n")
    wait_for(lambda: replicas(own.web) == 2, "two replicas are ready", START_SECONDS)
    body = '{"prompt": "Once upon a time", "n": 4, "max_tokens": 5, "stream": true}'
    url = f"{own.web.url}/v1/srb/completions"
    curl = subprocess.run(
        ["curl", "-sN", url, "-d", body], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert curl.stdout.count('"event":"stop"') == 4, curl.stdout
    given = [cards(actor) for actor in actors(own.cluster.head.pid)]
    assert sorted(given, key=str) == [{"0"}, {"1"}], "Ray gives each replica a card of its own"

    stream = Stream(own.web, "A stream that an operator sees. " * 5)
    stream.wait_for_text()
    word, rows = own.status()
    assert word == "RUNNING"
    assert sorted(row[2] for row in rows) == ["0", "1"]
    assert {row[3] for row in rows} == {"running"}
    assert sorted((row[5], row[6]) for row in rows) == [("0", "0"), ("1", "1")]
    stream.close()

    assert own.cluster.run("stop", *AUTO) == "stopped\n"
    wait_for(lambda: own.web.health() == 503, "no replica is ready")
    assert own.status() == ("not deployed", [])
    assert own.cluster.run("stop", *AUTO) == "not deployed\n"


def config(folder: Path, **changed: Any) -> Path:
    """Write config/ray/srb.yaml with other arguments; return the file."""
    import yaml  # Ray needs it

    values = yaml.safe_load((ROOT / "config" / "ray" / "srb.yaml").read_text())
    [application] = values["applications"]
    application["args"] |= changed
    path = folder / "srb.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_the_config_file_deploys_by_serves_own_command(own: Own, tmp_path: Path) -> None:
    path = config(tmp_path, cpus=0.1, settings={**SETTINGS, "model": MODEL})
    command = [PYTHON, "-m", "ray.serve.scripts", "deploy", str(path), "--address", own.dashboard]
    done = subprocess.run(
        command, env=own.cluster.environ, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: replicas(own.web) == 2, "two replicas are ready", START_SECONDS)
    serves(own.web)
    own.cluster.run("stop", *AUTO)
    wait_for(lambda: own.web.health() == 503, "no replica is ready")


def test_a_model_that_cannot_be_loaded_ends_deploy_with_the_reason(own: Own, tmp_path: Path) -> None:
    missing = tmp_path / "missing.gguf"
    done = own.cluster.try_to_run("deploy", "--cpus", "0.1", "--model", str(missing), *AUTO)
    assert done.returncode == 1
    assert str(missing) in done.stderr.splitlines()[-1]
    own.cluster.run("stop", *AUTO)
