"""Real processes over FakeModel and real sockets, started by a test and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.processes import PYTHON, Process, Worker, clean_environ

Start = Callable[..., Process]
Connect = Callable[[], Worker]

ENGINE = (PYTHON, "-m", "srb.engine.process")
SUPERVISOR = (PYTHON, "-m", "srb.engine.process.supervisor")
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
def connect(runtime: Path) -> Iterator[Connect]:
    """Connect to the engine as a web worker; close after the test."""
    with ExitStack() as stack:

        def connect_one() -> Worker:
            worker = Worker(runtime)
            stack.callback(worker.close)
            return worker

        yield connect_one
