"""Parts of the page on their own: a document of tests/page/harness, the page's real modules and headers, and no server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from srb.web.ops.page import FOLDER, HEADERS, MEDIA_TYPES

HARNESS = Path(__file__).parent / "harness"
ORIGIN = "http://desk.test"  # plain http and a name: no secure context, as on a LAN


def open_harness(page: Page, name: str) -> None:
    """Open harness/<name>.html, and wait until its module has set `window.ready`."""
    page.route(f"{ORIGIN}/**", _answer)
    page.goto(f"{ORIGIN}/harness/{name}.html")
    page.wait_for_function("window.ready === true")


def _answer(route: Route) -> None:
    _, folder, name = urlsplit(route.request.url).path.split("/", 2)
    path = {"page": FOLDER, "harness": HARNESS}[folder] / name
    if path.is_file():
        headers = {**HEADERS, "Content-Type": MEDIA_TYPES[path.suffix]}
        del headers["Cross-Origin-Opener-Policy"]  # ignored with a warning where the context is not secure
        route.fulfill(status=200, headers=headers, body=path.read_bytes())
    else:
        route.fulfill(status=404, body="")
