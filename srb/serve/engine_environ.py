"""A server's own engine: the runtime folder follows the address that the server listens on, and an id proves the engine.

Two servers with one configuration and different addresses (`gunicorn -b :PORT`, a socket of systemd's) would otherwise
share the folder, and the second answer from the first one's model.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from srb.config.settings import SERVER_ID_VARIABLE, Settings, default_runtime_path

# No two servers can listen on both of these with the same port, so the port alone names the folder.
_PLAIN_HOSTS = ("127.0.0.1", "0.0.0.0")

Address = tuple[str, int] | str


def engine_environ(settings: Settings, addresses: Sequence[Address]) -> dict[str, str]:
    """Return the variables that lead the workers and the engine of the server at `addresses` to each other.

    A server that takes over another's sockets (SIGUSR2) keeps its id and so its folder: the two share an engine until
    the old server ends.
    """
    takes_over = "GUNICORN_PID" in os.environ
    server_id = (takes_over and os.environ.get(SERVER_ID_VARIABLE)) or uuid4().hex
    environ = {SERVER_ID_VARIABLE: server_id}
    if not settings.runtime_dir:
        name = folder_name(addresses[0])
        if settings.reuse_port:  # other servers listen on the same address
            name += f"-{server_id[:8]}"
        environ["SRB_RUNTIME_DIR"] = str(default_runtime_path(name))
    return environ


def runtime_path_of(settings: Settings) -> Path:
    """Return the runtime folder of the server with these settings, as `engine_environ` gives it to its processes."""
    host = settings.hosts[0]
    address = host if host.endswith(".sock") else (host.strip("[]"), settings.port)
    return settings.runtime_path if settings.runtime_dir else default_runtime_path(folder_name(address))


def folder_name(address: Address) -> str:
    """Return a name for one address, a host and port or the path of a Unix socket, that no other address has."""
    if isinstance(address, tuple):
        host, port = address
        return str(port) if host in _PLAIN_HOSTS else f"{port}-{re.sub(r'[^0-9A-Za-z.]', '_', host)}"
    path = address if address.startswith("\0") else os.path.abspath(address)
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]  # short: a path of a socket within has 107 bytes at most
