"""A server of the benchmark's own: the whole of SRB as a child process, on a free port and in a folder of its own."""

import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from srb.bench.client import BenchFailed
from srb.python import module_command
from srb.status import read_status

START_SECONDS = 600.0  # a large model on a slow disk takes minutes to load
_END_SECONDS = 60  # from SIGTERM to SIGKILL: graceful_timeout (30) and what the supervisor takes after it
_MAX_RESTARTS = 3  # of an engine that ends before it is ready
_LOGGED = 5  # last lines of the server's log in an error


@contextmanager
def server(environ: Mapping[str, str]) -> Iterator[str]:
    """Run a server with the settings of `environ`, and yield its base URL. Raise BenchFailed if it does not start.

    A BenchFailed of the block says what the server has logged, too, since the log ends with the server.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="srb-bench-") as folder:
        environ = {"SRB_CACHE_DISK_MIB": "0", **environ}  # nothing that an earlier run has computed
        own = {"SRB_PORT": str(port), "SRB_RUNTIME_DIR": folder, "SRB_LOG_LEVEL": "warning"}
        command = module_command("srb.cli.main", "serve")
        log = Path(folder, "server.log")
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                env={**environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # As under systemd: Linux shares cores out between sessions, and one with a busy program would compete
                # with the server as if each had a machine of its own.
                start_new_session=True,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(url, child, Path(folder))
            try:
                yield url
            except BenchFailed as failed:
                logged = [line for line in _lines(log) if " ERROR " in line or " WARNING " in line]
                raise BenchFailed("\n".join([str(failed), *logged[-_LOGGED:]])) from failed
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()  # its supervisor and engine notice, and end too
        child.wait()


def _wait_until_ready(url: str, child: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            status = read_status(folder, is_connected=False)
            if status["state"] == "failed" or status["restarts"] >= _MAX_RESTARTS:
                raise BenchFailed(status["message"]) from None
            time.sleep(0.05)
    if child.poll() is None:
        raise BenchFailed(f"the server was not ready after {START_SECONDS:.0f} seconds")
    lines = _lines(folder / "server.log")
    raise BenchFailed(lines[-1].removeprefix("srb: ") if lines else f"the server ended with {child.returncode}")


def _lines(log: Path) -> list[str]:
    return log.read_text("utf-8", "replace").splitlines()
