"""Three machines with four replicas, in place of the servers with an engine of their own of the end-to-end suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from srb.cli.cluster import engine_settings
from srb.config.settings import Settings
from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.models.random_gguf import write_llama
from tests.processes import wait_for
from tests.servers import MakeServer, Server

REPLICAS = 4
LIMIT = 64  # branches of a request: as many as a server of the suites allows by itself
TINY = {"n_ctx": 8192, "threads": 1, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and let those over the same engines run together: other engines have to start."""
    for item in items:
        if is_here(item):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(600))
    items.sort(key=_engines)


def is_here(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


def _engines(item: Any) -> int:
    if not is_here(item):
        return -1
    names = (
        "make_server",
        "server_with",
        "tiny",
        "storyteller",
        "adapted",
        "ranker",
    )  # fixtures; others are used in one module
    return next((place for place, name in enumerate(names) if name in item.fixturenames), len(names))


class Machines:
    """Three machines, and web servers that use the replicas on them."""

    def __init__(self, cluster: Cluster, folder: Callable[[], Path]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._engines: dict[str, Any] | None = None  # the settings of the replicas
        self._shared: dict[str, Server] = {}  # the servers that several tests use, by name

    def make(self, **settings: Any) -> Server:
        """Return a server that is not started yet; replicas with other settings are replaced by those that it needs."""
        server = self._cluster.server(self._folder(), **{**settings, "max_n": settings.get("max_n", LIMIT) // REPLICAS})
        engines = engine_settings(Settings.load({}, server.environ))
        if engines != self._engines:
            self._deploy(engines)
        return server

    def share(self, name: str, **settings: Any) -> Server:
        """Return a running server; do not kill any part of it."""
        if name not in self._shared:
            server = self.make(**settings).start(wait=False)  # which forgets those that have other replicas
            self._shared[name] = server
            wait_for(lambda: replicas(server) == REPLICAS, "all replicas are ready", START_SECONDS)
        return self._shared[name]

    def _deploy(self, engines: dict[str, Any]) -> None:
        for server in self._shared.values():
            server.stop()
        self._shared.clear()
        if self._engines is not None:
            self._engines = None
            self._cluster.run("stop")
        switches = [f"--{name}" for name, value in engines.items() if value is True]
        settings = {name: value for name, value in engines.items() if value is not True}
        self._cluster.deploy(REPLICAS, "--cpus", "3", *switches, **settings)
        assert len({line.split()[1] for line in self._cluster.run("status").splitlines()[2:]}) == 3, "three nodes"
        self._engines = engines


@pytest.fixture(scope="package")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with Cluster(tmp_path_factory.mktemp("three")) as cluster:
        cluster.start("--num-cpus=6")  # two replicas are here, one on each of the others
        for _ in range(2):
            cluster.add_node()
        yield Machines(cluster, lambda: tmp_path_factory.mktemp("web"))


@pytest.fixture
def make_server(machines: Machines) -> Iterator[MakeServer]:
    """Make servers with settings of the test's own; they are ended after the test."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(machines.make(**settings))


@pytest.fixture
def server_with(machines: Machines) -> MakeServer:
    """Return a running server with given settings, the same one for all tests that ask for it in a row."""
    return lambda **settings: machines.share(repr(sorted(settings.items())), **settings)


@pytest.fixture
def server(machines: Machines) -> Server:
    return machines.share("server")


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def tiny(machines: Machines, model: Path) -> Server:
    return machines.share("tiny", model=str(model), **TINY)


@pytest.fixture
def storyteller(machines: Machines) -> Server:
    return machines.share("storyteller", model="storyteller", n_ctx=Settings().n_ctx, threads=1)
