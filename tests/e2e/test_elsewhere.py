"""A server where nothing is there that only Linux has: neither the calls, nor /proc, nor /sys. Nothing is taken for zero.

It is Linux all the same, and says nothing of macOS's own ways. llama.cpp, gevent and Python are Linux's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from srb.config.named_models import BUNDLED_MODEL
from tests.e2e.streams import BRIEF, Stream
from tests.needs import need
from tests.processes import DEADLINE, PYTHON, ROOT, descendants, is_alive, wait_for
from tests.servers import Server

pytestmark = pytest.mark.e2e

ELSEWHERE = ROOT / "tests/elsewhere"
HIDE = 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"'
SANDBOX = ("unshare", "--mount", "sh", "-c", HIDE, "sh")
SRB = (*SANDBOX, PYTHON, "-P", "-m", "srb.cli.main")


@pytest.fixture(scope="module", autouse=True)
def _may_hide() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root hides /proc from a process")
    need(shutil.which("unshare"), "unshare, of util-linux")
    need(not subprocess.run([*SANDBOX, "true"], capture_output=True, check=False).returncode, "mounts of a test's own")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(
        tmp_path, command=(*SRB, "serve"), model=BUNDLED_MODEL, n_ctx=4096, cache_disk_mib=64, cache_disk=tmp_path
    )
    made.environ["PYTHONPATH"] = f"{ELSEWHERE}:{ROOT}"
    with made.start() as running:
        yield running


def run(server: Server, *words: object) -> subprocess.CompletedProcess[str]:
    command = [*map(str, (*SRB, *words))]
    return subprocess.run(command, env=server.environ, capture_output=True, text=True, timeout=DEADLINE, check=False)


def test_a_server_writes_saves_and_ends_and_its_doctor_takes_nothing_for_zero(server: Server) -> None:
    events = Stream(server, BRIEF | {"n": 2}).rest()
    assert events[-1]["event"] == "done"
    saved = {"nodes": {"a": {"text": "Once", "by": "person", "made": 1}}}
    assert server.post("/v1/srb/stories/one", saved).status_code == 200
    metrics = server.get("/metrics?names=plain").text
    assert 'srb_engine_state{state="running"} 1.0' in metrics
    report = run(server, "doctor")
    assert "Traceback" not in report.stderr, report.stderr
    said = [" ".join(line.split()) for line in report.stdout.splitlines()]
    for line in ("busy not known", "memory not known free of not known", "swap not known"):
        assert line in said, report.stdout
    assert "page cache unknown" in report.stdout
    assert "other virtual machines" not in report.stdout
    assert "0 bytes" not in report.stdout
    facts = orjson.loads(run(server, "doctor", "--json").stdout)
    assert facts["machine"]["memory"] is facts["machine"]["memory_free"] is facts["fits"]["room"] is None
    assert facts["machine"]["cpus"] == facts["machine"]["allowed"] == os.cpu_count()
    top = run(server, "top", "--once", "--url", server.url)
    assert top.returncode == 0, top.stderr
    assert "Traceback" not in server.logs
    assert server.stop() == 0


def test_an_engine_ends_with_a_server_that_is_killed(server: Server) -> None:
    below = descendants(server.pid)
    assert len(below) >= 3
    os.kill(server.pid, 9)
    wait_for(lambda: not any(map(is_alive, below)), "supervisor and engine notice it")
