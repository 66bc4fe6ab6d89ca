"""`python -m bench.update`: what writers notice of a rolling update of two replicas, behind doors, without Ray.

So many writers go on with stories of 800 tokens, and the replicas are replaced one after the other. Printed are the longest
silence of a writer, also beside that of a time without an update, and the tokens that were computed again. `--disk shared`
has one folder of texts for both replicas, `own` one for each, `none` none.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

from tests.e2e.rolling import Writers
from tests.e2e.test_replicas import Doors, ready, wait_for_replicas
from tests.servers import Server


def start(doors: Doors, name: str, model: str, disk: str) -> None:
    folder = doors.folder / "texts" / ("all" if disk == "shared" else name)
    doors.start(name, model=model, SRB_CACHE_DISK=str(folder), SRB_CACHE_DISK_MIB="0" if disk == "none" else "1000")


def measure(folder: Path, given: argparse.Namespace) -> None:
    with Doors(folder) as doors:
        for name in "ab":
            start(doors, name, given.model, given.disk)
        for name in "ab":
            doors.wait_open(name)
        doors.write()
        with ready(Server(folder, replicas=doors.file), 2) as server:
            with Writers(server, given.writers, given.tokens, pause=given.pause) as writers:
                writers.wait_for_turns(3)
                began = reset(writers)
                writers.wait_for_turns(5)
                report("without an update", writers, began)
                began = reset(writers)
                for name in "ab":
                    doors.processes[name].send(signal.SIGTERM)
                    doors.processes[name].wait()
                    start(doors, name, given.model, given.disk)
                    wait_for_replicas(server, 2)
                    writers.wait_for_turns(3)
                report(f"update, disk {given.disk}", writers, began)
            server.stop()


def reset(writers: Writers) -> float:
    """Begin to measure; return the time. Turns before it count no more."""
    for writer in writers.all:
        writer.silence = 0.0
        del writer.turns[:-1]
    return time.monotonic()


def report(name: str, writers: Writers, began: float) -> None:
    turns = sum(len(writer.turns) - 1 for writer in writers.all)
    silence, again = max(writer.silence for writer in writers.all), sum(writer.again for writer in writers.all)
    seconds = time.monotonic() - began
    print(
        f"{name}: {turns} turns in {seconds:.0f} s, longest silence {silence:.2f} s, {again} tokens computed again, "
        f"{len(writers.errors)} errors",
        file=sys.__stdout__,
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.update", description=__doc__)
    parser.add_argument("--model", default="fake:50:280", help="fake:STEPS:TOKENS a second, or a GGUF file")
    parser.add_argument("--disk", choices=("shared", "own", "none"), default="own")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=800, help="of each story's beginning (800)")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a writer rests after each turn (0)")
    given = parser.parse_args()
    # Processes tell what they have written when they end.
    with tempfile.TemporaryDirectory(prefix="srb-bench-update-") as folder, redirect_stdout(io.StringIO()):
        measure(Path(folder), given)


if __name__ == "__main__":
    main()
