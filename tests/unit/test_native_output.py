"""The standard error of an engine: one record for each line, none that forges another, and not too many."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from contextlib import suppress

import orjson
import pytest

from srb import logs
from srb.process import native_output
from srb.process.native_output import BURST, MAX_LINE, PER_SECOND, NativeOutput
from tests.processes import DEADLINE, wait_for

FORGED = [
    b'root ::= "secret\n2026-11-26 09:30:00 ERROR srb.supervisor[1]: forged',
    b"\x1b[2K\x1b[1A2026-11-26 09:30:00 ERROR srb.supervisor[1]: forged",
    b"harmless\r2026-11-26 09:30:00 ERROR srb.supervisor[1]: forged",
    "\u2028\u20292026-11-26 09:30:00 ERROR srb.supervisor[1]: forged\x9b31m".encode(),
    b'{"level": "error", "message": "forged"}\n{"level": "error"}',
    b"\x00\xff\xfe broken \xc3",
]


class Written(io.StringIO):
    """The log as it is written."""

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    stream = Written()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JSONFormatter() if getattr(request, "param", "") == "json" else logs.TextFormatter())
    logger = native_output.log
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.propagate = before


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("text", FORGED)
@pytest.mark.parametrize("written", ["text", "json"], indirect=True)
def test_no_text_forges_a_record_or_speaks_to_the_terminal(written: Written, text: bytes) -> None:
    output = NativeOutput()
    end = os.dup(output.engine_end)
    output.start("engine 7")
    os.write(end, text + b"\nlast")
    os.close(end)
    output.join(DEADLINE)
    lines = written.getvalue().split("\n")[:-1]
    assert len(lines) == text.count(b"\n") + 2
    assert all(character.isprintable() for line in lines for character in line)
    for line in lines:
        message = orjson.loads(line)["message"] if line.startswith("{") else line.split(": ", 1)[1]
        assert message.startswith("engine 7: "), line


def test_lines_beyond_a_burst_are_left_out_and_counted(written: Written) -> None:
    clock = Clock()
    output = NativeOutput(clock)
    for place in range(BURST + 500):
        output.take(b"line %d" % place)
    assert len(written.lines) == BURST
    clock.now += 1.0
    output.take(b"later")
    assert "500 lines of native code were left out" in written.lines[BURST]
    assert written.lines[BURST + 1].endswith("later")
    for _ in range(500):
        output.take(b"again")
    assert len(written.lines) == BURST + PER_SECOND


def test_the_last_lines_of_an_engine_that_has_ended_are_written_however_many_came_before(written: Written) -> None:
    output = NativeOutput(Clock())
    for place in range(BURST + 1000):
        output.take(b"noise %d" % place)
    for place in range(70):
        output.take(b"stack %d" % place)
    output.end()
    assert "970 lines of native code were left out" in written.lines[BURST]
    assert [line.rsplit(" ", 2)[1:] for line in written.lines[-70:]] == [["stack", str(place)] for place in range(70)]


def test_a_line_without_an_end_is_cut_and_takes_no_memory(written: Written) -> None:
    output = NativeOutput()
    end = os.dup(output.engine_end)
    output.start("engine 7")
    os.set_blocking(end, True)
    for _ in range(100):
        os.write(end, b"x" * 60_000)
    os.close(end)
    output.join(DEADLINE)
    [line] = written.lines
    assert line.endswith("x" * MAX_LINE + "…")


def test_a_pipe_that_nobody_reads_blocks_no_writer() -> None:
    output = NativeOutput()
    with suppress(BlockingIOError):
        while True:
            os.write(output.engine_end, b"x" * 60_000)
    output.start("engine 7")


def test_what_was_left_out_is_told_though_nothing_follows(written: Written) -> None:
    output = NativeOutput()
    end = os.dup(output.engine_end)
    output.start("engine 7")
    os.set_blocking(end, True)
    os.write(end, b"line\n" * (BURST + 50))
    wait_for(lambda: "left out" in written.getvalue(), "the lines that were left out are counted")
    os.close(end)
    output.join(DEADLINE)
