"""A client that is there no more, and never said so: run in a network namespace of its own, whose loopback goes down."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from tests.e2e.streams import ENDLESS, SOON, Stream
from tests.namespaces import set_loopback
from tests.processes import Worker, wait_for
from tests.servers import Server


def main(folder: Path) -> None:
    """Raise AssertionError where the request of a peer that has vanished goes on."""
    set_loopback(True)
    with Server(folder, n_ctx=10**6, client_timeout=2, sse_ping_interval=1) as server:  # the stream lasts for minutes
        server.start()
        stream = Stream(server, ENDLESS)
        stream.until("stream")
        with closing(Worker(server.runtime).ready()) as engine:
            assert engine.stats()["requests_processing"] == 1
            set_loopback(False)
            wait_for(lambda: engine.stats()["requests_processing"] == 0, "the request has ended", deadline=SOON)
        set_loopback(True)
        server.wait_ready()
        assert "Traceback" not in server.logs, server.logs
        stream.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
