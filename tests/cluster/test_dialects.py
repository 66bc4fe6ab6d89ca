"""The suites of the srb and openai dialects, unchanged, with real models and three replicas on three machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from srb.settings import Settings
from tests.cluster.conftest import START_SECONDS, Cluster, replicas
from tests.cluster.dialects import suite
from tests.processes import wait_for
from tests.servers import Server
from tools.random_gguf import write_llama

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

globals().update(suite())


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Serve a model under a name, in place of the model before it, from a replica on each of three machines."""
    with Cluster(tmp_path_factory.mktemp("three")) as own:
        own.start()
        for _ in range(2):
            own.add_node()
        running: dict[str, Server] = {}

        def serve(name: str, **settings: object) -> Server:
            if name not in running:
                for server in running.values():
                    server.stop()
                if running:
                    own.run("stop")
                running.clear()
                own.deploy(3, "--cpus", "3", **settings)  # of four on each machine, so that each has one
                each = 64 // 3  # branches of a request: a server that the suite knows allows 64
                server = own.server(tmp_path_factory.mktemp(name), max_n=each, **settings)
                running[name] = server.start(wait=False)
                wait_for(lambda: replicas(server) == 3, "three replicas are ready", START_SECONDS)
                assert len({line.split()[1] for line in own.run("status").splitlines()[2:]}) == 3, "three nodes"
            return running[name]

        yield serve


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_llama(tmp_path_factory.mktemp("model") / "tiny.gguf"))


@pytest.fixture
def tiny(serve: Callable[..., Server], model: str) -> Server:
    return serve("tiny", model=model, n_ctx=8192, threads=1, flash_attn="off", cache_type_k="f32", cache_type_v="f32")


@pytest.fixture
def storyteller(serve: Callable[..., Server]) -> Server:
    return serve("storyteller", model="", n_ctx=Settings().n_ctx, threads=1)
