"""Real processes over FakeModel and real sockets, started by a test or a module and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.processes import PYTHON, Process, Worker, clean_environ, wait_for

Start = Callable[..., Process]
Connect = Callable[[], Worker]

ENGINE = (PYTHON, "-m", "srb.engine.process")
SUPERVISOR = (PYTHON, "-m", "srb.process.supervisor")
MODELS_SUPERVISOR = (PYTHON, "-m", "srb.models.supervisor")
SETTINGS = {"model": "fake:", "n_ctx": 100_000}


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Start programs whose runtime folder is `run` in a folder, and whose logs lie there too; end them after the block."""
    with ExitStack() as stack:

        def start_one(*command: object, log: str = "log", **settings: object) -> Process:
            environ = clean_environ(**{"runtime_dir": folder / "run", **SETTINGS, **settings})
            return stack.enter_context(Process(command, environ, folder / log))

        yield start_one


@contextmanager
def connecting(runtime: Path) -> Iterator[Connect]:
    """Connect to the engine of a runtime folder as a web worker; close after the block."""
    with ExitStack() as stack:

        def connect_one() -> Worker:
            worker = Worker(runtime)
            stack.callback(worker.close)
            return worker

        yield connect_one


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program with its own log and the test's runtime folder; end it after the test."""
    with starting(tmp_path) as start_one:
        yield start_one


@pytest.fixture
def connect(runtime: Path) -> Iterator[Connect]:
    """Connect to the engine as a web worker; close after the test."""
    with connecting(runtime) as connect_one:
        yield connect_one


# What the tests of a module share ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def start_shared(shared_folder: Path) -> Iterator[Start]:
    """Start a program that the module's tests share; end it after them."""
    with starting(shared_folder) as start_one:
        yield start_one


@pytest.fixture(scope="module")
def engine(start_shared: Start) -> Process:
    """An engine process over FakeModel that the module's tests share; do not end or stop it."""
    return start_shared(*ENGINE)


@pytest.fixture
def shared(engine: Process, shared_folder: Path) -> Iterator[Connect]:
    """Connect to the shared engine; after the test its connections are closed, and nothing of it runs any more."""
    with connecting(shared_folder / "run") as connect_one:
        yield connect_one
    with connecting(shared_folder / "run") as connect_one:
        last = connect_one().ready()
        wait_for(lambda: not last.stats()["requests_processing"], "the test's requests have ended")
