"""TCP's own probes, by which the loss of the machine at the other end is noticed."""

import socket


def keep_alive(sock: socket.socket) -> None:
    """Let a silent connection end within five seconds of the other machine's loss."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
