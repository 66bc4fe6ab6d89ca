"""llama.cpp's log, written to by many threads at once: none mutes or explains another's calls."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable

import llama_cpp as lib
import pytest

from srb.engine.llama.log import native_log
from srb.engine.llama.model import LlamaModel
from srb.engine.model import Batch, DecodeStatus
from tests.processes import DEADLINE

OF_A_GRAMMAR = "failed to parse grammar"  # llama.cpp's error


@pytest.fixture(autouse=True)
def fresh(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "srb.llama")
    native_log.forget_error()


def in_thread(call: Callable[[], None]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def parse(llama: LlamaModel) -> None:
    """Make llama.cpp log an error about a grammar."""
    assert not lib.llama_sampler_init_grammar(llama.vocab, b"root ::= no-such-rule", b"root")


def refused(llama: LlamaModel) -> None:
    """Make a decode fail: its positions have a gap."""
    batch = Batch()
    batch.add(0, 0, [1, 2], want_logits=False)
    batch.add(0, 9, [3], want_logits=True)
    assert llama.decode(batch) is DecodeStatus.INVALID


def lines(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_an_error_is_logged_and_explains_the_call_of_its_thread(
    llama: LlamaModel, caplog: pytest.LogCaptureFixture
) -> None:
    assert native_log.last_error == "no reason given"
    parse(llama)
    assert OF_A_GRAMMAR in lines(caplog)
    assert native_log.last_error in lines(caplog)
    native_log.forget_error()
    assert native_log.last_error == "no reason given"


def test_a_grammar_that_another_thread_parses_mutes_no_line_of_a_decode(
    llama: LlamaModel, caplog: pytest.LogCaptureFixture
) -> None:
    muted, decoded = threading.Event(), threading.Event()

    def reader() -> None:
        with native_log.muted():
            muted.set()
            decoded.wait(DEADLINE)
            parse(llama)

    thread = threading.Thread(target=reader)
    thread.start()
    muted.wait(DEADLINE)
    try:
        refused(llama)
        assert lines(caplog)
        assert native_log.last_error in lines(caplog)
    finally:
        decoded.set()
        thread.join()
    assert OF_A_GRAMMAR not in lines(caplog)


def test_a_failing_decode_quotes_no_error_of_a_clients_grammar(
    llama: LlamaModel, caplog: pytest.LogCaptureFixture
) -> None:
    in_thread(lambda: parse(llama))
    parse(llama)  # an error of this thread's own, of an earlier call
    caplog.clear()
    caplog.set_level(logging.WARNING, "srb.llama")
    refused(llama)
    [said] = [record.getMessage() for record in caplog.records if "llama_decode returned -1" in record.getMessage()]
    assert OF_A_GRAMMAR not in lines(caplog)
    assert said.endswith(f"for 3 tokens: {native_log.last_error}")
    assert "no reason given" not in said


def test_a_muted_call_is_neither_logged_nor_the_last_error(llama: LlamaModel, caplog: pytest.LogCaptureFixture) -> None:
    with native_log.muted():
        parse(llama)
    assert lines(caplog) == ""
    assert native_log.last_error == "no reason given"
    parse(llama)
    assert OF_A_GRAMMAR in lines(caplog)


def test_a_thread_that_python_did_not_start_is_logged_and_is_nobodys_last_error(
    llama: LlamaModel, caplog: pytest.LogCaptureFixture
) -> None:
    """Like a worker thread of ggml: a native thread that calls back into Python."""
    start_routine = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    routine = start_routine(lambda _: parse(llama))
    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, routine, None) == 0
    with native_log.muted():  # mutes this thread, not that one
        assert libc.pthread_join(thread, None) == 0
    assert OF_A_GRAMMAR in lines(caplog)
    assert native_log.last_error == "no reason given"
