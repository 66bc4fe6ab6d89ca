"""CPU times as /proc tells them: threads that ran and waited, cores that were idle."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from srb.host import cpu_times
from srb.host.cpu_times import CPUClock
from tests.machines import FakeRoot

SECOND = 10**9


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2})
    fake = FakeRoot(tmp_path)
    write_thread(fake, threading.get_native_id(), 0, 0)
    return fake


def write_thread(fake: FakeRoot, thread: int, ran: int, waited: int) -> None:
    fake.write(f"proc/self/task/{thread}/schedstat", f"{ran} {waited} 12\n")


def write_idle(fake: FakeRoot, *ticks: int) -> None:
    lines = [f"cpu{cpu} 5 0 5 {idle} 0 0 0 0 0 0" for cpu, idle in enumerate(ticks)]
    fake.write("proc/stat", "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 1 2 3"]))


def test_the_threads_of_native_code_count_and_other_threads_of_python_do_not(fake: FakeRoot) -> None:
    python = threading.Thread(target=(ended := threading.Event()).wait)
    python.start()
    try:
        assert python.native_id is not None
        clock = CPUClock(fake.path)
        write_thread(fake, threading.get_native_id(), 2 * SECOND, SECOND // 2)
        write_thread(fake, 999_999_999, SECOND, SECOND)  # a new thread of OpenMP
        write_thread(fake, python.native_id, 50 * SECOND, 50 * SECOND)
        times = clock.read()
        assert (times.ran, times.waited) == (3.0, 1.5)
        assert clock.read().ran == 0.0
    finally:
        ended.set()
        python.join()


def test_threads_that_give_way_are_no_part_of_the_computation(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder's threads wait as long as decodes have the cores, and that is as it should be."""
    monkeypatch.setattr(cpu_times, "gives_way", lambda thread: thread == 999_999_998)
    clock = CPUClock(fake.path)
    for thread in (999_999_998, 999_999_999):
        write_thread(fake, thread, SECOND, 3 * SECOND)
    times = clock.read()
    assert (times.ran, times.waited) == (1.0, 3.0)


def test_a_thread_that_ends_takes_nothing_away(fake: FakeRoot) -> None:
    write_thread(fake, 999_999_999, 70 * SECOND, 70 * SECOND)
    clock = CPUClock(fake.path)
    (fake.path / "proc/self/task/999999999/schedstat").unlink()
    write_thread(fake, threading.get_native_id(), SECOND, SECOND)
    assert (times := clock.read()).ran == 1.0
    assert times.waited == 1.0


def test_idle_are_the_cores_that_this_process_may_use(fake: FakeRoot) -> None:
    write_idle(fake, 100, 100, 100)
    clock = CPUClock(fake.path)
    write_idle(fake, 150, 999, 200)
    assert clock.read().idle == pytest.approx(150 / os.sysconf("SC_CLK_TCK"))


def test_a_system_that_hides_its_times_is_no_error(fake: FakeRoot, tmp_path: Path) -> None:
    hidden = CPUClock(tmp_path / "nothing")
    assert not hidden.is_known
    assert hidden.read().ran == 0.0
    clock = CPUClock(fake.path)
    assert clock.is_known
    (fake.path / "proc/stat").unlink()
    assert clock.read().idle is None


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell how long threads wait")
def test_this_system_tells_that_a_thread_ran() -> None:
    clock = CPUClock()
    assert clock.is_known
    began = time.thread_time()
    while time.thread_time() - began < 0.05:
        pass
    assert clock.read().ran > 0.03
