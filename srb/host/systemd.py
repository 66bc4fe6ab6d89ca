"""Notifications to systemd, see sd_notify(3): datagrams of NAME=value lines to the socket NOTIFY_SOCKET."""

import contextlib
import os
import socket
from collections.abc import Mapping

_VARIABLES = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}


def notify(*assignments: str) -> None:
    """Notify systemd: `notify("READY=1", "STATUS=…")`. Does nothing without NOTIFY_SOCKET, and ignores errors."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket, on Linux
        address = "\0" + address[1:]
    message = "\n".join(" ".join(assignment.splitlines()) for assignment in assignments)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(message.encode(), address)


def watchdog_seconds() -> float | None:
    """Return the seconds without WATCHDOG=1 after which systemd kills this process; None without a watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    return int(microseconds) / 1e6 if meant and microseconds.isdigit() and int(microseconds) else None


def without_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without systemd's variables, for a child that must not notify systemd."""
    return {name: value for name, value in environ.items() if name not in _VARIABLES}
