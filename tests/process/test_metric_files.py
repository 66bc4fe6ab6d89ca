"""A full disk ends no worker for its metrics: they are counted in memory, and shown again once there is room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A worker that answers calls of new routes, whose counts need new pages of its files; at the end, a scrape and its log.
WORKER = """
import logging, os, sys
from contextlib import suppress
from pathlib import Path

folder = Path(sys.argv[1])
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
from srb.web.metrics import Metrics
from tests.disks import fill

logging.basicConfig(stream=sys.stdout, format="log: %(message)s")

def answer(begin, end):
    for number in range(begin, end):
        metrics.count({"REQUEST_METHOD": "GET", "srb.route": f"/route/of/a/longer/name/{number}"}, "200 OK")
    metrics.open_calls.set(end)

def scrape():
    text = metrics.render({}).decode()
    print("shown:", text.count("srb:http_requests_total{"), "open:", "srb:http_calls_open" in text)

"""


def run(script: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", WORKER + script, folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


MANY = 2000  # routes, whose counts take more than the first 64 KiB of a file


def test_row_66_a_worker_that_begins_on_a_full_disk_counts_in_memory_until_there_is_room(small_disk: Path) -> None:
    lines = run(
        f"""
full = fill(folder)
metrics = Metrics(folder)
answer(0, {MANY})
scrape()
scrape()
full.unlink()
scrape()
answer(0, {MANY})
answer({MANY}, {2 * MANY})
scrape()
""",
        small_disk,
    )
    told = f"log: {small_disk} has no room (No space left on device): until it has, /metrics does not show new numbers"
    assert lines[0].startswith(told)
    assert lines[1:3] == ["shown: 0 open: False"] * 2
    assert lines[3] == f"log: {small_disk} has room again: /metrics shows all numbers of this worker"
    assert lines[4:] == [f"shown: {MANY} open: True", f"shown: {2 * MANY} open: True"]


@pytest.mark.parametrize("before", [1, 20, 300])
def test_row_66_a_disk_that_gets_full_ends_no_worker_and_what_was_shown_stays(small_disk: Path, before: int) -> None:
    """Pages of a file that were not written yet have no block, unless it is allocated."""
    lines = run(
        f"""
metrics = Metrics(folder)
answer(0, {before})
full = fill(folder)
answer(0, {MANY})
scrape()
full.unlink()
scrape()
""",
        small_disk,
    )
    assert lines[0].startswith(f"log: {small_disk} has no room")
    shown = int(lines[1].split()[1])
    assert before <= shown < MANY, "what the first 64 KiB have room for"
    assert lines[2].endswith("has room again: /metrics shows all numbers of this worker")
    assert lines[3:] == [f"shown: {MANY} open: True"]


def test_row_66_numbers_that_were_moved_are_those_that_were_counted(small_disk: Path) -> None:
    lines = run(
        """
full = fill(folder)
metrics = Metrics(folder)
for _ in range(7):
    answer(0, 3)
full.unlink()
metrics.render({})
answer(0, 3)
print(metrics.render({}).decode().count('route/of/a/longer/name/1",status="200"} 8.0'))
""",
        small_disk,
    )
    assert lines[-1] == "2"  # under both of its names


def test_a_file_of_a_worker_has_blocks_for_all_of_it(small_disk: Path) -> None:
    run("metrics = Metrics(folder)\nanswer(0, 1)\n", small_disk)
    files = list(small_disk.glob("*.db"))
    assert len(files) == 3
    for file in files:
        assert file.stat().st_blocks * 512 >= file.stat().st_size == 65536
