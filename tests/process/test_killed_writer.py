"""A process that is killed while it has the turn to write stories."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
