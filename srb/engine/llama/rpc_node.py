"""The program of `srb rpc-node`: a server of llama.cpp's RPC backend, which computes for one engine on another machine.

The server is llama.cpp's own and never returns while it can listen, so it has a thread; the main thread waits for signals.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else abort() forks a debugger and hangs

from srb.config.rpc_nodes import DEFAULT_PORT, PROTOCOL
from srb.engine.llama.devices import DeviceType, begin, device_handles, device_types, devices
from srb.engine.llama.rpc import check_build, keep_connections_alive, native_function
from srb.errors import ConfigError, ModelLoadFailed
from srb.exit_codes import EXIT_FAULT, OneLineParser, fail
from srb.host.cores import usable_cores

_DESCRIPTION = """Compute a part of a model for an SRB server, or a llama-server, on another machine, which names this node
in its setting rpc. The server sends the weights when it loads its model. A node serves one client at a time; server and
nodes need the same version of llama.cpp. There is no password and no encryption: whoever reaches the port can read and
change this process's memory, so listen on a private network that you trust."""

_KEEP_ALIVE_SECONDS = 2.0  # between two looks for new connections, each of which is without TCP's probes so long
_LINE_BUFFERED = 1  # _IOLBF


def main(argv: Sequence[str] | None = None) -> None:
    """Run the node until SIGTERM or Ctrl-C; a wrong option, or an address in use, is one line and exit status 2."""
    try:
        asked = parser().parse_args(argv)
        check_build("srb rpc-node")
        address = _address(asked.host, asked.port)
        chosen = _devices(asked.devices)
        cache = _cache(asked.cache)
    except (ConfigError, ModelLoadFailed) as error:
        fail(error.message)
    if not ipaddress.ip_address(address).is_loopback:
        print(
            f"srb: warning: {address}:{asked.port} can be reached from other machines. Whoever reaches it can read and "
            "change this process's memory; there is neither password nor encryption. Use it on a private network that you "
            "trust, and nowhere else.",
            file=sys.stderr,
        )
    names = ", ".join(chosen)
    print(f"srb: RPC node {address}:{asked.port} with {names}; protocol {'.'.join(map(str, PROTOCOL))}", flush=True)
    os._exit(_serve(f"{address}:{asked.port}", cache, asked.threads or usable_cores(), list(chosen.values())))


def parser() -> OneLineParser:
    found = OneLineParser(prog="srb rpc-node", description=_DESCRIPTION, allow_abbrev=False)
    found.add_argument("-H", "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    found.add_argument("-p", "--port", type=int, default=DEFAULT_PORT, help=f"TCP port (default: {DEFAULT_PORT})")
    found.add_argument(
        "-d", "--devices", "--device", default="", metavar="NAMES",
        help="devices to compute on, separated by commas, such as CUDA0 or CPU (default: all GPUs, or else the CPU)",
    )  # fmt: skip
    found.add_argument(
        "-t", "--threads", type=int, default=0, help="threads of the CPU (default: one for each core it may use)"
    )
    found.add_argument(
        "-c", "--cache", default="", metavar="FOLDER",
        help="folder that keeps large tensors, so that they are not sent again when a model is loaded again (default: none)",
    )  # fmt: skip
    return found


def _address(host: str, port: int) -> str:
    """Return the IPv4 address to listen on. Raise ConfigError if this process cannot."""
    if not 0 < port < 65536:
        raise ConfigError(f"--port should be 1 to 65535, got {port}")
    try:
        [(_, _, _, _, address), *_] = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return str(address[0])


def _devices(names: str) -> dict[str, int]:
    """Return the handles of the devices to compute on by their names. Raise ConfigError for a name that there is not."""
    begin()
    found = {device.name: handle for device, handle in zip(devices(), device_handles(), strict=True)}
    wanted = [name for part in names.split(",") if (name := part.strip())]
    for name in wanted:
        if name not in found:
            raise ConfigError(f"--devices: there is no device {name}; there are {', '.join(found)}")
    kinds = dict(zip(found, device_types(), strict=True))
    gpus = [name for name, kind in kinds.items() if kind in (DeviceType.GPU, DeviceType.IGPU)]
    cpus = [name for name, kind in kinds.items() if kind == DeviceType.CPU]
    return {name: found[name] for name in wanted or gpus or cpus}


def _cache(folder: str) -> bytes | None:
    if not folder:
        return None
    path = Path(folder).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--cache: {path} cannot be used: {error.strerror}") from None
    return os.fsencode(path)


def _serve(endpoint: str, cache: bytes | None, threads: int, handles: Sequence[int]) -> int:
    """Serve clients one after the other, until a signal; return the exit status."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))
    start = native_function(
        "ggml_backend_rpc_start_server", None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t,
        ctypes.c_void_p,
    )  # fmt: skip
    array = (ctypes.c_void_p * len(handles))(*handles)
    ended, status = threading.Event(), EXIT_FAULT

    def run() -> None:
        start(endpoint.encode(), cache, threads, len(handles), ctypes.cast(array, ctypes.c_void_p))
        print(f"srb: the RPC node cannot go on listening on {endpoint}", file=sys.stderr, flush=True)
        ended.set()

    def stop(*_: object) -> None:
        nonlocal status
        status = 0
        ended.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    threading.Thread(target=run, name="rpc", daemon=True).start()
    while not ended.wait(_KEEP_ALIVE_SECONDS):
        keep_connections_alive()  # a client whose machine is lost would keep others out for ever
    return status


if __name__ == "__main__":
    main()
