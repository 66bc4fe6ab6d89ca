"""Run a server of its own under random load, or under requests that make no sense, and say what became of it.

python -m tests.soak --minutes 30 --kill-every 120     load: cancels, slow readers, and an engine killed now and then
python -m tests.soak --fuzz 10000                      random and mutated requests over all routes
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import Server
from tests.soak.runs import fuzz, soak

SETTINGS = {"n_ctx": 8192, "threads": 1, "read_timeout": 2, "embedding": True, "props": True}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="of random load")
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="requests that make no sense")
    parser.add_argument(
        "--kill-every", type=float, default=120.0, metavar="S", help="seconds between two kills; 0: none"
    )
    parser.add_argument("--clients", type=int, default=16, help="clients at once")
    parser.add_argument("--workers", type=int, default=2, help="web workers of the server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="", help="a GGUF file, or fake:; without it the bundled model")
    options = parser.parse_args()
    reports = []
    # What the server says when it is ended is for tests that have failed.
    with tempfile.TemporaryDirectory(prefix="srb-soak-") as folder, contextlib.redirect_stdout(io.StringIO()):
        settings = SETTINGS | {"model": options.model, "workers": options.workers, "state_dir": f"{folder}/states"}
        with Server(Path(folder), **settings) as server:
            server.start()
            if options.fuzz:
                reports.append(fuzz(server, options.fuzz, options.clients, options.seed))
            if options.minutes:
                seconds = options.minutes * 60
                reports.append(soak(server, seconds, options.kill_every, options.clients, options.seed))
    print("\n".join(report.text() for report in reports))
    return 1 if any(report.problems for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
