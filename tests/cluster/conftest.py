"""A Ray cluster on this machine, with replicas over FakeModel, for the tests of this folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from srb.web.ops.routes import STATS_AGE
from tests.processes import PYTHON, ROOT, Process, children, clean_environ, command_line, descendants, wait_for
from tests.servers import SETTINGS, Server, free_port

RAY = (PYTHON, "-m", "ray.scripts.scripts")
MODEL = "fake:200"  # FakeModel with 200 steps a second: streams last, and leave the cores to others
START_SECONDS = 120  # of Ray, on a machine that does much else


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; skip those that need Ray where it is not installed."""
    missing = importlib.util.find_spec("ray") is None
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(300))
            if missing:
                item.add_marker(pytest.mark.skip(reason="needs Ray: pip install '.[cluster]'"))


class Cluster:
    """A head of Ray and further nodes, all on this machine. Leave its `with` block and no process of it is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._exits = ExitStack()
        self._ray_folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets' paths have to be short
        self.address = f"127.0.0.1:{free_port_for_ray()}"
        own = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
        own |= {"RAY_worker_niceness": "0"}  # else 15: on busy cores replicas would hardly run
        own |= {"RAY_TMPDIR": self._ray_folder}  # where `auto` looks for this machine's Ray
        self.environ = clean_environ() | own | {"HOME": str(folder), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}

    def start(self, *options: str, dashboard_port: int = 0) -> Cluster:
        """Start the head, with options of `ray start`; with a port the dashboard too, which takes `serve deploy`."""
        port = self.address.partition(":")[2]
        dashboard = f"--include-dashboard={'true' if dashboard_port else 'false'}"
        own = (dashboard, f"--dashboard-port={dashboard_port}") if dashboard_port else (dashboard,)
        self.head = self._node("--head", f"--port={port}", *own, *options)
        assert _has_started(self.head), self.head.logs
        return self

    @property
    def replica_logs(self) -> str:
        """The logs of all replicas and their engines."""
        logs = Path(self._ray_folder, "ray", "session_latest", "logs").rglob("*")
        return "".join(
            path.read_text(errors="replace") for path in logs if path.is_file() and path.suffix in (".err", ".log")
        )

    @property
    def gcs(self) -> int:
        """The pid of the server that is the head."""
        [pid] = [pid for pid in children(self.head.pid) if "gcs_server" in command_line(pid)]
        return pid

    def kill_gcs(self) -> Callable[[], None]:
        """Kill the head's server and nothing else; return a function that starts it again, on the same port."""
        process = Path(f"/proc/{self.gcs}")
        command, pairs = (process.joinpath(name).read_text().split("\0")[:-1] for name in ("cmdline", "environ"))
        environ = dict(pair.split("=", 1) for pair in pairs)
        self.head.send(signal.SIGSTOP)  # `ray start` would end the whole machine, and with it the replicas
        os.kill(int(process.name), signal.SIGKILL)

        def start() -> None:
            server = self._exits.enter_context(Process(command, environ, self.folder / "gcs.log"))
            self._exits.callback(server.popen.kill)

        return start

    def add_node(self) -> Process:
        """Add a machine. Ray gives up after 30 seconds, so on busy cores this may take several attempts."""
        for _ in range(3):
            if _has_started(node := self._node(f"--address={self.address}")):
                return node
        raise AssertionError(node.logs)

    def kill_node(self, node: Process) -> None:
        """End a node and all that runs on it, as a machine does that loses its power; one that has ended is left."""
        if node.popen.poll() is None:  # else its pid may be another process's
            for pid in [node.pid, *descendants(node.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait()

    def _node(self, *options: str) -> Process:
        command = (*RAY, "start", "--block", "--num-cpus=4", "--object-store-memory=80000000", *options)
        log = self.folder / f"ray-{len(list(self.folder.glob('ray-*.log')))}.log"
        node = self._exits.enter_context(Process(command, self.environ, log))
        self._exits.callback(self.kill_node, node)  # at SIGTERM it would take half a minute
        return node

    def run(self, *words: str) -> str:
        """Run `srb cluster` and return its output."""
        done = self.try_to_run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def try_to_run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `srb cluster`, with this cluster's address unless the words have another."""
        address = () if "--cluster" in words else ("--cluster", self.address)
        command = [PYTHON, "-m", "srb.cli.main", "cluster", *words, *address]
        return subprocess.run(
            command, env=self.environ, cwd=ROOT, capture_output=True, text=True, timeout=2 * START_SECONDS, check=False
        )

    def deploy(self, replicas: int, *options: str, **given: object) -> str:
        """Run `srb cluster deploy` with options, and with settings in place of those that all tests have."""
        values = SETTINGS | {"model": MODEL} | given
        settings = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        return self.run("deploy", "--replicas", str(replicas), "--cpus", "0.1", *settings, *options)

    def server(self, folder: Path, **settings: object) -> Server:
        """Return a web server, not yet started, that uses this cluster."""
        server = Server(folder, **{"cluster": self.address, **settings})
        server.numbers_age = STATS_AGE
        server.environ |= {name: value for name, value in self.environ.items() if not name.startswith("SRB_")}
        return self._exits.enter_context(server)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *raised: object) -> None:
        self._exits.__exit__(None, None, None)
        subprocess.run(["rm", "-rf", self._ray_folder], check=True)


def _has_started(node: Process) -> bool:
    """Wait until Ray runs on a node, or has given up."""
    started = "Ray runtime started"
    wait_for(lambda: started in node.logs or node.popen.poll() is not None, "Ray has started", START_SECONDS)
    return started in node.logs


def free_port_for_ray() -> int:
    """Return a free port outside of the range that Ray gives its workers."""
    while 10002 <= (port := free_port()) <= 19999:
        pass
    return port


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three replicas, shared. Tests may kill some, which Serve replaces; those that need all three wait for them."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as shared:
        shared.start().deploy(3)
        yield shared


@pytest.fixture(scope="package")
def web(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A web server that uses the shared cluster."""
    server = cluster.server(tmp_path_factory.mktemp("web"))
    server.start(wait=False)
    wait_for(lambda: server.has_ended or replicas(server) == 3, "three replicas are ready", START_SECONDS)
    assert not server.has_ended, server.logs
    return server


def replicas(server: Server) -> int:
    """Return the number of replicas that GET /health counts; 0 if it is not ok, or does not know them in time."""
    answer = server.get("/health") if server.health() == 200 else None
    count: int = 0 if answer is None else answer.json().get("replicas", 0)
    return count
