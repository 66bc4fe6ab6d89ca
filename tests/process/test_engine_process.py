"""The engine process: what crosses its socket, and how it starts, fails and ends."""

from __future__ import annotations

import os
import signal
import struct
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from srb.config.settings import Settings
from srb.wire.codec import VERSION
from srb.wire.commands import BranchSpec, Cancel, Detokenize, Generate, GetSlots, GetStats, Tokenize
from srb.wire.events import Accepted, BranchEnded, Delta, Done, Failed, Hello, Ready, Rejected, Reply
from tests.process.conftest import ENGINE, Connect, Start
from tests.processes import PYTHON, Process, brief, endless, engine_with, status, wait_for


@pytest.mark.smoke
def test_a_request_crosses_the_socket_and_comes_back_as_events(engine: Process, shared: Connect) -> None:
    worker = shared()
    hello = worker.next(Hello, Ready)
    assert hello == Hello(VERSION, engine.pid)
    worker.ready().send(brief("a", n=3))
    assert worker.next(Accepted).prompt_tokens > 0
    done = worker.next(Done)
    assert (done.request_id, done.completion_tokens) == ("a", 15)


@pytest.mark.smoke
def test_text_becomes_tokens_and_tokens_text(shared: Connect) -> None:
    worker = shared().ready()
    worker.send(endless("a"))
    worker.next(Delta)
    worker.send(Tokenize("b", (" fox", 3, "☃"), add_special=True, parse_special=True))
    tokens = worker.next(Reply).value
    worker.send(Detokenize("c", tuple(tokens)))
    assert b"".join(piece.encode("latin-1") for piece in worker.next(Reply).value) == "<s> fox a☃".encode()
    worker.send(Detokenize("d", (10**9,)))  # alone: a smaller one would be answered first
    assert "not in the vocabulary" in worker.next(Rejected).message


def test_a_long_tokenization_holds_up_no_cancel_and_no_query(start: Start, connect: Connect, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = f"""
    model = FakeModel()
    tokenize = model.tokenize
    model.tokenize = lambda text, *a: tokenize(open({str(gate)!r}).read() if text == "slow" else text, *a)
    """
    start(*engine_with(slow))
    worker = connect().ready()
    worker.send(Generate("a", ("slow",), (BranchSpec(1, 5),)), brief("b"))
    with gate.open("w"):  # opens once "a" is being tokenized: a call cancelled before it never is
        worker.send(GetSlots("slots"), Tokenize("tokens", ("a",), False, False), Cancel("a"))
        answers = [worker.next(Reply, Rejected) for _ in range(3)]
        assert {answer.request_id for answer in answers} == {"slots", "tokens", "a"}
        assert [answer.code for answer in answers if isinstance(answer, Rejected)] == ["cancelled"]
    assert worker.next(Done, Rejected, Failed).request_id == "b"
    assert worker.stats()["requests_total"] == 1


@pytest.mark.smoke
def test_workers_can_connect_before_the_model_is_loaded(
    start: Start, connect: Connect, tmp_path: Path, runtime: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    start(*engine_with(f"report(42); open({str(gate)!r}).read(); model = FakeModel()"))
    early = connect()
    wait_for(lambda: status(runtime).get("percent") == 42, "the percentage in status.json")
    early.send(brief("early"), GetStats("stats"))
    assert {early.next(Rejected).code, early.next(Rejected).code} == {"loading"}
    gate.write_text("go")
    early.ready().send(brief("late"))
    assert early.next(Done).request_id == "late"
    connect().ready()


@pytest.mark.parametrize(
    "bytes_",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", marks=pytest.mark.smoke),
        struct.pack("!i", 5) + b"hello",
        struct.pack("!i", 8) + b"[[99,1]]",
        struct.pack("!i", 9) + b"[[1,2,3]]",  # a Cancel whose id is no string
        struct.pack("!i", 8) + b"[[3,1,2]",
        struct.pack("!iQ", -1, 2**40),
        struct.pack("!i", 10) + b"[[11,1,2]]",  # an event: Hello
    ],
)
def test_an_invalid_frame_closes_its_connection_and_no_other(shared: Connect, bytes_: bytes) -> None:
    good, bad = shared().ready(), shared().ready()
    good.send(endless("a"))
    good.next(Delta)
    bad.sock.sendall(bytes_)
    assert bad.is_closed()
    good.next(Delta)
    shared().ready()


def test_an_invalid_request_is_rejected_naming_its_field_and_the_connection_stays(shared: Connect) -> None:
    worker = shared().ready()
    typo = BranchSpec(1, max_tokens="5")  # type: ignore[arg-type]
    worker.send(brief("none", n=0), replace(brief("typo"), branches=(typo,)), brief("good"))
    refused = [worker.next(Rejected, Accepted) for _ in range(2)]
    assert [(answer.request_id, answer.code) for answer in refused] == [
        ("none", "invalid_request"),
        ("typo", "invalid_request"),
    ]
    assert worker.next(Done).request_id == "good"


def test_an_id_that_is_in_use_is_rejected_also_on_another_connection(shared: Connect) -> None:
    first, second = shared().ready(), shared().ready()
    first.send(endless("a"))
    first.next(Delta)
    second.send(brief("a"))
    assert second.next(Rejected, Accepted).code == "invalid_request"
    first.next(Delta)


def test_only_the_connection_that_sent_a_request_can_cancel_it(shared: Connect) -> None:
    first, second = shared().ready(), shared().ready()
    first.send(endless("a"))
    first.next(Delta)
    second.send(Cancel("a"))
    assert second.stats()["requests_processing"] == 1
    first.send(Cancel("a", 0))
    assert first.next(BranchEnded).index == 0
    first.send(Cancel("a"))
    assert first.next(Done).request_id == "a"


def test_a_connection_that_closes_takes_its_requests_along(shared: Connect) -> None:
    leaving, staying = shared().ready(), shared().ready()
    leaving.send(endless("a", n=4), endless("b"))
    leaving.next(Delta)
    staying.send(endless("c"))
    leaving.close()
    wait_for(lambda: staying.stats()["requests_processing"] == 1, "only the other connection's request runs")
    staying.next(Delta)


def test_when_a_worker_falls_behind_steps_coalesce_into_one_frame(shared: Connect) -> None:
    slow, other = shared().ready(), shared().ready()
    slow.send(endless("a", n=4))
    slow.next(Accepted)
    enough = other.stats()["tokens_predicted_total"] + 5_000
    wait_for(lambda: other.stats()["tokens_predicted_total"] > enough, "the slow worker's buffers are full")
    # First come the frames that lie in the socket's buffers, a step each, and then all that has piled up behind them.
    assert any(slow.frames.receive().count(b'"a"') > 4 * 4 for _ in range(2_000))


@pytest.mark.smoke
def test_sigterm_ends_what_runs_and_leaves_nothing_behind(start: Start, connect: Connect, runtime: Path) -> None:
    engine = start(*ENGINE)
    worker = connect().ready()
    worker.send(endless("a"))
    worker.next(Delta)
    engine.send(signal.SIGTERM)
    failed = worker.next(Failed)
    assert (failed.request_id, failed.code) == ("a", "shutting_down")
    assert engine.wait() == 0
    assert list(runtime.iterdir()) == []


def test_sigterm_while_the_model_is_loading_ends_at_once(start: Start, connect: Connect) -> None:
    engine = start(*engine_with("time.sleep(10_000); model = FakeModel()"))
    connect().next(Hello)
    assert engine.stop() == -signal.SIGTERM


def test_the_model_is_not_freed_while_threads_use_it(start: Start, connect: Connect, tmp_path: Path) -> None:
    """A text is being tokenized while the engine stops; freeing the model then would crash the process."""
    script = """
    import os, time
    from srb.engine.fake import FakeModel
    from srb.engine.process import __main__ as process
    FakeModel.close = lambda self: os.abort()
    tokenize = FakeModel.tokenize

    def wait(self, text, *a):
        if text == "slow":
            print("it is being tokenized", flush=True)
            time.sleep(10_000)
        return tokenize(self, text, *a)

    FakeModel.tokenize = wait
    process.exit_now(process.main())
    """
    engine = start(PYTHON, "-c", textwrap.dedent(script), state_dir=tmp_path / "states")
    worker = connect().ready()
    worker.send(Generate("a", ("slow",), (BranchSpec(1, 5),)), brief("b"))
    wait_for(lambda: "it is being tokenized" in engine.logs, "both are here, and a text is being tokenized")
    engine.send(signal.SIGTERM)
    assert {worker.next(Rejected).request_id for _ in "ab"} == {"a", "b"}
    assert engine.wait() == 0


def test_a_hanging_decode_does_not_hold_up_the_exit(start: Start, connect: Connect) -> None:
    hang = """
    import ctypes
    model, mutex, lock = FakeModel(), ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock

    def decode(batch):
        print("a decode has begun", flush=True)
        lock(mutex)
        lock(mutex)  # this one waits for ever, whatever signal comes

    model.decode = decode
    """
    engine = start(*engine_with(hang))
    worker = connect().ready()
    worker.send(endless("a"))
    worker.next(Accepted)
    wait_for(lambda: "a decode has begun" in engine.logs, "the decode begins")
    assert engine.stop() != 0


def test_a_second_engine_waits_until_the_first_has_left(start: Start, connect: Connect) -> None:
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


@pytest.mark.smoke
def test_a_model_that_cannot_be_loaded_is_one_line_and_exit_status_3(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\3" + bytes(19))  # a header that says nothing
    engine = start(*ENGINE, model=broken)
    assert engine.wait() == 3
    [line] = [line for line in engine.logs.splitlines() if line.startswith("srb:")]
    assert str(broken) in line
    assert "Traceback" not in engine.logs


def test_a_context_beyond_repair_ends_the_process_for_a_restart(start: Start, connect: Connect) -> None:
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


def test_the_engine_comes_after_other_programs_by_its_nice_value(
    engine: Process, shared: Connect, start: Start, connect: Connect
) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    shared().ready()
    assert os.getpriority(os.PRIO_PROCESS, engine.pid) == own + Settings().nice
    nicer = start(*ENGINE, nice=3)
    connect().ready()
    assert os.getpriority(os.PRIO_PROCESS, nicer.pid) == own + 3
