"""Named states of an engine process: when a save is answered, and what becomes of it when the disk or the engine ends."""

from __future__ import annotations

import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from srb.wire.commands import StateAction
from srb.wire.events import Delta, Done, Failed, Rejected, Reply
from tests.process.conftest import ENGINE, Connect, Start
from tests.processes import PYTHON, brief, endless


def saving(name: str = "x") -> StateAction:
    return StateAction("save", "save", name, 0)


def slow_disk(gate: Path) -> str:
    """The body of a script: an engine process whose files reach the disk only while there is a file `gate`."""
    return f"""
    import os, time
    from srb.engine.process import __main__ as process
    fsync = os.fsync
    def wait(number):
        while not os.path.exists({str(gate)!r}):
            time.sleep(0.01)
        fsync(number)
    os.fsync = wait
    process.exit_now(process.main())
    """


def test_row_44_a_save_into_a_missing_folder_is_refused_and_the_engine_goes_on(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "states"
    engine = start(*ENGINE, state_dir=folder, cache_disk=tmp_path / "texts", cache_disk_mib=100)
    worker = connect().ready()
    worker.send(brief("a"))
    worker.next(Done)
    folder.rmdir()
    worker.send(saving())
    answer = worker.next(Rejected, Reply)
    assert (answer.request_id, answer.code) == ("save", "state_not_saved")
    assert "No such file or directory" in answer.message
    folder.mkdir()
    worker.send(saving())
    assert worker.next(Rejected, Reply).value["tokens"] > 0
    assert [path.name for path in folder.glob("[!.]*")] == ["x.srbstate"]
    assert engine.stop() == 0


def test_a_save_is_answered_when_it_is_on_the_disk_and_holds_up_nothing(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    start(PYTHON, "-c", textwrap.dedent(slow_disk(gate)), state_dir=tmp_path / "states")
    worker = connect().ready()
    worker.send(brief("a"))
    worker.next(Done)
    worker.send(saving(), brief("b"))
    assert worker.next(Done, Reply).request_id == "b"
    gate.touch()
    assert worker.next(Reply).value["bytes"] > 0
    assert (tmp_path / "states" / "x.srbstate").exists()


def test_sigterm_lets_a_write_end_and_its_client_know(start: Start, connect: Connect, tmp_path: Path) -> None:
    """The write takes longer than the engine's deadline for everything else."""
    gate = tmp_path / "gate"
    engine = start(PYTHON, "-c", textwrap.dedent(slow_disk(gate)), state_dir=tmp_path / "states")
    worker = connect().ready()
    worker.send(brief("a"))
    worker.next(Done)
    worker.send(saving(), endless("b"))
    worker.next(Delta)
    engine.send(signal.SIGTERM)
    assert worker.next(Failed, Reply).request_id == "b"
    with pytest.raises(subprocess.TimeoutExpired):
        engine.popen.wait(4)
    gate.touch()
    assert worker.next(Failed, Reply).value["tokens"] > 0
    assert engine.wait() == 0
    assert (tmp_path / "states" / "x.srbstate").exists()


def test_sigterm_gives_a_write_no_more_than_graceful_timeout_and_the_older_file_stays(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    gate, folder = tmp_path / "gate", tmp_path / "states"
    gate.touch()
    engine = start(PYTHON, "-c", textwrap.dedent(slow_disk(gate)), state_dir=folder, graceful_timeout=1)
    worker = connect().ready()
    worker.send(brief("a"))
    worker.next(Done)
    worker.send(saving())
    worker.next(Reply)
    gate.unlink()
    older = (folder / "x.srbstate").read_bytes()
    worker.send(brief("b", n=1), saving())
    worker.next(Done)
    engine.send(signal.SIGTERM)
    failed = worker.next(Failed, Reply)
    assert (failed.request_id, failed.code) == ("save", "shutting_down")
    assert engine.wait() == 0
    assert (folder / "x.srbstate").read_bytes() == older
