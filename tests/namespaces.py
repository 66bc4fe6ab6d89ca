"""Network namespaces: a test's own network, in which there is the loopback interface and nothing else."""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess

import pytest

from tests.processes import PYTHON, ROOT

UNSHARE = ("unshare", "--user", "--map-root-user", "--net")
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def run_in_own_network(module: str, *arguments: object) -> None:
    """Run a module's `main` in a network of its own, whose loopback is down; skip the test where the system forbids it."""
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let a test have a network of its own")
    words = [*UNSHARE, PYTHON, "-m", module, *map(str, arguments)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def set_loopback(up: bool) -> None:
    """Set the loopback interface up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP if up else 0))
