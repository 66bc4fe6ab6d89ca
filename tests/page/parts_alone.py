"""Parts of the page on their own: a document around a module of tests/page/harness, with the real files and headers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from srb.web.ops.page import FOLDER, HEADERS, MEDIA_TYPES

HARNESS = Path(__file__).parent / "harness"
ORIGIN = "http://desk.test"  # plain http and a name: no secure context, as on a LAN
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
    """Open the document around harness/<name>.js, and wait until that module has set `window.ready`."""
    page.route(f"{ORIGIN}/**", _answer)
    page.goto(f"{ORIGIN}/harness/{name}.html")
    page.wait_for_function("() => window.ready === true")


def _answer(route: Route) -> None:
    _, folder, name = urlsplit(route.request.url).path.split("/", 2)
    path = {"page": FOLDER, "harness": HARNESS}[folder] / name
    if path.is_file():
        _reply(route, path.suffix, path.read_bytes())
    elif folder == "harness" and path.with_suffix(".js").is_file():  # a module that needs no document of its own
        _reply(route, path.suffix, _document(path.stem).encode())
    else:
        route.fulfill(status=404, body="")


def _reply(route: Route, suffix: str, content: bytes) -> None:
    headers = {**HEADERS, "Content-Type": MEDIA_TYPES[suffix]}
    del headers["Cross-Origin-Opener-Policy"]  # ignored with a warning where the context is not secure
    route.fulfill(status=200, headers=headers, body=content)


def _document(name: str) -> str:
    """Return a document with all styles of the page and one module."""
    styles = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.css"))
    links = [f'<link rel="stylesheet" href="../page/{each}">' for each in styles]
    return DOCUMENT.format(name=name, styles="\n    ".join(links))
