"""What systemd is told, as sd_notify(3) has it: datagrams of NAME=value lines to the socket that NOTIFY_SOCKET names."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

_VARIABLES = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}


def notify(*assignments: str) -> None:
    """Tell systemd, where it wants to hear: `notify("READY=1", "STATUS=…")`. Where it cannot be told, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # a name without a file, on Linux
        address = "\0" + address[1:]
    message = "\n".join(" ".join(assignment.splitlines()) for assignment in assignments)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(message.encode(), address)


def watchdog_seconds() -> float | None:
    """Return after how many seconds without WATCHDOG=1 this process is killed; None where nobody watches."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    return int(microseconds) / 1e6 if meant and microseconds.isdigit() and int(microseconds) else None


def without_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child that systemd does not know and should not hear of."""
    return {name: value for name, value in environ.items() if name not in _VARIABLES}
