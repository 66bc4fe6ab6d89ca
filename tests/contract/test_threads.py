"""The threads of a loaded model: adapted to the cores that are left, or exactly as they are set."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as native
import pytest

from srb.config.settings import Settings
from srb.engine.llama import params
from srb.engine.llama.model import LlamaModel
from srb.engine.llama.threads import Threads
from srb.engine.model import Batch, DecodeStatus
from srb.host.cpu_times import CPUClock, CPUTimes

Load = Callable[..., LlamaModel]


class Machine(CPUClock):
    """A machine of three cores, of which other programs keep `busy`, and a clock that a test moves."""

    is_known = True

    def __init__(self) -> None:
        self.now = 0.0
        self.busy = 0
        self.last = 0.0
        self.threads: Threads | None = None

    def clock(self) -> float:
        return self.now

    def read(self) -> CPUTimes:
        assert self.threads is not None
        seconds, self.last = self.now - self.last, self.now
        lack = max(0, self.threads.count + self.busy - 3)
        idle = max(0, 3 - self.threads.count - self.busy)
        return CPUTimes((self.threads.count - lack) * seconds, lack * seconds, idle * seconds)

    def steps(self, threads: Threads, seconds: float) -> None:
        self.threads = threads
        for _ in range(int(10 * seconds)):
            with threads.step():
                self.now += 0.1


@pytest.fixture
def load(gguf: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Load models on a machine that seems to have three cores; they are closed after the test."""
    monkeypatch.setattr(params, "usable_cores", lambda: 3)
    loaded: list[LlamaModel] = []

    def make(**given: Any) -> LlamaModel:
        given = {"n_gpu_layers": 0} | given
        settings = Settings(model=str(gguf("llama")), n_ctx=256, n_batch=64, n_ubatch=64, **given)
        loaded.append(LlamaModel.load(settings))
        return loaded[-1]

    yield make
    for model in loaded:
        model.close()


@contextmanager
def adapting(model: LlamaModel) -> Iterator[tuple[Machine, Threads]]:
    machine = Machine()
    yield machine, Threads([model._context], adapts=True, clock=machine.clock, cpu_clock=machine)


def counts_of(model: LlamaModel) -> tuple[int, int]:
    return native.llama_n_threads(model._context), native.llama_n_threads_batch(model._context)


def test_a_busy_core_is_left_to_its_program_and_taken_when_it_is_free(load: Load) -> None:
    model = load()
    with adapting(model) as (machine, threads):
        machine.steps(threads, 2)
        assert counts_of(model) == (3, 3)
        machine.busy = 1
        machine.steps(threads, 2)
        assert counts_of(model) == (2, 2)
        machine.busy = 0
        machine.steps(threads, 2)
        assert counts_of(model) == (3, 3)


def test_a_model_computes_the_same_with_any_number_of_threads(load: Load) -> None:
    model = load(flash_attn="off")
    rows = []
    for count in (3, 1, 2):
        native.llama_set_n_threads(model._context, count, count)
        batch = Batch()
        row = batch.add(0, 0, [1, 5, 9, 3], want_logits=True)
        assert model.decode(batch) is DecodeStatus.OK
        rows.append(model.logits(row).copy())
        model.clear()
    assert rows[0] == pytest.approx(rows[1], abs=1e-4)
    assert rows[0] == pytest.approx(rows[2], abs=1e-4)


def test_the_log_tells_of_a_change_at_once_and_of_further_ones_once_a_minute(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "srb.llama")
    with adapting(load()) as (machine, threads):
        caplog.clear()
        for _ in range(6):  # a minute of changes
            machine.busy = 1
            machine.steps(threads, 5)
            machine.busy = 0
            machine.steps(threads, 5)
        lines = [record.message for record in caplog.records if record.message.startswith("threads:")]
        assert lines[0] == "threads: 2 instead of 3, since other programs use the cores"
        assert len(lines) == 1
        machine.steps(threads, 60)
        lines = [record.message for record in caplog.records if record.message.startswith("threads:")]
        assert lines[1:] == ["threads: 3 instead of 2, since cores are free again"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"threads": 2}, (2, 2)), ({"threads_batch": 2}, (3, 2)), ({"threads": 1, "threads_batch": 5}, (1, 5))],
)
def test_threads_that_are_set_are_taken_exactly_and_never_adapted(
    load: Load, monkeypatch: pytest.MonkeyPatch, given: dict[str, int], expected: tuple[int, int]
) -> None:
    waits = CPUTimes(ran=0.0, waited=1000.0, idle=0.0)
    monkeypatch.setattr(CPUClock, "read", lambda self: waits)
    monkeypatch.setattr("srb.engine.llama.thread_count._LONG", 1e-9)
    monkeypatch.setattr("srb.engine.llama.thread_count._SHORTEST", 1e-9)
    for adapted, model in ((False, load(**given)), (True, load())):
        for position in range(3):
            batch = Batch()
            batch.add(0, position, [1], want_logits=True)
            assert model.decode(batch) is DecodeStatus.OK
        assert counts_of(model) == ((1, 1) if adapted else expected)
        assert model.threads == counts_of(model)[1]


@pytest.mark.parametrize(
    ("given", "computes"),
    [({}, False), ({"n_gpu_layers": 0}, True), ({"n_gpu_layers": 4}, True), ({"n_gpu_layers": 5}, False)],
)
def test_the_cpu_computes_unless_all_layers_are_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, int], computes: bool
) -> None:
    monkeypatch.setattr(params, "has_gpu", lambda: False)
    assert params.uses_cpu(Settings(), n_layers=4)
    monkeypatch.setattr(params, "has_gpu", lambda: True)
    assert params.uses_cpu(Settings(**given), n_layers=4) == computes
    assert params.uses_cpu(Settings(**given, kv_offload=False), n_layers=4)


def test_embeddings_are_computed_with_as_many_threads(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CPUClock, "read", lambda self: CPUTimes(ran=0.0, waited=1000.0, idle=0.0))
    monkeypatch.setattr("srb.engine.llama.thread_count._LONG", 1e-9)
    monkeypatch.setattr("srb.engine.llama.thread_count._SHORTEST", 1e-9)
    model = load(embedding=True)
    assert model._embedder is not None
    for _ in range(2):
        assert model.embed([[1, 5, 9]]) is not None
    assert native.llama_n_threads(model._embedder.context) == 1
    assert counts_of(model) == (1, 1)


def test_where_the_system_does_not_tell_of_waits_the_number_stays(load: Load, tmp_path: Path) -> None:
    model, cpu_clock = load(), CPUClock(tmp_path)
    assert not cpu_clock.is_known
    threads = Threads([model._context], adapts=True, clock=iter(range(100)).__next__, cpu_clock=cpu_clock)
    for _ in range(10):
        with threads.step():
            pass
    assert threads.count == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "500"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "passive"}, {"OMP_WAIT_POLICY": "passive"}),
    ],
    ids=["none", "a number", "a policy"],
)
def test_threads_that_wait_sleep_soon_unless_a_person_has_set_it(
    given: dict[str, str], expected: dict[str, str]
) -> None:
    """libgomp tells the number that it has read when it is loaded, with OMP_DISPLAY_ENV."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    environ |= given | {"OMP_DISPLAY_ENV": "verbose"}
    words = [sys.executable, "-c", "import srb.engine.llama.threads"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    told = dict(re.findall(r"(\w+) = '(\w*)'", done.stderr))
    assert {name: told[name].lower() for name in expected} == expected
