"""The turn to write stories: who is killed has it no more, and a worker that waits for it answers others meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from srb.stories.write_ahead import THREADS, WriteAheadLog
from tests.processes import DEADLINE

HOLDER = """
import sys
from srb.stories.write_ahead import THREADS, WriteAheadLog
assert WriteAheadLog(sys.argv[1], THREADS).take(0)
print("held", flush=True)
sys.stdin.read()
"""


WORKER = """
import sys
from pathlib import Path

from gevent import monkey
monkey.patch_all()
import gevent

from srb.errors import StoriesLocked
from srb.stories import sqlite
from srb.stories.parts import read_post
from srb.web.stories.stories_file import StoriesFile

stories = StoriesFile(Path(sys.argv[1]))
post = read_post(b'{"nodes": {"a": {"text": "Once.", "by": "person"}}}')
stories.use(lambda store: store.open())
print("open", flush=True)
sys.stdin.readline()
sqlite.BUSY_SECONDS = 0.05
try:
    stories.use(lambda store: store.post("tale", post))
except StoriesLocked:
    print("locked", flush=True)
sqlite.BUSY_SECONDS = 60
saves = gevent.spawn(stories.use, lambda store: store.post("tale", post))
for _ in range(5):
    gevent.sleep(0.01)
assert not saves.ready()
print("waits", flush=True)
print(saves.get().decode(), flush=True)
"""


@pytest.mark.smoke
def test_a_worker_that_waits_for_its_turn_to_save_answers_others_and_gives_up_in_time(tmp_path: Path) -> None:
    path = tmp_path / "stories.sqlite3"
    command = [sys.executable, "-c", WORKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"open\n"
        log = WriteAheadLog(f"{path}-wal", THREADS)
        assert log.take(DEADLINE)
        worker.stdin.write(b"\n")
        assert worker.stdout.readline() == b"locked\n"
        assert worker.stdout.readline() == b"waits\n"
        log.leave()
        assert orjson.loads(worker.stdout.readline())["seq"] == 1
        assert worker.wait() == 0
    log.close()


@pytest.mark.smoke
def test_the_turn_of_a_killed_process_is_the_next_ones(tmp_path: Path) -> None:
    (path := tmp_path / "stories.sqlite3-wal").touch()
    log = WriteAheadLog(path, THREADS)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert not log.take(0.01)
        os.kill(holder.pid, signal.SIGKILL)
        assert log.take(DEADLINE)
    log.close()
