"""The engine process and its supervisor, as real processes over FakeModel and real sockets."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from srb.engine.runtime import EngineLock, clean_up, make_runtime_dir
from srb.engine.supervisor import Backoff
from srb.errors import ConfigError
from srb.protocol import (
    VERSION,
    Accepted,
    Answer,
    BranchEnded,
    Cancel,
    Delta,
    Detokenize,
    Done,
    Failed,
    GetStats,
    Hello,
    Ready,
    Rejected,
    Tokenize,
)
from tests.processes import (
    PYTHON,
    Process,
    Worker,
    brief,
    children,
    clean_environ,
    endless,
    is_alive,
    status,
    wait_for,
)

Start = Callable[..., Process]

ENGINE = (PYTHON, "-m", "srb.engine.process")
SUPERVISOR = (PYTHON, "-m", "srb.engine.supervisor")
SETTINGS = {"model": "fake:", "n_ctx": 100_000}


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start(tmp_path: Path, runtime: Path) -> Iterator[Start]:
    """Start a program with its own log and the test's runtime folder; end it after the test."""
    with ExitStack() as stack:

        def start_one(*command: object, log: str = "log", **settings: object) -> Process:
            environ = clean_environ(**{"runtime_dir": runtime, **SETTINGS, **settings})
            return stack.enter_context(Process(command, environ, tmp_path / log))

        yield start_one


@pytest.fixture
def connect(runtime: Path) -> Iterator[Callable[[], Worker]]:
    """Connect to the engine as a web worker; close after the test."""
    with ExitStack() as stack:

        def connect_one() -> Worker:
            worker = Worker(runtime)
            stack.callback(worker.close)
            return worker

        yield connect_one


def engine_with(load: str) -> tuple[str, ...]:
    """An engine process whose model is loaded by the body of a Python function of `settings`."""
    script = """
    import os, time
    from srb.engine import process
    from srb.engine.core import Engine
    from srb.engine.fake import FakeModel
    from srb.engine.model import DecodeStatus
    from srb.errors import ModelLoadFailed

    def load(settings):
    {load}
        engine = Engine(model, max_queue=2, clock=time.monotonic)
        return engine, model.info("fake"), engine.close

    process.exit_now(process.main(load=load))
    """
    return PYTHON, "-c", textwrap.dedent(script).format(load=textwrap.indent(textwrap.dedent(load), "    "))


# The engine process -----------------------------------------------------------------------------------------------


def test_a_request_crosses_the_socket_and_comes_back_as_events(start: Start, connect: Callable[[], Worker]) -> None:
    engine = start(*ENGINE)
    worker = connect()
    hello = worker.next(Hello, Ready)
    assert hello == Hello(VERSION, engine.pid)
    worker.ready().send(brief("a", n=3))
    assert worker.next(Accepted).prompt_tokens > 0
    done = worker.next(Done)
    assert (done.request_id, done.completion_tokens) == ("a", 15)


def test_text_becomes_tokens_and_tokens_text(start: Start, connect: Callable[[], Worker]) -> None:
    start(*ENGINE)
    worker = connect().ready()
    worker.send(endless("a"))
    worker.next(Delta)
    worker.send(Tokenize("b", (" fox", 3, "☃"), add_special=True, parse_special=True))
    tokens = worker.next(Answer).value
    worker.send(Detokenize("c", tuple(tokens)), Detokenize("d", (10**9,)))
    assert b"".join(piece.encode("latin-1") for piece in worker.next(Answer).value) == "<s> fox a☃".encode()
    assert "not in the vocabulary" in worker.next(Rejected).message


def test_workers_can_connect_before_the_model_is_loaded(
    start: Start, connect: Callable[[], Worker], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    start(*engine_with(f"open({str(gate)!r}).read(); model = FakeModel()"))
    early = connect()
    early.send(brief("early"), GetStats("stats"))
    assert {early.next(Rejected).slug, early.next(Rejected).slug} == {"loading"}
    gate.write_text("go")
    early.ready().send(brief("late"))
    assert early.next(Done).request_id == "late"
    connect().ready()


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!i", 5) + b"hello",
        struct.pack("!i", 8) + b"[[99,1]]",
        struct.pack("!i", 9) + b"[[1,2,3]]",  # a Cancel whose id is no string
        struct.pack("!i", 8) + b"[[3,1,2]",
        struct.pack("!iQ", -1, 2**40),
        struct.pack("!i", 10) + b"[[11,1,2]]",  # an event: Hello
    ],
)
def test_a_frame_that_is_none_closes_that_connection_and_no_other(
    start: Start, connect: Callable[[], Worker], bytes_: bytes
) -> None:
    start(*ENGINE)
    good, bad = connect().ready(), connect().ready()
    good.send(endless("a"))
    good.next(Delta)
    bad.sock.sendall(bytes_)
    assert bad.is_closed()
    good.next(Delta)
    connect().ready()


def test_a_request_that_makes_no_sense_is_rejected_and_the_connection_stays(
    start: Start, connect: Callable[[], Worker]
) -> None:
    start(*ENGINE)
    worker = connect().ready()
    worker.send(brief("bad", n=0), brief("good"))
    answers = [worker.next(Rejected, Accepted) for _ in range(2)]
    assert [type(answer) for answer in answers] in ([Rejected, Accepted], [Accepted, Accepted])
    assert worker.next(Done)


def test_an_id_that_is_in_use_is_rejected_also_on_another_connection(
    start: Start, connect: Callable[[], Worker]
) -> None:
    start(*ENGINE)
    first, second = connect().ready(), connect().ready()
    first.send(endless("a"))
    first.next(Delta)
    second.send(brief("a"))
    assert second.next(Rejected, Accepted).slug == "invalid_request"
    first.next(Delta)


def test_only_the_connection_that_sent_a_request_can_cancel_it(start: Start, connect: Callable[[], Worker]) -> None:
    start(*ENGINE)
    first, second = connect().ready(), connect().ready()
    first.send(endless("a"))
    first.next(Delta)
    second.send(Cancel("a"))
    assert second.stats()["requests_processing"] == 1
    first.send(Cancel("a", 0))
    assert first.next(BranchEnded).index == 0
    first.send(Cancel("a"))
    assert first.next(Done).request_id == "a"


def test_a_connection_that_closes_takes_its_requests_along(start: Start, connect: Callable[[], Worker]) -> None:
    start(*ENGINE)
    leaving, staying = connect().ready(), connect().ready()
    leaving.send(endless("a", n=4), endless("b"))
    leaving.next(Delta)
    staying.send(endless("c"))
    leaving.close()
    wait_for(lambda: staying.stats()["requests_processing"] == 1, "only the other connection's request runs")
    staying.next(Delta)


def test_when_a_worker_falls_behind_steps_coalesce_into_one_frame(start: Start, connect: Callable[[], Worker]) -> None:
    start(*ENGINE)
    slow, other = connect().ready(), connect().ready()
    slow.send(endless("a", n=4))
    slow.next(Accepted)
    wait_for(lambda: other.stats()["tokens_predicted_total"] > 5_000, "the slow worker's buffers are full")
    # First come the frames that lie in the socket's buffers, a step each, and then all that has piled up behind them.
    assert any(slow.frames.receive().count(b'"a"') > 4 * 4 for _ in range(2_000))


def test_sigterm_ends_what_runs_and_leaves_nothing_behind(
    start: Start, connect: Callable[[], Worker], runtime: Path
) -> None:
    engine = start(*ENGINE)
    worker = connect().ready()
    worker.send(endless("a"))
    worker.next(Delta)
    engine.send(signal.SIGTERM)
    failed = worker.next(Failed)
    assert (failed.request_id, failed.slug) == ("a", "shutting_down")
    assert engine.wait() == 0
    assert list(runtime.iterdir()) == []


def test_sigterm_while_the_model_is_loading_ends_at_once(start: Start, connect: Callable[[], Worker]) -> None:
    engine = start(*engine_with("time.sleep(10_000); model = FakeModel()"))
    connect().next(Hello)
    assert engine.stop() == -signal.SIGTERM


def test_a_decode_that_hangs_cannot_hold_up_the_end(start: Start, connect: Callable[[], Worker]) -> None:
    hang = """
    import ctypes
    model, mutex, lock = FakeModel(), ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
    model.decode = lambda batch: lock(mutex) or lock(mutex)  # the second one waits for ever, whatever signal comes
    """
    engine = start(*engine_with(hang))
    worker = connect().ready()
    worker.send(endless("a"))
    worker.next(Accepted)
    assert engine.stop() != 0


def test_a_second_engine_waits_until_the_first_has_left(start: Start, connect: Callable[[], Worker]) -> None:
    first = start(*ENGINE)
    assert connect().next(Hello).pid == first.pid
    second = start(*ENGINE, log="second.log")
    wait_for(lambda: "another engine" in second.logs, "the second engine says that it waits")
    assert connect().next(Hello).pid == first.pid
    assert first.stop() == 0
    worker = connect()
    assert worker.next(Hello).pid == second.pid
    worker.ready()
    assert second.stop() == 0


def test_a_model_that_cannot_be_loaded_is_one_line_and_exit_status_3(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(range(200)))
    engine = start(*ENGINE, model=broken)
    assert engine.wait() == 3
    [line] = [line for line in engine.logs.splitlines() if line.startswith("srb:")]
    assert str(broken) in line
    assert "Traceback" not in engine.logs


def test_a_context_beyond_repair_ends_the_process_for_a_restart(start: Start, connect: Callable[[], Worker]) -> None:
    engine = start(*engine_with("model = FakeModel(); model.failures.extend([DecodeStatus.FATAL] * 9)"))
    worker = connect().ready()
    worker.send(endless("a"))
    assert engine.wait() == 4
    assert worker.is_closed()


def test_a_wrong_setting_is_one_line_and_exit_status_2(start: Start) -> None:
    engine = start(*ENGINE, n_ctx="many")
    assert engine.wait() == 2
    assert engine.logs.startswith("srb: n_ctx (from SRB_N_CTX): ")
    assert engine.logs.count("\n") == 1


# The supervisor -----------------------------------------------------------------------------------------------------


def engine_pid(supervisor: Process) -> int:
    """The pid of the supervisor's engine, once it runs."""
    [pid] = wait_for(lambda: children(supervisor.pid), "the supervisor has started an engine")
    return pid


def test_a_killed_engine_is_started_again(start: Start, connect: Callable[[], Worker], runtime: Path) -> None:
    supervisor = start(*SUPERVISOR)
    first = connect().ready()
    wait_for(lambda: status(runtime)["state"] == "running", "the status says so")
    killed = engine_pid(supervisor)
    os.kill(killed, signal.SIGKILL)
    assert first.is_closed()
    wait_for(lambda: killed not in children(supervisor.pid) and children(supervisor.pid), "there is another engine")
    connect().ready().send(brief("a"))
    assert "SIGKILL" in supervisor.logs


def test_row_23_a_decode_that_hangs_in_native_code_is_aborted_and_the_engine_started_again(
    start: Start, connect: Callable[[], Worker], runtime: Path, tmp_path: Path
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
    _, _, script = engine_with(hang)
    supervise = f"""
    import sys
    from srb.engine import supervisor
    popen = supervisor.subprocess.Popen
    supervisor.subprocess.Popen = lambda command, **options: popen([{PYTHON!r}, "-c", {script!r}, *command[3:]], **options)
    sys.exit(supervisor.main([]))
    """
    supervisor = start(PYTHON, "-c", textwrap.dedent(supervise), stall_timeout=8)
    worker = connect().ready()
    worker.send(endless("a"))
    assert worker.is_closed()
    assert "tokens takes longer than" in supervisor.logs
    assert "SIGABRT" in wait_for(lambda: "started again" in supervisor.logs and supervisor.logs, "it is said")
    connect().ready().send(brief("b"))
    wait_for(lambda: status(runtime)["state"] == "running", "the next engine runs")


def test_stopping_the_supervisor_leaves_no_process_and_no_file(
    start: Start, connect: Callable[[], Worker], runtime: Path
) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    assert supervisor.stop() == 0
    assert not is_alive(engine)
    assert not runtime.exists()


def test_an_engine_that_does_not_end_is_killed_and_swept_up(
    start: Start, connect: Callable[[], Worker], runtime: Path
) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    os.kill(engine, signal.SIGSTOP)
    assert supervisor.stop() == 0
    assert not is_alive(engine)
    assert not runtime.exists()


def test_the_engine_ends_with_a_killed_supervisor(start: Start, connect: Callable[[], Worker]) -> None:
    supervisor = start(*SUPERVISOR)
    connect().ready()
    engine = engine_pid(supervisor)
    supervisor.stop(signal.SIGKILL)
    wait_for(lambda: not is_alive(engine), "the engine has ended too")


def test_supervisor_and_engine_end_with_a_killed_parent(
    start: Start, connect: Callable[[], Worker], runtime: Path
) -> None:
    script = """
    import os, subprocess, sys, time
    subprocess.Popen([sys.executable, "-m", "srb.engine.supervisor", "--parent", str(os.getpid())])
    time.sleep(10_000)
    """
    parent = start(PYTHON, "-c", textwrap.dedent(script))
    connect().ready()
    [supervisor] = children(parent.pid)
    [engine] = children(supervisor)
    parent.stop(signal.SIGKILL)
    wait_for(lambda: not is_alive(supervisor) and not is_alive(engine), "both have ended")
    assert not runtime.exists()


def test_a_model_that_cannot_be_loaded_is_not_tried_again(start: Start, runtime: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(range(200)))
    supervisor = start(*SUPERVISOR, model=broken)
    wait_for(lambda: status(runtime)["state"] == "failed", "the status says so")
    assert str(broken) in status(runtime)["message"]
    wait_for(lambda: not children(supervisor.pid), "the engine has ended")
    assert supervisor.stop() == 0
    assert supervisor.logs.count("srb: ") == 1
    assert not runtime.exists()


def test_an_upgrades_supervisor_takes_over_when_the_old_one_leaves(
    start: Start, connect: Callable[[], Worker], runtime: Path
) -> None:
    old = start(*SUPERVISOR)
    old_pid = connect().ready().stats() and engine_pid(old)
    wait_for(lambda: status(runtime)["state"] == "running", "the old engine runs")
    new = start(*SUPERVISOR, log="new.log")
    wait_for(lambda: "another engine" in new.logs, "the new engine waits")
    assert status(runtime)["state"] == "running"
    assert old.stop() == 0
    assert not is_alive(old_pid)
    connect().ready()
    wait_for(lambda: status(runtime)["state"] == "running", "the new engine runs")
    assert new.logs.count("another engine") == 1
    assert new.stop() == 0
    assert not runtime.exists()


def test_the_supervisor_imports_neither_the_engine_nor_gevent() -> None:
    script = "import sys, srb.engine.supervisor; print(*sys.modules)"
    modules = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"llama_cpp", "gevent", "flask", "numpy", "srb.engine.core"} & set(modules)


def test_restarts_come_slower_and_slower_until_one_lasts() -> None:
    backoff = Backoff()
    delays = [backoff.after(0.0) for _ in range(9)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert [backoff.after(30.0), backoff.after(0.0)] == [0.1, 0.2]


# The runtime folder -------------------------------------------------------------------------------------------------


def test_the_runtime_folder_is_this_users_alone(runtime: Path) -> None:
    make_runtime_dir(runtime)
    assert runtime.stat().st_mode & 0o777 == 0o700
    runtime.chmod(0o777)
    with pytest.raises(ConfigError, match="other users"):
        make_runtime_dir(runtime)


def test_a_runtime_folder_that_is_a_link_or_too_long_is_refused(tmp_path: Path, runtime: Path) -> None:
    runtime.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder of this user"):
        make_runtime_dir(runtime)
    with pytest.raises(ConfigError, match="too long"):
        make_runtime_dir(tmp_path / ("x" * 100))


def test_one_engine_holds_the_lock_and_cleaning_up_leaves_it_alone(runtime: Path) -> None:
    holder = EngineLock(runtime)
    assert holder.acquire(wait=False)
    assert not EngineLock(runtime).acquire(wait=False)
    clean_up(runtime)
    assert (runtime / "engine.lock").exists()
    holder.release()
    holder.release()
    clean_up(runtime)
    assert not runtime.exists()
