"""A llama-server as a child process, beside which benchmarks measure SRB."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

N_CTX = 16384
_START_SECONDS = 120.0


@contextlib.contextmanager
def llama_server(program: Path, model: Path, threads: int, *more: str) -> Iterator[str]:
    """Run a llama-server with its default options on a free port, and yield its URL; `threads` 0: its own number.

    `more`: options in place of its defaults.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "-m", str(model), "-c", str(N_CTX), "--port", str(port)]
    command += [*(("-t", str(threads)) if threads else ()), *more]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, child)
            yield url
        finally:
            child.terminate()


def _wait(url: str, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.2)
    raise RuntimeError("the llama-server did not start")
