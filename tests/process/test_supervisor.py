"""The supervisor keeps exactly one engine alive, and ends with the server that started it."""

from __future__ import annotations

import os
import re
import signal
import textwrap
from pathlib import Path

import orjson
import pytest

from srb.config.named_models import BUNDLED_MODEL
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Done, Rejected
from tests.process.conftest import SUPERVISOR, Connect, Start
from tests.processes import (
    PYTHON,
    ROOT,
    Process,
    Worker,
    brief,
    children,
    endless,
    engine_with,
    is_alive,
    status,
    wait_for,
)


def engine_pid(supervisor: Process) -> int:
    """The pid of the supervisor's engine, once it runs."""
    [pid] = wait_for(lambda: children(supervisor.pid), "the supervisor has started an engine")
    return pid


def supervisor_of(load: str, package: str = "srb.process") -> str:
    """Return a script: the supervisor of engines whose model is loaded as by `engine_with`."""
    _, _, script = engine_with(load)
    return textwrap.dedent(f"""
    import sys
    from {package} import supervisor
    from srb.process import engine_child
    popen = engine_child.subprocess.Popen
    engine_child.subprocess.Popen = lambda command, **options: popen([{PYTHON!r}, "-c", {script!r}, *command[4:]], **options)
    sys.exit(supervisor.main([]))
    """)


@pytest.mark.smoke
def test_a_killed_engine_is_started_again(start: Start, connect: Connect, runtime: Path) -> None:
    supervisor = start(*SUPERVISOR)
    first = connect().ready()
    wait_for(lambda: status(runtime)["state"] == "running", "the status says so")
    killed = engine_pid(supervisor)
    os.kill(killed, signal.SIGKILL)
    assert first.is_closed()
    wait_for(lambda: killed not in children(supervisor.pid) and children(supervisor.pid), "there is another engine")
    connect().ready().send(brief("a"))
    wait_for(lambda: "SIGKILL" in supervisor.logs, "its end is logged")


def test_row_23_a_decode_that_hangs_in_native_code_is_aborted_and_the_engine_started_again(
    start: Start, connect: Connect, runtime: Path, tmp_path: Path
) -> None:
    """The first engine hangs in its first decode; the second finds the mark that it left and does not."""
    mark = tmp_path / "mark"
    hang = f"""
    import ctypes, pathlib
    model, mutex, lock = FakeModel(), ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
    mark = pathlib.Path({str(mark)!r})
    if not mark.exists():
        mark.touch()
        model.decode = lambda batch: lock(mutex) or lock(mutex)
    """
    supervisor = start(PYTHON, "-c", supervisor_of(hang), stall_timeout=8)
    worker = connect().ready()
    worker.send(endless("a"))
    assert worker.is_closed()
    wait_for(lambda: "tokens takes longer than" in supervisor.logs, "why it was ended is logged")
    assert "SIGABRT" in wait_for(
        lambda: "restarting in" in supervisor.logs and supervisor.logs, "the restart is logged"
    )
    connect().ready().send(brief("b"))
    wait_for(lambda: status(runtime)["state"] == "running", "the next engine runs")


@pytest.mark.smoke
def test_stopping_the_supervisor_leaves_no_process_and_no_file(start: Start, connect: Connect, runtime: Path) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    assert supervisor.stop() == 0
    assert not is_alive(engine)
    assert not runtime.exists()


def test_an_engine_that_does_not_exit_is_killed_and_its_files_removed(
    start: Start, connect: Connect, runtime: Path
) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    os.kill(engine, signal.SIGSTOP)
    assert supervisor.stop() == 0
    assert not is_alive(engine)
    assert not runtime.exists()


def test_the_engine_ends_with_a_killed_supervisor(start: Start, connect: Connect) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    supervisor.stop(signal.SIGKILL)
    wait_for(lambda: not is_alive(engine), "the engine has ended too")


def test_supervisor_and_engine_end_with_a_killed_parent(start: Start, connect: Connect, runtime: Path) -> None:
    script = """
    import os, subprocess, sys, time
    subprocess.Popen([sys.executable, "-m", "srb.process.supervisor", "--parent", str(os.getpid())])
    time.sleep(10_000)
    """
    parent = start(PYTHON, "-c", textwrap.dedent(script))
    connect().ready()
    [supervisor] = children(parent.pid)
    [engine] = children(supervisor)
    parent.stop(signal.SIGKILL)
    wait_for(lambda: not is_alive(supervisor) and not is_alive(engine), "both have ended")
    assert not runtime.exists()


@pytest.mark.smoke
def test_a_model_that_cannot_be_loaded_is_not_tried_again(start: Start, runtime: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    supervisor = start(*SUPERVISOR, model=broken)
    wait_for(lambda: status(runtime)["state"] == "failed", "the status says so")
    assert str(broken) in status(runtime)["message"]
    wait_for(lambda: not children(supervisor.pid), "the engine has ended")
    assert supervisor.stop() == 0
    assert supervisor.logs.count("srb: ") == 1
    assert not runtime.exists()


@pytest.mark.parametrize(
    "fault",
    [
        "raise RuntimeError(\"Failed to load shared library 'libllama.so': libgomp.so.1: cannot open shared object file\")",
        "raise FileNotFoundError(\"Shared library with base name 'llama' not found\")",
        "from missing import libgomp",
        "raise AttributeError('libllama.so: undefined symbol: llama_memory_seq_cp')",
    ],
)
def test_a_llama_cpp_that_cannot_be_loaded_is_not_tried_again(
    start: Start, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    (tmp_path / "llama_cpp.py").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    supervisor = start(*SUPERVISOR, model=BUNDLED_MODEL)
    wait_for(lambda: status(runtime)["state"] == "failed", "the status says so")
    assert status(runtime)["message"].startswith("llama.cpp cannot be loaded: ")
    wait_for(lambda: "is not started again" in supervisor.logs, "so does the log")
    assert supervisor.stop() == 0
    assert supervisor.logs.count("srb: llama.cpp cannot be loaded: ") == 1
    assert "Traceback" not in supervisor.logs


def test_an_upgrades_supervisor_takes_over_when_the_old_one_leaves(
    start: Start, connect: Connect, runtime: Path
) -> None:
    old = start(*SUPERVISOR)
    old_pid = connect().ready().stats() and engine_pid(old)
    wait_for(lambda: status(runtime)["state"] == "running", "the old engine runs")
    new = start(*SUPERVISOR, log="new.log")
    wait_for(lambda: "another supervisor runs in" in new.logs, "the new one waits")
    assert status(runtime)["state"] == "running"
    assert old.stop() == 0
    assert not is_alive(old_pid)
    connect().ready()
    wait_for(lambda: status(runtime)["state"] == "running", "the new engine runs")
    assert new.logs.count("another supervisor runs in") == 1
    assert new.stop() == 0
    assert not runtime.exists()


@pytest.mark.parametrize("hangs", ["in Python", "in native code"])
def test_row_23_a_preparation_that_never_ends_is_refused_and_the_engine_started_again(
    start: Start, connect: Connect, runtime: Path, hangs: str
) -> None:
    """Both engines hang in the preparation of a text that begins with "endless"; the decode loop has nothing to do."""
    loop = "while True: pass" if hangs == "in Python" else "lock(mutex) or lock(mutex)"
    hang = f"""
    import ctypes
    model, mutex, lock = FakeModel(), ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
    tokenize = model.tokenize
    def hang(text, *options, **named):
        if text.startswith("endless"):
            {loop}
        return tokenize(text, *options, **named)
    model.tokenize = hang
    """
    supervisor = start(PYTHON, "-c", supervisor_of(hang), stall_timeout=4)
    worker, other = connect().ready(), connect().ready()
    worker.send(Generate("a", ("endless",), (BranchSpec(1),)))
    other.send(brief("b"))
    assert isinstance(other.next(Done), Done)  # others go on meanwhile
    assert worker.next(Rejected).code == "preparation_too_long"
    assert worker.is_closed()
    wait_for(lambda: "characters takes longer than 4 s" in supervisor.logs, "why it was ended is logged")
    wait_for(lambda: "restarting in" in supervisor.logs, "the restart is logged")
    connect().ready().send(brief("c"))
    wait_for(lambda: status(runtime)["state"] == "running", "the next engine runs")


@pytest.mark.parametrize("signum", [signal.SIGABRT, signal.SIGSEGV, signal.SIGILL])
def test_row_24_a_model_that_ends_three_engines_while_it_is_loaded_has_failed(
    start: Start, runtime: Path, tmp_path: Path, signum: signal.Signals
) -> None:
    starts = tmp_path / "starts"
    supervisor = start(PYTHON, "-c", supervisor_of(f"""
    with open({str(starts)!r}, "a") as file:
        file.write("x")
    os.kill(os.getpid(), {signum.value})
    time.sleep(60)
    """))  # fmt: skip
    wait_for(lambda: status(runtime)["state"] == "failed", "the model has failed")
    message = status(runtime)["message"]
    assert signum.name in message
    assert ("the model" in message) == (signum != signal.SIGILL)
    assert ("another processor" in message) == (signum == signal.SIGILL)
    assert starts.read_text() == "xxx"
    assert supervisor.stop() == 0
    assert starts.read_text() == "xxx"


def test_row_24_an_engine_that_is_killed_while_it_loads_and_one_that_once_ran_are_started_again(
    start: Start, runtime: Path, tmp_path: Path
) -> None:
    """The first two abort, the third runs, is aborted, the next two abort as well, and the last one runs."""
    starts = tmp_path / "starts"
    supervisor = start(PYTHON, "-c", supervisor_of(f"""
    with open({str(starts)!r}, "a") as file:
        file.write("x")
    if os.path.getsize({str(starts)!r}) in (1, 2, 4, 5):
        os.abort()
    model = FakeModel()
    """))  # fmt: skip
    # Nobody connects before the third: an engine listens while it loads, and one that aborts then resets the connection.
    wait_for(lambda: status(runtime)["state"] == "running", "the third engine runs")
    assert starts.read_text() == "xxx"
    os.kill(engine_pid(supervisor), signal.SIGABRT)
    wait_for(lambda: status(runtime)["state"] == "running" and len(starts.read_text()) == 6, "the sixth engine runs")


RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} (INFO|WARNING|ERROR) srb\.\w+\[\d+\]: ")
FORGED = "2026-11-26 09:30:00 ERROR srb.supervisor[1]: forged"


def writing(text: str, then: str = "") -> str:
    """The load of an engine whose native code writes a text to standard error with each tokenization, and does `then`."""
    return f"""
    import ctypes
    model, libc = FakeModel(), ctypes.CDLL(None)
    tokenize = model.tokenize
    def write(*options, **named):
        libc.dprintf(2, b"%s", {text.encode()!r})
        {then or "pass"}
        return tokenize(*options, **named)
    model.tokenize = write
    """


FORGERIES = [
    f"x\n{FORGED}\n",
    f"\x1b[2K{FORGED}\n",
    f"x\r{FORGED}",
]  # by a line, by ANSI's codes and by a carriage return


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("models", ["", "a=fake:"])
def test_what_native_code_writes_forges_no_line_of_the_log(
    start: Start, connect: Connect, runtime: Path, log_format: str, models: str
) -> None:
    """An abort's stack is in the log too, a record for each line, whoever supervises the engine."""
    settings = {"models": models, "model": ""} if models else {}
    script = supervisor_of(writing("".join(FORGERIES), "os.abort()"), "srb.models" if models else "srb.process")
    supervisor = start(PYTHON, "-c", script, log_format=log_format, **settings)
    folder = wait_for(lambda: next(runtime.rglob("engine.sock"), None), "an engine listens").parent
    worker = Worker(folder).ready()
    worker.send(brief("a"))
    assert worker.is_closed()
    worker.close()
    wait_for(lambda: "SIGABRT" in supervisor.logs, "its end is logged")
    before_end, _ = supervisor.logs.split("SIGABRT", 1)
    lines = before_end.replace("\r", "\n").split("\n")[:-1]
    assert not any(line.startswith(FORGED[:20]) and "forged" in line and "engine" not in line for line in lines)
    assert "\x1b" not in before_end
    if log_format == "json":
        messages = [orjson.loads(line)["message"] for line in lines]
    else:
        assert all(RECORD.match(line) for line in lines), lines
        messages = [line.split("]: ", 1)[1] for line in lines]
    native = [message for message in messages if message.startswith("engine ")]
    assert sum("forged" in message for message in native) == len(FORGERIES)
    assert any("Fatal Python error: Aborted" in message for message in native)
    assert all(" of a: " in message for message in native) == bool(models)


@pytest.mark.parametrize("signum", [signal.SIGSTOP, signal.SIGKILL])
def test_an_engine_whose_supervisor_reads_no_more_goes_on_or_ends_but_never_blocks(
    start: Start, connect: Connect, signum: signal.Signals
) -> None:
    supervisor = start(PYTHON, "-c", supervisor_of(writing("text " * 2000 + "\n")))
    worker = connect().ready()
    engine = engine_pid(supervisor)
    os.kill(supervisor.pid, signum)
    try:
        if signum == signal.SIGSTOP:
            for number in range(50):  # the pipe has room for six
                worker.send(brief(f"a{number}"))
                worker.next(Done)
        else:
            assert worker.is_closed()
            wait_for(lambda: not is_alive(engine), "the engine has ended")
    finally:
        supervisor.send(signal.SIGCONT)
