"""A client that is there no more, and never said so: run in a network namespace of its own, whose loopback goes down."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from contextlib import closing
from pathlib import Path

from tests.e2e.streams import ENDLESS, Stream
from tests.processes import Worker, wait_for
from tests.servers import Server

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def set_loopback(flags: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def main(folder: Path) -> None:
    """Raise AssertionError where the request of a peer that has vanished goes on."""
    set_loopback(_IFF_UP)
    with Server(folder, write_timeout=2, sse_ping_interval=1) as server:
        server.start()
        stream = Stream(server, ENDLESS)
        stream.until("stream")
        with closing(Worker(server.runtime).ready()) as engine:
            assert engine.stats()["requests_processing"] == 1
            set_loopback(0)
            wait_for(lambda: engine.stats()["requests_processing"] == 0, "the request has ended", deadline=20)
        set_loopback(_IFF_UP)
        server.wait_ready()
        assert "Traceback" not in server.logs, server.logs
        stream.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
