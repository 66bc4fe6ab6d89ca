"""Addresses to listen on: whether this process could listen on one now, why not, and where this machine reaches it."""

import errno
import socket


class CannotListen(Exception):
    """An address on which this process cannot listen; the message is one line."""

    def __init__(self, message: str, *, may_change: bool) -> None:
        """With `may_change` a later start may find it usable: a resolver or a network is up later."""
        super().__init__(message)
        self.may_change = may_change


def try_to_listen(host: str, port: int, *, reuse_port: bool = False) -> None:
    """Listen on an address for a moment. Raise CannotListen."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise CannotListen(f"host {host}: {error.strerror}", may_change=True) from None
    try:
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        taken = "is already in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        may_change = error.errno == errno.EADDRNOTAVAIL
        raise CannotListen(
            f"port {port} {taken} (on {host}; choose another with --port or SRB_PORT)", may_change=may_change
        ) from None


def reachable(host: str) -> str:
    """Return the address at which this machine reaches whoever listens on `host`: all addresses are none to connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def url_of(host: str, port: int, *, is_secure: bool) -> str:
    """Return the URL of a server that listens there, for this machine."""
    host = reachable(host)
    return f"{'https' if is_secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
