"""Parts of the page on their own: a document around a module of tests/page/harness, with the real files and headers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page

from srb.web.page_files import FOLDER, HEADERS, KEEP, MEDIA_TYPES

HARNESS = Path(__file__).parent / "harness"
HOST = "desk.test"  # plain http and a name: no secure context, as on a LAN
ORIGIN = f"http://{HOST}"
FACES = "() => Promise.all([...document.fonts].map((face) => face.load())).then(() => null)"
DOCUMENT = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{name} alone</title>
    {styles}
    <link rel="stylesheet" href="harness.css">
    <script type="module" src="{name}.js"></script>
  </head>
  <body>
    <main>
      <h1>{name} alone</h1>
    </main>
  </body>
</html>
"""


def open_harness(page: Page, name: str) -> None:
    """Open the document around harness/<name>.js, and wait until that module has set `window.ready`, with all faces."""
    page.goto(f"{ORIGIN}/harness/{name}.html")
    page.wait_for_function("() => window.ready === true")
    page.evaluate(FACES)  # a line that is measured has its height from the start


@contextmanager
def serve_parts() -> Iterator[int]:
    """Serve the page's files and the harness; yield the port, at which the browser has to find HOST."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Parts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class _Parts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        _, folder, name = urlsplit(self.path).path.split("/", 2)
        path = {"page": FOLDER, "harness": HARNESS}[folder] / name
        if path.is_file():
            self._reply(path.suffix, path.read_bytes())
        elif folder == "harness" and path.with_suffix(".js").is_file():  # a module that needs no document of its own
            self._reply(path.suffix, _document(path.stem).encode())
        else:
            self.send_error(404)

    def _reply(self, suffix: str, content: bytes) -> None:
        headers = {**HEADERS, "Content-Type": MEDIA_TYPES[suffix], "Cache-Control": KEEP}
        del headers["Cross-Origin-Opener-Policy"]  # ignored with a warning where the context is not secure
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def _document(name: str) -> str:
    """Return a document with all styles of the page and one module."""
    styles = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.css"))
    links = [f'<link rel="stylesheet" href="../page/{each}">' for each in styles]
    return DOCUMENT.format(name=name, styles="\n    ".join(links))
