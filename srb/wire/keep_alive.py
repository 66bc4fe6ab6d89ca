"""TCP's own probes, by which the loss of the machine at the other end is noticed."""

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def keep_alive(sock: socket.socket) -> None:
    """Let a silent connection end within five seconds of the other machine's loss."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def tune(writer: "asyncio.StreamWriter") -> None:
    """Notice within seconds that the other machine is gone, and send small frames at once."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(sock)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on every system
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)
