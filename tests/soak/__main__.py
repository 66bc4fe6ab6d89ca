"""Run a server under random load, or send it invalid requests, and report the outcome.

python -m tests.soak --minutes 30 --kill-every 120     cancels, slow readers, and an engine killed now and then
python -m tests.soak --fuzz 10000                      random and mutated requests over all routes
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from pathlib import Path

from tests.servers import Server
from tests.soak.runs import SETTINGS, fuzz, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="minutes of random load")
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="number of invalid requests")
    parser.add_argument(
        "--kill-every", type=float, default=120.0, metavar="S", help="kill the engine every S seconds; 0: never"
    )
    parser.add_argument("--clients", type=int, default=16, help="clients at once")
    parser.add_argument("--workers", type=int, default=2, help="web workers of the server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="", help="a GGUF file, or fake:; default: the bundled model")
    options = parser.parse_args()
    reports = []
    # The server's output at its end is for failing tests.
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
