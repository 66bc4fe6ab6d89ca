"""`srb top` on servers that run, end, come back, refuse and lie; once for programs, and on a terminal until Ctrl+C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.streams import BRIEF, ENDLESS, Stream
from tests.processes import DEADLINE, PYTHON, ROOT, clean_environ, self_signed
from tests.servers import PACED, MakeServer, Server, free_port

pytestmark = pytest.mark.e2e

ONCE = ("--once", "--interval", "0.1")


def srb_top(*arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
    words = [PYTHON, "-m", "srb.cli.main", "top", *map(str, arguments)]
    environ = clean_environ(**settings) | {"XDG_CACHE_HOME": "/nonexistent"}  # no model is here, and none is needed
    return subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=DEADLINE, check=False)


def words(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), model=PACED).start() as running:
        yield running


def test_the_view_has_the_requests_that_run(server: Server) -> None:
    stream = Stream(server, ENDLESS | {"n": 3})
    request_id = stream.until("start")["id"]
    done = srb_top(*ONCE, "--url", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    said = words(done.stdout)
    assert f"at {server.url}: ok" in said
    assert "requests 1 running 0 waiting 0 resting" in said
    assert "branches 3 running" in said
    assert re.search(rf"^{request_id[:12]} running \d+ s \d+ 3 running [\d,]+$", said, re.MULTILINE)
    assert not re.search(r"tokens 0\.0 a second written", said)
    stream.close()


def test_a_server_is_found_by_its_settings_prefix_and_key(make_server: MakeServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("metrics:for-prometheus\nalice:secret\n")
    settings = {"api_prefix": "/llm", "api_key_file": keys}
    server = make_server(**settings).start()
    done = srb_top(*ONCE, "--port", server.port, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No request of yours" in done.stdout
    without = srb_top(*ONCE, "--port", server.port, api_prefix="/llm")
    assert (without.returncode, without.stdout) == (1, "")
    assert "wants an API key" in without.stderr
    of_metrics = srb_top(*ONCE, "--port", server.port, "--api-key", "for-prometheus", api_prefix="/llm")
    assert "are not listed" in of_metrics.stdout
    assert "cells" in of_metrics.stdout


def test_a_socket_and_https_are_read_too(make_server: MakeServer, tmp_path: Path) -> None:
    path = tmp_path / "srb.sock"
    make_server(host=path).start(wait=False)
    self_signed(tmp_path, "srb.example.org")
    secure = {"ssl_cert_file": tmp_path / "certificate.pem", "ssl_key_file": tmp_path / "key.pem"}
    server = make_server(**secure).start(wait=False)
    for settings in ({"host": path}, {"port": server.port, **secure}):
        with Terminal(**settings) as terminal:
            terminal.wait_for(r"cells +\d")


@pytest.mark.parametrize("metrics", ["true", "false"])
def test_a_server_without_metrics_or_with_them_lists_its_requests(make_server: MakeServer, metrics: str) -> None:
    server = make_server(metrics=metrics).start()
    done = srb_top(*ONCE, "--url", server.url)
    assert done.returncode == 0
    assert ("metrics is off" in done.stdout) == (metrics == "false")
    assert "No request of yours" in done.stdout


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1", "does not answer: Connection refused"),
        ("127.0.0.1:9090", "should begin with http://"),
        ("http://no-such-host.invalid", "does not answer"),
    ],
)
def test_once_tells_in_one_line_that_there_is_no_server(url: str, said: str) -> None:
    done = srb_top("--once", "--url", url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--interval", "0"), ("--interval", "nan"), ("--nonsense",), ("--interval", "x")]
)
def test_a_wrong_argument_is_one_line_and_exit_status_2(arguments: tuple[str, ...]) -> None:
    done = srb_top(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


class Terminal:
    """`srb top` on a terminal of the test's own."""

    def __init__(self, *arguments: object, rows: int = 0, **settings: object) -> None:
        ours, theirs = pty.openpty()
        command = [PYTHON, "-m", "srb.cli.main", "top", "--interval", "0.1", *map(str, arguments)]
        environ = clean_environ(**{"model": "storyteller", **settings}) | (
            {"LINES": str(rows), "COLUMNS": "80"} if rows else {}
        )
        self.process = subprocess.Popen(command, cwd=ROOT, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._ours = ours
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def wait_for(self, pattern: str) -> None:
        """Wait until the terminal shows something new."""
        self.shown = ""
        while not re.search(pattern, self.shown):
            assert self._read(), f"it ended: {self.shown!r}"

    def end(self, signum: int) -> int:
        """Send a signal; return the exit status, with all that was shown until then."""
        self.process.send_signal(signum)
        while self._read():
            pass
        return self.process.wait(DEADLINE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], DEADLINE)
        assert ready, f"nothing more is shown: {self.shown!r}"
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_terminal_is_drawn_anew_in_place_and_left_as_it_was(server: Server, signum: int) -> None:
    with Terminal("--url", server.url) as terminal:
        terminal.wait_for(r"\x1b\[\?1049h\x1b\[\?25l\x1b\[\?7l")
        for _ in range(2):
            terminal.wait_for(r"\x1b\[HSRB .*: ok\x1b\[K\r\n")
        assert terminal.end(signum) == 0
        assert terminal.shown.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")
        assert "Traceback" not in terminal.shown


def test_a_low_terminal_shows_as_much_as_it_has_room_for(server: Server) -> None:
    with Terminal("--url", server.url, rows=4) as terminal:
        terminal.wait_for(r"\x1b\[H(.*\r\n){3}… and \d+ more\x1b\[K\x1b\[J")


def test_a_server_that_goes_away_is_said_and_waited_for(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server().start()
    Stream(server, BRIEF).rest()
    with Terminal("--url", server.url) as terminal:
        terminal.wait_for(": ok")
        assert server.stop() == 0
        terminal.wait_for(f"{server.url} does not answer: .*; waiting for it")
        again = make_server(port=server.port).start()
        terminal.wait_for(": ok")
        terminal.wait_for(r"tokens +[0-9.]+ a second written")
        assert again.stop() == 0
        terminal.wait_for("waiting for it")
        assert terminal.end(signal.SIGINT) == 0


# Servers that are none, or lie -------------------------------------------------------------------------------------------


@contextmanager
def answering(answers: dict[str, tuple[int, str, bytes]]) -> Iterator[str]:
    """Serve answers by path: status, type and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = answers.get(self.path, (404, "text/plain", b"no"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


JSON = "application/json"
BAD = r"\u001b[2J\u0007\u009b\u202e"
HEALTH = f'{{"status": "{BAD}", "version": "{BAD}"}}'.encode()
LISTED = (
    f'{{"completions": [{{"id": "{BAD}", "state": "{BAD}", "age": 1, "prompt_tokens": 1, "branches": []}}]}}'.encode()
)


def test_nothing_that_a_server_says_reaches_the_terminal_raw() -> None:
    answers = {
        "/health": (200, JSON, HEALTH), "/metrics": (200, "text/plain", b"srb_kv_cells \x1b[2J\nsrb_kv_cells 1e3\n"),
        "/v1/srb/completions": (200, JSON, LISTED),
    }  # fmt: skip
    with answering(answers) as url:
        done = srb_top(*ONCE, "--url", url)
    assert done.returncode == 1  # a number that is none
    assert done.stderr.strip().isprintable()
    answers["/metrics"] = (200, "text/plain", b"srb_kv_cells 1e3\n")
    with answering(answers) as url:
        done = srb_top(*ONCE, "--url", url)
    assert done.returncode == 0
    assert all(line.isprintable() for line in done.stdout.split("\n"))


@pytest.mark.parametrize(
    ("health", "said"),
    [
        ((200, "text/html", b"<h1>hello</h1>"), "is no SRB server"),
        ((404, JSON, b"{}"), "is no SRB server: GET /health is answered 404"),
        ((200, JSON, b'{"status": "ok"}'), "is no SRB server"),  # llama-server's
        ((200, JSON, b"[1]"), "is no SRB server"),
        ((200, JSON, b"\x1b[2J"), "is no SRB server"),
        ((502, "text/html", b"<h1>Bad Gateway</h1>"), "does not answer: its proxy says 502"),
    ],
)
def test_an_answer_that_is_not_srbs_is_one_line(health: tuple[int, str, bytes], said: str) -> None:
    with answering({"/health": health}) as url:
        done = srb_top(*ONCE, "--url", url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr
    assert done.stderr.strip().isprintable()
