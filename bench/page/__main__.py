"""`make bench-page`: sizes of the page, its work while 64 branches grow, and its cost for the server and the writer.

Read counts and ratios. Seconds are those of this machine, on which browser, server and engine share the cores.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.page import alone, book
from bench.page.desk import KEY_FLOOR, Desk, OpenDesk, Span, desks
from bench.scenarios import REST_SECONDS
from srb.bench.client import post
from srb.bench.server import server

PAGE = Path("srb/page")
ROUTE = "/v1/srb/completions"
BEAT = 150  # ms between two drawings of texts that grow fast, as in the page
BEGINNING = "Once upon a time,"
TYPED = " and then she wrote on"
KEY_PAUSE = 120  # ms between two typed keys
FRAME = 1000 / 60
EVENT_STEP = 8.0  # ms: the exactness of a browser's event times
BRIEF = {"rounds": 6, "seconds": 5.0, "tokens": 600}


def sizes() -> dict[str, dict[str, int]]:
    """Return bytes of the libraries and of our own files, with gzip and without."""
    files = [path for path in PAGE.rglob("*") if path.suffix in (".js", ".css", ".html")]
    found = {}
    for name, is_library in (("libraries", True), ("own", False)):
        texts = [path.read_bytes() for path in files if ("vendor" in path.parts) == is_library]
        found[name] = {"raw": sum(map(len, texts)), "gzip": sum(len(gzip.compress(text, 9)) for text in texts)}
    return found


@contextlib.contextmanager
def paced_server(rate: float) -> Iterator[str]:
    """Run bench.page.paced and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with own_stories() as environ:
        command = [sys.executable, "-m", "bench.page.paced", str(port), "--rate", str(rate)]
        child = subprocess.Popen(command, env=environ)
        try:
            _wait_for_port(port, child)
            yield f"http://127.0.0.1:{port}"
        finally:
            child.terminate()
            child.wait(timeout=60)


@contextlib.contextmanager
def own_stories() -> Iterator[dict[str, str]]:
    """Yield the environment of a server that keeps its stories in a file of its own, not in the writer's."""
    with tempfile.TemporaryDirectory(prefix="srb-bench-stories-") as folder:
        yield os.environ | {"SRB_STORIES": str(Path(folder, "stories.sqlite3"))}


def _wait_for_port(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the paced server did not start")


def growth(desk: Desk, branches: int, tokens: int, seconds: float) -> tuple[Span, Span]:
    """Let branches grow; return the work of some seconds without typing, and of some in which a sentence is typed."""
    desk.set(n=branches, max_tokens=tokens, stop_at="")
    desk.write(BEGINNING)
    desk.go_on()
    desk.wait_for_words(1)
    with desk.span() as quiet:
        time.sleep(seconds)
    with desk.span() as typing:
        desk.write(TYPED, pause_ms=KEY_PAUSE)
    return quiet[0], typing[0]


@dataclasses.dataclass(frozen=True)
class Round:
    """One request: ms to its first word or event, and seconds from then to the last one. CPU seconds are the browser's."""

    first_ms: float
    seconds: float
    cpu_seconds: float = 0.0


def by_page(writer: alone.Writer) -> tuple[Round, bytes]:
    """Continue once; return the round and the body that the page sent."""
    before = writer.cpu_seconds
    first_ms, seconds, body = writer.continue_text()
    return Round(first_ms, seconds, writer.cpu_seconds - before), body


def by_bare_page(bare: alone.Bare, body: bytes) -> Round:
    """Show the same texts in a page that does nothing else."""
    before = bare.cpu_seconds
    seconds = bare.show(ROUTE, body, BEAT)
    return Round(0.0, seconds, bare.cpu_seconds - before)


def by_client(url: str, body: bytes) -> Round:
    """Send the same body from a client that only reads."""
    n = orjson.loads(body)["n"]
    began, first, received = time.perf_counter(), 0.0, bytearray()
    with post(url, ROUTE, body) as sock:
        while received.count(b'"event":"stop"') < n:
            chunk = sock.recv(65536)
            if not chunk:
                raise RuntimeError(f"the stream ended: {received[-300:].decode(errors='replace')}")
            received += chunk
            if not first and b'"event":"stream"' in received:
                first = time.perf_counter()
    return Round(1000 * (first - began), time.perf_counter() - first)


def compare(url: str, rounds: int, tokens: int = 128) -> dict[str, float]:
    """Ask the bundled model by page, by client and by a bare page in turns, with one seed; return medians.

    Each turn begins when the page has saved what the last one brought.
    """
    turns = []
    with alone.browser() as desks, alone.browser() as others:
        writer, bare = alone.Writer(desks, url), alone.Bare(others, url)
        writer.set(n=8, max_tokens=tokens, stop_at="", seed=1)
        writer.write(BEGINNING)
        for _ in range(rounds + 1):
            rest(writer)
            page, body = by_page(writer)
            rest(writer)
            client = by_client(url, body)
            rest(writer)
            turns.append((page, client, by_bare_page(bare, body)))
    turns = turns[1:]  # the first warms up
    return {
        "page_first_ms": statistics.median(page.first_ms for page, _, _ in turns),
        "client_first_ms": statistics.median(client.first_ms for _, client, _ in turns),
        "more_ms": statistics.median(page.first_ms - client.first_ms for page, client, _ in turns),
        "seconds": statistics.median(client.seconds for _, client, _ in turns),
        "rate_ratio": statistics.median(client.seconds / page.seconds for page, client, _ in turns),
        "bare_rate_ratio": statistics.median(client.seconds / bare.seconds for _, client, bare in turns),
        "cpu_ms": statistics.median(1000 * page.cpu_seconds for page, _, _ in turns),
        "bare_cpu_ms": statistics.median(1000 * bare.cpu_seconds for _, _, bare in turns),
    }


def rest(writer: alone.Writer) -> None:
    """Wait until nothing of the last turn is under way."""
    writer.wait_until_saved()
    time.sleep(REST_SECONDS)


def large_story(open_desk: OpenDesk, url: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Open the page without a story and with a book; then return the costs of the book on an open page."""
    with open_desk(url) as desk:
        empty = desk.cpu_seconds
    story, size = book.bring_in(url)
    with open_desk(url) as desk:
        page = {"bytes": size, "cpu_ms_without": 1000 * empty, "cpu_ms": 1000 * desk.cpu_seconds}
        return {"the page's first opening": page} | book.measure(desk, story, max(1, rounds // 3))


def brief(open_desk: OpenDesk, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the figures that the page is held to, in less than five minutes on a quiet machine."""
    with paced_server(options.rate) as url:
        with open_desk(url) as desk:
            quiet, typing = growth(desk, options.branches, options.tokens, options.seconds)
        story, _ = book.bring_in(url)
        with open_desk(url) as desk:
            large = book.measure_briefly(desk, story, max(1, options.rounds // 3))
    with own_stories() as environ, server(environ) as url:
        sides = compare(url, options.rounds)
    return {
        "n = 8, bundled model": {
            "first word over curl, ms": sides["more_ms"],
            "tokens/s over curl's": sides["rate_ratio"],
            "tokens/s of a bare page over curl's": sides["bare_rate_ratio"],
            "browser's CPU a round, ms": sides["cpu_ms"],
            "a bare page's CPU a round, ms": sides["bare_cpu_ms"],
        },
        f"{options.branches} branches x {options.rate:g} words a second": {
            "busy share": quiet.busy,
            "computing share": quiet.cpu,
            "key to screen, frames": _frames(typing.key_ms),
        },
        f"a story of {book.WORDS:,} words and {book.NODES:,} nodes": {
            "opening, ms": large["open_ms"],
            "key to screen, frames": _frames(large["key_ms"]),
            "largest save of an edit, bytes": large["largest_save_bytes"],
        },
    }


def _frames(key_ms: float | None) -> int:
    """Return the frames from a key to its paint; a browser tells the time in steps of 8 ms."""
    return math.ceil(((key_ms or KEY_FLOOR) - EVENT_STEP / 2) / FRAME)


def _show(name: str, values: dict[str, Any]) -> None:
    print(f"\n{name}")
    for key, value in values.items():
        print(f"  {key:<30} {value:>10.3f}" if isinstance(value, float) else f"  {key:<30} {value!s:>10}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--branches", type=int, default=64)
    parser.add_argument("--rate", type=float, default=50, help="words a second of each branch")
    parser.add_argument("--tokens", type=int, default=2000, help="words of each branch")
    parser.add_argument("--seconds", type=float, default=10, help="time that the growing branches are watched for")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--brief", action="store_true", help="only the figures that the page is held to: minutes")
    parser.add_argument("--map", action="store_true", help="only the map of a large story")
    parser.set_defaults(**(BRIEF if "--brief" in sys.argv[1:] else {}))
    options = parser.parse_args()
    for name, values in sizes().items():
        _show(f"bytes, {name}", values)
    with desks() as open_desk:
        if options.map:
            with paced_server(options.rate) as url:
                story, _ = book.bring_in(url, book.MAP_NODES)
                with open_desk(url) as desk:
                    _show(f"the map of {book.MAP_NODES:,} nodes", book.measure_map(desk, story, options.rounds))
            return
        if options.brief:
            for name, values in brief(open_desk, options).items():
                _show(name, values)
            return
        with (
            paced_server(options.rate) as url,
            open_desk(url) as desk,
        ):
            quiet, typing = growth(desk, options.branches, options.tokens, options.seconds)
            _show(f"{options.branches} branches x {options.rate:g} words a second", dataclasses.asdict(quiet))
            _show("the same, while a sentence is typed", dataclasses.asdict(typing))
            desk.wait_for_end()
            with desk.span() as ended:
                time.sleep(1)
            _show(f"all ended, {options.tokens} words each", dataclasses.asdict(ended[0]))
        with paced_server(options.rate) as url:
            for name, values in large_story(open_desk, url, options.rounds).items():
                _show(f"a story of {book.WORDS:,} words and {book.NODES:,} nodes: {name}", values)
        with own_stories() as environ, server(environ) as url:
            _show("n = 8, bundled model: page, bare client and bare page in turns", compare(url, options.rounds))


if __name__ == "__main__":
    main()
