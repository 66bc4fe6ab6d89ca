"""llama.cpp's RPC backend: devices on other machines that compute a part of the model."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import llama_cpp as lib

from srb.config.rpc_nodes import Node
from srb.engine.llama.devices import ggml
from srb.errors import ConfigError
from srb.host.processes import own_descriptors
from srb.wire.keep_alive import keep_alive

NEEDS_BUILD = "llama.cpp was built without RPC; llama-srb-native has it, and so has `make install` in a clone of SRB"


def has_rpc() -> bool:
    """Return whether llama.cpp was built with RPC."""
    ggml()
    return bool(lib.llama_supports_rpc())


def check_build(wanted_by: str) -> None:
    """Raise ConfigError, beginning with `wanted_by`, if llama.cpp was built without RPC."""
    if not has_rpc():
        raise ConfigError(f"{wanted_by}: {NEEDS_BUILD}")


def add_nodes(nodes: Sequence[Node]) -> None:
    """Make the devices of nodes known to llama.cpp, before it loads a model. Raise ConfigError.

    llama.cpp aborts the process if a node does not answer: greet them before.
    """
    if not nodes:
        return
    check_build("rpc")
    add_server = native_function("ggml_backend_rpc_add_server", ctypes.c_void_p, ctypes.c_char_p)
    register = ggml().ggml_backend_register
    register.restype, register.argtypes = None, [ctypes.c_void_p]
    for node in nodes:
        backend = add_server(str(node).encode())
        if not backend:
            raise ConfigError(f"rpc: the node {node} has no device")
        register(backend)


def native_function(name: str, returns: Any, *takes: Any) -> Any:
    """Return a function of the RPC backend by its name."""
    library = ggml()
    by_name, address_of = library.ggml_backend_reg_by_name, library.ggml_backend_reg_get_proc_address
    by_name.restype, by_name.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    address = address_of(by_name(b"RPC"), name.encode())
    assert address, f"the RPC backend has no {name}"
    return ctypes.CFUNCTYPE(returns, *takes)(address)


def keep_connections_alive() -> None:
    """Let the loss of a machine end every TCP connection of this process; llama.cpp's own would be silent for ever."""
    for sock in _connections():
        with sock, contextlib.suppress(OSError):  # it has just ended
            keep_alive(sock)


def watch_nodes(on_lost: Callable[[str], None]) -> None:
    """Call `on_lost` in a thread, with a node's address, as soon as a connection to a node ends.

    llama.cpp aborts the process when it next uses the connection, and does not say which it was. Call this when the model
    is loaded; connections that are not there yet are not watched.
    """
    keep_connections_alive()
    poll, addresses = select.poll(), dict[int, str]()
    for sock in _connections():
        host, port = sock.getpeername()
        number = sock.detach()
        addresses[number] = f"{host}:{port}"
        # And, always, errors and the end of both sides, which is all that other systems tell; llama.cpp reads bytes.
        poll.register(number, getattr(select, "POLLRDHUP", 0))

    def watch() -> None:
        [(number, _), *_] = poll.poll()
        on_lost(addresses[number])

    threading.Thread(target=watch, name="rpc nodes", daemon=True).start()


def _connections() -> Iterator[socket.socket]:
    """Yield a copy of each TCP connection of this process, which the caller closes."""
    for number in own_descriptors():
        with contextlib.suppress(OSError):  # closed since, or not connected
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                sock = socket.socket(fileno=os.dup(number))
                if sock.family == socket.AF_INET and sock.type == socket.SOCK_STREAM and _is_connected(sock):
                    yield sock
                else:
                    sock.close()


def _is_connected(sock: socket.socket) -> bool:
    try:
        return bool(sock.getpeername())
    except OSError:
        return False
